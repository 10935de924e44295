"""Health: what makes numbers doubtful, which figures that touches, and what was not recorded."""

from __future__ import annotations

import polars as pl

from tracekit.database import catalog
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject


def health(subject: Subject) -> Figure | None:
    """The trace's caveats, each with the figures that it touches."""
    rows = subject.caveats()
    if rows.is_empty():
        return None
    counts = dict(rows.group_by("severity").len().iter_rows())
    doubtful = counts.get("error", 0) + counts.get("warning", 0)
    number = "One finding makes" if doubtful == 1 else f"{doubtful} findings make"
    says = f"{number} numbers doubtful." if doubtful else "Nothing makes these numbers doubtful."
    if hints := counts.get("info", 0):
        says += f" {hints} {'tells' if hints == 1 else 'tell'} what a better recording would show."
    touched = [_touched(subject, *row) for row in rows.select("code", "severity").iter_rows()]
    rows = rows.with_columns(touches=pl.Series(touched, dtype=pl.String))
    return Figure("health", "What is doubtful", says, rows, subject.source("health"))


def missing(subject: Subject) -> Figure | None:
    """What was not recorded, and how to record it."""
    rows = subject.absent()
    if rows.is_empty():
        return None
    says = (
        "Some of this may not be in the program at all. Where a setting of the profiler "
        "records it, the setting stands in brackets."
    )
    return Figure("missing", "What was not recorded", says, rows, subject.source("missing"))


def _touched(subject: Subject, code: str, severity: str) -> str:
    """The titles of the page's figures that a finding touches."""
    if severity == "error":
        return "all figures"
    return "; ".join(
        figure.title
        for figure in subject.figures
        if figure.question is not None and code in catalog.query(figure.question).doubts
    )
