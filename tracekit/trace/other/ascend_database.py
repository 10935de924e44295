"""Databases of torch_npu (`ascend_pytorch_profiler_*.db`) and msprof (`msprof_*.db`): what they say
of the whole recording, and their events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.trace.other import ascend_tables
from tracekit.trace.other.converted import OneProcess, named, texts
from tracekit.trace.other.event_tables import query
from tracekit.trace.other.sqlite import Tables

# Tables that are copied to the trace's metadata, up to this many rows each.
_METADATA = ("META_DATA", "HOST_INFO", "NPU_INFO", "RANK_DEVICE_MAP", "SESSION_TIME_INFO")
_METADATA_ROWS = 2000


def has_events(tables: Tables) -> bool:
    """Whether these are the tables of such a database, with events in them."""
    if not tables.columns.get(ascend_tables.STRINGS, {}).keys() >= {"id", "value"}:
        return False
    return any(ascend_tables.is_read(*each) for each in tables.columns.items())


def process(tables: Tables) -> OneProcess:
    """All of the database: its processes are of one rank.

    Raises:
        TracekitError: when the file is damaged.
    """
    return OneProcess(None, _members(tables), partial(_names, tables), rows=partial(_rows, tables))


def _rows(tables: Tables, first_id: int, labels: Labels) -> Iterator[tuple[Batch, int]]:
    with closing(tables.again()) as own:
        words = ascend_tables.words(own)
        for source in ascend_tables.sources(own):
            for batch, text_bytes in own.events(
                query(own, source, "TRUE", words), first_id, labels
            ):
                first_id += batch.rows
                yield batch, text_bytes


def _names(tables: Tables) -> Iterator[bytes]:
    with closing(tables.again()) as own:
        pid = ascend_tables.process_of(own)
    if pid is not None:
        yield from texts([named("process_name", "Python", pid)])


def _members(tables: Tables) -> dict[str, Any]:
    """The data on the whole recording, as members of a Kineto trace."""
    copied = {
        table: tables.kept(tables.records(tables.columns[table], f"SELECT * FROM {table}"))
        for table in _METADATA
        if table in tables.columns and tables.count(table) <= _METADATA_ROWS
    }
    left_out = {
        table: count
        for table, columns in tables.columns.items()
        if table not in ascend_tables.RESOLVED
        and table not in copied
        and not table.startswith(("ENUM_", "sqlite_"))
        and not ascend_tables.is_read(table, columns)
        and (count := tables.count(table))
    }
    about = {row.get("name"): row.get("value") for row in copied.get("META_DATA", [])}
    ranks = [row.get("rankId") for row in copied.get("RANK_DEVICE_MAP", [])]
    hosts = [row.get("hostName") for row in copied.get("HOST_INFO", [])]
    members = {
        "profiler": {"version": about.get("SCHEMA_VERSION"), "left_out": left_out},
        "deviceProperties": [
            {"id": row.get("id"), "name": row.get("name")}
            for row in copied.get("NPU_INFO", [])
            if row.get("id") != -1
        ],
        "host_name": next(iter(hosts), None),
        "torch_npu": copied,
    }
    if len(ranks) == 1 and isinstance(ranks[0], int) and ranks[0] >= 0:
        members["distributedInfo"] = {"rank": ranks[0]}
    return {key: value for key, value in members.items() if value}
