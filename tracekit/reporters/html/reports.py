"""Writes reports: of a trace, of a comparison, of a sweep, of the ranks of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.reporters.html.diff import diff_view
from tracekit.reporters.html.page import page, write
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.sweep import sweep_view
from tracekit.reporters.html.trace import trace_view

if TYPE_CHECKING:
    from tracekit.compare.diff import Diff
    from tracekit.experiments.points import Sweep
    from tracekit.run import Database
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import Analysis


def write_trace(
    database: Database,
    output: str | Path,
    trace_id: int | None = None,
    window: str | None = None,
    thresholds: Thresholds | None = None,
) -> Analysis:
    """Writes the page of one trace; returns its analysis.

    Raises:
        TracekitError: as `Database.verdict` does, or when `output` cannot be written.
    """
    subject = Subject(database, database.only(trace_id), window, thresholds)
    view = trace_view(subject)
    write(output, page(f"{subject.analysis.verdict.regime}: {view.title}", [view]))
    return subject.analysis


def write_diff(
    database: Database,
    a: int,
    b: int,
    output: str | Path,
    thresholds: Thresholds | None = None,
) -> Diff:
    """Writes the page that compares run b with run a, with the page of each; returns the
    comparison.

    Raises:
        TracekitError: when the database has no such trace, or when `output` cannot be written.
    """
    runs = [Subject(database, database.only(run), None, thresholds) for run in (a, b)]
    found, view = diff_view(database, a, b, [run.analysis for run in runs])
    pages = {each.name: each for each in map(trace_view, runs)}
    write(output, page(f"{found.a} and {found.b}", [view, *pages.values()]))
    return found


def write_sweep(found: Sweep, output: str | Path) -> None:
    """Writes the page of a sweep.

    Raises:
        TracekitError: when `output` cannot be written.
    """
    write(output, page(f"Sweep: {found.database}", [sweep_view(found)]))
