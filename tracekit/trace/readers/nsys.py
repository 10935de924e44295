"""Reports of Nsight Systems, exported to SQLite: `nsys export --type sqlite`, or `parquetdir`.

The schemas of its versions differ, so the reader checks which tables and columns a report has.
https://docs.nvidia.com/nsight-systems/UserGuide (Exporting to SQLite)
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.files import temporary_folder
from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.text import as_operand, quoted
from tracekit.trace.other import nsys_parquet
from tracekit.trace.other.converted import OneProcess, OpenedFile, named, ranked, texts
from tracekit.trace.other.event_tables import query
from tracekit.trace.other.nsys_events import (
    EVENT,
    GRAPH,
    METRIC_NAMES,
    METRICS,
    NVTX,
    ON_DEVICE,
    OSRT,
    RUNTIME,
    SCHED,
    WORDS,
    metrics,
    sources,
)
from tracekit.trace.other.sqlite import Tables

NAME = "nsys"
REPORTS = (".nsys-rep", ".qdrep")
ENDINGS = (".sqlite", nsys_parquet.ENDING, *REPORTS)

# Tables that are copied to the trace's metadata, up to this many rows each.
_METADATA = re.compile(r"(META_DATA_|TARGET_INFO_|ANALYSIS_|DIAGNOSTIC_EVENT$|NVTX_PAYLOAD_)")
_METADATA_ROWS = 2000
# Vocabularies, and tables that are resolved in the events' text.
_RESOLVED = re.compile(
    rf"(ENUM_|sqlite_)|({METRIC_NAMES}|{EVENT}|StringIds|PROCESSES|ThreadNames)$"
)
_SWITCHES = {RUNTIME: "cuda", NVTX: "nvtx", OSRT: "osrt", SCHED: "sched"}
_DEVICE = {
    "name": "name",
    "totalGlobalMem": "totalMemory",
    "numSms": "smCount",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "warpSize": "threadsPerWarp",
    "regsPerMultiprocessor": "maxRegistersPerSm",
    "sharedMemPerMultiprocessor": "maxShmemPerSm",
}
Rows = list[dict[str, Any]]


def sniff(opened: OpenedFile) -> bool:
    """Whether it is a report, or has the tables of an exported report."""
    if opened.has_ending(REPORTS) or nsys_parquet.is_export(opened):
        return True
    others = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "META_DATA_", "TARGET_INFO_", "OSRT_API")
    tables = opened.tables.columns if opened.tables else {}
    return "StringIds" in tables and any(table.startswith(others) for table in tables)


def read(opened: OpenedFile) -> list[OneProcess]:
    """The processes that used a device, in device order; if there are several, each is a rank. The
    events of other processes are added to the first.

    Raises:
        TracekitError: when the file is damaged, or a report that nsys cannot export.
    """
    if nsys_parquet.is_export(opened):
        tables = opened.tables_of(nsys_parquet.to_sqlite(opened))
    else:
        exported = None if opened.has_ending(REPORTS) else opened.tables
        tables = exported or opened.tables_of(_exported(opened))
    # Without a key, each text would need a full scan.
    if tables.keys["StringIds"] != {"id"}:
        raise TracekitError(f"{opened.path}: is not an nsys export: its table StringIds has no key")
    first_device: dict[int, int] = {}
    for table in ON_DEVICE:
        if tables.columns.get(table, {}).keys() >= {"globalPid", "deviceId"}:
            for owner, device in tables.rows(
                f"SELECT DISTINCT globalPid >> 24, deviceId FROM {table}"
                " WHERE globalPid IS NOT NULL AND typeof(deviceId) = 'integer'"
            ):
                first_device[owner] = min(device, first_device.get(owner, device))
    owners: list[int | None] = [*sorted(first_device, key=lambda each: (first_device[each], each))]
    members = _members(tables)
    return [
        OneProcess(
            f"pid {owner & 0xFFFFFF}" if owner is not None and len(owners) > 1 else None,
            members | ranked(place, len(owners)),
            partial(_names, tables, owner, owners),
            rows=partial(_rows, tables, owner, owners),
        )
        for place, owner in enumerate(owners or [None])
    ]


def _exported(opened: OpenedFile) -> Path:
    """The SQLite file of a report, which only nsys can read."""
    import subprocess

    nsys, path = shutil.which("nsys"), opened.plain_path
    if path is None:
        raise TracekitError(
            f"{opened.path}: is a report of Nsight Systems, which only nsys can read, and only "
            "from a separate file: copy it to the disk first"
        )
    how = f"nsys export --type sqlite {quoted(path)}"
    if nsys is None:
        raise TracekitError(
            f"{opened.path}: is a report of Nsight Systems, which only nsys can read, and nsys is "
            f"not on the path: run `{how}` on a machine that has it, and load the file that it "
            "writes"
        )
    file = opened.closes.enter_context(temporary_folder(opened.folder)) / "report.sqlite"
    run = subprocess.run(
        [nsys, "export", "--type", "sqlite", "--output", str(file), as_operand(path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if run.returncode or not file.is_file():
        output = (run.stderr or run.stdout).strip().splitlines()
        raise TracekitError(f"{opened.path}: `{how}` failed: {output[-1] if output else ''}")
    return file


def _members(tables: Tables) -> dict[str, Any]:
    """The report's data on the whole recording, as members of a Kineto trace."""
    counts = {
        # For tables that are read, only whether they have rows matters.
        table: tables.count(table, *([1] if table != GRAPH and _is_read(columns) else []))
        for table, columns in tables.columns.items()
        if not _RESOLVED.match(table)
    }
    copied = {
        table: tables.kept(tables.records(tables.columns[table], f"SELECT * FROM {table}"))
        for table, count in counts.items()
        if _METADATA.match(table) and count <= _METADATA_ROWS
    }
    export = {row.get("name"): row.get("value") for row in copied.get("META_DATA_EXPORT", [])}
    environment = {
        row.get("name"): row.get("value") for row in copied.get("TARGET_INFO_SYSTEM_ENV", [])
    }
    left_out = {
        table: count
        for table, count in counts.items()
        if count
        and table not in copied
        and table != METRICS
        and not _is_read(tables.columns[table])
    }
    members = {
        "profiler": {
            "version": export.get("EXPORT_PRODUCT_VERSION"),
            "schema": export.get("EXPORT_SCHEMA_VERSION"),
            "recorded": [switch for table, switch in _SWITCHES.items() if counts.get(table)],
            "whole_graphs": counts.get(GRAPH, 0),
            "left_out": left_out,
            "said": _complaints(copied.get("DIAGNOSTIC_EVENT", [])),
        },
        "deviceProperties": [
            {"id": row.get("cuDevice", row.get("id"))}
            | {key: row[column] for key, column in _DEVICE.items() if column in row}
            for row in copied.get("TARGET_INFO_GPU", [])
        ],
        "baseTimeNanoseconds": _base_ns(copied, export),
        "host_name": environment.get("Hostname"),
        "nsys": copied,
    }
    return {key: value for key, value in members.items() if value}


def _is_read(columns: Mapping[str, str]) -> bool:
    return "start" in columns and bool(columns.keys() & {"globalTid", "globalPid"})


def _complaints(diagnostics: Rows) -> list[str]:
    """Warnings and errors of the recorder (ENUM_DIAGNOSTIC_SEVERITY_LEVEL)."""
    texts = (row.get("text") for row in diagnostics if row.get("severity") in (2, 3))
    return sorted({str(text) for text in texts if text})


def _base_ns(said: Mapping[str, Rows], export: Mapping[Any, Any]) -> int | None:
    """The Unix time of the timestamp 0."""
    began = next(iter(said.get("TARGET_INFO_SESSION_START_TIME", [])), {})
    epoch, clock = began.get("utcEpochNs"), began.get("systemClockNs")
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true" or not isinstance(epoch, int):
        return None
    # Recent reports count from the system's start, older ones from the session's start.
    starts = [row.get("startTime") for row in said.get("ANALYSIS_DETAILS", [])]
    return epoch - clock if isinstance(clock, int) and clock in starts else epoch


def _is_mine(owner: int | None, owners: Sequence[int | None], column: str) -> str:
    """The SQL condition for rows that belong to a process. Rows of processes outside `owners`
    belong to the first owner."""
    if owner is not None and owner != owners[0]:
        return f"{column} >> 24 = {owner}"
    others = ", ".join(map(str, owners[1:]))
    return f"({column} IS NULL OR {column} >> 24 NOT IN ({others}))" if others else "TRUE"


def _rows(
    tables: Tables, owner: int | None, owners: Sequence[int | None], first_id: int, labels: Labels
) -> Iterator[tuple[Batch, int]]:
    """The events of a process. Processes may be read concurrently."""
    with closing(tables.again()) as own:
        event_tables = list(sources(own, owner))
        if owner is None or owner == owners[0]:
            event_tables += metrics(own)
        for source in event_tables:
            columns = own.columns[source.table]
            column = next((each for each in ("globalTid", "globalPid") if each in columns), "")
            mine = _is_mine(owner, owners, column) if column else "TRUE"
            for batch, text_bytes in own.events(query(own, source, mine, WORDS), first_id, labels):
                first_id += batch.rows
                yield batch, text_bytes


def _names(tables: Tables, owner: int | None, owners: Sequence[int | None]) -> Iterator[bytes]:
    with closing(tables.again()) as own:
        for table, kind, key, name in (
            ("PROCESSES", "process_name", "globalPid", "name"),
            ("ThreadNames", "thread_name", "globalTid",
             "(SELECT value FROM StringIds WHERE id = nameId)"),
        ):  # fmt: skip
            if key in own.columns.get(table, {}):
                place = f"{key} >> 24 & 16777215, {key} & 16777215 * {kind == 'thread_name'}"
                rows = own.rows(
                    f"SELECT CAST({name} AS TEXT), {place} FROM {table}"
                    f" WHERE {_is_mine(owner, owners, key)} AND typeof({key}) = 'integer'"
                )
                yield from texts(
                    named(kind, text.decode("utf-8", "replace"), *numbers)
                    for text, *numbers in rows
                    if isinstance(text, bytes)
                )
