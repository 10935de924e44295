"""What no text may say: the sentences, the console's tables and the page, against the JSON and
against themselves. Rules of tests/kit/impossible.py.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from tests.kit.answered import (
    PERCENT,
    TIME,
    Answer,
    lengths_of,
    percent_of,
    rows_after,
    sentences,
)
from tracekit.text import of_whole

Rule = Callable[[Answer], Iterator[str]]

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


_QUOTED = re.compile(r"\((\d[\d.,]*(?: \w+)? of \d[\d.,]* \w+)\)\.$")
_WORDS, _LETTERS = 25, 160


def the_first_sentence_is_one_clause(answer: Answer) -> Iterator[str]:
    """It is short, and the time in its brackets is a row of the account, of the judged window."""
    verdict = (answer.analysis or {}).get("verdict")
    if not answer.analysis or not verdict:
        return
    said, span_ns = verdict["headline"], answer.analysis["judged"]["window"]["span_ns"]
    if len(said.split()) > _WORDS or len(said) > _LETTERS or ". " in said:
        yield f"not one short clause: {said}"
    rows = {of_whole(part["dur_ns"], span_ns) for part in answer.analysis["parts"]}
    quoted = _QUOTED.search(said)
    if quoted and rows and quoted[1] not in rows and "take turns" not in said:
        yield f"no row is {quoted[1]}: {said}"


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
        number: Any = reduce(getitem, key.split("."), answer.analysis)
        if type(number)(value) != number:
            yield f"the page says that {key} is {value}"
    parts = [int(each) for each in re.findall(r'<data value="(-?\d+)" data-part=', answer.page)]
    if sum(parts) not in (0, answer.analysis["judged"]["window"]["span_ns"]):
        yield f"the page's parts add up to {sum(parts):,} ns"


def listed_shares_are_of_one_length(answer: Answer) -> Iterator[str]:
    """On the first screen, a share in the list of changes is its time over the list's length."""
    head = re.search(
        rf"^What to change.* saves +of (?:other )?({TIME}) +effort$", answer.screen, re.M
    )
    for line in rows_after(answer.screen, head):
        if row := re.search(rf"({TIME}) +({PERCENT})(?: +\w+)?$", line):
            yield from _quoted(row[2], row[1], head[1] if head else "", line)


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


TEXT_RULES: tuple[Rule, ...] = (
    listed_shares_are_of_one_length,
    no_share_is_over_100,
    sentences_agree_with_the_json,
    the_first_sentence_is_one_clause,
    tables_agree,
    a_page_says_what_the_json_says,
    devices_have_their_name,
)


# -- shares and times in a text --------------------------------------------------------------------


def _rounded(shares: Sequence[float]) -> float:
    """How far the sum of rounded shares may be from that of the exact ones."""
    return 0.05 * len(shares) + 0.06


def _over_100(head: re.Match[str] | None, shares: Sequence[float]) -> Iterator[str]:
    if head and sum(shares) > 100 + _rounded(shares):
        yield f"the rows under {head[0]!r} add up to {sum(shares):.1f} %"


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
