"""What no first screen may say: each of its statements against the JSON, `--full`, and the page.
Rules of tests/kit/impossible.py.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

from tests.kit.answered import TIME, Answer, Json, rows_after
from tracekit.database.remedies import find_remedy
from tracekit.text import duration, percent

Rule = Callable[[Answer], Iterator[str]]

# The head of the first screen has at most so many lines of notes.
_NOTES = 4
_CHANGE = re.compile(rf"^\d (.+?) +({TIME}) +(<?[\d.,]+ %)? +(low|medium|high)$")
_NOTE_OF_LONGER = re.compile("take longer|takes longer|waits longer|Apart from that|of it nothing")
# Sentences that are not about a row of the account.
_OTHER_SENTENCE = re.compile(
    "take turns|happened once|Start-up took|about even|while it is recorded|by itself|"
    "for a later rank|no single cause|limit it alike"
)


def a_verdict_is_the_same_everywhere(answer: Answer) -> Iterator[str]:
    """The sentence, the bound, the confidence and the notes of the JSON stand on the first screen,
    in `--full` and at the head of the page."""
    verdict = (answer.analysis or {}).get("verdict")
    if not answer.analysis or not verdict or not answer.screen:
        return
    texts = {"the screen": answer.screen, "--full": answer.full, "the page": _words(answer.page)}
    for name, text in texts.items():
        told = _joined(text)
        if not told:
            continue
        if not told.startswith(_joined(verdict["headline"])) and name != "the page":
            yield f"{name} does not begin with: {verdict['headline']}"
        if _joined(verdict["headline"]) not in told:
            yield f"{name} does not say: {verdict['headline']}"
        if verdict["bottleneck"] and f"confidence {verdict['confidence']}" not in told:
            yield f"{name} does not say: confidence {verdict['confidence']}"
        bound = verdict["bottleneck"] and f"by {verdict['bottleneck']}"
        is_snapshot = answer.analysis["memory"] is not None
        if not is_snapshot and (bound or verdict["regime"]) not in told:
            yield f"{name} does not say: {bound or verdict['regime']}"
        for note in verdict["notes"]:
            # A first screen has room for the first ones.
            if _joined(note) not in told and (name != "the screen" or note == verdict["notes"][0]):
                yield f"{name} does not say: {note}"


def a_cause_is_the_longest_of_its_side(answer: Answer) -> Iterator[str]:
    """The cause of the first sentence has the longest row of its side in the account; else a note
    says why it comes first."""
    found = answer.analysis or {}
    verdict = found.get("verdict")
    if not verdict or not found["parts"] or not verdict["bottleneck"]:
        return
    said = " ".join([verdict["headline"], *verdict["notes"], *verdict["doubts"]])
    if _OTHER_SENTENCE.search(verdict["headline"]) or _NOTE_OF_LONGER.search(said):
        return
    span_ns, judged = found["judged"]["window"]["span_ns"], found["judged"]
    is_host = verdict["regime"] == "overhead-bound" and judged["idle"] is not None
    rows = judged["idle"]["causes"] if is_host else _device_rows(judged)
    named = _row(verdict["bottleneck"], is_host)
    if not rows or named is None:
        return
    longest = max(rows, key=lambda each: rows[each])
    own_ns = max(rows.get(each, 0) for each in named)
    if rows[longest] > own_ns + 0.05 * span_ns:
        yield (
            f"{verdict['bottleneck']} is named, of {duration(own_ns)}, and {longest} takes "
            f"{duration(rows[longest])}: {said}"
        )


def _row(bottleneck: str, is_host: bool) -> tuple[str, ...] | None:
    """The rows that a bottleneck may stand in."""
    if is_host:
        rows = {"unrecorded-time": ("untraced",), "host-function": ("host_function",),
                "python": ("python", "untraced")}  # fmt: skip
        return rows.get(bottleneck, (bottleneck,))
    if bottleneck in ("math", "memory-bandwidth", "math-or-memory"):
        return ("compute",)
    return {"communication": ("communication",), "copy": ("copy",)}.get(bottleneck)


def _device_rows(judged: Json) -> dict[str, int]:
    gpu = judged["gpu"] or {}
    names = {"compute": "compute_ns", "communication": "exposed_comm_ns",
             "copy": "exposed_memcpy_ns"}  # fmt: skip
    return {row: gpu[name] for row, name in names.items() if name in gpu}


def changes_are_the_same_everywhere(answer: Answer) -> Iterator[str]:
    """The first screen lists the first recurring changes of the JSON, in its order, each with its
    saving, share and effort; so do the page and `--full`; and it lists one if there is any."""
    found = answer.analysis or {}
    if not found.get("advice") or not answer.screen or _is_meaningless(found):
        return
    recurring = [each for each in found["advice"] if _is_listed(each)]
    lines = answer.screen.splitlines()
    at = next((n for n, each in enumerate(lines) if each.startswith("What to change")), None)
    if at is None:
        if recurring and found["verdict"]["regime"] != "unknown":
            yield f"no change is on the screen: {recurring[0]['title']}"
    else:
        shown = [*_changes_of(lines[at + 1 :])]
        for each, (title, saves, share, effort) in zip(recurring, shown, strict=False):
            of_json = (duration(each["saves_ns"]), percent(each["share"]), each["effort"])
            is_same = each["title"].startswith(title) and of_json == (saves, share, effort)
            if not is_same:
                yield f"the screen lists {title} ({saves}, {share}), not {each['title']} {of_json}"
    told = re.findall(r'data-advice="([^"]+)"', answer.page)
    listed = [each["remedy"] for each in found["advice"] if each["remedy"] in told]
    if told and listed[: len(told)] != told:
        yield f"the page lists {told}, not {listed}"
    full = _joined(answer.full.partition("\nWhat to change")[2])
    places = [full.find(_joined(each["title"])) for each in recurring[:5]]
    if -1 in places or places != sorted(places):
        yield f"--full lists the changes at {places}"


def _is_listed(advice: Json) -> bool:
    remedy = find_remedy(advice["remedy"])
    return not (advice["once"] or (remedy and (remedy.is_apart or remedy.is_batch)))


def _is_meaningless(found: Json) -> bool:
    """Whether the file lacks so much that nothing is advised."""
    return any(each["code"] == "thinned_file" for each in found["trace"]["health"])


def _changes_of(lines: list[str]) -> Iterator[tuple[str, str, str, str]]:
    for line in lines:
        if not line.strip():
            return
        if row := _CHANGE.match(line):
            yield row[1], row[2], row[3] or "", row[4]


def doubts_are_the_same_everywhere(answer: Answer) -> Iterator[str]:
    """The doubts of the first screen and of the page are those of the JSON, the most turning
    first, and a confidence below `high` has one, or a sentence that says it."""
    verdict = (answer.analysis or {}).get("verdict")
    if not verdict or not answer.screen:
        return
    doubts = [each["sentence"] for each in verdict["lowered_by"] if not each["stated"]]
    told = re.findall(r"Doubtful: (.*?)(?= Doubtful: | More: |$)", _joined(answer.screen))
    told = [re.sub(r" \(\d+ more\)$", "", each.strip()) for each in told]
    if doubts and not told:
        yield f"no doubt is on the screen: {doubts[0]}"
    for each, doubt in zip(told, map(_joined, doubts), strict=False):
        if each != doubt:
            yield f"the screen doubts: {each}, not: {doubt}"
    page = _words(answer.page)
    if doubts and page and f"Doubtful: {_joined(doubts[0])}" not in page:
        yield f"the page does not doubt: {doubts[0]}"
    if verdict["confidence"] in ("low", "medium") and not verdict["lowered_by"]:
        is_host = answer.analysis is not None and answer.analysis["gpu"] is None
        if not is_host:
            yield f"the confidence is {verdict['confidence']}, and nothing is doubtful"


_COMM = re.compile(rf"^Comm +({TIME})(?:: ({TIME}) exposed, ({TIME}) hidden| ?, none)", re.M)


def lines_fit_the_account(answer: Answer) -> Iterator[str]:
    """What the lines beside the account say fits its rows: the exposed communication, the judged
    length, and no wait of the host's threads that is longer than all of them."""
    found = answer.analysis or {}
    if not answer.screen or not found.get("judged"):
        return
    gpu, span_ns = found["judged"]["gpu"], found["judged"]["window"]["span_ns"]
    comm = _COMM.search(answer.screen)
    if comm and gpu:
        exposed = comm[2] or comm[1]
        if exposed != duration(gpu["exposed_comm_ns"]):
            yield f"{comm[0]}, but the account has {duration(gpu['exposed_comm_ns'])}"
    head = re.search(rf"^Where the \w+'s ({TIME}) went$", answer.screen, re.M)
    if head and head[1] != duration(span_ns):
        yield f"{head[0]}, of a window of {duration(span_ns)}"
    shares = [line for line in rows_after(answer.screen, head) if "%" in line]
    parts = {each["name"]: duration(each["dur_ns"]) for each in found["parts"]}
    for line in shares:
        name = next((each for each in parts if line.startswith(f"{each} ")), None)
        if name and parts[name] not in line:
            yield f"{line.strip()}, but the JSON has {parts[name]}"


SCREEN_RULES: tuple[Rule, ...] = (
    a_verdict_is_the_same_everywhere,
    a_cause_is_the_longest_of_its_side,
    changes_are_the_same_everywhere,
    doubts_are_the_same_everywhere,
    lines_fit_the_account,
)


def _joined(text: str) -> str:
    """On one line; a line may break behind a hyphen."""
    return " ".join(text.split()).replace("- ", "-")


def _words(page: str) -> str:
    """The words of a page."""
    text = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", page)
    return _joined(html.unescape(text))
