"""What no output may say, whatever its trace: a guard for the answers of all tests.

`said(Answer(...))` gives a sentence for each thing that cannot be true. A rule is a function in
`RULES`; it reads the parts of an answer that it is about, and passes over those that are not given.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from tests.kit.answered import (
    PERCENT,
    TIME,
    Answer,
    Json,
    advice_lists,
    lengths_of,
    numbers,
    percent_of,
    periods,
    rows_after,
    sentences,
    shapes_by_step,
    shown,
)
from tracekit.database.remedies import remedy
from tracekit.verdict.model import Analysis


def said(answer: Answer) -> list[str]:
    """The impossible things that an answer says, each after the name of its rule."""
    return [f"{rule.__name__}: {each}" for rule in RULES for each in rule(answer)]


def require_possible(answer: Answer | Analysis) -> None:
    """Fails where an answer says something impossible; of an analysis, in its JSON and on the
    console."""
    wrong = said(shown(answer) if isinstance(answer, Analysis) else answer)
    assert not wrong, "\n".join(wrong)


# -- lengths and counts ----------------------------------------------------------------------------

# Differences, gains, clocks and ids may be negative, and so may times on a trace's clock.
_SIGNED = re.compile(
    r"(change|ahead|residual|skew|shift|delay_p\d+|start|end|from|until)_ns$|_id$|^(pid|tid|rank)$|"
    r"^(margin|host|device|host_gain|device_gain|cuda_graph|unknown|change|start_ns|first_ns)$"
)
# Objects of numbers that may be negative.
_SIGNED_OBJECTS = ("removed", "removed_at_most", "undilated", "capture", "summary", "changes")


def nothing_is_negative(answer: Answer) -> Iterator[str]:
    """No length, size, count or saving is below 0."""
    for part in (answer.analysis, answer.fixes, answer.whatif, answer.diff, answer.run):
        for path, value in numbers(part or {}):
            names = path.split(".")
            is_signed = _SIGNED.search(names[-1]) or {*names} & {*_SIGNED_OBJECTS}
            # A change may make a run longer.
            if value < 0 and not is_signed and path != "saves_ns":
                yield f"{path} is {value:,}"


def windows_end_after_they_start(answer: Answer) -> Iterator[str]:
    """A window's length is its end minus its start, and what happened once is inside the trace."""
    found = answer.analysis or {}
    windows = [each["window"] for each in periods(found)]
    for each in windows:
        if each["span_ns"] != each["end_ns"] - each["start_ns"]:
            yield f"{each['name']} is {each['span_ns']:,} ns long: {each}"
    whole = next((each for each in windows if each["kind"] == "trace"), None)
    for each in found.get("one_offs", []) if whole else []:
        if whole and not whole["start_ns"] <= each["start_ns"] <= whole["end_ns"]:
            yield f"{each['name']} happened once at {each['start_ns']:,}, outside of {whole}"
    for each in (found.get("causal") or {}).get("links", []):
        if each["start_ns"] < 0:
            yield f"a link begins {each['start_ns']:,} ns after the trace"


_DEVICE_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
_IDLE_PARTS = ("host_late_ns", "device_ns", "unlinked_ns", "after_last_op_ns")
_HOST_PARTS = (
    "compute_ns", "dispatch_ns", "view_ns", "python_ns", "input_ns", "compilation_ns", "runtime_ns",
    "untraced_ns", "allocation_ns", "communication_ns",
)  # fmt: skip


def parts_add_up(answer: Answer) -> Iterator[str]:
    """The parts of a window, and of its idle time, add up to it."""
    for period in periods(answer.analysis or {}):
        name, span = period["window"]["name"], period["window"]["span_ns"]
        gpu, idle, host = (period.get(each) for each in ("gpu", "idle", "host"))
        if gpu:
            yield from _sums(f"the device in {name}", gpu, _DEVICE_PARTS, span)
            yield from _sums(f"busy in {name}", gpu, _DEVICE_PARTS[:3], gpu["busy_ns"])
            if not gpu["kernels"] <= gpu["gpu_ops"] >= gpu["linked"]:
                yield f"{name} has more kernels or launched ops than ops: {gpu}"
        if idle and gpu:
            yield from _sums(f"idle in {name}", idle, _IDLE_PARTS, gpu["idle_ns"])
            causes = idle["causes"]
            yield from _sums(f"the causes in {name}", causes, tuple(causes), idle["host_late_ns"])
            if idle["device_in_launch_ns"] > idle["device_ns"]:
                yield f"device_in_launch_ns is more than device_ns in {name}"
            if idle["waits_for_host_ns"] > gpu["idle_ns"]:
                yield f"{name} waits for the host for more than it is idle"
        if host:
            yield from _sums(f"the host in {name}", host, _HOST_PARTS, span)
    diff = (answer.diff or {}).get("waterfall") or []
    if diff:
        changes = sum(row["change_ns"] for row in diff[1:-1])
        if diff[0]["a_ns"] + changes != diff[-1]["b_ns"]:
            yield f"the changes of a comparison add up to {changes:,} ns: {diff}"


def shares_add_up(answer: Answer) -> Iterator[str]:
    """Shares of one whole add up to it, and none is below 0 or over 100 %."""
    found, verdict = answer.analysis or {}, (answer.analysis or {}).get("verdict") or {}
    shares = verdict.get("shares") or {}
    if "busy" in shares:
        yield from _whole("shares", [shares["busy"], shares["idle"]])
        idle = [value for name, value in shares.items() if name.startswith("idle_")]
        yield from _whole("shares of idle time", idle, shares["idle"])
    elif shares:
        yield from _whole("shares", shares.values())
    path = (found.get("causal") or {}).get("path") or {}
    then = ((answer.fixes or {}).get("together") or {}).get("bound_by") or {}
    changed = (answer.whatif or {}).get("bound_by") or {}
    for bound_by in filter(None, (path, then, changed)):
        yield from _whole("a critical path", bound_by.values())
    kernels = [row["share_of_kernel_time"] or 0.0 for row in found.get("top_kernels", [])]
    if not 0 <= sum(kernels) <= 1.000001:
        yield f"the top kernels take {sum(kernels):.1%} of kernel time"
    for each in found.get("meanwhile", []):
        if not 0 <= each["share"] <= 1.000001:
            yield f"{each['name']} was recorded in {each['share']:.1%} of waits"


# -- savings ---------------------------------------------------------------------------------------


def nothing_saves_more_than_all(answer: Answer) -> Iterator[str]:
    """No change saves more than the length that it shortens, and no gain is over 100 %."""
    found = answer.analysis or {}
    for period in [*periods(found), found.get("causal") or {}]:
        gains, window = period.get("gains"), period.get("window")
        if not gains:
            continue
        name = window["name"] if window else "causal"
        values = [gains[each] for each in ("host", "device", "cuda_graph", "unknown")]
        most = max([*values, *gains["removed"].values(), *gains["removed_at_most"].values()])
        if most > 1.000001:
            yield f"a change makes {name} {most:.1%} shorter"
        if window and gains["one_offs_ns"] > window["span_ns"]:
            yield f"one-offs add {gains['one_offs_ns']:,} to {window['span_ns']:,} ns of {name}"
        if gains["device_one_offs_ns"] > gains["one_offs_ns"]:
            yield f"the device's one-offs of {name} are more than all of them"
    if verdict := found.get("verdict"):
        whole = _judged_ns(found)
        for each in verdict["savings"]:
            for key in ("saves_at_most_ns", "with_unknown_limits_ns"):
                if (each[key] or 0) > whole:
                    yield f"removing {each['remove']} saves {each[key]:,} of {whole:,} ns"
    for whole_ns, recorded_ns, advice in advice_lists(answer):
        for each in advice:
            shares = [each["share"], *(place["share"] for place in each["places"])]
            if max(share or 0.0 for share in shares) > 1.000001:
                yield f"{each['remedy']} saves {max(filter(None, shares)):.1%}"
            # Recording less saves time of the recorded window.
            most = recorded_ns if remedy(each["remedy"]).is_apart else whole_ns
            if each["share"] is not None and 0 < most < each["saves_ns"]:
                yield f"{each['remedy']} saves {each['saves_ns']:,} of {most:,} ns"
    together = (answer.fixes or {}).get("together")
    if together and together["share"] > 1.000001:
        yield f"the best changes save {together['share']:.1%} together"
    predicted = answer.whatif or {}
    if predicted.get("saves_ns", 0) > predicted.get("window_ns", 0):
        yield f"the change saves {predicted['saves_ns']:,} of {predicted['window_ns']:,} ns"
    if predicted.get("unknown_ns", 0) > predicted.get("predicted_ns", 0):
        yield f"{predicted['unknown_ns']:,} ns of {predicted['predicted_ns']:,} are unknown"
    run = answer.run or {}
    for each in run.get("savings", []):
        if each["share"] > 1.000001 or each["saves_ns"] > (run["span_ns"] or 0):
            yield f"removing {each['remove']} saves {each['saves_ns']:,} ns, {each['share']:.1%}"


def prices_have_one_base(answer: Answer) -> Iterator[str]:
    """A price's share is the price over the length that the list is of."""
    for whole_ns, recorded_ns, advice in advice_lists(answer):
        for each in advice:
            ns = recorded_ns if remedy(each["remedy"]).is_apart else whole_ns
            if each["share"] is not None and ns and not _near(each["share"], each["saves_ns"] / ns):
                yield f"{each['remedy']} saves {each['saves_ns']:,} ns, {each['share']:.3%}"
    head = re.search(
        rf"^What to change.* saves +of (?:the step's |the other )?({TIME})$", answer.screen, re.M
    )
    for line in rows_after(answer.screen, head):
        if row := re.search(rf"({TIME}) +({PERCENT})$", line):
            yield from _quoted(row[2], row[1], head[1] if head else "", line)


# -- sentences -------------------------------------------------------------------------------------

# What a device can do, as queries/trace/health.sql and the page name it.
_PEAKS = re.compile("peak|roof|memory bandwidth|link to the host")
_OVER = re.compile(r"(?<![\d.])([\d,]{3,}(?:\.\d+)?) %([^.;:]{0,24})")


def no_share_is_over_100(answer: Answer) -> Iterator[str]:
    """No sentence and no table says more than 100 %, unless something gets longer, or of what a
    device can do, in a verdict that is doubtful or unknown."""
    verdict = (answer.analysis or {}).get("verdict") or {}
    page = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", answer.page)
    texts = (answer.screen, answer.full, answer.several, html.unescape(page))
    for text in (*sentences(verdict), *(" ".join(each.split()) for each in texts)):
        for over in _OVER.finditer(text):
            is_change = text[: over.start()].endswith("+") or re.search(
                "longer|slower|more", over[2]
            )
            if float(over[1].replace(",", "")) <= 100 or is_change:
                continue
            is_peak = _PEAKS.search(text[over.end(1) : over.end(1) + 40])
            is_sure = not verdict.get("doubts", True) and verdict["confidence"] != "none"
            if not is_peak or is_sure:
                yield f"{over[1]} %: {_around(text, over.start())}"


_BUSY = re.compile(rf"^The \w+ was busy for ({PERCENT}) of (.+?) \(({TIME}) of ({TIME})\)\.")
_REMOVING = re.compile(rf"^Removing (\S+) would save at most ({PERCENT}) \(({TIME})\)")


def sentences_agree_with_the_json(answer: Answer) -> Iterator[str]:
    """The numbers of a sentence are those of the row that it names."""
    found = answer.analysis or {}
    verdict = found.get("verdict")
    if not verdict:
        return
    judged, savings = found["judged"], {e["remove"]: e for e in verdict["savings"]}
    for text in sentences(verdict):
        if match := _BUSY.search(text):
            yield from _quoted(match[1], match[3], match[4], text)
            gpu = judged["gpu"] or {"busy_ns": -1}
            yield from _equal(match[3], gpu["busy_ns"], text)
            yield from _equal(match[4], judged["window"]["span_ns"], text)
        if match := _REMOVING.search(text):
            if match[1] not in savings:
                yield f"no saving is of {match[1]}: {text}"
            else:
                yield from _equal(match[3], savings[match[1]]["saves_at_most_ns"], text)
    first = max((e["saves_at_most_ns"] for e in verdict["savings"]), default=0)
    if verdict["savings"] and verdict["savings"][0]["saves_at_most_ns"] < first:
        yield f"the first saving is not the largest: {verdict['savings']}"
    recurring = [e["share"] for e in found["advice"] if e["share"] is not None]
    nothing = re.compile(r"^No remedy .* would save ([\d.]+) %")
    for text in sentences(verdict):
        match = nothing.search(text)
        if match and max(recurring, default=0.0) >= float(match[1]) / 100:
            yield f"{max(recurring):.1%} is listed, but: {text}"


def tables_agree(answer: Answer) -> Iterator[str]:
    """The rows of a table of shares add up to 100 %, and each is its time over the whole."""
    heads = (
        (answer.screen, re.compile(rf"^Where the \w+'s ({TIME}) went$", re.M)),
        (answer.full, re.compile(rf"^Where the time went \(.*?({TIME}) = 100 %", re.M)),
    )
    for text, pattern in heads:
        head, shares = pattern.search(text), []
        for line in rows_after(text, head):
            if (row := re.search(rf"({TIME}) +({PERCENT})(?: |$)", line)) and head:
                shares.append(percent_of(row[2]))
                yield from _quoted(row[2], row[1], head[1], line)
        if shares and sum(shares) < 100 - _rounded(shares):
            yield f"the rows under {head and head[0]!r} add up to {sum(shares):.1f} %"
        yield from _over_100(head, shares)
    others = (
        (answer.full, "^Top kernels.*$"),
        (answer.full, "^Critical path.*$"),
        (answer.several, r"^.*\(of all waiting\).*$"),
    )
    for text, title in others:
        head = re.search(title, text, re.M)
        found = (re.search(PERCENT, line) for line in rows_after(text, head))
        yield from _over_100(head, [percent_of(each[0]) for each in found if each])


def a_page_says_what_the_json_says(answer: Answer) -> Iterator[str]:
    """The numbers of a page are those at their places in the JSON, its parts the whole window."""
    if not answer.page or not answer.analysis:
        return
    for value, key in re.findall(r'<data value="([^"]*)" data-key="([^"]+)">', answer.page):
        said: Any = reduce(getitem, key.split("."), answer.analysis)
        if type(said)(value) != said:
            yield f"the page says that {key} is {value}"
    parts = [int(each) for each in re.findall(r'<data value="(-?\d+)" data-part=', answer.page)]
    if sum(parts) not in (0, answer.analysis["judged"]["window"]["span_ns"]):
        yield f"the page's parts add up to {sum(parts):,} ns"


# -- what a trace can tell -------------------------------------------------------------------------


# A list of kernels this long may leave out some.
_LISTED = 10


def high_confidence_has_no_doubt(answer: Answer) -> Iterator[str]:
    """A doubt is what lowers the confidence."""
    verdict = (answer.analysis or {}).get("verdict") or {}
    if verdict.get("confidence") == "high" and verdict["doubts"]:
        yield f"the confidence is high, and in doubt: {verdict['doubts']}"


def high_confidence_has_repetition(answer: Answer) -> Iterator[str]:
    """What was recorded once does not show what is usual."""
    found = answer.analysis or {}
    verdict = found.get("verdict") or {}
    if verdict.get("confidence") != "high":
        return
    # A step without work is not listed, but shows that the run went on.
    counts = [row["count"] for row in found["top_kernels"]]
    if len(found["steps"]) < 2 and counts and max(counts) == 1 and len(counts) < _LISTED:
        yield "the confidence is high, and no kernel ran twice"
    if any("no second one shows" in each for each in sentences(verdict)):
        yield "the confidence is high, of what was recorded once"


def advice_fits_the_trace(answer: Answer) -> Iterator[str]:
    """No advice rests on what the trace excludes."""
    found = answer.analysis
    advised = {each["remedy"] for each in found["advice"]} if found else ()
    if found and "few-shapes" in advised:
        said = " ".join(sentences(found["verdict"]))
        if "A single pass was" in said or len(found["steps"]) == 1:
            yield "few-shapes is advised for a single pass"
        shapes = shapes_by_step(answer.events)
        if len(shapes) > 1 and all(each == shapes[0] for each in shapes):
            yield "few-shapes is advised, and every step has the same shapes"
    if found and not found["gpu"] and "cuda-graph" in advised:
        yield "a graph is advised for a trace without a device's ops"


# Words of accelerators' names that are not GPUs, and what they are called.
_OTHER_DEVICES = {r"\bTPU": "TPU", r"Ascend|\bNPU": "NPU", r"Gaudi|\bHPU": "HPU", r"\bMTIA": "MTIA"}


def devices_have_their_name(answer: Answer) -> Iterator[str]:
    """A device that says what it is, is not called a GPU."""
    if not (found := answer.analysis):
        return
    for pattern, word in _OTHER_DEVICES.items():
        named = [each for each in found["trace"]["devices"] if each]
        if named and all(re.search(pattern, each) for each in named):
            for text in [found["trace"]["device_word"], *sentences(found["verdict"])]:
                if re.search(r"\bGPU\b", text):
                    yield f"{named[0]} is a {word}: {text}"


# -- several traces --------------------------------------------------------------------------------


def ranks_wait_no_longer_than_they_run(answer: Answer) -> Iterator[str]:
    """A rank waits for less than its length, and for one rank no longer than for all."""
    run = answer.run or {}
    for each in run.get("waiting", []):
        if not each["awaited_ns"] <= each["waited_ns"] <= each["length_ns"]:
            yield f"rank {each['rank']} waits for {each['waited_ns']:,} ns: {each}"
    waited = sum(each["waited_ns"] for each in run.get("waiting", []))
    for late in run.get("late_ranks", []):
        if waited and not late["in_pipeline"] and late["held_up_ns"] > waited:
            yield f"rank {late['rank']} held the others up for more than they waited: {late}"
    lengths = sum(each["length_ns"] for each in run.get("waiting", []))
    if lengths and run["bubble_ns"] > lengths:
        yield f"the bubble is {run['bubble_ns']:,} ns of {lengths:,}"


# From this ratio on, lengths are not the same.
_DIFFERS = 1.5


def what_differs_is_not_unchanged(answer: Answer) -> Iterator[str]:
    """A comparison does not call lengths the same that differ by half."""
    diff, history = answer.diff or {}, answer.history or {}
    span = next((row for row in diff.get("summary", []) if row["metric"] == "span_ns"), None)
    ratio = max(span["a"], span["b"]) / max(1, min(span["a"], span["b"])) if span else 1.0
    if "as long as" in diff.get("title", "") and "times" not in diff["title"] and ratio >= _DIFFERS:
        yield f"{diff['title']}: {span}"
    lengths = [each["step_ns"] for each in history.get("runs", []) if each.get("step_ns")]
    # A slow run among others is no change.
    ends = sorted((lengths[0], lengths[-1])) if lengths else [1, 1]
    is_same = history and not history["changes"] and not history.get("spread")
    if is_same and ends[1] >= _DIFFERS * ends[0]:
        yield f"the step did not change: {lengths}"


Rule = Callable[[Answer], Iterator[str]]

RULES: tuple[Rule, ...] = (
    nothing_is_negative,
    windows_end_after_they_start,
    parts_add_up,
    shares_add_up,
    nothing_saves_more_than_all,
    prices_have_one_base,
    no_share_is_over_100,
    sentences_agree_with_the_json,
    tables_agree,
    a_page_says_what_the_json_says,
    high_confidence_has_no_doubt,
    high_confidence_has_repetition,
    advice_fits_the_trace,
    devices_have_their_name,
    ranks_wait_no_longer_than_they_run,
    what_differs_is_not_unchanged,
)


# -- sums and shares -------------------------------------------------------------------------------


def _judged_ns(found: Json) -> int:
    """The length that savings are of."""
    gains, window = found["judged"]["gains"], found["judged"]["window"]
    return int(gains["window_ns"] if gains else window["span_ns"])


def _rounded(shares: Sequence[float]) -> float:
    """How far the sum of rounded shares may be from that of the exact ones."""
    return 0.05 * len(shares) + 0.06


def _over_100(head: re.Match[str] | None, shares: Sequence[float]) -> Iterator[str]:
    if head and sum(shares) > 100 + _rounded(shares):
        yield f"the rows under {head[0]!r} add up to {sum(shares):.1f} %"


def _sums(what: str, parts: Json, names: tuple[str, ...], whole: int) -> Iterator[str]:
    total = sum(parts[name] for name in names)
    if total != whole:
        yield f"{what}: parts of {total:,} ns in {whole:,} ns"


def _whole(what: str, shares: Iterable[float], whole: float = 1.0) -> Iterator[str]:
    listed = [*shares]
    if not _near(sum(listed), whole) and any(listed):
        yield f"{what} add up to {sum(listed):.4%} of {whole:.4%}"
    if any(not -1e-9 <= each <= 1.000001 for each in listed):
        yield f"{what}: {listed}"


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))


def _equal(time: str, ns: int, text: str) -> Iterator[str]:
    least, most = lengths_of(time)
    if not least - 1 <= ns <= most + 1:
        yield f"{time} is {ns:,} ns: {text}"


def _quoted(share: str, part: str, whole: str, text: str) -> Iterator[str]:
    """A share in a text, of a part in a whole."""
    (least, most), (short, long) = lengths_of(part), lengths_of(whole)
    if short <= 0:
        return
    if not 100 * least / long - 0.11 <= percent_of(share) <= 100 * most / short + 0.11:
        yield f"{part} of {whole} is not {share}: {text.strip()}"


def _around(text: str, at: int) -> str:
    return " ".join(text[max(0, at - 60) : at + 60].split())
