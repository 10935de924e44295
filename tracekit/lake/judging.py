"""Verdicts on the ranks of a lake: each rank is judged among the ranks of its run."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import closing
from dataclasses import dataclass, field

from tracekit.database import catalog, prepared
from tracekit.database.connection import connect
from tracekit.examine import examine_all
from tracekit.files import work_folder
from tracekit.ingest.derived import record_verdicts
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import Group, Rank
from tracekit.lake.reading import open_run
from tracekit.lake.runs import LakeRun
from tracekit.lake.sources import WORK_PREFIX
from tracekit.lake.storage import storage
from tracekit.lake.tables import VERDICTS
from tracekit.lake.writing import write_group
from tracekit.verdict.rows import rows_of

# Ranks that one task judges: questions about all of them are planned once.
_MOST_RANKS = 128
_MOST_EVENTS = 2_000_000


@dataclass(frozen=True)
class Judging:
    """Some ranks of a run, by name, that are to be judged."""

    lake: str
    run: str
    names: frozenset[str]
    resources: Resources = field(default_factory=Resources)


def tasks_of(lake: str, run: LakeRun, new: Set[str], resources: Resources) -> Iterator[Judging]:
    """The work of judging those of a run's ranks that were not judged as it is now; of many, the
    new ones alone."""
    judged = {
        rank.name
        for held in run.held if held.group.context == run.context
        for rank in held.ranks
    }  # fmt: skip
    # Of ranks that another version wrote, no events are read.
    due = [
        each for each in run.ranks.values()
        if each.name not in judged and each.tables == catalog.FORMAT
    ]  # fmt: skip
    names: set[str] = set()
    events = 0
    for rank in due:
        if len(due) > _MOST_RANKS and rank.name not in new:
            continue
        names.add(rank.name)
        events += rank.events
        if len(names) == _MOST_RANKS or events > _MOST_EVENTS:
            yield Judging(lake, run.name, frozenset(names), resources)
            names, events = set(), 0
    if names:
        yield Judging(lake, run.name, frozenset(names), resources)


def judge(task: Judging) -> Group:
    """The verdicts on some ranks of a run, written as a group that no reader sees yet.

    Raises:
        TracekitError: when the run cannot be read or the lake not be written.
    """
    with open_run(task.lake, task.run, task.resources) as lake, lake.sharing():
        ranks: dict[int, Rank] = {
            each.trace_id: each for each in lake.ranks if each.name in task.names
        }
        context = lake.parts[0].run.context
        rows = [rows_of(each, context) for each in examine_all(lake, list(ranks))]
    with (
        work_folder(task.resources.folder, WORK_PREFIX) as folder,
        closing(connect(":memory:", task.resources.settings(folder), task.lake)) as made,
    ):
        prepared.create_all(made)
        for each in rows:
            record_verdicts(made, each)
        return write_group(made, ranks, VERDICTS, storage(task.lake), folder, context)
