"""The small tables of a lake as Delta tables, which other engines read: each publication is one
commit a table, so that a reader sees a replaced rank once, and none that is unfinished.

The Delta tables name the lake's own files. https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import time
from typing import Any

import duckdb

from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.binding import Binding
from tracekit.lake.compacting import Compacting, compact
from tracekit.lake.layout import TABLES, Group
from tracekit.lake.reading import require_lake
from tracekit.lake.runs import LakeRun, RunPart, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.tables import SMALL

PUBLISHED = tuple(sorted(SMALL))
_ATTEMPTS = 5


def is_published(lake: Storage) -> bool:
    return bool(lake.paths(f"{TABLES}/run_figures/_delta_log"))


def publish(root: str, resources: Resources | None = None) -> dict[str, int]:
    """Publishes the ranks that are there now; returns the number of files of each table.

    Runs whose files also hold ranks that were replaced are compacted first.

    Raises:
        TracekitError: when there is no lake, or the library `deltalake` is not installed.
    """
    lake = require_lake(root)
    _library(root)
    for run in read_runs(lake):
        if not all(each.is_whole for each in run.held):
            compact(Compacting(root, run.name, resources or Resources()))
    runs = read_runs(lake)
    groups = [
        each.group for run in runs for each in run.held
        if each.is_whole and each.ranks[0].tables == catalog.FORMAT
    ]  # fmt: skip
    done = {}
    for table in PUBLISHED:
        named = [each for each in groups if table in each.files]
        if named or lake.paths(f"{TABLES}/{table}/_delta_log"):
            _commit(lake, table, named, runs)
            done[table] = len(named)
    return done


def _library(root: str) -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise TracekitError(
            f"{root}: publishing needs deltalake: pip install 'tracekit[lake]'"
        ) from error
    return deltalake


def _commit(lake: Storage, table: str, groups: list[Group], runs: list[LakeRun]) -> None:
    """Makes a Delta table name the files of these groups, and no other."""
    deltalake = _library(lake.root)
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
        gone = [RemoveAction(each, True, now_ms, None, {}) for each in there - files.keys()]
        if not added and not gone:
            return
        schema = _schema(lake, table, runs) if added else delta.schema()
        try:
            if delta is None:
                create_table_with_add_actions(uri, schema, added, "error")
            elif delta.schema() != schema:
                create_table_with_add_actions(uri, schema, added, "overwrite")
            else:
                delta.create_write_transaction([*added, *gone], "append", schema)
            return
        except CommitFailedError as error:
            # Another process has published meanwhile.
            if attempt == _ATTEMPTS - 1:
                raise TracekitError(f"{uri}: cannot be published: {error}") from error


def _schema(lake: Storage, table: str, runs: list[LakeRun]) -> Any:
    """The columns of a table, as its files have them."""
    from arro3.core import Table
    from deltalake import Schema

    run = next(each for each in runs if any(table in held.group.files for held in each.held))
    with duckdb.connect() as connection:
        rows = Binding(connection, [RunPart(lake.root, run, frozenset(run.ranks))]).scans()[table]
        return Schema.from_arrow(Table.from_arrow(connection.sql(f"{rows} LIMIT 0")).schema)
