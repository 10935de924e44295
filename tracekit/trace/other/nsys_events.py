"""The tables of events in an Nsight Systems report, and the SQL that converts them.

Events get the categories and arguments that Kineto gives to the same CUPTI records; columns without
a counterpart in Kineto keep their names. Missing columns are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from tracekit.native.rows import Role, RoleKind
from tracekit.trace.other.event_tables import EventTable, TableWords, array, cases, string
from tracekit.trace.other.sqlite import Tables

KERNEL, MEMCPY, MEMSET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
RUNTIME, GRAPH = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SYNC, EVENT = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
HOST_FUNCTIONS = "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH"
NVTX, OSRT, SCHED = "NVTX_EVENTS", "OSRT_API", "SCHED_EVENTS"
METRICS, METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
ON_DEVICE = (KERNEL, MEMCPY, MEMSET, GRAPH, HOST_FUNCTIONS)
KERNEL_NAMES = ("demangledName", "shortName", "mangledName")
WORDS = TableWords(
    strings="StringIds",
    texts=("nameId", "textId", "jsonTextId", *KERNEL_NAMES),
    renamed={
        "deviceId": "device", "contextId": "context", "streamId": "stream",
        "correlationId": "correlation", "registersPerThread": "registers per thread",
        "graphId": "graph id", "graphNodeId": "graph node id",
        "originalGraphNodeId": "original graph node id",
    },
    own=frozenset(("start", "end", "globalTid", "globalPid")),
)  # fmt: skip
_PID = "t.globalPid >> 24 & 16777215"
_CALLBACKS = "CUDA_HOST_CALLBACK"
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
# A payload starts with 32 bytes: the first number is its domain, the third its schema.
_PAYLOAD_HEAD = struct.Struct("<IIIIQQ")
# github.com/NVIDIA/NVTX, nvToolsExtPayload.h: types of entries, by struct's letters
_PAYLOAD_TYPES = dict(zip(range(1, 21), "bBhHiIqQqQbBhHiIqQfd", strict=True)) | {22: "Q", 23: "Q"}


def sources(tables: Tables, owner: int | None) -> Iterator[EventTable]:
    """The tables with a process's events, device tables first."""
    converters: dict[str, EventTable | Callable[[Tables], EventTable]] = {
        KERNEL: _kernels, GRAPH: _GRAPHS, MEMCPY: _copies, MEMSET: _fills,
        HOST_FUNCTIONS: _host_functions, RUNTIME: _CALLS, NVTX: _ranges, SCHED: _ABSENCES,
        _MEMORY: _allocations,
    }  # fmt: skip
    for table, found in converters.items():
        if table in tables.columns:
            yield found if isinstance(found, EventTable) else found(tables)
    if SYNC in tables.columns:
        yield _waits(tables, owner)
    for table, columns in tables.columns.items():
        if table in converters or table in (SYNC, EVENT) or not columns.keys() >= {"start", "end"}:
            continue
        category = f"'{_CATEGORIES.get(table, table.lower())}'"
        name = string("nameId") if "nameId" in columns else f"'{table}'"
        if "globalTid" in columns:
            yield EventTable(table, category, name, used=["nameId"])
        elif "globalPid" in columns:
            yield EventTable(table, category, name, _PID, "0")


def metrics(tables: Tables) -> Iterator[EventTable]:
    """Samples of GPU counters, which do not belong to a process."""
    columns = tables.columns.get(METRICS, {})
    at = next((each for each in ("timestamp", "rawTimestamp", "start") if each in columns), None)
    if at is None or not columns.keys() >= {"metricId", "typeId", "value"}:
        return
    name = "'metric ' || t.metricId"
    if tables.columns.get(METRIC_NAMES, {}).keys() >= {"metricId", "typeId", "metricName"}:
        name = (
            f"coalesce((SELECT metricName FROM {METRIC_NAMES} AS m"
            f" WHERE m.metricId = t.metricId AND m.typeId = t.typeId), {name})"
        )
    sample = f"json_quote(CAST({name} AS TEXT)) || ':' || json_quote(CAST(t.value AS REAL))"
    # The lowest byte of the type is the GPU's number.
    gpu = "(t.typeId & 255)"
    yield EventTable(
        METRICS, "", f"'GPU ' || {gpu}", gpu, "0", "'C'", f"t.{at}", "NULL", used=list(columns),
        more=[(sample, Role(RoleKind.VERBATIM))],
    )  # fmt: skip


# -- tables with a counterpart in Kineto -------------------------------------------------------


# Launches of graphs recorded as a whole (--cuda-graph-trace=graph).
_GRAPHS = EventTable(GRAPH, "'kernel'", "'CUDA graph ' || ifnull(t.graphId, '')")
# Runtime and driver calls, without the version suffix that nsys adds to runtime calls.
_CALLS = EventTable(RUNTIME, "", used=["nameId"], more=[(string("nameId"), Role(RoleKind.CALL))])
# Times when a thread did not run on any CPU.
_ABSENCES = EventTable(
    SCHED, "'thread_state'", "'off CPU'", end="t.back", used=["isSchedIn", "id"],
    where="isSchedIn = 0 AND t.back IS NOT NULL",
    rows="(SELECT *, lead(start) OVER (PARTITION BY globalTid ORDER BY start) AS back FROM mine)",
)  # fmt: skip


def _kernels(tables: Tables) -> EventTable:
    has = tables.columns[KERNEL].keys()
    names: list[str] = [name for name in KERNEL_NAMES if name in has]
    source = EventTable(KERNEL, "'kernel'", f"coalesce({', '.join(map(string, names))}, 'kernel')")
    used = names[:1]
    for shape in ("grid", "block"):
        axes = [f"{shape}{axis}" for axis in "XYZ"]
        if has >= set(axes):
            source.more += array(shape, [f"t.{axis}" for axis in axes])
            used += axes
    if has >= {"staticSharedMemory", "dynamicSharedMemory"}:
        source.args["shared memory"] = "t.staticSharedMemory + t.dynamicSharedMemory"
    if "gridX" in used and (counts := _sm_counts(tables)):
        blocks = "t.gridX * t.gridY * t.gridZ"
        source.args["blocks per SM"] = f"{blocks} / CASE t.deviceId {counts} END"
    source.used = used
    return source


def _sm_counts(tables: Tables) -> str:
    gpus = tables.columns.get("TARGET_INFO_GPU", {})
    key = "cuDevice" if "cuDevice" in gpus else "id"
    if not gpus.keys() >= {key, "smCount"}:
        return ""
    counts = tables.rows(f"SELECT {key}, smCount FROM TARGET_INFO_GPU")
    return " ".join(
        f"WHEN {device} THEN {count}.0"
        for device, count in counts
        if isinstance(device, int) and isinstance(count, int) and count > 0
    )


def _copies(tables: Tables) -> EventTable:
    has = tables.columns[MEMCPY]
    ends = [
        cases(f"t.{side}", _PLACES, 0) if side in has else "'Unknown'"
        for side in ("srcKind", "dstKind")
    ]
    name = f"'Memcpy ' || {cases('t.copyKind', _COPIES, 1)} || ' (' || {ends[0]}"
    return EventTable(MEMCPY, "'gpu_memcpy'", f"{name} || ' -> ' || {ends[1]} || ')'")


def _fills(tables: Tables) -> EventTable:
    place = cases("t.memKind", _PLACES, 0) if "memKind" in tables.columns[MEMSET] else "'Device'"
    return EventTable(MEMSET, "'gpu_memset'", f"'Memset (' || {place} || ')'")


def _host_functions(tables: Tables) -> EventTable:
    """Functions of the host that a stream runs, in a graph or by cudaLaunchHostFunc. The name is
    that of their calls on the host, if one name is all that the launch called.

    https://docs.nvidia.com/nsight-systems/UserGuide (SQLite schema: this table, and
    CUDA_HOST_CALLBACK)
    """
    source = EventTable(HOST_FUNCTIONS, "'graph_host_node'", "'HostNode'")
    has = tables.columns[HOST_FUNCTIONS].keys()
    called = tables.columns.get(_CALLBACKS, {}).keys()
    keys = {"correlationId", "globalPid"} <= has
    if keys and called >= {"correlationId", "globalTid", "nameId"}:
        source.name = f"'HostNode' || ifnull(': ' || {string('nameId')}, '')"
        source.rows = (
            "(SELECT m.*, c.nameId FROM mine AS m LEFT JOIN (SELECT globalTid >> 24 AS owner,"
            f" correlationId, min(nameId) AS nameId FROM {_CALLBACKS} GROUP BY 1, 2"
            " HAVING min(nameId) = max(nameId)) AS c"
            " ON c.owner = m.globalPid >> 24 AND c.correlationId = m.correlationId)"
        )
    return source


def _waits(tables: Tables, owner: int | None) -> EventTable:
    """Waits that CUPTI records, joined with the record of their event by its ids."""
    columns, device = tables.columns, "t.deviceId"
    # The record may say device 0 for every device, but its context belongs to one.
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
    source = EventTable(SYNC, "'cuda_sync'", kind, used=["deviceId"])
    source.args["device"] = device
    keys = ("globalPid", "eventId", "eventSyncId")
    if all(columns.get(table, {}).keys() >= set(keys) for table in (SYNC, EVENT)):
        on = " AND ".join(f"r.{key} = s.{key}" for key in keys)
        source.rows = (
            f"(WITH recorded AS MATERIALIZED (SELECT {', '.join(keys)}, min(streamId) AS stream,"
            f" min(correlationId) AS correlation FROM {EVENT} GROUP BY 1, 2, 3)"
            f" SELECT s.*, r.stream AS of_stream, r.correlation AS of_call"
            f" FROM mine AS s LEFT JOIN recorded AS r ON {on})"
        )
        source.args["wait_on_stream"] = "t.of_stream"
        source.args["wait_on_cuda_event_record_corr_id"] = "t.of_call"
    return source


def _ranges(tables: Tables) -> EventTable:
    """NVTX: PyTorch's operators, other ranges, and marks.

    PyTorch writes "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]], input_op_ids = [...]":
    https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp (getNvtxStr)
    """
    has = tables.columns[NVTX].keys()
    texts = {"text": "t.text", "textId": string("textId")}
    said = f"coalesce({', '.join(texts[text] for text in texts if text in has)}, '', '')"
    ended = "t.end IS NOT NULL" if "end" in has else "FALSE"
    source = EventTable(
        NVTX, "'user_annotation'", said,
        phase=f"CASE WHEN t.eventType = {_MARK} THEN 'i' WHEN {ended} THEN 'X' ELSE 'B' END",
        where=" OR ".join(f"t.eventType = {kind}" for kind in (_PUSHED, _STARTED, _MARK)),
        used=["text", "textId", "eventType", "binaryData"],
        more=[(f"CASE t.eventType WHEN {_PUSHED} THEN {said} END", Role(RoleKind.OPERATOR))],
    )  # fmt: skip
    if "binaryData" in has and tables.columns.get("NVTX_PAYLOAD_SCHEMA_ENTRIES"):
        tables.define("nvtx_payload", _payloads(tables))
        payload = "CASE WHEN t.binaryData IS NOT NULL THEN nvtx_payload(t.binaryData) END"
        source.more.append((payload, Role(RoleKind.VERBATIM)))
    return source


def _payloads(tables: Tables) -> Callable[[object], str | None]:
    """A function that converts a payload to members of a JSON object."""
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
            return ",".join(
                f"{key}:{struct.unpack_from(letter, data, at)[0]}"
                for key, letter, at in entries.get((domain, schema), ())
            )
        except (ValueError, struct.error):
            return None

    return members


def _allocations(tables: Tables) -> EventTable:
    """Allocated and freed device memory, in the form of Kineto's allocator records."""
    has = tables.columns[_MEMORY]
    signed = "CASE WHEN memoryOperationType = 1 THEN -bytes ELSE bytes END"
    place = "t.deviceId" if "deviceId" in has else "0"
    by = ", ".join(each for each in ("globalPid", "deviceId", "memKind") if each in has)
    return EventTable(
        _MEMORY, "'cpu_instant_event'", "'[memory]'", _PID, "0", "'i'",
        args={
            "Device Type": "1",
            "Device Id": place,
            "Addr": "t.virtualAddress",
            "Bytes": signed,
            "Total Allocated": "t.held",
        },
        used=["virtualAddress", "bytes", "deviceId"],
        rows=(
            f"(SELECT *, sum({signed}) OVER (PARTITION BY {by} ORDER BY start"
            " ROWS UNBOUNDED PRECEDING) AS held FROM mine)"
        ),
    )  # fmt: skip
