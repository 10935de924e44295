"""Hides the marks of steps in a trace, and holds the units that are found there against them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import tracekit
from tests.kit.traces import document, launches_of, write


class Truth(NamedTuple):
    """The marks of a trace, in nanoseconds."""

    starts: list[int]
    ops: dict[int, int]
    """The mark in which each GPU op was launched, by its correlation."""


class Again(NamedTuple):
    """The units that were found where marks are hidden, beside the marks."""

    units: int
    marks: int
    period_ns: float | None
    """The median from one unit's start to the next; None: fewer than two."""
    marked_ns: float | None
    """The same between marks."""
    right: float | None
    """The share of GPU ops, by time, that are in the unit of their mark; None: there are none."""


def hide_marks(trace: Path, to: Path) -> Truth:
    """Writes a trace without its marks and annotations, and returns the marks."""
    whole = document(trace)
    events = whole["traceEvents"]
    base = min(int(float(e["ts"]) * 1000) for e in events if e.get("ph") == "X" and "ts" in e)
    marks = sorted(
        (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("ph") == "X" and _is_mark(e)
    )
    complete = [e for e in events if e.get("ph") == "X" and isinstance(e.get("args"), dict)]
    ops = {
        op["args"]["correlation"]: number
        for op, call in launches_of(complete)
        for number, (start, end) in enumerate(marks)
        if start <= call["ts"] < end
    }
    hidden = [
        e for e in events
        if e.get("cat") not in ("user_annotation", "gpu_user_annotation") and not _is_mark(e)
    ]  # fmt: skip
    write(to, hidden, **{key: value for key, value in whole.items() if key != "traceEvents"})
    return Truth([round(start * 1000) - base for start, _ in marks], ops)


def found_again(run: tracekit.Database, trace: int, truth: Truth) -> Again:
    """The units of the trace with hidden marks, beside the marks."""
    starts = [
        start for (start,) in run.sql(
            f"SELECT start_ns FROM unit WHERE trace_id = {trace} AND level = 1 ORDER BY ALL"
        ).rows()
    ]  # fmt: skip
    ops = run.sql(
        "SELECT g.correlation, u.unit_id, g.dur_ns FROM gpu_ops AS g ASOF JOIN"
        f" (FROM unit WHERE trace_id = {trace} AND level = 1) AS u"
        f" ON g.launch_start_ns >= u.start_ns WHERE g.trace_id = {trace}"
    ).rows()
    marked = [(truth.ops[c], unit, ns) for c, unit, ns in ops if c in truth.ops]
    total = sum(ns for _, _, ns in marked)
    right = max(
        sum(ns for mark, unit, ns in marked if mark - unit == shift) for shift in (-1, 0, 1)
    )
    found, marks = _period(starts), _period(truth.starts)
    return Again(len(starts), len(truth.starts), found, marks, right / total if total else None)


def _period(starts: list[int]) -> float | None:
    return median(b - a for a, b in pairwise(starts)) if len(starts) > 1 else None


def _is_mark(event: dict[str, Any]) -> bool:
    is_step = str(event.get("name")).startswith("ProfilerStep#")
    return is_step and event.get("cat") != "gpu_user_annotation"
