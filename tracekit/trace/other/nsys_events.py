"""The tables of an Nsight Systems report that hold events, and SQL of their parts.

Each becomes events of the categories and arguments that Kineto has for the same CUPTI records;
columns without a counterpart there keep their own names. A column is used if it is there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from tracekit.trace.other.nsys_sql import KERNEL_NAMES, EventTable, cases, string, time_parts
from tracekit.trace.other.sqlite import Tables

KERNEL, MEMCPY, MEMSET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
RUNTIME, GRAPH = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SYNC, EVENT = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
NVTX, OSRT, SCHED = "NVTX_EVENTS", "OSRT_API", "SCHED_EVENTS"
METRICS, METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
ON_DEVICE = (KERNEL, MEMCPY, MEMSET, GRAPH)
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_CATEGORIES = {
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "overhead",
    "PROFILER_OVERHEAD": "overhead",
    OSRT: "os_runtime",
    "CUDA_GRAPH_NODE_EVENTS": "cuda_graph_node",
}
# CUDA's memory kinds, directions and waits, as Kineto names them.
# https://github.com/pytorch/kineto/blob/main/libkineto/src/CuptiActivity.cpp
_PLACES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_COPIES = (
    *("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),  # unified memory
)
_WAITS = ("Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
# Types of NVTX events: ENUM_NSYS_EVENT_TYPE.
_MARK, _PUSHED, _STARTED = 34, 59, 60
# A payload begins with 32 bytes; the first number is its domain, the third its schema.
_PAYLOAD_HEAD = struct.Struct("<IIIIQQ")
# github.com/NVIDIA/NVTX, nvToolsExtPayload.h: types of entries, by struct's letters
_PAYLOAD_TYPES = dict(zip(range(1, 21), "bBhHiIqQqQbBhHiIqQfd", strict=True)) | {22: "Q", 23: "Q"}


def sources(tables: Tables, owner: int | None) -> Iterator[EventTable]:
    """The tables with events of a process, those of devices first."""
    known: dict[str, Callable[[Tables], EventTable]] = {
        KERNEL: _kernels, GRAPH: _graphs, MEMCPY: _copies, MEMSET: _fills, RUNTIME: _calls,
        NVTX: _ranges, SCHED: _absences, _MEMORY: _allocations,
    }  # fmt: skip
    for table, make in known.items():
        if table in tables.columns:
            yield make(tables)
    if SYNC in tables.columns:
        yield _waits(tables, owner)
    for table, columns in tables.columns.items():
        if table in known or table in (SYNC, EVENT) or not columns.keys() >= {"start", "end"}:
            continue
        category = f"'{_CATEGORIES.get(table, table.lower())}'"
        name = string("nameId") if "nameId" in columns else f"'{table}'"
        if "globalTid" in columns:
            yield EventTable(table, category, name, used=["nameId"])
        elif "globalPid" in columns:
            yield EventTable(table, category, name, "t.globalPid >> 24 & 16777215", "0")


def metrics(tables: Tables) -> str | None:
    """A query for the samples of the GPUs' counters, which belong to no process."""
    columns = tables.columns.get(METRICS, {})
    at = next((each for each in ("timestamp", "rawTimestamp", "start") if each in columns), None)
    if at is None or not columns.keys() >= {"metricId", "typeId", "value"}:
        return None
    name = "'metric ' || metricId"
    if tables.columns.get(METRIC_NAMES, {}).keys() >= {"metricId", "typeId", "metricName"}:
        name = (
            f"coalesce((SELECT metricName FROM {METRIC_NAMES} AS m"
            f" WHERE m.metricId = t.metricId AND m.typeId = t.typeId), {name})"
        )
    # The lowest byte of the type is the GPU's number.
    return (
        'SELECT printf(\'{"ph":"C","name":"GPU %d","pid":%d,"tid":0,"ts":%s%d.%03d,'
        f'"args":{{%s:%s}}}}\', typeId & 255, typeId & 255, {", ".join(time_parts(at))},'
        f" json_quote(CAST({name} AS TEXT)), json_quote(CAST(value AS REAL)))"
        f" FROM {METRICS} AS t WHERE {at} IS NOT NULL"
    )


# -- tables that Kineto has a counterpart of -------------------------------------------------------


def _on_device(table: str, category: str, name: str) -> EventTable:
    return EventTable(table, f"'{category}'", name, "t.deviceId", "t.streamId")


def _kernels(tables: Tables) -> EventTable:
    has = tables.columns[KERNEL].keys()
    names: list[str] = [each for each in KERNEL_NAMES if each in has]
    source = _on_device(KERNEL, "kernel", f"coalesce({', '.join(map(string, names))}, 'kernel')")
    used = names[:1]
    for shape in ("grid", "block"):
        axes = [f"{shape}{axis}" for axis in "XYZ"]
        if has >= set(axes):
            source.args[shape] = f"printf('[%d,%d,%d]', {', '.join(axes)})"
            used += axes
    if has >= {"staticSharedMemory", "dynamicSharedMemory"}:
        source.args["shared memory"] = "CAST(staticSharedMemory + dynamicSharedMemory AS INTEGER)"
    if "grid" in source.args and (counts := _sm_counts(tables)):
        source.args["blocks per SM"] = (
            f"printf('%.6g', t.gridX * t.gridY * t.gridZ / CASE t.deviceId {counts} END)"
        )
    source.used = used
    return source


def _sm_counts(tables: Tables) -> str:
    gpus = tables.columns.get("TARGET_INFO_GPU", {})
    key = "cuDevice" if "cuDevice" in gpus else "id"
    if not gpus.keys() >= {key, "smCount"}:
        return ""
    found = tables.rows(f"SELECT {key}, smCount FROM TARGET_INFO_GPU")
    return " ".join(
        f"WHEN {device} THEN {count}.0"
        for device, count in found
        if isinstance(device, int) and isinstance(count, int) and count > 0
    )


def _graphs(_: Tables) -> EventTable:
    """Launches of graphs that were recorded whole (--cuda-graph-trace=graph)."""
    return _on_device(GRAPH, "kernel", "'CUDA graph ' || ifnull(t.graphId, '')")


def _copies(tables: Tables) -> EventTable:
    has = tables.columns[MEMCPY]
    ends = [
        cases(f"t.{side}", _PLACES, 0) if side in has else "'Unknown'"
        for side in ("srcKind", "dstKind")
    ]
    name = f"'Memcpy ' || {cases('t.copyKind', _COPIES, 1)} || ' (' || {ends[0]}"
    return _on_device(MEMCPY, "gpu_memcpy", f"{name} || ' -> ' || {ends[1]} || ')'")


def _fills(tables: Tables) -> EventTable:
    place = cases("t.memKind", _PLACES, 0) if "memKind" in tables.columns[MEMSET] else "'Device'"
    return _on_device(MEMSET, "gpu_memset", f"'Memset (' || {place} || ')'")


def _waits(tables: Tables, owner: int | None) -> EventTable:
    """Waits that CUPTI records; what their event recorded is joined by the event's ids."""
    columns, device = tables.columns, "t.deviceId"
    # The record may say device 0 on every device; its context is of one.
    contexts: dict[object, object] = {}
    for table in ON_DEVICE:
        if columns.get(table, {}).keys() >= {"contextId", "deviceId", "globalPid"}:
            contexts |= dict(
                tables.rows(
                    f"SELECT DISTINCT contextId, deviceId FROM {table} WHERE "
                    + ("TRUE" if owner is None else f"globalPid >> 24 = {owner}")
                )
            )
    whens = " ".join(
        f"WHEN {context} THEN {number}"
        for context, number in contexts.items()
        if isinstance(context, int) and isinstance(number, int)
    )
    if whens:
        device = f"CASE t.contextId {whens} ELSE t.deviceId END"
    kind = cases("t.syncType", _WAITS, 1)
    source = EventTable(SYNC, "'cuda_sync'", kind, device, "t.streamId", used=["deviceId"])
    source.args["device"] = f"CAST({device} AS INTEGER)"
    keys = ("globalPid", "eventId", "eventSyncId")
    if all(columns.get(table, {}).keys() >= set(keys) for table in (SYNC, EVENT)):
        on = " AND ".join(f"r.{key} = s.{key}" for key in keys)
        source.rows = (
            f"(WITH recorded AS MATERIALIZED (SELECT {', '.join(keys)}, min(streamId) AS stream,"
            f" min(correlationId) AS correlation FROM {EVENT} GROUP BY 1, 2, 3)"
            f" SELECT s.*, r.stream AS of_stream, r.correlation AS of_call"
            f" FROM mine AS s LEFT JOIN recorded AS r ON {on})"
        )
        source.args["wait_on_stream"] = "CAST(t.of_stream AS INTEGER)"
        source.args["wait_on_cuda_event_record_corr_id"] = "CAST(t.of_call AS INTEGER)"
    return source


def _calls(_: Tables) -> EventTable:
    """Calls of the runtime and the driver, without the version that nsys adds to the former."""
    bare = "rtrim(value, '0123456789')"
    return EventTable(
        RUNTIME,
        "CASE WHEN t.api GLOB 'cuda*' THEN 'cuda_runtime' ELSE 'cuda_driver' END",
        "t.api",
        used=["nameId"],
        rows=(
            f"(WITH api AS MATERIALIZED (SELECT id, CASE WHEN value GLOB 'cuda*_v[0-9]*'"
            f" AND {bare} GLOB '*_v' THEN substr({bare}, 1, length({bare}) - 2) ELSE value END"
            f" AS api FROM StringIds WHERE id IN (SELECT nameId FROM {RUNTIME}))"
            f" SELECT c.*, api FROM mine AS c LEFT JOIN api ON id = nameId)"
        ),
    )


def _ranges(tables: Tables) -> EventTable:
    """NVTX: PyTorch's operators, other ranges, and marks.

    PyTorch writes "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]], input_op_ids = [...]":
    https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp (getNvtxStr)
    """
    has = tables.columns[NVTX].keys()
    texts = [
        *(["text"] if "text" in has else []),
        *([string("textId")] if "textId" in has else []),
    ]
    places = {
        "seq": ", seq = ",
        "op": ", op_id = ",
        "sizes": ", sizes = ",
        "inputs": ", input_op_ids = ",
    }
    found = ", ".join(f"instr(said, '{text}') AS at_{name}" for name, text in places.items())
    # LIMIT keeps SQLite from computing a column wherever it is used.
    rows = (
        f"(SELECT *, {found} FROM (SELECT *, coalesce({', '.join(texts)}, '') AS said"
        f" FROM mine AS t WHERE eventType IN ({_MARK}, {_PUSHED}, {_STARTED}) LIMIT -1) LIMIT -1)"
    )
    length = "CASE WHEN at_inputs THEN at_inputs - at_sizes - 10 ELSE length(said) END"
    sizes = f"substr(said, at_sizes + 10, {length})"
    is_operator = f"at_op > 0 AND eventType = {_PUSHED}"
    told = {
        "Sequence number": ("at_seq", "CAST(substr(said, at_seq + 8) AS INTEGER)"),
        "Input Dims": ("at_sizes", f"iif(json_valid({sizes}), {sizes}, json_quote({sizes}))"),
        "Input op ids": ("at_inputs", "json_quote(substr(said, at_inputs + 17))"),
    }
    more = ", ".join(
        f"CASE WHEN {place} THEN ',\"{key}\":' || {value} END"
        for key, (place, value) in told.items()
    )
    source = EventTable(
        NVTX,
        f"CASE WHEN {is_operator} THEN 'cpu_op' ELSE 'user_annotation' END",
        f"CASE WHEN {is_operator} THEN substr(said, 1, ifnull(nullif(at_seq, 0), at_op) - 1)"
        " ELSE said END",
        phase=f"CASE WHEN eventType = {_MARK} THEN 'i' WHEN t.end IS NULL THEN 'B' ELSE 'X' END",
        used=["text", "textId", "eventType", "binaryData"],
        rows=rows,
        members=(
            f"CASE WHEN {is_operator} THEN"
            f" printf(',\"Record function id\":%d%s%s%s', substr(said, at_op + 10), {more})"
            " ELSE '' END"
        ),
    )
    if "binaryData" in has and tables.columns.get("NVTX_PAYLOAD_SCHEMA_ENTRIES"):
        tables.define("nvtx_payload", _payloads(tables))
        payload = "CASE WHEN t.binaryData IS NOT NULL THEN nvtx_payload(t.binaryData) END"
        source.members += f" || ifnull({payload}, '')"
    return source


def _payloads(tables: Tables) -> Callable[[object], str | None]:
    """A function from a payload to its entries as members of a JSON object."""
    entries: dict[tuple[object, object], list[tuple[str, str, int]]] = {}
    for domain, schema, kind, name, offset in tables.rows(
        "SELECT DISTINCT domainId, schemaId, type, json_quote(CAST(name AS TEXT)),"
        " ifnull(offset, 0)"
        " FROM NVTX_PAYLOAD_SCHEMA_ENTRIES WHERE name IS NOT NULL ORDER BY 1, 2, idx"
    ):
        if kind in _PAYLOAD_TYPES and isinstance(offset, int) and offset >= 0:
            at = _PAYLOAD_HEAD.size + offset
            key = name.decode("utf-8", "replace")
            entries.setdefault((domain, schema), []).append((key, f"<{_PAYLOAD_TYPES[kind]}", at))

    def members(payload: object) -> str | None:
        try:
            data = bytes.fromhex(payload) if isinstance(payload, str) else payload
            if not isinstance(data, bytes):
                return None
            domain, _, schema, *_ = _PAYLOAD_HEAD.unpack_from(data)
            return "".join(
                f",{key}:{struct.unpack_from(letter, data, at)[0]}"
                for key, letter, at in entries.get((domain, schema), ())
            )
        except (ValueError, struct.error):
            return None

    return members


def _absences(_: Tables) -> EventTable:
    """Where a thread did not run on any CPU."""
    return EventTable(
        SCHED, "'thread_state'", "'off CPU'", end="t.back", used=["isSchedIn", "id"],
        where="isSchedIn = 0 AND t.back IS NOT NULL",
        rows=(
            "(SELECT *, lead(start) OVER (PARTITION BY globalTid ORDER BY start) AS back"
            " FROM mine)"
        ),
    )  # fmt: skip


def _allocations(tables: Tables) -> EventTable:
    """Device memory that was taken and given back, as Kineto's records of its allocator."""
    has = tables.columns[_MEMORY]
    signed = "CASE WHEN memoryOperationType = 1 THEN -bytes ELSE bytes END"
    place = "t.deviceId" if "deviceId" in has else "0"
    by = ", ".join(each for each in ("globalPid", "deviceId", "memKind") if each in has)
    return EventTable(
        _MEMORY, "'cpu_instant_event'", "'[memory]'", "t.globalPid >> 24 & 16777215", "0", "'i'",
        args={
            "Device Type": "1",
            "Device Id": f"CAST({place} AS INTEGER)",
            "Addr": "CAST(t.virtualAddress AS INTEGER)",
            "Bytes": f"CAST({signed} AS INTEGER)",
            "Total Allocated": "CAST(t.held AS INTEGER)",
        },
        used=["virtualAddress", "bytes", "deviceId"],
        rows=(
            f"(SELECT *, sum({signed}) OVER (PARTITION BY {by} ORDER BY start"
            " ROWS UNBOUNDED PRECEDING) AS held FROM mine)"
        ),
    )  # fmt: skip
