"""A database as torch_npu and msprof write it, made row by row.

The tables are those of www.hiascend.com (Data in ascend_pytorch_profiler_{Rank_ID}.db).
"""

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

PID, THREAD, QUEUE = 50, 51, 52
# A time since 1970.
BEGIN = 1_715_330_000_000_000_000
COLUMNS = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "ENUM_API_TYPE": "id INTEGER, name TEXT",
    "PYTORCH_API": "startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name"
    " INTEGER, sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes"
    " INTEGER, callchainId INTEGER, type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId"
    " INTEGER, name INTEGER",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId"
    " INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId"
    " INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockNum INTEGER,"
    " mixBlockNum INTEGER, taskType INTEGER, opType INTEGER, inputShapes INTEGER, inputDataTypes"
    " INTEGER",
    "COMMUNICATION_TASK_INFO": "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId"
    " INTEGER, groupName INTEGER, size INTEGER, opId INTEGER, isMaster INTEGER",
    "COMMUNICATION_OP": "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER,"
    " groupName INTEGER, opId INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType"
    " INTEGER, deviceId INTEGER",
    "MEMCPY_INFO": "globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC",
    "MSTX_EVENTS": "startNs INTEGER, endNs INTEGER, eventType INTEGER, message INTEGER, globalTid"
    " INTEGER, connectionId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "META_DATA": "name TEXT, value TEXT",
}


class _Texts(dict[str, int]):
    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def ascend(path: Path, *statements: str) -> Path:
    """An operator that launches two kernels, a copy, and a collective of two tasks, in a step; the
    statements change them."""
    of = _Texts()
    thread, queue = PID << 32 | THREAD, PID << 32 | QUEUE

    def api(start, end, name, kind=50001, tid=thread, **more):
        return [BEGIN + start, BEGIN + end, tid, more.get("link"), of[name], more.get("seq", -1), 0,
                more.get("types"), more.get("dims"), None, kind]  # fmt: skip

    def call(start, end, kind, link, name):
        return [BEGIN + start, BEGIN + end, kind, thread, link, of[name]]

    def task(start, end, link, number, kind, stream):
        return [BEGIN + start, BEGIN + end, 0, link, number, PID, of[kind], 4294967295, stream,
                number, 4294967295]  # fmt: skip

    rows: dict[str, list[list]] = {
        "ENUM_API_TYPE": [[20000, "acl"], [10000, "node"], [50001, "op"]],
        "PYTORCH_API": [
            api(0, 100_000, "ProfilerStep#3"),
            api(1_001, 20_000, "aten::mm", link=1, seq=7, dims=of["4,8;\r\n8,16;\r\n"],
                types=of["float;\r\nfloat;\r\nScalar"]),
            api(500, 90_000, "train.py(7): step", 50003),
            api(2_000, 3_000, "Enqueue@MatMul", 50002, link=2),
            api(3_500, 12_000, "Dequeue@MatMul", 50002, queue, link=2),
        ],
        "CONNECTION_IDS": [[1, 11], [2, 77]],
        "STEP_TIME": [[3, BEGIN, BEGIN + 100_000]],
        "CANN_API": [
            call(4_000, 10_000, 20000, 10, "aclnnMatmul"),
            call(5_000, 9_000, 10000, 11, "launch"),
            call(21_000, 22_000, 20000, 12, "aclrtMemcpyAsync"),
            call(23_000, 24_000, 10000, 13, "launch"),
            call(25_000, 95_000, 20000, 14, "aclrtSynchronizeStream"),
        ],
        "TASK": [
            task(30_001, 70_500, 11, 1, "AI_CORE", 2),
            task(70_500, 71_000, 11, 2, "AI_VECTOR_CORE", 2),
            task(71_000, 72_000, -1, 3, "EVENT_WAIT", 2),
            task(40_000, 44_000, 12, 4, "MEMCPY_ASYNC", 3),
            task(80_500, 89_000, 13, 5, "SDMA", 9),
            task(80_000, 80_500, 13, 6, "NOTIFY_WAIT", 4),
        ],
        "COMPUTE_TASK_INFO": [
            [of["MatMulV2"], 1, 20, 0, of["AI_CORE"], of["MatMul"], of["4,8;8,16"],
             of["FLOAT;FLOAT"]],
            [of["Add"], 2, 8, 0, of["AI_VECTOR_CORE"], of["Add"], of["4,16"], of["FLOAT"]],
        ],
        "COMMUNICATION_TASK_INFO": [
            [of["Memcpy"], 5, of["SDMA"], 0, of["g"], 2048, 1, 1],
            [of["Notify_Wait"], 6, of["NOTIFY_WAIT"], 0, of["g"], 0, 1, 0],
        ],
        "COMMUNICATION_OP": [
            [of["hcom_allReduce__428_0_1"], BEGIN + 80_000, BEGIN + 90_000, 13, of["g"], 1, 3,
             of["MESH"], 1024, of["hcom_allReduce_"], 0],
        ],
        "MEMCPY_INFO": [[4, 4096, 1]],
        "MSTX_EVENTS": [[BEGIN + 600, BEGIN + 80_000, 1, of["forward"], thread, 0],
                        [BEGIN + 700, BEGIN + 700, 0, of["mark"], thread, 0]],
        "AICORE_FREQ": [[0, BEGIN, 1800]],
        "NPU_INFO": [[0, "Ascend910B3"]],
        "HOST_INFO": [["1", "h"]],
        "RANK_DEVICE_MAP": [[3, 0]],
        "META_DATA": [["SCHEMA_VERSION", "1.0.2"]],
    }  # fmt: skip
    return _written(path, rows, of, statements)


def of_timeline(path: Path, events: list[dict]) -> Path:
    """A timeline's operators, calls and tasks, in a database."""
    of = _Texts()
    rows: dict[str, list[list]] = {}
    lanes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    for number, event in enumerate(events):
        if event["ph"] != "X":
            continue
        start = int(Decimal(event["ts"]) * 1000)
        times = [start, start + int(Decimal(str(event["dur"])) * 1000)]
        name, args = event["name"], event["args"]
        thread = PID << 32 | event["tid"]
        lane, link = lanes[event["pid"]], args.get("connection_id")
        if lane == "Python":
            rows.setdefault("PYTORCH_API", []).append(
                [*times, thread, None, of[name], -1, 0, None, None, None, 50001]
            )
        elif lane == "CANN":
            assert name.startswith("AscendCL@")
            call = of[name.removeprefix("AscendCL@")]
            rows.setdefault("CANN_API", []).append([*times, 20000, thread, link, call])
        else:
            kind = of[args["Task Type"]]
            rows.setdefault("TASK", []).append(
                [*times, 0, link, number, PID, kind, 0, event["tid"], number, 0]
            )
            rows.setdefault("COMPUTE_TASK_INFO", []).append(
                [of[name], number, 1, 0, kind, kind, None, None]
            )
    return _written(path, rows, of)


def _written(
    path: Path, rows: dict[str, list[list]], of: _Texts, statements: Sequence[str] = ()
) -> Path:
    texts = [[number, text] for text, number in of.items()]
    with sqlite3.connect(path) as made:
        for table, columns in COLUMNS.items():
            made.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * (columns.count(",") + 1))
            inserted = texts if table == "STRING_IDS" else rows.get(table, [])
            made.executemany(f"INSERT INTO {table} VALUES ({marks})", inserted)
        for each in statements:
            made.execute(each)
    made.close()
    return path
