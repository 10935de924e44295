"""Reports of Nsight Systems, exported to SQLite, that tests make row by row."""

import sqlite3
from pathlib import Path

PID, TID = 7, 8
GLOBAL_PID = 1 << 48 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID
_KEYS = {"StringIds": "id"}


class Strings(dict):
    """Texts by their ids, made as they are asked for."""

    def __missing__(self, text):
        self[text] = len(self) + 1
        return self[text]


def write(path: Path, tables: dict[str, list[dict]], strings: Strings) -> Path:
    """A database of these tables; the columns of a table are the keys of its first row."""
    rows = [{"id": number, "value": text} for text, number in strings.items()]
    with sqlite3.connect(path) as made:
        for table, records in (tables | {"StringIds": rows}).items():
            kinds = {
                column: "TEXT" if isinstance(value, str) else
                "REAL" if isinstance(value, float) else
                "BLOB" if isinstance(value, bytes) else "INT"
                for column, value in records[0].items()
            }  # fmt: skip
            columns = ", ".join(
                f"{column} INTEGER PRIMARY KEY"
                if column == _KEYS.get(table)
                else f"{column} {kind}"
                for column, kind in kinds.items()
            )
            made.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(kinds))
            made.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                [[record.get(column) for column in kinds] for record in records],
            )
    made.close()
    return path


def call(strings, name, start, end, correlation, tid=GLOBAL_TID):
    """A row of CUPTI_ACTIVITY_KIND_RUNTIME."""
    return {"start": start, "end": end, "globalTid": tid, "correlationId": correlation,
            "nameId": strings[name], "returnValue": 0}  # fmt: skip


def kernel(strings, name, start, end, correlation, device=0, pid=GLOBAL_PID, **more):
    """A row of CUPTI_ACTIVITY_KIND_KERNEL, as the versions of 2021 have it."""
    return {"start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": 7,
            "correlationId": correlation, "globalPid": pid, "demangledName": strings[name],
            "shortName": strings[name], "gridX": 264, "gridY": 1, "gridZ": 1, "blockX": 128,
            "blockY": 1, "blockZ": 1, "staticSharedMemory": 16, "dynamicSharedMemory": 32,
            "registersPerThread": 40} | more  # fmt: skip


def nvtx_range(strings, text, start, end, tid=GLOBAL_TID, **more):
    """A row of NVTX_EVENTS: a range that was pushed and popped."""
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": tid,
            "textId": None, "domainId": 0} | more  # fmt: skip


def plain(strings: Strings) -> dict[str, list[dict]]:
    """Two launches under an operator each, as an early version exports them."""
    return {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call(strings, "cudaLaunchKernel_v7000", 1_200, 1_500, 1),
            call(strings, "cudaLaunchKernel_v7000", 2_200, 2_500, 2),
            call(strings, "cuStreamSynchronize", 2_600, 9_000, 3),
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(strings, "void gemm<float>(float*)", 4_000, 6_000, 1),
            kernel(strings, "relu", 6_500, 8_001, 2),
        ],
        "NVTX_EVENTS": [
            nvtx_range(strings, "forward", 900, 2_700),
            nvtx_range(strings, "aten::mm, seq = 5, op_id = 11, sizes = [[8, 16], [16, 4]]",
                       1_000, 1_600),
            nvtx_range(strings, "aten::relu, op_id = 12, sizes = [[8, 4]], "
                       "input_op_ids = [(11, 0)]", 2_000, 2_550),
        ],
    }  # fmt: skip
