"""Traces of other profilers: the same tables, and the numbers of an independent count."""

import json
import math
import re
import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit import nsys_simulated as nsys
from tracekit.errors import TracekitError
from tracekit.native import rows
from tracekit.trace.other import converted, perfetto, protos, xplane
from tracekit.trace.other.protos import messages
from tracekit.trace.paths import trace_paths

OTHER = SHARED_TRACES / "other"
EXPECTED = json.loads((OTHER / "expected.json").read_text()) if OTHER.exists() else {}
WITHOUT = [pytest.param(None, marks=pytest.mark.skip(reason=f"{OTHER} is not there"))]
_NUMBERS = {
    "kernels": "kernels", "gpu_ops": "gpu_ops", "span_ns": "span_ns", "busy_ns": "busy_ns",
    "idle_ns": "idle_ns", "compute_ns": "compute_ns", "exposed_comm_ns": "exposed_comm_ns",
    "exposed_memcpy_ns": "exposed_memcpy_ns", "linked": "linked",
    "idle_host_late_ns": "host_late_ns", "idle_device_ns": "device_ns",
    "idle_unlinked_ns": "unlinked_ns",
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded():
    opened = {}

    def load(name):
        if name not in opened:
            opened[name] = tracekit.load(OTHER / name)
        return opened[name]

    yield load
    for database in opened.values():
        database.close()


@pytest.mark.parametrize("name", sorted(EXPECTED) or WITHOUT)
def test_numbers_are_those_of_an_independent_count(name, loaded):
    windows = loaded(name).query("partition", kind="gpu_active").to_dicts()
    found = [{key: each[ours] for key, ours in _NUMBERS.items()} for each in windows]
    for expected, ours in zip(EXPECTED[name], found, strict=True):
        assert ours == ours | {key: expected[key] for key in _NUMBERS if key in expected}
    devices = [each["device"] for each in EXPECTED[name] if "device" in each]
    assert not devices or [each["device_id"] for each in windows] == devices


def report(tmp_path, change=lambda tables, strings: None, name="run.sqlite"):
    """A simulated report of nsys, changed before it is written."""
    strings = nsys.Strings()
    tables = nsys.plain(strings)
    change(tables, strings)
    return nsys.write(tmp_path / name, tables, strings)


def test_an_early_nsys_report_has_operators_launches_and_kernels(tmp_path):
    with tracekit.load(report(tmp_path)) as run:
        (origin, second) = run.fetch(
            "SELECT cpu_op, launch_name, name, start_ns, dur_ns FROM gpu_op_origin ORDER BY ALL"
        )[1]
        assert origin == ("aten::mm", "cudaLaunchKernel", "void gemm<float>(float*)", 4000, 2000)
        assert second == ("aten::relu", "cudaLaunchKernel", "relu", 6500, 1501)
        operators = run.fetch(
            "SELECT name, sequence_number, input_dims FROM cpu_ops ORDER BY start_ns"
        )
        assert operators[1] == [
            ("aten::mm", 5, "[[8,16],[16,4]]"),
            ("aten::relu", None, "[[8,4]]"),
        ]
        assert run.fetch("SELECT name FROM annotations")[1] == [("forward",)]
        assert run.fetch("SELECT profiler, rank, rejected FROM trace")[1] == [("nsys", None, 0)]
        grid = run.fetch("SELECT grid, block, shared_memory_bytes FROM kernels LIMIT 1")[1]
        assert grid == [("[264,1,1]", "[128,1,1]", 48)]


def test_graphs_that_nsys_recorded_whole_count_as_device_work(tmp_path):
    def change(tables, strings):
        tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
            nsys.call(strings, "cudaGraphLaunch_v10000", 8_100, 8_200, 9)
        )
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
            {"start": 9_100, "end": 9_900, "deviceId": 0, "contextId": 1, "streamId": 7,
             "correlationId": 9, "globalPid": nsys.GLOBAL_PID, "graphId": 3, "graphExecId": 4}
        ]  # fmt: skip

    with tracekit.load(report(tmp_path, change)) as run:
        asked = (
            "SELECT name, is_graph FROM gpu_ops JOIN gpu_op_launch USING (event_id) WHERE is_graph"
        )
        assert run.fetch(asked)[1] == [("CUDA graph 3", True)]


def test_waits_on_a_device_are_joined_with_the_event_that_they_wait_for(tmp_path):
    def change(tables, strings):
        key = {"globalPid": nsys.GLOBAL_PID, "eventId": 5, "eventSyncId": 6}
        tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
            nsys.call(strings, "cudaEventRecord_v3020", 2_520, 2_530, 20)
        )
        tables["CUPTI_ACTIVITY_KIND_CUDA_EVENT"] = [
            key | {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 20}
        ]
        tables["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"] = [
            key | {"start": 2_540, "end": 2_545, "deviceId": 0, "contextId": 1, "streamId": 9,
                   "correlationId": 21, "syncType": 2}
        ]  # fmt: skip
        for kernel in tables["CUPTI_ACTIVITY_KIND_KERNEL"]:
            kernel["deviceId"] = 1

    with tracekit.load(report(tmp_path, change)) as run:
        waits = run.fetch("SELECT stream, wait_on_stream, record_ns FROM event_waits")[1]
        assert waits == [(9, 7, 2520)]
        assert run.fetch("SELECT device_id FROM syncs WHERE side = 'device'")[1] == [(1,)]


def test_os_runtime_calls_tell_waits_and_counters_and_memory_are_kept(tmp_path):
    def change(tables, strings):
        tables["OSRT_API"] = [
            {"start": 100, "end": 800, "globalTid": nsys.GLOBAL_TID + 1,
             "nameId": strings["pthread_cond_wait"], "returnValue": 0},
            {"start": 100, "end": 800, "globalTid": nsys.GLOBAL_TID + 2,
             "nameId": strings["read"], "returnValue": 0},
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
            {"start": at, "globalPid": nsys.GLOBAL_PID, "deviceId": 0, "contextId": 1,
             "virtualAddress": 4096, "bytes": 512, "memKind": 2, "memoryOperationType": kind}
            for at, kind in ((1_000, 0), (2_000, 1))
        ]  # fmt: skip

    with tracekit.load(report(tmp_path, change)) as run:
        waits = run.query("thread_waits").to_dicts()
        assert [(each["name"], each["dur_ns"]) for each in waits] == [("pthread_cond_wait", 700)]
        away = "SELECT ts_ns, dur_ns FROM event WHERE name = 'off CPU'"
        assert run.fetch(away)[1] == [(300, 550)]
        assert run.fetch("SELECT counter, value FROM counters")[1] == [("SMs Active [%]", 61.0)]
        memory = "SELECT bytes, allocated_bytes FROM memory_events ORDER BY ts_ns"
        assert run.fetch(memory)[1] == [(512, 512), (-512, 0)]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_collective_has_the_size_and_peer_that_nccl_told_nsys(as_text, tmp_path):
    head = struct.pack("<IIIIQQ", 1, 0, 16777226, 0, 24, 56)
    payload = head + struct.pack("<QQI4x", 12345, 8192, 3)

    def change(tables, strings):
        kernels, calls = tables["CUPTI_ACTIVITY_KIND_KERNEL"], tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
        kernels.append(
            nsys.kernel(strings, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 8_600, 8_900, 4)
        )
        calls.append(nsys.call(strings, "cudaLaunchKernelExC_v11060", 2_560, 2_580, 4))
        tables["NVTX_EVENTS"][0]["binaryData"] = None if as_text else b""
        tables["NVTX_EVENTS"].append(
            nsys.nvtx_range(strings, None, 2_555, 2_590, textId=strings["ncclAllReduce"],
                            domainId=1, binaryData=payload.hex() if as_text else payload)
        )  # fmt: skip
        tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = [
            {"domainId": 1, "schemaId": 16777226, "idx": place, "type": kind, "name": name,
             "offset": offset}
            for place, (kind, name, offset) in enumerate(
                [(18, "NCCL communicator ID", None), (22, "Message size [bytes]", 8),
                 (5, "Peer rank", 16)]
            )
        ]  # fmt: skip

    with tracekit.load(report(tmp_path, change)) as run:
        asked = "SELECT type, message_bytes, communicator, scope FROM collective"
        assert run.fetch(asked)[1] == [("allreduce", 8192, "12345", "ncclAllReduce")]


def test_processes_are_ranks_and_the_others_stand_with_the_first(tmp_path):
    def change(tables, strings):
        for device in (0, 1):
            pid = 1 << 48 | (50 - device) << 24
            tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(
                nsys.kernel(strings, "relu", 100, 200, 2, device=device, pid=pid)
            )
        del tables["CUPTI_ACTIVITY_KIND_KERNEL"][:2]

    with tracekit.load(report(tmp_path, change)) as run:
        asked = "SELECT rank, world_size, path FROM trace ORDER BY trace_id"
        ranks = run.fetch(asked)[1]
        assert [each[:2] for each in ranks] == [(0, 2), (1, 2)]
        assert [each[2][-6:] for each in ranks] == ["pid 50", "pid 49"]
        assert run.fetch("SELECT DISTINCT trace_id FROM cpu_ops")[1] == [(1,)]


def test_a_report_is_exported_by_nsys_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    exported = report(tmp_path)
    (tmp_path / "run.nsys-rep").write_bytes(b"\0binary\xff" * 99)
    with pytest.raises(TracekitError, match=r"nsys export --type sqlite .*run\.nsys-rep"):
        tracekit.load(tmp_path / "run.nsys-rep")
    stand_in = tmp_path / "bin" / "nsys"
    stand_in.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3" = "export --type sqlite" ] && /bin/cp {exported} "$5"\n'
    )
    stand_in.chmod(0o755)
    with tracekit.load(tmp_path / "run.nsys-rep") as run:
        assert run.fetch("SELECT count(*) FROM kernels")[1] == [(2,)]


def test_nothing_of_a_hostile_database_runs(tmp_path):
    file = report(tmp_path)
    with sqlite3.connect(file) as made:
        made.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kernel_rows")
        made.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS"
            " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n"
        )
        made.execute("CREATE TABLE OSRT_API (start, end AS (zeroblob(start * 1000000)), globalTid)")
        made.execute('CREATE TABLE "a\'; --" (start, end, globalTid)')
        made.execute(
            "CREATE TRIGGER t AFTER INSERT ON kernel_rows BEGIN DELETE FROM StringIds; END"
        )
        made.execute("UPDATE NVTX_EVENTS SET start = 'text', end = x'00ff' WHERE text = 'forward'")
        made.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL, nameId = 99")
    made.close()
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with tracekit.load(file) as run:
        assert run.fetch("SELECT count(*), any_value(rejected) FROM event, trace")[1] == [(8, 0)]
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_text_that_a_small_database_repeats_is_like_a_bomb(tmp_path, monkeypatch):
    def change(tables, strings):
        long = {"nameId": strings["x" * 100_000]}
        tables["CUPTI_ACTIVITY_KIND_RUNTIME"] += [
            nsys.call(strings, "cudaFree_v3020", 9_000 + i, 9_001 + i, 9) | long for i in range(500)
        ]

    monkeypatch.setattr(converted, "BOMB_BYTES", 1 << 20)
    with pytest.raises(TracekitError, match=r"run\.sqlite: .* like a decompression bomb"):
        tracekit.load(report(tmp_path, change))


@pytest.mark.parametrize("is_reached", [True, False])
def test_odd_texts_and_numbers_are_events_that_load_alike(is_reached, tmp_path, monkeypatch):
    """Whether SQLite calls the C library for each row, or Python's module makes the rows."""
    said = [
        ('"\\\n\x1f \u00e9\U0001f600', '"\\\n\x1f \u00e9\U0001f600', None, None, 0.1),
        ("aten::f, op_id = 3, sizes = [[1, 2], []], input_op_ids = [(1, 0)]",
         "aten::f", [[1, 2], []], "[(1, 0)]", 1e300),
        ('aten::g, seq = -4, op_id = 99999999999999999999, sizes = [[1, "}',
         "aten::g", '[[1, "}', None, -2.0),
        ("", "", None, None, math.inf),
        (", op_id = ", "", None, None, 3.5),
        ("not UTF-8", "a\ufffd\ufffd\ufffd", None, None, 0.0),
    ]  # fmt: skip

    def change(tables, strings):
        tables["NVTX_EVENTS"] = [
            nsys.nvtx_range(strings, text, 900, -5, rangeId=-(2**63), real=real)
            for text, *_, real in said
        ]

    if not is_reached:
        monkeypatch.setattr(rows, "_sqlite", lambda: None)
    file = report(tmp_path, change)
    changed(file, "UPDATE NVTX_EVENTS SET text = CAST(x'61ff80c3' AS TEXT) WHERE real = 0")
    asked = "SELECT * FROM event ORDER BY event_id"
    with tracekit.load(file) as run:
        ranges = run.fetch("SELECT name, args FROM event WHERE dur_ns = -905 ORDER BY event_id")[1]
        args = [json.loads(args) for _, args in ranges]
        found = [
            (name, each.get("Input Dims"), each.get("Input op ids"), each["real"])
            for (name, _), each in zip(ranges, args, strict=True)
        ]
        assert found == [tuple(expected) for _, *expected in said]
        assert {each["rangeId"] for each in args} == {-(2**63)}
        run.export(tmp_path / "same.json")
        with tracekit.load(tmp_path / "same.json") as same:
            assert same.fetch(asked)[1] == run.fetch(asked)[1]


@pytest.mark.parametrize("damage", ["cut", "pages", "schema", "no key", "others"])
def test_a_damaged_database_is_refused_in_one_line(damage, tmp_path, run):
    file = report(tmp_path)
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[5000:]
    elif damage == "pages":
        data[4096:] = bytes(255 for _ in data[4096:])
    elif damage == "schema":
        data = data.replace(b"CREATE TABLE", b"CREATE TABEL")
    file.write_bytes(data)
    if damage in ("no key", "others"):
        file.unlink()
        with sqlite3.connect(file) as made:
            made.execute("CREATE TABLE StringIds (id INT, value TEXT)")
            made.execute(f"CREATE TABLE {'NVTX_EVENTS' if damage == 'no key' else 'x'} (start INT)")
        made.close()
    done = run("analyze", str(file))
    assert done.returncode == 2
    assert f"{file}: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(EXPECTED) or WITHOUT)
def test_what_is_exported_is_a_trace_that_loads_alike(name, loaded, tmp_path):
    first = loaded(name)
    ids = first.trace_ids()
    for each in ids:
        first.export(tmp_path / f"{each}.json", trace=each)
    with tracekit.load([tmp_path / f"{each}.json" for each in ids]) as again:
        for table in ("event", "trace"):
            kept = "* EXCLUDE (path, file_bytes, sha256)" if table == "trace" else "*"
            rows = f"SELECT hash(list(t ORDER BY t)) FROM (SELECT {kept} FROM {table}) AS t"
            assert again.fetch(rows)[1] == first.fetch(rows)[1]


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize("name", sorted(EXPECTED) or WITHOUT)
def test_every_command_takes_it(name, run, loaded):
    file = str(OTHER / name)
    for command in (
        ["load", file, "-o", "a.duckdb"],
        ["analyze", file, "--json"],
        ["advise", file, "--trace-id", "1"],
        ["sql", file, "SELECT count(*) FROM gpu_ops"],
        ["query", "top_kernels", file],
        ["diff", "a.duckdb", "--trace-ids", "1", str(len(loaded(name).trace_ids()))],
        ["report", file, "-o", "page.html"],
        ["lake", "add", file, "--to", "lake"],
        ["annotate", file, "-o", "annotated.json"],
    ):
        done = run(*command)
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_a_folder_s_copies_of_one_recording_are_read_once(tmp_path):
    names = ("a.nsys-rep", "a.sqlite", "b.nsys-rep", "jax/h.xplane.pb", "jax/h.trace.json.gz",
             "run_results.db", "t.pftrace", "notes.db")  # fmt: skip
    (tmp_path / "jax").mkdir()
    for name in names:
        (tmp_path / name).touch()
    found = [path.removeprefix(f"{tmp_path}/") for path in trace_paths([str(tmp_path)])]
    assert found == ["a.sqlite", "b.nsys-rep", "jax/h.xplane.pb", "run_results.db", "t.pftrace"]


def test_a_report_of_nsys_is_compared_with_kineto_s_trace_of_the_same_program(tmp_path, run):
    with tracekit.load(report(tmp_path)) as recorded:
        recorded.export(tmp_path / "same.json")
    trace = json.loads((tmp_path / "same.json").read_text())
    del trace["profiler"]
    (gemm,) = (each for each in trace["traceEvents"] if each["name"].startswith("void gemm"))
    gemm["dur"] = 1.0
    (tmp_path / "kineto.json").write_text(json.dumps(trace))
    with tracekit.load([tmp_path / "kineto.json", tmp_path / "run.sqlite"]) as both:
        assert both.fetch("SELECT profiler FROM trace ORDER BY 1")[1] == [("kineto",), ("nsys",)]
        found = both.diff()
        changes = {each["kernel"]: each["change_ns"] for each in found.kernels}
        assert sorted(changes.values()) == [0, 1000]
        assert {each["operator"] for each in found.operators} == {"aten::mm", "aten::relu"}
        saved = [both.whatif("kernel:gemm*0", trace=each, window="gpu_active") for each in (1, 2)]
        assert all(each.predicted_ns < each.window_ns for each in saved)
        with pytest.raises(TracekitError, match="the traces are not one run"):
            both.whatif_together("host*0.5")
    (tmp_path / "h.xplane.pb").write_bytes(framed(space()))
    done = run("lake", "add", "kineto.json", "run.sqlite", "h.xplane.pb", "--to", "lake")
    assert done.returncode == 0, done.stderr
    judged = "SELECT DISTINCT profiler FROM trace SEMI JOIN verdict USING (trace_id) ORDER BY 1"
    done = run("sql", "lake", judged, "--format", "csv")
    assert done.stdout.split() == ["profiler", "jax", "kineto", "nsys"]
    done = run("report", "kineto.json", "run.sqlite", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "gemm" in (tmp_path / "page.html").read_text()


PEER = json.loads((Path(__file__).parents[1] / "data" / "nsys_ai.json").read_text())["files"]


@pytest.mark.parametrize("name", sorted(PEER) if EXPECTED else WITHOUT)
def test_kernels_gaps_and_nccl_s_share_are_those_of_nsys_ai(name, loaded):
    """nsys-ai calls all time between kernels idle, copies included."""
    run = loaded(name)
    top = run.fetch("SELECT name, count(*), sum(dur_ns) / 1e6 FROM kernels GROUP BY 1"
                    " ORDER BY 3 DESC LIMIT 5")[1]  # fmt: skip
    assert top == [(*each, pytest.approx(ms, abs=0.006)) for *each, ms in PEER[name]["top_kernels"]]
    windows = run.query("partition", kind="gpu_active").to_dicts()
    for window, peer in zip(windows, PEER[name]["devices"], strict=True):
        assert window["kernels"] == peer["compute_kernels"] + peer["nccl_kernels"]
        of_device = f"kernels WHERE device_id = {window['device_id']}"
        ((span_ns,),) = run.fetch(f"SELECT max(end_ns) - min(start_ns) FROM {of_device}")[1]
        nccl_ns = window["exposed_comm_ns"]
        told = {
            "compute_only_ms": window["compute_ns"], "nccl_only_ms": nccl_ns, "total_ms": span_ns,
            "idle_ms": span_ns - window["compute_ns"] - nccl_ns,
        }  # fmt: skip
        ours = {key: ns / 1e6 for key, ns in told.items()}
        assert ours == pytest.approx({key: peer[key] for key in told}, abs=0.012)
        asked = "SELECT count(*), sum(dur_ns) / 1e6 FROM collective WHERE trace_id = "
        nccl = run.fetch(f"{asked}{window['trace_id']}")[1]
        for each in peer["nccl_breakdown"]:
            assert nccl == [(each["count"], pytest.approx(each["total_ms"], abs=0.006))]
        gaps = run.fetch(
            "SELECT stream, start_ns - lag(end_ns) OVER (PARTITION BY stream ORDER BY start_ns)"
            f" AS gap_ns FROM {of_device} QUALIFY gap_ns >= 1000000 ORDER BY 2 DESC, 1 LIMIT 6"
        )[1]
        assert [list(each) for each in gaps] == peer["gaps"]


# -- rocprofv3 -------------------------------------------------------------------------------------


def rocprof(**records):
    """A process with an MI300X, as rocprofv3 writes it."""
    kinds = {"HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"],
             "MARKER_CORE_API": ["roctx"], "KERNEL_DISPATCH": [],
             "MEMORY_COPY": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]}  # fmt: skip
    tool = {
        "metadata": {"pid": 50, "node": {"hostname": "h"}, "command": ["train"]},
        "agents": [
            {"id": {"handle": 1}, "type": 1, "name": "a CPU"},
            {"id": {"handle": 9}, "type": 2, "name": "gfx942", "logical_node_id": 4,
             "product_name": "AMD Instinct MI300X", "cu_count": 304},
        ],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": all_} for kind, all_ in kinds.items()],
            "marker_api": [{"key": 3, "value": "forward"}],
        },
        "kernel_symbols": [
            {"kernel_id": 5, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm"}
        ],
        "buffer_records": records,
    }  # fmt: skip
    return {"rocprofiler-sdk-tool": [tool]}


def rocprof_record(kind, operation, start, end, internal, **more):
    ids = {"correlation_id": {"internal": internal, "external": 0}, "thread_id": 51}
    times = {"start_timestamp": start, "end_timestamp": end}
    return {"kind": kind, "operation": operation} | ids | times | more


ROCPROF = rocprof(
    hip_api=[rocprof_record(0, 0, 1_000, 1_500, 1), rocprof_record(0, 1, 1_600, 1_700, 2)],
    marker_api=[rocprof_record(1, 0, 900, 1_800, 3)],
    memory_copy=[
        rocprof_record(3, 1, 4_000, 4_100, 2, bytes=64, dst_agent_id={"handle": 9},
                       src_agent_id={"handle": 1})
    ],
    kernel_dispatch=[
        rocprof_record(2, 0, 2_000, 3_001, 1, stream_id={"handle": 2}, dispatch_info={
            "agent_id": {"handle": 9}, "queue_id": {"handle": 7}, "kernel_id": 5,
            "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 640, "y": 2, "z": 1}})
    ],
)  # fmt: skip
_ORIGIN = (
    "SELECT kind, name, launch_name, device_id, stream, dur_ns FROM gpu_op_origin ORDER BY start_ns"
)


def test_rocprofv3_links_kernels_and_copies_with_hip_calls(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(ROCPROF, indent=1))
    with tracekit.load(tmp_path / "t.json") as run:
        assert run.fetch(_ORIGIN)[1] == [
            ("kernel", "gemm", "hipLaunchKernel", 9, 2, 1001),
            ("memcpy", "Memcpy HtoD", "hipMemcpyAsync", 9, 0, 100),
        ]
        assert run.fetch("SELECT name FROM annotations")[1] == [("forward",)]
        assert run.fetch("SELECT grid, block FROM kernels")[1] == [("[10,2,1]", "[64,1,1]")]
        assert run.fetch("SELECT profiler, host FROM trace")[1] == [("rocprofv3", "h")]
        assert run.fetch("SELECT device_id, name FROM device")[1] == [(9, "AMD Instinct MI300X")]


def test_what_is_whole_of_a_cut_rocprofv3_file_is_read(tmp_path):
    text = json.dumps(ROCPROF)
    (tmp_path / "t.json").write_text(text[: text.index('"kernel_dispatch"')])
    with tracekit.load(tmp_path / "t.json") as run:
        assert run.fetch("SELECT count(*) FROM event WHERE phase = 'X'")[1] == [(4,)]
        assert "damaged" in run.fetch("SELECT damage FROM trace")[1][0][0]


def rocpd(file, version=4):
    """What ROCPROF has, as rocprofv3 writes it to SQLite."""
    strings = nsys.Strings()
    u = "_0000abcd_1234"
    rows = [("region", "hipLaunchKernel", "HIP_RUNTIME_API", 1_000, 1_500, 1),
            ("region", "hipMemcpyAsync", "HIP_RUNTIME_API", 1_600, 1_700, 2),
            ("region", "roctxThreadRangeA", "MARKER_CORE_RANGE_API", 900, 1_800, 3),
            ("kernel_dispatch", None, "KERNEL_DISPATCH", 2_000, 3_001, 1),
            ("memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY", 4_000, 4_100, 2),
    ]  # fmt: skip
    tables: dict = {
        "info_process": [{"id": 1, "pid": 50}],
        "info_thread": [{"id": 8, "tid": 51}],
        "info_agent": [{"id": 9, "type": "GPU", "product_name": "AMD Instinct MI300X"}],
        "info_kernel_symbol": [{"id": 5, "kernel_name": "gemm.kd", "display_name": "gemm"}],
        "info_node": [{"id": 1, "hostname": "h"}],
        "event": [], "region": [], "kernel_dispatch": [], "memory_copy": [], "track": [],
        "timestamp": [],
    }  # fmt: skip
    for number, (table, name, category, start, end, stack) in enumerate(rows):
        extra = '{"message": "forward"}' if stack == 3 else "{}"
        event = {"id": number, "stack_id": stack, "category_id": strings[category]}
        tables["event"].append(event | {"extdata": extra})
        place = {
            "pid": 1,
            "tid": 8,
            "agent_id": 9,
            "queue_id": 7,
            "stream_id": 2 if stack == 1 else 0,
        }
        row = {"id": number, "event_id": number}
        if version == 3:
            row |= {"start": start, "end": end} | place
        else:
            tables["track"].append({"id": number} | place)
            tables["timestamp"] += [
                {"id": 2 * number, "value": start},
                {"id": 2 * number + 1, "value": end},
            ]
            row |= {"track_id": number, "start_id": 2 * number, "end_id": 2 * number + 1}
        if table == "kernel_dispatch":
            sizes = {"workgroup_size": (64, 1, 1), "grid_size": (640, 2, 1)}
            row |= {f"{key}_{axis}": each for key, all_ in sizes.items()
                    for axis, each in zip("xyz", all_, strict=True)} | {"kernel_id": 5}  # fmt: skip
        else:
            row["name_id"] = strings[name]
        if table == "memory_copy":
            row |= {"dst_agent_id": 9, "src_agent_id": 1, "size": 64}
        tables[table].append(row)
    named = {f"rocpd_{table}{u}": rows for table, rows in tables.items() if rows}
    named[f"rocpd_string{u}"] = [{"id": key, "string": text} for text, key in strings.items()]
    nsys.write(file, named, nsys.Strings({"": 0}))
    changed(file, "DROP TABLE StringIds")
    return file


def changed(file, statement):
    with sqlite3.connect(file) as made:
        made.execute(statement)
    made.close()


@pytest.mark.parametrize("version", [3, 4])
def test_rocpd_says_what_rocprofv3_s_json_says(version, tmp_path):
    file = rocpd(tmp_path / "run_results.db", version)
    (tmp_path / "t.json").write_text(json.dumps(ROCPROF))
    with tracekit.load(file) as run, tracekit.load(tmp_path / "t.json") as same:
        assert run.fetch(_ORIGIN)[1] == same.fetch(_ORIGIN)[1]
        for table in ("annotations", "launches"):
            asked = f"SELECT name, pid, tid, start_ns, dur_ns FROM {table} ORDER BY start_ns"
            assert run.fetch(asked)[1] == same.fetch(asked)[1]
        grids = "SELECT grid, block FROM kernels"
        assert run.fetch(grids)[1] == same.fetch(grids)[1]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (None, "malformed"),
        ("DROP TABLE rocpd_string{u}", "neither nsys nor rocprofv3 wrote it"),
        ("DROP TABLE rocpd_timestamp{u}", (1, "5 of its rows have no times, or no process")),
        ("DROP TABLE rocpd_track{u}", (1, "5 of its rows have no times, or no process")),
        ("UPDATE rocpd_timestamp{u} SET value = 'x' WHERE id = 1", (5, "1 of its rows have no t")),
        ("UPDATE rocpd_kernel_dispatch{u} SET grid_size_x = 'x', workgroup_size_y = -1", (6, None)),
        ("UPDATE rocpd_info_process{u} SET pid = x'ff'", (6, None)),
    ],
)
def test_a_damaged_rocpd_is_refused_in_one_line_or_read_in_part(change, outcome, tmp_path):
    file = rocpd(tmp_path / "run_results.db")
    if change is None:
        file.write_bytes(file.read_bytes()[:9000])
    else:
        changed(file, change.format(u="_0000abcd_1234"))
    if isinstance(outcome, str):
        with pytest.raises(TracekitError, match=f"^{file}: [^\n]*{outcome}[^\n]*$"):
            tracekit.load(file)
    else:
        with tracekit.load(file) as run:
            events, damage = outcome
            assert run.fetch("SELECT count(*) FROM event")[1] == [(events,)]
            (found,) = run.fetch("SELECT damage FROM trace")[1][0]
            assert found == damage if damage is None else found.startswith(damage)


# -- JAX -------------------------------------------------------------------------------------------


def space():
    """A TPU that runs one step, with its host, in XLA's terms."""
    made = messages(xplane._SCHEMA)["XPlane"]
    host, tpu = made(id=2, name=b"/host:CPU"), made(id=1, name=b"/device:TPU:0")
    for plane, names in (
        (host, [b"$train.py:12 step", b"train", b"PjitFunction(f)"]),
        (tpu, [b"fusion.3", b"jit_f"]),
    ):
        for number, name in enumerate(names, 1):
            plane.event_metadata[number].name = name
        for number, name in enumerate([b"step_num", b"hlo_category", b"loop fusion", b"flops"], 1):
            plane.stat_metadata[number].name = name
    thread = host.lines.add(id=77, display_name=b"main", timestamp_ns=1_000)
    thread.events.add(metadata_id=1, offset_ps=0, duration_ps=9_000_000)
    thread.events.add(metadata_id=2, offset_ps=1_000_000, duration_ps=5_000_000).stats.add(
        metadata_id=1, int64_value=4
    )
    thread.events.add(metadata_id=3, offset_ps=1_500_000, duration_ps=1_000_000)
    ops = tpu.lines.add(id=3, name=b"XLA Ops", timestamp_ns=1_000)
    op = ops.events.add(metadata_id=1, offset_ps=2_000_400, duration_ps=1_000_300)
    op.stats.add(metadata_id=2, ref_value=3)
    op.stats.add(metadata_id=4, uint64_value=1 << 40)
    modules = tpu.lines.add(id=4, name=b"XLA Modules", timestamp_ns=1_000)
    modules.events.add(metadata_id=2, offset_ps=2_000_000, duration_ps=1_002_000)
    return [host.SerializeToString(), tpu.SerializeToString()]


def framed(texts, tag=b"\n"):
    """Messages as the repeated field 1 of another; each is shorter than 16 kB."""
    sizes = (bytes([len(text) & 127 | 128, len(text) >> 7]) for text in texts)
    return b"".join(tag + size + text for size, text in zip(sizes, texts, strict=True))


def test_planes_of_a_tpu_and_its_host_load_with_steps_and_lost_picoseconds(tmp_path):
    (tmp_path / "h.xplane.pb").write_bytes(framed(space()))
    with tracekit.load(tmp_path / "h.xplane.pb") as run:
        assert run.fetch("SELECT name, device_id, start_ns, dur_ns FROM gpu_ops")[1] == [
            ("fusion.3", 0, 3000, 1000)
        ]
        asked = "SELECT args->>'hlo_category', args->>'flops' FROM kernels"
        assert run.fetch(asked)[1] == [("loop fusion", str(1 << 40))]
        assert run.fetch("SELECT step, dur_ns FROM steps")[1] == [(4, 5000)]
        assert run.fetch("SELECT name FROM python_frames")[1] == [("train.py(12): step",)]
        sides = "SELECT side, name FROM annotations ORDER BY ALL"
        assert run.fetch(sides)[1] == [
            ("device", "jit_f"), ("host", "PjitFunction(f)"), ("host", "ProfilerStep#4")
        ]  # fmt: skip
        lost = "SELECT metadata->'profiler'->>'picoseconds_lost' FROM trace"
        assert run.fetch(lost)[1] == [("1",)]


@pytest.mark.parametrize("cut", [3, 40])
def test_whole_planes_of_a_damaged_file_are_read(cut, tmp_path):
    text = framed(space())
    (tmp_path / "cut.xplane.pb").write_bytes(text[:-cut])
    with tracekit.load(tmp_path / "cut.xplane.pb") as run:
        assert run.fetch("SELECT count(*), any_value(damage) FROM annotations, trace")[1] == [
            (2, "the file ends inside a plane")
        ]


@pytest.mark.parametrize("text", [b"\n\xff\xff\xff\xff\xff\x01", b"\x0a\x02\xff\xff/host:", b"\n"])
def test_what_is_no_plane_is_refused_in_one_line(text, run, tmp_path):
    (tmp_path / "bad.xplane.pb").write_bytes(text)
    done = run("analyze", "bad.xplane.pb")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "bad.xplane.pb: " in done.stderr


def test_events_of_a_plane_are_read_one_at_a_time_and_the_rest_is_bounded(tmp_path, monkeypatch):
    (tmp_path / "h.xplane.pb").write_bytes(framed(space()))
    monkeypatch.setattr(xplane, "_MOST_BYTES", 40)
    with pytest.raises(TracekitError, match=r"h\.xplane\.pb: what its planes hold beside events"):
        tracekit.load(tmp_path / "h.xplane.pb")
    monkeypatch.undo()
    monkeypatch.setattr(protos, "_MOST_FIELD_BYTES", 20)
    with pytest.raises(TracekitError, match="a field takes more than"):
        tracekit.load(tmp_path / "h.xplane.pb")


# -- Perfetto --------------------------------------------------------------------------------------


def pftrace(events, tracks):
    """Packets as PyTorch writes them: tracks, names, all begins of a kind, then all ends."""
    packet = messages(perfetto.SCHEMA)["TracePacket"]
    made = []
    for uuid, pid, tid, name in tracks:
        each = packet()
        each.track_descriptor.uuid = uuid
        thread = each.track_descriptor.thread
        thread.pid, thread.tid, thread.thread_name = pid, tid, name
        made.append(each)
    names = packet(trusted_packet_sequence_id=1, sequence_flags=1)
    for iid, (_, _, _, name, *_) in enumerate(events, 1):
        names.interned_data.event_names.add(iid=iid, name=name)
    made.append(names)
    for iid, (track, start, _, _, flow, args) in enumerate(events, 1):
        each = packet(timestamp=start, trusted_packet_sequence_id=1, sequence_flags=2)
        event = each.track_event
        event.type, event.track_uuid, event.name_iid = 1, track, iid
        event.flow_ids.extend([flow] if flow else [])
        for key, value in args.items():
            told = event.debug_annotations.add(name=key.encode())
            if isinstance(value, list):
                for item in value:
                    told.array_values.add(int_value=item)
            elif isinstance(value, int):
                told.int_value = value
            else:
                told.string_value = value.encode()
        made.append(each)
    for track, _, end, *_ in events:
        each = packet(timestamp=end, trusted_packet_sequence_id=1)
        each.track_event.type, each.track_event.track_uuid = 2, track
        made.append(each)
    return made


PFTRACE = pftrace(
    [
        (1, 1_000, 2_000, b"aten::mm", 0, {"cat": "cpu_op", "External id": 4}),
        (1, 1_100, 1_900, b"cudaLaunchKernel", 9, {"cat": "cuda_runtime", "correlation": 9}),
        (2, 3_000, 4_001, b"gemm", 9, {"cat": "kernel", "correlation": 9, "device": 0, "stream": 7,
                                       "grid": [264, 1, 1]}),
        (2, 4_001, 5_000, b"relu", 0, {"cat": "kernel", "correlation": 10, "device": 0,
                                       "stream": 7}),
    ],
    [(1, 50, 51, b"main"), (2, 0, 7, b"stream 7")],
)  # fmt: skip


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_pftrace_says_what_the_same_json_trace_says(is_packed, tmp_path):
    text = framed([each.SerializeToString() for each in PFTRACE])
    if is_packed:
        packed = type(PFTRACE[0])(compressed_packets=zlib.compress(text))
        text = framed([packed.SerializeToString()])
    (tmp_path / "t.pftrace").write_bytes(text)

    def event(cat, name, pid, tid, ts, dur, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
                "args": args}  # fmt: skip

    same = [
        event("cpu_op", "aten::mm", 50, 51, "1", "1", **{"External id": 4}),
        event("cuda_runtime", "cudaLaunchKernel", 50, 51, "1.1", ".8", correlation=9),
        event("kernel", "gemm", 0, 7, "3", "1.001", correlation=9, device=0, stream=7,
              grid=[264, 1, 1]),
        event("kernel", "relu", 0, 7, "4.001", "0.999", correlation=10, device=0, stream=7),
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": same}))
    with tracekit.load(tmp_path / "t.pftrace") as run, tracekit.load(tmp_path / "t.json") as other:
        for table in ("gpu_op_origin", "kernels", "cpu_ops", "runtime_calls", "window_partition"):
            kept = "* EXCLUDE (event_id)" if table in ("kernels", "cpu_ops") else "*"
            if table == "runtime_calls":
                kept = "* EXCLUDE (event_id, label_id)"
            if table == "gpu_op_origin":
                kept = "* EXCLUDE (event_id, launch_id, cpu_op_id)"
            asked = f"SELECT {kept} FROM {table} ORDER BY ALL"
            assert run.fetch(asked) == other.fetch(asked)
        flows = "SELECT side, flow_id, ts_ns FROM flows ORDER BY ts_ns"
        assert run.fetch(flows)[1] == [("start", 9, 1100), ("end", 9, 3000)]
        assert run.fetch("SELECT profiler FROM trace")[1] == [("perfetto",)]


def test_a_cut_pftrace_is_read_in_part_and_a_bomb_is_refused(tmp_path):
    texts = [each.SerializeToString() for each in PFTRACE]
    (tmp_path / "cut.pftrace").write_bytes(framed(texts)[:-3])
    with tracekit.load(tmp_path / "cut.pftrace") as run:
        assert run.fetch("SELECT damage FROM trace")[1] == [("the file ends inside a packet",)]
        assert run.fetch("SELECT count(*) FROM kernels")[1] == [(1,)]
    bomb = zlib.compress(bytes(300 << 20), 9)
    packed = type(PFTRACE[0])(compressed_packets=bomb).SerializeToString()
    size = bytes([len(packed) & 127 | 128, len(packed) >> 7 & 127 | 128, len(packed) >> 14])
    (tmp_path / "bomb.pftrace").write_bytes(b"\n" + size + packed)
    with pytest.raises(TracekitError, match="decompression bomb"):
        tracekit.load(tmp_path / "bomb.pftrace")


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_MOST_TRACKS"])
def test_names_and_tracks_of_a_pftrace_are_bounded(limit, tmp_path, monkeypatch):
    (tmp_path / "t.pftrace").write_bytes(framed([each.SerializeToString() for each in PFTRACE]))
    monkeypatch.setattr(perfetto, limit, 1)
    with pytest.raises(TracekitError, match=r"t\.pftrace: has more than"):
        tracekit.load(tmp_path / "t.pftrace", temp_dir=tmp_path)
    assert not list(tmp_path.glob("tracekit-marks-*"))


# -- what is said to their users -------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXPECTED) or WITHOUT)
def test_advice_on_recording_names_the_switches_of_its_own_profiler(name, loaded):
    said = loaded(name).query("missing").to_dicts() + loaded(name).query("health").to_dicts()
    words = " ".join(each["message"] for each in said)
    assert not re.search(
        r"record_shapes|with_stack|profile_memory|record_function|\.step\(\)", words
    )
    own = {"nsys": "--pytorch=autograd-shapes-nvtx", "rocprofv3": "--hip-trace", "xplane": "jax."}
    assert next(word for kind, word in own.items() if f".{kind}" in name) in words


@pytest.mark.skipif(not EXPECTED, reason=f"{OTHER} is not there")
@pytest.mark.parametrize(
    ("name", "regime", "bottleneck", "most_saved", "says"),
    [
        ("h100-pipeline-parallel.nsys.sqlite", "compute-bound", "math-or-memory", 0.08, ""),
        ("h100-two-gpus.nsys.sqlite", "compute-bound", "copy", 0, "no launch in the trace"),
        ("jax-te-attention.xplane.pb", "compute-bound", "math-or-memory", 0.02, ""),
        ("mi300x-jax-conv.xplane.pb", "unknown", None, 0, "94.6 % of the window is waiting"),
        ("mi350-ddp.rocprofv3.json.gz", "unknown", None, 0, "calls, too: --hip-trace"),
    ],
)
def test_verdict_and_prices_are_what_the_raw_events_show(
    name, regime, bottleneck, most_saved, says, loaded
):
    for each in loaded(name).verdicts():
        verdict = each.verdict
        assert (verdict.regime, verdict.bottleneck) == (regime, bottleneck)
        assert max((found.share or 0 for found in each.advice), default=0) <= most_saved
        assert says in " ".join([*verdict.why, *verdict.doubts, *verdict.try_next])


@pytest.mark.skipif(not EXPECTED, reason=f"{OTHER} is not there")
def test_confidence_is_low_where_half_of_the_ops_have_no_launch(loaded):
    run = loaded("h100-two-gpus.nsys.sqlite")
    for trace in run.trace_ids():
        verdict = run.verdict(trace=trace)
        assert (verdict.bottleneck, verdict.confidence) == ("copy", "low")


def test_health_says_what_the_database_leaves_out(tmp_path):
    def change(tables, strings):
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
            {"start": 9_100, "end": 9_900, "deviceId": 0, "contextId": 1, "streamId": 7,
             "correlationId": 9, "globalPid": nsys.GLOBAL_PID, "graphId": 3, "graphExecId": 4}
        ]  # fmt: skip
        tables["VULKAN_THINGS"] = [{"id": 1}, {"id": 2}]
        tables["DIAGNOSTIC_EVENT"] = [{"severity": 2, "text": "Not all events were collected."}]

    with tracekit.load(report(tmp_path, change)) as run:
        found = {each["code"]: each for each in run.query("health").to_dicts()}
        assert found["left_out"]["count"] == 2
        assert "VULKAN_THINGS" in found["left_out"]["message"]
        assert "--cuda-graph-trace=node" in found["whole_graphs"]["message"]
        assert found["profiler_warned"]["message"] == "nsys said: Not all events were collected."
