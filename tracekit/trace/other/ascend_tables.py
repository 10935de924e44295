"""The tables of events in a database of torch_npu or msprof, and the SQL that converts them.

www.hiascend.com (Data in ascend_pytorch_profiler_{Rank_ID}.db, Description of .db Data Exported by
msprof); github.com/Ascend/msprof: docs/en/user_guide/profile_data_file_references_db.md;
github.com/Ascend/pytorch: torch_npu/profiler/analysis/prof_view/prof_db_parse. Versions differ, so
missing tables and columns are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tracekit.native.rows import Role, RoleKind
from tracekit.trace.other import ascend
from tracekit.trace.other.event_tables import EventTable, TableWords, cases, string
from tracekit.trace.other.sqlite import Tables

STRINGS, STEPS = "STRING_IDS", "STEP_TIME"
API, CALLS, RANGES, SYSTEM = "PYTORCH_API", "CANN_API", "MSTX_EVENTS", "OSRT_API"
TASKS, COLLECTIVES = "TASK", "COMMUNICATION_OP"
_KERNELS, _COPIES = "COMPUTE_TASK_INFO", "MEMCPY_INFO"
_PARTS, _SCHEDULED = "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"
# Tables whose rows the events of other tables have in them, or that only repeat them.
RESOLVED = {
    *(STRINGS, STEPS, "CONNECTION_IDS", "OVERLAP_ANALYSIS"),
    *(_KERNELS, _COPIES, _PARTS, _SCHEDULED),
}

_STRINGS_ONCE = f"(SELECT id, min(value) AS value FROM {STRINGS} GROUP BY 1)"
_TIMES = {"startNs", "endNs"}
_TEXTS = (
    *("name", "opName", "message", "taskType", "opType", "groupName", "algType"),
    *("inputDtypes", "inputShapes", "op_name", "op_type", "op_shapes", "op_dtypes"),
    *("schedule_name", "part_name"),
)
_PID, _TID = "t.globalTid >> 32", "t.globalTid & 4294967295"
_START, _END = "CAST(t.startNs AS INTEGER)", "CAST(t.endNs AS INTEGER)"
# A task without a call has one of these numbers instead of it.
_CONNECTION = "nullif(nullif(t.connectionId, -1), 4294967295)"
# ENUM_API_TYPE: kinds of framework's records and levels of CANN's calls, which a timeline's names
# begin with.
_API_KINDS = {50002: "enqueue", 50003: "python_function", 50004: "user_annotation"}
_LEVELS = {20000: "AscendCL", 15000: "Model", 10000: "Node", 5500: "Communication", 5000: "Runtime"}
# ENUM_MSTX_EVENT_TYPE: those that have a length.
_PUSHED, _STARTED = 1, 2
# ENUM_MEMCPY_OPERATION and ENUM_HCCL_DATA_TYPE, by number, as Kineto and c10 name them.
_DIRECTIONS = {0: "HtoH", 1: "HtoD", 2: "DtoH", 3: "DtoD", 5: "DtoD", 6: "HtoD", 7: "DtoH"}
_DTYPES = (
    *("Char", "Short", "Int", "Half", "Float", "Long", "UInt64", "Byte", "UInt16", "UInt32"),
    *("Double", "BFloat16"),
)
# What other tables tell of a task: the names of their columns here.
_OF_TASKS = {
    "k": (_KERNELS, {"op_name": "name", "op_type": "opType", "op_shapes": "inputShapes",
                     "op_dtypes": "inputDataTypes", "blocks": "blockNum", "cores": "blockDim"}),
    "p": (_PARTS, {"part_name": "name"}),
    "s": (_SCHEDULED, {"schedule_name": "name"}),
    "c": (_COPIES, {"copy_bytes": "size", "copy_operation": "memcpyOperation"}),
}  # fmt: skip
_NAMES = ("op_name", "schedule_name", "part_name")
_ABOUT_TASK = {
    "Op Type": ("op_type", string("op_type")),
    "Input Shapes": ("op_shapes", string("op_shapes")),
    "Input Data Types": ("op_dtypes", string("op_dtypes")),
    "Block Num": ("blocks", "t.blocks"),
    "Block Dim": ("cores", "t.cores"),
    "bytes": ("copy_bytes", "t.copy_bytes"),
}
# Collectives of which each rank sends as many elements as it receives.
_EVEN = ("hcom_allReduce_", "hcom_broadcast_", "hcom_reduce_", "hcom_send_", "hcom_receive_")


def words(tables: Tables) -> TableWords:
    """How these tables spell what they say."""
    has_key = tables.keys[STRINGS] == {"id"}
    return TableWords(
        # Without a key, a number may have several texts.
        strings=STRINGS if has_key else _STRINGS_ONCE,
        texts=_TEXTS,
        renamed={"deviceId": "device", "streamId": "stream", "taskType": "Task Type",
                 "opType": "Op Type", "taskId": "Task Id", "algType": "algorithm"},
        own=frozenset((*_TIMES, "globalTid", "globalPid", "connectionId", "depth")),
    )  # fmt: skip


def is_read(table: str, columns: Mapping[str, str]) -> bool:
    """Whether the table's rows become events."""
    if table in (TASKS, COLLECTIVES):
        return columns.keys() >= _TIMES
    return table in (API, CALLS, RANGES, SYSTEM) and columns.keys() >= {*_TIMES, "globalTid"}


def sources(tables: Tables) -> Iterator[EventTable]:
    """The tables with events, device tables first."""
    makers = {TASKS: _tasks, COLLECTIVES: _collectives, API: _operators, CALLS: _calls,
              RANGES: _ranges, SYSTEM: _system_calls}  # fmt: skip
    for table, make in makers.items():
        if table in tables.columns and is_read(table, tables.columns[table]):
            source = make(tables)
            source.start, source.end = _START, _END
            source.where = f"({source.where}) AND {_START} > 0"
            yield source
    if _needs_steps(tables):
        yield EventTable(
            STEPS, "'user_annotation'", "'ProfilerStep#' || t.id", str(process_of(tables) or 0),
            start=_START, end=_END, used=["id"], where=f"{_START} > 0",
        )  # fmt: skip


def process_of(tables: Tables) -> int | None:
    """The process of the first record of the host."""
    for table in (API, CALLS):
        if "globalTid" in tables.columns.get(table, {}):
            found = tables.rows(
                f"SELECT globalTid >> 32 FROM {table} WHERE typeof(globalTid) = 'integer' LIMIT 1"
            )
            if found:
                return int(found[0][0])
    return None


def _needs_steps(tables: Tables) -> bool:
    """Steps are operators, too, where these were recorded."""
    if not tables.columns.get(STEPS, {}).keys() >= {"id", *_TIMES}:
        return False
    marks = f"SELECT 1 FROM {STRINGS} WHERE value GLOB 'ProfilerStep#*' LIMIT 1"
    return API not in tables.columns or not tables.count(API, 1) or not tables.rows(marks)


# -- the host --------------------------------------------------------------------------------------


def _operators(tables: Tables) -> EventTable:
    """Operators, Python's functions, and the queue between the threads that call operators and
    those that launch tasks."""
    has = tables.columns[API].keys()
    kinds = " ".join(f"WHEN {number} THEN '{kind}'" for number, kind in _API_KINDS.items())
    by_type = f"CASE t.type {kinds} ELSE 'cpu_op' END" if "type" in has else "'cpu_op'"
    name = _text(has, "name")
    source = EventTable(
        API,
        f"CASE WHEN {name} GLOB 'Dequeue@*' THEN 'dequeue' WHEN {name} GLOB 'Enqueue@*'"
        f" THEN 'enqueue' ELSE {by_type} END",
        name, _PID, _TID,
        used=["name", "type", "sequenceNumber", "fwdThreadId", "inputShapes", "inputDtypes"],
    )  # fmt: skip
    if "sequenceNumber" in has:
        source.args["Sequence number"] = "nullif(t.sequenceNumber, -1)"
    if "fwdThreadId" in has:
        source.args["Fwd thread id"] = "t.fwdThreadId"
    for column, function, members in (
        ("inputShapes", "input_dims", ascend.dims_member),
        ("inputDtypes", "input_types", ascend.types_member),
    ):
        if column in has:
            tables.define(function, members)
            source.more.append((f"{function}({string(column)})", Role(RoleKind.VERBATIM)))
    return source


def _calls(tables: Tables) -> EventTable:
    has = tables.columns[CALLS].keys()
    name = _text(has, "name")
    levels = " ".join(f"WHEN {number} THEN '{level}@'" for number, level in _LEVELS.items())
    level = f"CASE t.type {levels} ELSE '' END" if "type" in has else "''"
    source = EventTable(
        CALLS, "'npu_runtime'",
        f"CASE WHEN instr({name}, '@') THEN {name} ELSE {level} || {name} END",
        _PID, _TID, used=["name", "type"],
    )  # fmt: skip
    if "connectionId" in has:
        source.args["correlation"] = _CONNECTION
    return source


def _ranges(tables: Tables) -> EventTable:
    has = tables.columns[RANGES].keys()
    kinds = f"t.eventType IN ({_PUSHED}, {_STARTED})" if "eventType" in has else "TRUE"
    return EventTable(
        RANGES, "'user_annotation'", _text(has, "message"), _PID, _TID,
        phase=f"CASE WHEN {kinds} THEN 'X' ELSE 'i' END", used=["message", "eventType"],
    )  # fmt: skip


def _system_calls(tables: Tables) -> EventTable:
    name = _text(tables.columns[SYSTEM].keys(), "name")
    return EventTable(SYSTEM, "'os_runtime'", name, _PID, _TID, used=["name"])


# -- the device ------------------------------------------------------------------------------------


def _tasks(tables: Tables) -> EventTable:
    """Tasks of a device: operators, copies, and those that order streams. The tasks of a collective
    are parts of it, and no work of their own."""
    tables.define("task_category", ascend.category_of)
    has = tables.columns[TASKS].keys()
    found, joins = _about_tasks(tables) if "globalTaskId" in has else ({}, [])
    is_part = "p.globalTaskId IS NOT NULL" if "part_name" in found else "FALSE"
    source = EventTable(TASKS, "", used=["contextId", "globalTaskId", "modelId"])
    source.args = {name: sql for name, (column, sql) in _ABOUT_TASK.items() if column in found}
    if "connectionId" in has:
        source.args["correlation"] = _CONNECTION
        if "connectionId" in tables.columns.get(COLLECTIVES, {}):
            joins.append(
                f"LEFT JOIN (SELECT DISTINCT connectionId FROM {COLLECTIVES}"
                " WHERE connectionId >= 0) AS o ON o.connectionId = m.connectionId"
            )
            kernel = "k.globalTaskId IS NULL" if "op_name" in found else "TRUE"
            is_part = f"{is_part} OR o.connectionId IS NOT NULL AND {kernel}"
    task = _text(has, "taskType")
    source.category = f"CASE WHEN t.is_part THEN 'npu_task' ELSE task_category({task}) END"
    names = [string(each) for each in _NAMES if each in found]
    if "copy_operation" in found:
        ways = " ".join(f"WHEN {number} THEN '{way}'" for number, way in _DIRECTIONS.items())
        names.insert(0, f"'Memcpy ' || CASE t.copy_operation {ways} END")
    source.name = "coalesce(" + ", ".join([*names, task, "''"]) + ")"
    columns = ", ".join(["m.*", *found.values(), f"{is_part} AS is_part"])
    source.rows = f"(SELECT {columns} FROM mine AS m {' '.join(joins)})"
    return source


def _about_tasks(tables: Tables) -> tuple[dict[str, str], list[str]]:
    """The columns of other tables that tell of tasks, by their names here, and the joins with these
    tables."""
    found: dict[str, str] = {}
    joins = []
    for alias, (table, shown) in _OF_TASKS.items():
        has = tables.columns.get(table, {}).keys()
        here = {name: own for name, own in shown.items() if own in has}
        if "globalTaskId" in has and here:
            found |= {name: f"{alias}.{name}" for name in here}
            selected = ", ".join(f"{own} AS {name}" for name, own in here.items())
            # One row for each task, whatever the file says.
            joins.append(
                f"LEFT JOIN (SELECT globalTaskId, {selected} FROM {table} GROUP BY 1) AS {alias}"
                f" ON {alias}.globalTaskId = m.globalTaskId"
            )
    return found, joins


def _collectives(tables: Tables) -> EventTable:
    """Collectives, on the stream of their main task."""
    has = tables.columns[COLLECTIVES].keys()
    source = EventTable(
        COLLECTIVES, "'npu_kernel'", _text(has, "opName"),
        used=["opName", "opType", "groupName", "dataType", "count", "deviceId", "opId"],
    )  # fmt: skip
    kind = _text(has, "opType")
    source.args["Collective name"] = kind if "opType" in has else _text(has, "opName")
    source.args["Process Group Name"] = _text(has, "groupName")
    if "dataType" in has:
        source.args["dtype"] = f"nullif({cases('t.dataType', _DTYPES, 0)}, 'Unknown')"
    if {"count", "opType"} <= has:
        even = ", ".join(f"'{each}'" for each in _EVEN)
        source.args["In msg nelems"] = f"CASE WHEN {kind} IN ({even}) THEN t.count END"
    device = "t.deviceId" if "deviceId" in has else "NULL"
    placed = tables.columns.get(TASKS, {}).keys() >= {"connectionId", "deviceId", "streamId"}
    if "connectionId" in has:
        source.args["correlation"] = _CONNECTION
        if placed:
            source.rows = (
                "(SELECT m.*, p.task_device, p.task_stream FROM mine AS m"
                f" LEFT JOIN ({_places(tables)}) AS p ON p.connectionId = m.connectionId)"
            )
            source.args["stream"] = "t.task_stream"
            device = f"coalesce(nullif({device}, -1), t.task_device)"
    source.args["device"] = f"coalesce({device}, 0)"
    return source


def _places(tables: Tables) -> str:
    """The device and stream of each call's tasks; of a collective's tasks, the main one counts."""
    joined, main = "", "0"
    knows_main = tables.columns.get(_PARTS, {}).keys() >= {"globalTaskId", "isMaster"}
    if knows_main and "globalTaskId" in tables.columns[TASKS]:
        joined = (
            f" LEFT JOIN (SELECT globalTaskId, max(isMaster) AS is_main FROM {_PARTS} GROUP BY 1)"
            " AS i ON i.globalTaskId = k.globalTaskId"
        )
        main = "ifnull(i.is_main, -1)"
    # SQLite takes the other columns of the row with the maximum: sqlite.org/lang_select.html
    return (
        "SELECT k.connectionId, k.deviceId AS task_device, k.streamId AS task_stream,"
        f" max({main}) FROM {TASKS} AS k{joined} WHERE k.connectionId >= 0 GROUP BY 1"
    )


def _text(has: Collection[str], column: str) -> str:
    """The text of a column, empty without it."""
    return f"ifnull({string(column)}, '')" if column in has else "''"
