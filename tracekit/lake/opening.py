"""Opens what a user names, whatever it is: a trace, a database, or a lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tracekit.ingest.resources import Resources
    from tracekit.run import Database
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import Analysis
    from tracekit.verdict.run_model import RunVerdict

# A replay that joins ranks reads all their events.
_MOST_JOINED = 64


def files_named(paths: Iterable[str], resources: Resources) -> Iterator[str | Path]:
    """The files that the paths of traces, databases and lakes name, and the file of device peaks.

    Raises:
        TracekitError: for a directory or pattern without a trace.
    """
    from tracekit.lake.layout import may_be_lake, selection
    from tracekit.lake.storage import local_files, storage
    from tracekit.trace.source import trace_paths

    if resources.hardware is not None:
        yield resources.hardware
    for path in paths:
        if may_be_lake(path):
            yield from local_files(storage(selection(path).root))
        else:
            yield from trace_paths([path])


def open_given(path: str, resources: Resources, output: str | None = None) -> Database:
    """Opens a lake or a part of one, a database, or a trace, whose answers go to `output`.

    Raises:
        TracekitError: when it cannot be read, or `output` is one of its files.
    """
    from tracekit.files import require_no_input
    from tracekit.lake.layout import may_be_lake

    if output is not None:
        require_no_input(output, files_named([path], resources))
    if may_be_lake(path):
        from tracekit.lake.reading import open_lake

        return open_lake(path, resources)
    from tracekit.run import open_any

    return open_any(path, resources)


def analyses_of(
    database: Database, trace_id: int | None, window: str | None, thresholds: Thresholds
) -> list[Analysis]:
    """The analyses of one trace or of all: those that are stored, unless a window or threshold asks
    for others."""
    return database.verdicts(trace_id, window, thresholds)


def verdict_together(
    database: Database, analyses: list[Analysis], thresholds: Thresholds
) -> tuple[RunVerdict | None, str]:
    """The verdict of the run whose ranks these traces are, or why there is none.

    A single trace has neither.
    """
    if len(analyses) < 2:
        return None, ""
    if reason := _not_one_run(database):
        return None, reason
    from tracekit.verdict.run_verdict import NoRun, judge_run

    found = judge_run(database, analyses, thresholds)
    return (None, found.reason) if isinstance(found, NoRun) else (found, "")


def _not_one_run(database: Database) -> str:
    """Why a lake's traces get no verdict together; empty where they may."""
    ranks = getattr(database, "ranks", ())
    if len({rank.run for rank in ranks}) > 1:
        return "the lake holds several runs: choose one, as LAKE/run=NAME"
    if len(ranks) > _MOST_JOINED:
        return (
            f"the run has {len(ranks):,} ranks, and a verdict on all together replays at most "
            f"{_MOST_JOINED}: ask `tracekit query stragglers` who delays the others"
        )
    return ""
