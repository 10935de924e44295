"""Answers of tracekit, as the guard of tests/kit/impossible.py reads them: JSON and texts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import chain
from typing import Any

from msgspec import Struct

from tracekit.reporters import console, first_screen
from tracekit.verdict.model import Analysis

Json = dict[str, Any]


class Answer(Struct, frozen=True):
    """What tracekit says of one trace, or of several; only what was asked is given."""

    analysis: Json | None = None
    """`analyze --json`, of one trace."""
    screen: str = ""
    """`analyze`."""
    full: str = ""
    """`analyze --full`, perhaps with `--explain`."""
    page: str = ""
    """The HTML of `report`."""
    fixes: Json | None = None
    """`advise --json`."""
    whatif: Json | None = None
    """`whatif --json`, of one trace or of a run."""
    diff: Json | None = None
    """`diff --json`, with its `title`."""
    run: Json | None = None
    """The run in `analyze --json` of its ranks."""
    several: str = ""
    """`analyze` of several traces."""
    history: Json | None = None
    """`history --json`."""
    events: Sequence[Json] = ()
    """The trace's events, where they are at hand."""


def shown(analysis: Analysis) -> Answer:
    """An analysis as JSON, on one screen and in full."""
    found = json.loads(json.dumps(analysis.as_dict(), default=str))
    return Answer(found, _text(first_screen.render, analysis), _text(console.render, analysis))


def _text(render: Callable[[Analysis], None], analysis: Analysis) -> str:
    with redirect_stdout(io.StringIO()) as text:
        render(analysis)
    return text.getvalue()


# The part of an answer that a command prints with --json, by its schema.
_SCHEMAS = {
    "tracekit/analysis/1": "analysis", "tracekit/advice/1": "fixes", "tracekit/whatif/1": "whatif",
    "tracekit/whatif-run/1": "whatif", "tracekit/diff/1": "diff", "tracekit/history/1": "history",
}  # fmt: skip


def printed(output: str) -> Iterator[Answer]:
    """What a command prints: its JSON, or its text."""
    if not output.startswith("{"):
        yield Answer(screen=output, full=output, several=output)
        return
    found = json.loads(output)
    if part := _SCHEMAS.get(found.get("schema")):
        yield Answer(**{part: found})
    for each in found.get("analyses", ()):
        yield Answer(analysis=each)
    yield Answer(run=found.get("run"))


# -- parts of the JSON -----------------------------------------------------------------------------


def periods(found: Json) -> Iterator[Json]:
    """The windows of an analysis, each with its parts."""
    if found:
        main = {name: found[name] for name in ("window", "gpu", "idle", "host")}
        yield from (main, found["judged"], *found["steps"], *found["windows"])


def advice_lists(answer: Answer) -> Iterator[tuple[int, int, list[Json]]]:
    """Lists of advice, each with the length that its shares are of, and as it was recorded; 0: it
    does not give that, as of a trace without a device, of which the whole is replayed."""
    if found := answer.analysis:
        gains = found["judged"]["gains"] or {"window_ns": 0, "recorder_ns": 0}
        recorded_ns = gains["window_ns"] + (gains["recorder_ns"] or 0)
        yield gains["window_ns"], recorded_ns, found["advice"]
    if fixes := answer.fixes:
        yield fixes["window_ns"], 0, fixes["advice"]


def sentences(verdict: Json) -> list[str]:
    listed = (verdict.get(name, []) for name in ("why", "try_next", "doubts"))
    return [verdict.get("headline", ""), *dict.fromkeys(chain(*listed))]


def numbers(part: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(part, dict | list):
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for name, each in items:
            yield from numbers(each, f"{path}.{name}" if path else str(name))
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield path, part


def shapes_by_step(events: Sequence[Json]) -> list[set[str]]:
    """The operators with their inputs' shapes in each profiler step."""
    whole = [each for each in events if each.get("ph") == "X" and "dur" in each]
    steps = [each for each in whole if str(each.get("name")).startswith("ProfilerStep#")]
    return [
        {
            f"{each['name']} {(each.get('args') or {}).get('Input Dims')}"
            for each in whole
            if each.get("cat") == "cpu_op" and 0 <= each["ts"] - step["ts"] < step["dur"]
        }
        for step in steps
        if step.get("cat") == "user_annotation"
    ]


# -- numbers in texts ------------------------------------------------------------------------------

TIME = r"[\d.,]+(?:e\+\d+)? (?:ns|us|ms|s)"
PERCENT = r"<?[\d.,]+ %"
_UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def rows_after(text: str, head: re.Match[str] | None) -> list[str]:
    """The lines under a heading, up to an empty one."""
    return text[head.end() :].partition("\n\n")[0].splitlines()[1:] if head else []


def lengths_of(time: str) -> tuple[float, float]:
    """The lengths that a printed one may stand for: it has three digits."""
    number, unit = time.rsplit(" ", 1)
    value, one = float(number.replace(",", "")), _UNITS[unit]
    # From 1,000 on, all digits of whole units.
    off = one / 2 if value >= 1000 or unit == "ns" else 0.0051 * value * one
    return value * one - off, value * one + off


def percent_of(text: str) -> float:
    return 0.0 if text.startswith("<") else float(text.rstrip(" %").replace(",", ""))
