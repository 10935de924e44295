"""rocprofv3's SQLite database (rocpd). Its table names include the recording's UUID; since version
4, rows refer to a track and timestamps instead of holding thread and times.

https://rocm.docs.amd.com/projects/rocprofiler-sdk: rocpd
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from tracekit.trace.budget import decoded_json
from tracekit.trace.other.converted import OneProcess, OpenedFile, named, ranked, slice_of, texts
from tracekit.trace.other.sqlite import Tables
from tracekit.trace.readers.rocprof import copy_name, device_of

NAME = "rocprofv3"
ENDINGS = ("_results.db",)

_TABLE = re.compile(r"rocpd_([a-z_]*[a-z])(_?[0-9a-f]{8}\w*)?")
_CATEGORIES = {
    "HIP": "cuda_runtime",
    "HSA": "cuda_driver",
    "MARKER": "user_annotation",
    "ROCTX": "user_annotation",
    "RCCL": "user_annotation",
}
_PROCESSES = "SELECT id, CAST(pid AS INTEGER) FROM {} ORDER BY 2"
_METADATA = ("metadata", "info_node", "info_process", "info_agent")
# The tables of events, and the tables that events refer to.
_RESOLVED = {
    *("string", "event", "track", "timestamp", "info_thread", "info_queue", "info_stream"),
    *("info_kernel_symbol", "info_code_object", "region", "kernel_dispatch", "memory_copy"),
}


def sniff(opened: OpenedFile) -> bool:
    """Whether it has this database's tables."""
    return opened.tables is not None and bool(_recordings(opened.tables))


def read(opened: OpenedFile) -> list[OneProcess]:
    """The recorded processes; if there are several, each is a rank.

    Raises:
        TracekitError: when the file is damaged.
    """
    processes, tables = [], opened.tables
    assert tables is not None
    for names in _recordings(tables):
        members = _Rocpd(tables, names).members()
        for key, pid in tables.rows(_PROCESSES.format(names["info_process"])):
            processes.append((names, key, pid, members))
    read = []
    for place, (names, key, pid, members) in enumerate(processes):
        name = f"pid {pid}" if len(processes) > 1 else None
        process = OneProcess(name, members | ranked(place, len(processes)), lambda: iter(()))
        process.events = partial(_texts, tables, names, key, pid, process)
        read.append(process)
    return read


def _recordings(tables: Tables) -> list[dict[str, str]]:
    """The tables of each recording, by name without the UUID."""
    recordings: dict[str, dict[str, str]] = {}
    for table in tables.columns:
        if match := _TABLE.fullmatch(table):
            recordings.setdefault(match[2] or "", {})[match[1]] = table
    return [names for names in recordings.values() if names.keys() >= {"info_process", "string"}]


def _texts(
    tables: Tables, names: dict[str, str], key: object, pid: int, process: OneProcess
) -> Iterator[bytes]:
    with closing(tables.again()) as own:
        rocpd = _Rocpd(own, names)
        yield from texts(rocpd.events(key, pid))
    if rocpd.unplaced:
        process.damage = f"{rocpd.unplaced:,} of its rows lack times or a process"


class _Rocpd:
    """The tables of one recording."""

    def __init__(self, tables: Tables, names: dict[str, str]) -> None:
        self._tables = tables
        self._names = names
        self.unplaced = 0

    def members(self) -> dict[str, Any]:
        """The data on the whole recording, as members of a Kineto trace."""
        about = {
            table: self._tables.kept(self._records(table))
            for table in _METADATA
            if table in self._names
        }
        left_out = {
            table: count
            for name, table in self._names.items()
            if name not in _RESOLVED and name not in about and (count := self._tables.count(table))
        }
        agents = [row for row in about.get("info_agent", []) if row.get("type") == "GPU"]
        node = next(iter(about.get("info_node", [])), {})
        return {
            "profiler": {"left_out": left_out},
            "deviceProperties": [
                device_of(self._extra(row.get("extdata")) | row, row.get("id")) for row in agents
            ],
            "host_name": node.get("hostname"),
            "rocprofv3": about,
        }

    def events(self, process: object, pid: int) -> Iterator[dict[str, Any]]:
        yield named("process_name", "rocprofv3", pid)
        makers = {
            "region": self._region,
            "kernel_dispatch": self._dispatch,
            "memory_copy": self._copy,
        }
        for name, make in makers.items():
            if name in self._names:
                if self._of(self._tables.columns[self._names[name]], "pid") == "NULL":
                    self.unplaced += self._tables.count(self._names[name])
                for row in self._records(name, process):
                    start, end = row.pop("start", None), row.pop("end", None)
                    if isinstance(start, int) and isinstance(end, int):
                        thread = row.pop("thread", 0)
                        yield slice_of("", "", pid, thread, start, end - start, {}) | make(row)
                    else:
                        self.unplaced += 1

    def _region(self, row: dict[str, Any]) -> dict[str, Any]:
        category, name = str(row.pop("category", "")), row.pop("name", None)
        message = self._extra(row.get("event_extdata")).get("message")
        known = _CATEGORIES.get(category.split("_")[0].upper(), category.lower())
        return {"cat": known, "name": message or name, "args": row}

    def _dispatch(self, row: dict[str, Any]) -> dict[str, Any]:
        block, items = (
            [_size(row.pop(f"{key}_size_{axis}", 1)) for axis in "xyz"]
            for key in ("workgroup", "grid")
        )
        args = row | {
            "block": block,
            "grid": [-(-total // size) for total, size in zip(items, block, strict=True)],
            "shared memory": row.get("group_segment_size"),
        }
        kernel = args.pop("kernel", None) or "kernel"
        return {"cat": "kernel", "name": kernel, "args": args} | _on_device(args)

    def _copy(self, row: dict[str, Any]) -> dict[str, Any]:
        name = copy_name(str(row.pop("name", "")))
        gpus = [row.get("dst_agent_id"), row.get("src_agent_id")]
        args = row | {"device": gpus["HtoD" not in name and "DtoD" not in name]}
        args["bytes"] = args.pop("size", None)
        return {"cat": "gpu_memcpy", "name": name, "args": args} | _on_device(args)

    def _extra(self, text: object) -> dict[str, Any]:
        extra = decoded_json(text, self._tables.budget) if isinstance(text, str) else None
        return extra if isinstance(extra, dict) else {}

    def _records(self, name: str, process: object = None) -> Iterator[dict[str, Any]]:
        """A table's rows with their ids resolved."""
        table = self._names[name]
        columns = self._tables.columns[table]
        sql_of = {column: f't."{column}"' for column in columns if not column.endswith("guid")}
        where, parameters = "TRUE", []
        if process is not None:
            sql_of |= self._resolved(columns)
            where, parameters = f"{self._of(columns, 'pid')} IS ?", [process]
        selected = ", ".join(f'{value} AS "{key}"' for key, value in sql_of.items())
        query = f"SELECT {selected} FROM {table} AS t WHERE {where}"
        for row in self._tables.records(sql_of, query, parameters):
            yield {key: value for key, value in row.items() if value != "{}"}

    def _resolved(self, columns: dict[str, str]) -> dict[str, str]:
        queue = self._of(columns, "queue_id")
        sql_of = {
            "start": self._time(columns, "start"),
            "end": self._time(columns, "end"),
            "thread": self._look_up("info_thread", "tid", self._of(columns, "tid")),
            "stream": f"coalesce({self._of(columns, 'stream_id')}, {queue})",
            "correlation": self._look_up("event", "stack_id", "t.event_id"),
            "category": self._look_up(
                "string", "string", self._look_up("event", "category_id", "t.event_id")
            ),
            "event_extdata": self._look_up("event", "extdata", "t.event_id"),
        }
        if "name_id" in columns:
            sql_of["name"] = self._look_up("string", "string", "t.name_id")
        if "kernel_id" in columns:
            names = (
                self._look_up("info_kernel_symbol", column, "t.kernel_id")
                for column in ("display_name", "kernel_name")
            )
            sql_of["kernel"] = f"coalesce({', '.join(names)})"
            sql_of["device"] = self._of(columns, "agent_id")
        return sql_of

    def _time(self, columns: dict[str, str], name: str) -> str:
        return f't."{name}"' if name in columns else self._look_up(
            "timestamp", "value", f"t.{name}_id"
        )  # fmt: skip

    def _of(self, columns: dict[str, str], name: str) -> str:
        """A column of the row or of its track."""
        if name in columns:
            return f"t.{name}"
        return self._look_up("track", name, "t.track_id") if "track_id" in columns else "NULL"

    def _look_up(self, name: str, column: str, key: str) -> str:
        table = self._names.get(name)
        if table is None or column not in self._tables.columns[table]:
            return "NULL"
        return f"(SELECT {column} FROM {table} WHERE id = {key})"


def _size(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _on_device(args: dict[str, Any]) -> dict[str, Any]:
    return {"pid": args.get("device"), "tid": args.get("stream", 0)}
