"""Work after an addition: verdicts, compaction, Delta tables, and removal of unused files.

Compaction merges a run's ranks into one file per table. Delta tables refer to the lake's own files
of small tables for other engines: each publication is one commit per table, so a reader sees a
replaced rank only once, and never an unfinished one.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Set
from contextlib import closing
from functools import partial
from typing import Any, ClassVar

import duckdb
from msgspec.structs import replace

from tracekit.database import catalog, stored
from tracekit.database.connection import connect
from tracekit.errors import TracekitError, explained, needing, reason_of
from tracekit.examine import examine_all
from tracekit.files import work_folder
from tracekit.ingest.derived import record_verdicts
from tracekit.ingest.resources import Resources
from tracekit.lake import layout
from tracekit.lake.binding import Binding
from tracekit.lake.layout import MANIFESTS, NUMBERS, TABLES, Group, Rank, Selection
from tracekit.lake.reading import open_parts, require_lake, selected_parts
from tracekit.lake.runs import LakeRun, change_run, read_run, read_runs
from tracekit.lake.storage import FOLDERS, HIDDEN, WORK_PREFIX, Storage
from tracekit.lake.tables import SMALL
from tracekit.lake.workers import Progress, Workers
from tracekit.lake.writing import batches, remove_files, write_group, write_rows
from tracekit.records import Record
from tracekit.verdict.rows import WaitRows, merged, rows_of

# When ranks are added, compact runs with more groups than this.
MOST_GROUPS = 16
PUBLISHED = tuple(sorted(SMALL))
_ATTEMPTS = 5
# The number of ranks judged by one task, since queries about all of them are planned once.
_MOST_RANKS = 128
_MOST_EVENTS = 2_000_000
_TOKEN = "[0-9a-f]{32}"
# Names of tracekit's files. All other files are the user's.
_OWN = re.compile(
    rf"{NUMBERS}/\d+\.json|{TABLES}/[a-z_]+/{_TOKEN}\.parquet"
    rf"|{MANIFESTS}/[^/]+/({_TOKEN}\.json|{layout.VERSION_NAME})"
    rf"|({NUMBERS}|{MANIFESTS}/[^/]+|{TABLES}/[a-z_]+)/{re.escape(HIDDEN)}{_TOKEN}"
)


# -- judging


def judge(
    store: Storage,
    workers: Workers,
    touched: Mapping[str, Set[str]],
    resources: Resources,
    progress: Progress,
) -> None:
    """Judges the new ranks of runs, and ranks that were judged before others were added."""
    tasks = []
    for name, new in sorted(touched.items()):
        due = _unjudged(read_run(store, name), new)
        parts = batches(due, lambda rank: rank.events, _MOST_RANKS, _MOST_EVENTS)
        tasks += [(name, frozenset(rank.name for rank in part)) for part in parts]
    progress.begin("judging", sum(len(names) for _, names in tasks))
    for (name, names), result in workers.each(partial(_verdicts, store.root, resources), tasks):
        if isinstance(result, Exception):
            raise TracekitError(f"run={name}: cannot be judged: {reason_of(result)}") from result
        change_run(store, name, partial(_with_verdicts, result))
        progress.done(len(names))


def _with_verdicts(group: Group, run: LakeRun) -> LakeRun:
    """The run with verdicts on its unchanged ranks."""
    here = {rank.name: rank.trace_id for rank in run.ranks.values()}
    names = [rank.name for rank in group.ranks if here.get(rank.name) == rank.trace_id]
    return run.with_group(group, names) if names else run


def _unjudged(run: LakeRun, new: Set[str]) -> list[Rank]:
    """The ranks of a run without an up-to-date verdict; if there are many, the new ones."""
    judged = {
        rank.name
        for group in run.groups if group.context == run.context
        for rank in group.here
    }  # fmt: skip
    # Ranks that another version wrote have no events to read.
    due = [
        rank for rank in run.ranks.values()
        if rank.name not in judged and rank.tables == catalog.FORMAT
    ]  # fmt: skip
    return due if len(due) <= _MOST_RANKS else [each for each in due if each.name in new]


def _verdicts(root: str, resources: Resources, task: tuple[str, frozenset[str]]) -> Group:
    """The verdicts on some ranks of a run, written as a group that readers do not see yet."""
    name, names = task
    run = selected_parts(Selection(root, name))
    with open_parts(run, resources) as lake, lake.sharing():
        ranks: dict[int, Rank] = {rank.trace_id: rank for rank in lake.ranks if rank.name in names}
        context = lake.parts[0].context
        waits = WaitRows()
        analyses = examine_all(lake, list(ranks), on_replay=waits)
        rows = merged(rows_of(each, context, waits.get(each.trace.trace_id)) for each in analyses)
    with (
        work_folder(resources.folder, WORK_PREFIX) as folder,
        closing(connect(":memory:", resources.settings(folder), root)) as made,
    ):
        stored.create_tables(made)
        record_verdicts(made, rows)
        return write_group(made, ranks, catalog.VERDICTS, Storage(root), folder, context)


# -- compaction


def compact_runs(
    lake: str, workers: Workers, names: Iterable[str], resources: Resources | None = None
) -> int:
    """Merges the files of each run's ranks, table by table; returns the number of merged groups."""
    count = 0
    for name, result in workers.each(partial(_compact, lake, resources or Resources()), names):
        if isinstance(result, Exception):
            raise TracekitError(f"run={name}: cannot be compacted: {reason_of(result)}") from result
        count += result
    return count


def mergeable(run: LakeRun) -> list[list[Group]]:
    """The groups to merge: of tables, and of current verdicts. Empty: all ranks written by this
    version are already in one group, and their verdicts in another."""
    mine = [group for group in run.groups if group.ranks[0].tables == catalog.FORMAT]
    order = sorted(mine, key=lambda each: each.here[0].order)
    by_context = [[each for each in order if each.context == kind] for kind in (None, run.context)]
    return [some for some in by_context if len(some) > 1 or any(each.without for each in some)]


def _compact(root: str, resources: Resources, name: str) -> int:
    """Rewrites a run's groups as one of tables and one of verdicts; returns the number of replaced
    groups: 0 if the run changed meanwhile, or there is nothing to do."""
    lake = Storage(root)
    run = read_run(lake, name)
    count = 0
    for some in mergeable(run):
        group = _merge(lake, resources, run, some)
        if _replace(lake, name, some, group):
            count += len(some)
        else:
            remove_files(lake, group)
    return count


def _merge(lake: Storage, resources: Resources, run: LakeRun, some: list[Group]) -> Group:
    ranks = sorted((r for each in some for r in each.here), key=lambda each: each.order)
    part = replace(run, groups=tuple(some))
    with (
        work_folder(resources.folder, WORK_PREFIX) as folder,
        closing(connect(":memory:", resources.settings(folder), lake.root)) as connection,
    ):
        selects = {
            table: f"{rows} ORDER BY rank, trace_id" if table in SMALL else rows
            for table, rows in Binding(connection, [part]).scans().items()
        }
        return write_rows(connection, selects, ranks, lake, folder, some[0].context)


def _replace(lake: Storage, name: str, some: list[Group], group: Group) -> bool:
    """Replaces groups by another one, unless they have changed; returns whether it did."""

    def take(run: LakeRun) -> LakeRun:
        if not all(each in run.groups for each in some):
            return run
        rest = (group for group in run.groups if group not in some)
        return replace(run, groups=(*rest, group))

    return group in change_run(lake, name, take).groups


# -- Delta tables


def is_published(lake: Storage) -> bool:
    return bool(lake.paths(f"{TABLES}/run_figures/_delta_log"))


def publish(root: str, resources: Resources | None = None) -> dict[str, int]:
    """Publishes the current ranks; returns the number of files of each table.

    Runs whose files also hold replaced ranks are compacted first.

    Raises:
        TracekitError: when there is no lake, the library `deltalake` is not installed, or the log
            of a Delta table is damaged.
    """
    lake = require_lake(root)
    with needing(f"{root}: publishing needs", "lake"):
        from deltalake.exceptions import DeltaError
    for run in read_runs(lake):
        if any(group.without for group in run.groups):
            _compact(root, resources or Resources(), run.name)
    runs = read_runs(lake)
    groups = [
        group for run in runs for group in run.groups
        if not group.without and group.ranks[0].tables == catalog.FORMAT
    ]  # fmt: skip
    done = {}
    for table in PUBLISHED:
        named = [group for group in groups if table in group.files]
        if named or lake.paths(f"{TABLES}/{table}/_delta_log"):
            where = lake.table_uri(f"{TABLES}/{table}")
            with explained(
                f"{where}: cannot be published (the added traces are in the lake): if its log "
                f"is damaged, remove {where}/_delta_log, and run `tracekit lake publish {root}`",
                DeltaError, OSError,
            ):  # fmt: skip
                _commit(lake, table, named, runs)
            done[table] = len(named)
    return done


def _commit(lake: Storage, table: str, groups: list[Group], runs: list[LakeRun]) -> None:
    """Makes a Delta table refer to exactly the files of these groups."""
    import deltalake
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

    uri = lake.table_uri(f"{TABLES}/{table}")
    now_ms = time.time_ns() // 1_000_000
    files = {f"{each.data}.parquet": each.files[table] for each in groups}
    for attempt in range(_ATTEMPTS):
        try:
            delta = deltalake.DeltaTable(uri)
            there = {each.rpartition("/")[2] for each in delta.file_uris()}
        except TableNotFoundError:
            delta, there = None, set()
        added = [
            AddAction(name, size, {}, now_ms, data_change=True, stats="{}")
            for name, size in files.items()
            if name not in there
        ]
        removed = [RemoveAction(each, True, now_ms, None, {}) for each in there - files.keys()]
        if not added and not removed:
            return
        schema = _schema(lake, table, runs) if added or delta is None else delta.schema()
        try:
            if delta is None:
                create_table_with_add_actions(uri, schema, added, "error")
            elif delta.schema() != schema:
                create_table_with_add_actions(uri, schema, added, "overwrite")
            else:
                delta.create_write_transaction([*added, *removed], "append", schema)
            return
        except CommitFailedError as error:
            # Another process has published in the meantime.
            if attempt == _ATTEMPTS - 1:
                raise TracekitError(f"{uri}: cannot be published: {error}") from error


def _schema(lake: Storage, table: str, runs: list[LakeRun]) -> Any:
    """The columns in a table's files."""
    from arro3.core import Table
    from deltalake import Schema

    run = next(each for each in runs if any(table in group.files for group in each.groups))
    with duckdb.connect() as connection:
        rows = Binding(connection, [run]).scans()[table]
        return Schema.from_arrow(Table.from_arrow(connection.sql(f"{rows} LIMIT 0")).schema)


# -- cleaning


class Cleaned(Record, frozen=True):
    """The removed files, of replaced or unfinished ranks."""

    form: ClassVar[str] = "tracekit/lake-cleaned/1"

    removed: tuple[str, ...]
    """Their paths in the lake."""
    kept_young: int
    """The number of unused files that a running addition may need (count)"""


def clean(root: str, older_than_hours: float = 24.0) -> Cleaned:
    """Removes old files that do not belong to a visible rank.

    Links below the lake's folder are not followed, and files that are not named like a lake's are
    left alone.

    Raises:
        TracekitError: when there is no lake, or the age is negative or not a number.
    """
    if not older_than_hours >= 0:
        raise TracekitError(f"an age is a number of hours, at least 0, not {older_than_hours:g}")
    lake = require_lake(root)
    # List first: files that appear later are recent.
    ages = {path: age_s for folder in FOLDERS for path, age_s in lake.ages(folder)}
    runs = read_runs(lake)
    groups = [group for run in runs for group in run.groups]
    ranks = [rank for run in runs for rank in run.ranks.values()]
    used = {group.path(table) for group in groups for table in group.files}
    used |= {group.key for group in groups}
    used |= {layout.version_path(run.name, run.number) for run in runs}
    used |= {layout.number_path(rank.trace_id) for rank in ranks}
    unused = [path for path in ages if _OWN.fullmatch(path) and path not in used]
    old = [path for path in unused if ages[path] >= older_than_hours * 3600]
    lake.remove(old)
    return Cleaned(tuple(old), len(unused) - len(old))
