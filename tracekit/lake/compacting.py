"""Compaction: the ranks of a run in one file a table, which is what asking costs least."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from tracekit.database import catalog
from tracekit.database.connection import connect
from tracekit.files import work_folder
from tracekit.ingest.resources import Resources
from tracekit.lake.binding import Binding
from tracekit.lake.layout import Group
from tracekit.lake.runs import Held, LakeRun, RunPart, change_run, new_token, read_run
from tracekit.lake.sources import WORK_PREFIX
from tracekit.lake.storage import Storage, storage
from tracekit.lake.tables import SMALL
from tracekit.lake.writing import copy_rows, remove_files

# A run of more groups is compacted once ranks are added.
MOST_GROUPS = 16


@dataclass(frozen=True)
class Compacting:
    """A run whose groups are to become one."""

    lake: str
    run: str
    resources: Resources = field(default_factory=Resources)


def is_compact(run: LakeRun) -> bool:
    """Whether all ranks that this version wrote are in one group, and their verdicts in another."""
    return all(len(each) <= 1 and all(held.is_whole for held in each) for each in _merged(run))


def _merged(run: LakeRun) -> list[list[Held]]:
    """The groups that can be merged: those of tables, and those of verdicts that still hold."""
    mine = [each for each in run.held if each.ranks[0].tables == catalog.FORMAT]
    order = sorted(mine, key=lambda each: each.ranks[0].rank or 0)
    return [
        [each for each in order if each.group.context == context] for context in (None, run.context)
    ]


def compact(task: Compacting) -> int:
    """Writes the groups of a run as one of tables and one of verdicts; returns how many groups they
    take the place of: 0 where others changed the run meanwhile, or there is nothing to do."""
    lake = storage(task.lake)
    run = read_run(lake, task.run)
    count = 0
    for some in _merged(run):
        if len(some) > 1 or not all(each.is_whole for each in some):
            group = _write(lake, task, run, some)
            if _publish(lake, run, some, group):
                count += len(some)
            else:
                remove_files(lake, group)
    return count


def _write(lake: Storage, task: Compacting, run: LakeRun, some: list[Held]) -> Group:
    token = new_token()
    files: dict[str, int] = {}
    ranks = [rank for each in some for rank in each.ranks]
    ranks.sort(key=lambda each: (each.rank is None, each.rank or 0, each.name))
    part = RunPart(
        task.lake, LakeRun(run.name, run.number, tuple(some)), frozenset(r.name for r in ranks)
    )
    with (
        work_folder(task.resources.folder, WORK_PREFIX) as folder,
        closing(connect(":memory:", task.resources.settings(folder), task.lake)) as connection,
    ):
        for table, rows in Binding(connection, [part]).scans().items():
            local = folder / f"{table}.parquet"
            order = " ORDER BY rank, trace_id" if table in SMALL else ""
            copy_rows(connection, f"{rows}{order}", local)
            group = Group(run.name, token, token, ranks, files, some[0].group.context)
            lake.put(local, group.path(table))
            files[table] = local.stat().st_size
            local.unlink()
    return group


def _publish(lake: Storage, before: LakeRun, some: list[Held], group: Group) -> bool:
    """Puts a group in the place of others, unless these have changed; returns whether it did."""
    merged = {each.group.token for each in some}
    done = False

    def take(run: LakeRun) -> LakeRun:
        nonlocal done
        there = [each for each in run.held if each.group.token in merged]
        done = there == [each for each in before.held if each.group.token in merged]
        if not done:
            return run
        rest = tuple(each for each in run.held if each.group.token not in merged)
        return LakeRun(run.name, run.number, (*rest, Held(group, tuple(group.ranks))))

    change_run(lake, before.name, take)
    return done
