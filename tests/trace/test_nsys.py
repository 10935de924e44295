"""Reports of Nsight Systems: what each table becomes, and which damage is harmless."""

import json
import math
import sqlite3
import struct
import tarfile
from pathlib import Path

import polars
import pytest

import tracekit
from tests.kit import nsys_simulated as nsys
from tests.kit.other_formats import changed
from tracekit.errors import TracekitError
from tracekit.native import rows
from tracekit.trace import budget

CALLS, KERNELS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"
ON_DEVICE = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": nsys.GLOBAL_PID}


def report(folder, change=lambda tables, strings: None, name="run.sqlite"):
    """A simulated report of nsys, changed before it is written."""
    strings = nsys.Strings()
    tables = nsys.plain(strings)
    change(tables, strings)
    return nsys.write(folder / name, tables, strings)


# -- what is there, and what it becomes ------------------------------------------------------------


def plain(tables, strings):
    pass


def left_out(tables, strings):
    """Adds a graph that was recorded as a whole, a table that no reader uses, and a warning."""
    tables[CALLS].append(nsys.call(strings, "cudaGraphLaunch_v10000", 8_100, 8_200, 9))
    tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
        ON_DEVICE | {"start": 9_100, "end": 9_900, "correlationId": 9, "graphId": 3,
                     "graphExecId": 4}
    ]  # fmt: skip
    tables["VULKAN_THINGS"] = [{"id": 1}, {"id": 2}]
    tables["DIAGNOSTIC_EVENT"] = [{"severity": 2, "text": "Not all events were collected."}]


def waits_on_the_device(tables, strings):
    key = {"globalPid": nsys.GLOBAL_PID, "eventId": 5, "eventSyncId": 6}
    tables[CALLS].append(nsys.call(strings, "cudaEventRecord_v3020", 2_520, 2_530, 20))
    tables["CUPTI_ACTIVITY_KIND_CUDA_EVENT"] = [ON_DEVICE | key | {"correlationId": 20}]
    tables["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"] = [
        ON_DEVICE | key | {"start": 2_540, "end": 2_545, "streamId": 9, "correlationId": 21,
                           "syncType": 2}
    ]  # fmt: skip
    for kernel in tables[KERNELS]:
        kernel["deviceId"] = 1


def host_and_memory(tables, strings):
    tables["OSRT_API"] = [
        {"start": 100, "end": 800, "globalTid": nsys.GLOBAL_TID + thread, "returnValue": 0,
         "nameId": strings[name]}
        for thread, name in ((1, "pthread_cond_wait"), (2, "read"))
    ]  # fmt: skip
    tables["SCHED_EVENTS"] = [
        {"start": at, "cpu": 3, "isSchedIn": is_in, "globalTid": nsys.GLOBAL_TID}
        for at, is_in in ((100, 1), (300, 0), (850, 1), (8_000, 0))
    ]
    tables["GPU_METRICS"] = [{"timestamp": 5_000, "typeId": 257, "metricId": 4, "value": 61.0}]
    tables["TARGET_INFO_GPU_METRICS"] = [
        {"typeId": 257, "metricId": 4, "metricName": "SMs Active [%]"}
    ]
    tables["CUDA_GPU_MEMORY_USAGE_EVENTS"] = [
        ON_DEVICE | {"start": at, "virtualAddress": 4096, "bytes": 512, "memKind": 2,
                     "memoryOperationType": kind}
        for at, kind in ((1_000, 0), (2_000, 1))
    ]  # fmt: skip


def host_functions(tables, strings):
    """One that a call launched, and two in a graph, of which one kernel is."""
    tables[CALLS].append(nsys.call(strings, "cudaLaunchHostFunc_v10000", 2_510, 2_520, 20))
    tables[CALLS].append(nsys.call(strings, "cudaGraphLaunch_v10000", 2_530, 2_540, 21))
    tables[KERNELS].append(nsys.kernel(strings, "in_graph", 9_300, 9_400, 21))
    tables["CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH"] = [
        ON_DEVICE | {"start": start, "end": end, "correlationId": call, "graphNodeId": node,
                     "graphId": node and 5}
        for start, end, call, node in ((8_100, 8_160, 20, None), (9_100, 9_150, 21, 1),
                                       (9_200, 9_290, 21, 2))
    ]  # fmt: skip
    tables["CUDA_HOST_CALLBACK"] = [
        {"start": start, "end": end, "eventClass": 1, "globalTid": nsys.GLOBAL_TID + 9,
         "correlationId": call, "nameId": strings[name]}
        for start, end, call, name in ((8_110, 8_150, 20, "log"), (9_110, 9_140, 21, "send"),
                                       (9_210, 9_280, 21, "receive"))
    ]  # fmt: skip


def collective(tables, strings, as_text=False):
    """NCCL's range says the size and the peer, in a payload."""
    payload = struct.pack("<IIIIQQQQI4x", 1, 0, 16777226, 0, 24, 56, 12345, 8192, 3)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL()"
    tables[KERNELS].append(nsys.kernel(strings, name, 8_600, 8_900, 4))
    tables[CALLS].append(nsys.call(strings, "cudaLaunchKernelExC_v11060", 2_560, 2_580, 4))
    tables["NVTX_EVENTS"][0]["binaryData"] = None if as_text else b""
    tables["NVTX_EVENTS"].append(
        nsys.nvtx_range(strings, None, 2_555, 2_590, textId=strings["ncclAllReduce"], domainId=1,
                        binaryData=payload.hex() if as_text else payload)
    )  # fmt: skip
    entries = [(18, "NCCL communicator ID", None), (22, "Message size [bytes]", 8),
               (5, "Peer rank", 16)]  # fmt: skip
    tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = [
        {"domainId": 1, "schemaId": 16777226, "idx": place, "type": kind, "name": name,
         "offset": offset}
        for place, (kind, name, offset) in enumerate(entries)
    ]  # fmt: skip


def collective_in_text(tables, strings):
    collective(tables, strings, as_text=True)


def two_processes(tables, strings):
    tables[KERNELS] = [
        nsys.kernel(strings, "relu", 100, 200, 2, device=device, pid=1 << 48 | (50 - device) << 24)
        for device in (0, 1)
    ]


# A range's text, its event's name, shapes and input ops, and the number by which it is found.
ODD = [
    ('"\\\n\x1f \u00e9\U0001f600', '"\\\n\x1f \u00e9\U0001f600', None, None, 0.1),
    ("aten::f, op_id = 3, sizes = [[1, 2], []], input_op_ids = [(1, 0)]",
     "aten::f", [[1, 2], []], "[(1, 0)]", 1e300),
    ('aten::g, seq = -4, op_id = 99999999999999999999, sizes = [[1, "}',
     "aten::g", '[[1, "}', None, -2.0),
    ("", "", None, None, math.inf),
    (", op_id = ", "", None, None, 3.5),
    ("not UTF-8", "a\ufffd\ufffd\ufffd", None, None, 0.0),
]  # fmt: skip


def odd_texts(tables, strings):
    tables["NVTX_EVENTS"] = [
        nsys.nvtx_range(strings, text, 900, -5, rangeId=-(2**63), real=real)
        for text, *_, real in ODD
    ]


NCCL = [("type, message_bytes, communicator, scope FROM collective",
         [("allreduce", 8192, "12345", "ncclAllReduce")])]  # fmt: skip
# For each report: SELECTs without their first word, and their rows in order, which
# tests/trace/test_formats.py asks of all formats.
ASKED = {
    plain: [
        ("cpu_op, launch_name, name, start_ns, dur_ns FROM gpu_op_origin",
         [("aten::mm", "cudaLaunchKernel", "void gemm<float>(float*)", 4000, 2000),
          ("aten::relu", "cudaLaunchKernel", "relu", 6500, 1501)]),
        ("name, sequence_number, input_dims FROM cpu_ops",
         [("aten::mm", 5, "[[8,16],[16,4]]"), ("aten::relu", None, "[[8,4]]")]),
        ("name FROM annotations", [("forward",)]),
        ("profiler, rank, rejected FROM trace", [("nsys", None, 0)]),
        ("DISTINCT grid, block, shared_memory_bytes FROM kernels",
         [("[264,1,1]", "[128,1,1]", 48)]),
    ],
    left_out: [("name, is_graph FROM (FROM gpu_ops WHERE launch_id IS NOT NULL)",
                [("CUDA graph 3", True), ("relu", False), ("void gemm<float>(float*)", False)])],
    waits_on_the_device: [
        ("stream, wait_on_stream, record_ns FROM event_waits", [(9, 7, 2520)]),
        ("DISTINCT device_id FROM (FROM syncs WHERE side = 'device')", [(1,)]),
    ],
    host_and_memory: [
        ("name, dur_ns FROM (FROM slices WHERE has(traits, 'thread_wait'))",
         [("pthread_cond_wait", 700)]),
        ("ts_ns, dur_ns FROM (FROM event WHERE name = 'off CPU')", [(300, 550)]),
        ("counter, value FROM counters", [("SMs Active [%]", 61.0)]),
        ("bytes, allocated_bytes FROM memory_events", [(-512, 0), (512, 512)]),
    ],
    host_functions: [
        ("name, start_ns, dur_ns, stream, device_id, launch_name"
         " FROM (FROM gpu_ops WHERE kind = 'host_function')",
         [("HostNode", 9_100, 50, 7, 0, "cudaGraphLaunch"),
          ("HostNode", 9_200, 90, 7, 0, "cudaGraphLaunch"),
          ("HostNode: log", 8_100, 60, 7, 0, "cudaLaunchHostFunc")]),
        # The device is idle while the host works.
        ("busy_ns, gpu_ops FROM (FROM window_partition WHERE kind = 'gpu_active')",
         [(2_000 + 1_501 + 100, 6)]),
    ],
    collective: NCCL,
    collective_in_text: NCCL,
    two_processes: [
        ("rank, world_size, path[-6:] FROM trace", [(0, 2, "pid 50"), (1, 2, "pid 49")]),
        ("DISTINCT world_size, rank FROM cpu_ops JOIN trace USING (trace_id)", [(2, 0)]),
    ],
}  # fmt: skip


def as_parquet(database, folder):
    """The tables as `nsys export --type parquetdir` writes them, with rows in another order."""
    folder.mkdir()
    with sqlite3.connect(database) as read:
        for (table,) in read.execute("SELECT name FROM sqlite_master").fetchall():
            found = read.execute(f"SELECT * FROM {table} ORDER BY rowid DESC")
            names = [column[0] for column in found.description]
            rows = polars.DataFrame(found.fetchall(), schema=names, orient="row")
            rows.write_parquet(folder / f"{table}.parquet")
    return folder


@pytest.mark.parametrize("change", [plain, host_and_memory, two_processes, collective])
def test_a_folder_of_parquet_files_is_read_as_the_database(change, tmp_path):
    database = report(tmp_path, change)
    events = (
        "SELECT rank, phase, category, name, pid, tid, ts_ns, dur_ns, correlation, args::VARCHAR"
        " FROM event JOIN trace USING (trace_id) ORDER BY ALL"
    )
    with tracekit.load(database) as run:
        expected = run.fetch(events)[1]
    with tracekit.load(as_parquet(database, tmp_path / "r.parquetdir")) as run:
        assert run.fetch(events)[1] == expected


def test_a_damaged_parquet_file_is_refused_in_one_line(tmp_path):
    folder = as_parquet(report(tmp_path), tmp_path / "r.parquetdir")
    (folder / f"{CALLS}.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TracekitError, match=rf"{CALLS}.parquet'?: cannot be read: [^\n]+$"):
        tracekit.load(folder)


def test_health_says_what_the_database_leaves_out(tmp_path):
    with tracekit.load(report(tmp_path, left_out), verdicts=False) as run:
        found = {each["code"]: each for each in run.ask("health")}
    assert found["left_out"]["count"] == 2
    assert "VULKAN_THINGS" in found["left_out"]["message"]
    assert "--cuda-graph-trace=node" in found["whole_graphs"]["message"]
    assert found["profiler_warned"]["message"] == "nsys said: Not all events were collected."


def test_odd_texts_and_numbers_are_events_whoever_makes_the_rows(tmp_path, monkeypatch):
    """SQLite calls the C library for each row, or Python's module makes the rows."""
    file = report(tmp_path, odd_texts)
    changed(file, "UPDATE NVTX_EVENTS SET text = CAST(x'61ff80c3' AS TEXT) WHERE real = 0")
    asked = "SELECT * EXCLUDE (trace_id) FROM event ORDER BY event_id"
    with tracekit.load(file, verdicts=False) as run:
        kept = run.fetch(asked)
    ranges = [dict(zip(kept[0], row, strict=True)) for row in kept[1]]
    ranges = [each for each in ranges if each["dur_ns"] == -905]
    args = [json.loads(each["args"]) for each in ranges]
    found = [
        (event["name"], each.get("Input Dims"), each.get("Input op ids"), each["real"])
        for event, each in zip(ranges, args, strict=True)
    ]
    assert found == [tuple(expected) for _, *expected in ODD]
    assert {each["rangeId"] for each in args} == {-(2**63)}
    monkeypatch.setattr(rows, "_sqlite", lambda: None)
    with tracekit.load(file, verdicts=False) as same:
        assert same.fetch(asked) == kept


# -- files that are not reports --------------------------------------------------------------------


def test_a_report_is_exported_by_nsys_where_nsys_is_installed(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    exported = report(tmp_path)
    (tmp_path / "run.nsys-rep").write_bytes(b"\0binary\xff" * 99)
    with pytest.raises(TracekitError, match=r"nsys export --type sqlite .*run\.nsys-rep"):
        tracekit.load(tmp_path / "run.nsys-rep")
    stand_in(tmp_path, exported)
    with tracekit.load(tmp_path / "run.nsys-rep", verdicts=False) as run:
        assert run.fetch("SELECT count(*) FROM kernels")[1] == [(2,)]


def stand_in(folder, exported):
    """An nsys that notes its last argument."""
    nsys = folder / "bin" / "nsys"
    nsys.write_text(
        f'#!/bin/sh\necho "$6" > {folder}/asked\n'
        f'[ "$1 $2 $3" = "export --type sqlite" ] && /bin/cp {exported} "$5"\n'
    )
    nsys.chmod(0o755)


@pytest.mark.thorough
def test_the_name_of_a_report_is_never_an_option_of_nsys(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    stand_in(tmp_path, report(tmp_path))
    (tmp_path / "given").mkdir()
    monkeypatch.chdir(tmp_path / "given")
    name = "--output=stolen.nsys-rep"
    Path(name).write_bytes(b"\0binary")
    for given in (name, "."):
        with tracekit.load(given, verdicts=False) as run:
            assert [row["path"] for row in run.traces()] == [name]
        assert (tmp_path / "asked").read_text() == f"./{name}\n"
    (tmp_path / "bin/nsys").unlink()
    with pytest.raises(TracekitError, match=rf"sqlite \./{name}"):
        tracekit.load(name)
    stand_in(tmp_path, tmp_path)
    with tarfile.open("given.tar", "w") as archive:
        archive.add(name)
    with pytest.raises(TracekitError, match="from a separate file"):
        tracekit.load("given.tar")


def test_nothing_of_a_hostile_database_runs(tmp_path):
    file = report(tmp_path)
    changed(
        file,
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kernel_rows",
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n",
        "CREATE TABLE OSRT_API (start, end AS (zeroblob(start * 1000000)), globalTid)",
        'CREATE TABLE "a\'; --" (start, end, globalTid)',
        "CREATE TRIGGER t AFTER INSERT ON kernel_rows BEGIN DELETE FROM StringIds; END",
        "UPDATE NVTX_EVENTS SET start = 'text', end = x'00ff' WHERE text = 'forward'",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL, nameId = 99",
    )
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with tracekit.load(file, verdicts=False) as run:
        assert run.fetch("SELECT count(*), any_value(rejected) FROM event, trace")[1] == [(8, 0)]
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_text_that_a_small_database_repeats_is_like_a_bomb(tmp_path, monkeypatch):
    def change(tables, strings):
        long = {"nameId": strings["x" * 100_000]}
        tables[CALLS] += [
            nsys.call(strings, "cudaFree_v3020", 9_000 + i, 9_001 + i, 9) | long for i in range(500)
        ]

    monkeypatch.setattr(budget, "TEXT_BYTES", 1 << 20)
    with pytest.raises(TracekitError, match=r"run\.sqlite: .* like a decompression bomb"):
        tracekit.load(report(tmp_path, change))


@pytest.mark.parametrize("damage", ["cut", "pages", "schema", "no key", "others"])
def test_a_damaged_database_is_refused_in_one_line(damage, tmp_path):
    file = report(tmp_path)
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[5000:]
    elif damage == "pages":
        data[4096:] = b"\xff" * (len(data) - 4096)
    elif damage == "schema":
        data = data.replace(b"CREATE TABLE", b"CREATE TABEL")
    file.write_bytes(data)
    if damage in ("no key", "others"):
        file.unlink()
        with sqlite3.connect(file) as made:
            made.execute("CREATE TABLE StringIds (id INT, value TEXT)")
            made.execute(f"CREATE TABLE {'NVTX_EVENTS' if damage == 'no key' else 'x'} (start INT)")
        made.close()
    with pytest.raises(TracekitError, match=f"^{file}: [^\n]+$"):
        tracekit.load(file)
