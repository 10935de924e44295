"""Files of rocprofv3, JAX and Perfetto: small ones say what a trace of Kineto would say, and
damaged ones are read in part or refused in one line."""

import json
import zlib
from functools import partial

import pytest

import tracekit
from tests.kit.ascend_simulated import BEGIN, ascend
from tests.kit.other_formats import (
    ROCPD_SUFFIX,
    ROCPROF,
    changed,
    compressed,
    framed,
    packets,
    rocpd,
    space,
)
from tests.kit.traces import slice_event
from tests.trace import test_nsys
from tests.trace.test_nsys import report
from tracekit.errors import TracekitError
from tracekit.trace import budget
from tracekit.trace.other import protos


def like_packets():
    """What `packets` say, as Kineto would."""

    def event(cat, name, place, ts, dur, **args):
        pid, tid = place
        return slice_event(cat, name, ts, dur, args=args) | {"pid": pid, "tid": tid}

    host, gpu = (50, 51), (0, 7)
    return [
        event("cpu_op", "aten::mm", host, "1", "1", **{"External id": 4}),
        event("cuda_runtime", "cudaLaunchKernel", host, "1.1", ".8", correlation=9),
        event("kernel", "gemm", gpu, "3", "1.001", correlation=9, device=0, stream=7,
              grid=[264, 1, 1]),
        event("kernel", "relu", gpu, "4.001", "0.999", correlation=10, device=0, stream=7),
    ]  # fmt: skip


def _report(change, path):
    report(path.parent, change, path.name)


def _damaged(statement, path):
    changed(rocpd(path), statement.format(u=ROCPD_SUFFIX))


# The SQL that damages a database of rocprofv3, the number of events that are left, and how the
# message about it begins.
DAMAGED = [
    ("DROP TABLE rocpd_timestamp{u}", 1, "5 of its rows lack times or a process"),
    ("DROP TABLE rocpd_track{u}", 1, "5 of its rows lack times or a process"),
    ("UPDATE rocpd_timestamp{u} SET value = 'x' WHERE id = 1", 5, "1 of its rows lack times"),
    ("UPDATE rocpd_kernel_dispatch{u} SET grid_size_x = 'x', workgroup_size_y = -1", 6, None),
    ("UPDATE rocpd_info_process{u} SET pid = x'ff'", 6, None),
]
FILES = {
    "rocprof": ("json", json.dumps(ROCPROF, indent=1).encode()),
    "rocprof_cut": ("json", json.dumps(ROCPROF).partition('"kernel_dispatch"')[0].encode()),
    # A member of the file's own does not name the profiler.
    "rocprof_named": ("json", json.dumps(ROCPROF)[:-1].encode() + b',"profiler":["x"],'),
    "rocpd3": ("db", lambda path: rocpd(path, 3)),
    "rocpd4": ("db", rocpd),
    "xplane": ("xplane.pb", space()),
    "xplane_cut_3": ("xplane.pb", space()[:-3]),
    "xplane_cut_40": ("xplane.pb", space()[:-40]),
    "pftrace": ("pftrace", framed(packets())),
    "pftrace_cut": ("pftrace", framed(packets())[:-3]),
    "pftrace_packed": ("pftrace", framed([compressed(zlib.compress(framed(packets())))])),
    **{change.__name__: ("sqlite", partial(_report, change)) for change in test_nsys.ASKED},
    **{f"damaged{n}": ("db", partial(_damaged, sql)) for n, (sql, *_) in enumerate(DAMAGED)},
    "ascend_db": ("profiler.db", ascend),
    "kineto": ("json", json.dumps({"traceEvents": like_packets()}).encode()),
}
# SELECTs without their first word, and their rows in order.
_ROCM = [
    ("kind, name, launch_name, device_id, stream, dur_ns FROM gpu_op_origin",
     [("kernel", "gemm", "hipLaunchKernel", 9, 2, 1001),
      ("memcpy", "Memcpy HtoD", "hipMemcpyAsync", 9, 0, 100)]),
    ("name, pid, tid, start_ns, dur_ns FROM annotations", [("forward", 50, 51, 900, 900)]),
    ("name, pid, tid, start_ns, dur_ns FROM launches",
     [("hipLaunchKernel", 50, 51, 1000, 500), ("hipMemcpyAsync", 50, 51, 1600, 100)]),
    ("grid, block FROM kernels", [("[10,2,1]", "[64,1,1]")]),
    ("profiler, host FROM trace", [("rocprofv3", "h")]),
    ("device_id, name FROM device", [(9, "AMD Instinct MI300X")]),
]  # fmt: skip
_PFTRACE = [
    ("side, flow_id, ts_ns FROM flows", [("end", 9, 3000), ("start", 9, 1100)]),
    ("profiler FROM trace", [("perfetto",)]),
]
_CUT_PLANES = [
    ("name FROM annotations", [("PjitFunction(f)",), ("ProfilerStep#4",)]),
    ("damage FROM trace", [("the file ends inside a plane",)]),
]
ASKED = {
    **{change.__name__: rows for change, rows in test_nsys.ASKED.items()},
    **{
        f"damaged{number}": [(f"events, damage[:{len(said or '')}] FROM trace", [(events, said)])]
        for number, (_, events, said) in enumerate(DAMAGED)
    },
    "rocprof": _ROCM,
    "rocpd3": _ROCM,
    "rocpd4": _ROCM,
    "rocprof_cut": [
        ("count(*) FROM (FROM event WHERE phase = 'X')", [(4,)]),
        ("contains(damage, 'damaged') FROM trace", [(True,)]),
    ],
    "rocprof_named": [("profiler, damage IS NULL FROM trace", [("rocprofv3", False)])],
    "xplane": [
        ("name, device_id, start_ns, dur_ns FROM gpu_ops", [("fusion.3", 0, 3000, 1000)]),
        ("args->>'hlo_category', args->>'flops' FROM kernels", [("loop fusion", str(1 << 40))]),
        ("step, dur_ns FROM steps", [(4, 5000)]),
        ("name FROM python_frames", [("train.py(12): step",)]),
        ("side, name FROM annotations",
         [("device", "ProfilerStep#4"), ("device", "jit_f"), ("host", "PjitFunction(f)"),
          ("host", "ProfilerStep#4")]),
        ("metadata->'profiler'->>'picoseconds_lost' FROM trace", [("1",)]),
        ("device_id, name FROM device", [(0, "TPU v6 Lite2")]),
    ],
    "xplane_cut_3": _CUT_PLANES,
    "xplane_cut_40": _CUT_PLANES,
    "ascend_db": [
        ("kind, class, name, start_ns, dur_ns, device_id, stream, launch_name FROM gpu_ops",
         [("kernel", "communication", "hcom_allReduce__428_0_1", BEGIN + 80_000, 10_000, 0, 9,
           "Node@launch"),
          ("kernel", "gemm", "MatMulV2", BEGIN + 30_001, 40_499, 0, 2, "Node@launch"),
          ("kernel", "other", "Add", BEGIN + 70_500, 500, 0, 2, "Node@launch"),
          ("memcpy", "memcpy", "Memcpy HtoD", BEGIN + 40_000, 4_000, 0, 3,
           "AscendCL@aclrtMemcpyAsync")]),
        ("bytes, copy_kind FROM (FROM gpu_ops WHERE kind = 'memcpy')", [(4096, "HtoD")]),
        ("name, cpu_op FROM (FROM gpu_op_origin WHERE cpu_op IS NOT NULL)",
         [("Add", "aten::mm"), ("MatMulV2", "aten::mm")]),
        ("name, sequence_number, input_dims, input_types, dur_ns FROM cpu_ops",
         [("aten::mm", 7, "[[4,8],[8,16],[]]", '["float","float","Scalar"]', 18_999)]),
        ("name, tid, dur_ns FROM (FROM slices WHERE kind = 'runtime')",
         [("AscendCL@aclnnMatmul", 51, 6_000), ("AscendCL@aclrtMemcpyAsync", 51, 1_000),
          ("AscendCL@aclrtSynchronizeStream", 51, 70_000), ("Node@launch", 51, 1_000),
          ("Node@launch", 51, 4_000)]),
        ("step, start_ns, dur_ns FROM steps", [(3, BEGIN, 100_000)]),
        ("name FROM python_frames", [("train.py(7): step",)]),
        ("name FROM annotations", [("ProfilerStep#3",), ("forward",)]),
        ("type, message_bytes, group_name FROM collective", [("allreduce", 2048, "g")]),
        ("profiler, rank, host, events, rejected FROM trace", [("torch_npu", 3, "h", 20, 0)]),
        ("device_id, name FROM device", [(0, "Ascend910B3")]),
    ],
    "pftrace": _PFTRACE,
    "pftrace_packed": _PFTRACE,
    "pftrace_cut": [
        ("damage FROM trace", [("the file ends inside a packet",)]),
        ("count(*) FROM kernels", [(1,)]),
    ],
}  # fmt: skip


def write(folder, name):
    kind, content = FILES[name]
    path = folder / f"{name}.{kind}"
    content(path) if callable(content) else path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """All files in one database."""
    folder = tmp_path_factory.mktemp("formats")
    with tracekit.load([write(folder, name) for name in FILES], verdicts=False) as run:
        yield run


def of(name):
    return f"trace_id IN (SELECT trace_id FROM trace WHERE contains(path, '/{name}.'))"


@pytest.mark.parametrize("name", ASKED)
def test_a_file_becomes_the_rows_that_kineto_would_have_written(name, loaded):
    for asked, expected in ASKED[name]:
        sql = f"SELECT {asked} WHERE {of(name)} ORDER BY ALL"
        assert loaded.fetch(sql)[1] == expected, asked


@pytest.mark.parametrize("name", ["pftrace", "pftrace_packed"])
def test_a_pftrace_says_what_the_same_json_trace_says(name, loaded):
    for table, ids in (
        ("gpu_op_origin", "event_id, launch_id, cpu_op_id"), ("kernels", "event_id"),
        ("cpu_ops", "event_id"), ("runtime_calls", "event_id, label_id"),
        ("window_partition", "trace_id"),
    ):  # fmt: skip
        ids = ids if "trace_id" in ids else f"{ids}, trace_id"
        found, expected = (
            loaded.fetch(f"SELECT * EXCLUDE ({ids}) FROM {table} WHERE {of(each)} ORDER BY ALL")
            for each in (name, "kineto")
        )
        assert found == expected and found[1]


def test_an_exported_trace_loads_as_the_same_rows(loaded, tmp_path):
    ids = loaded.trace_ids()
    for each in ids:
        loaded.export(tmp_path / f"{each}.json", trace=each)
    with tracekit.load([tmp_path / f"{each}.json" for each in ids], verdicts=False) as again:
        assert again.fetch(rows_of("event")) == loaded.fetch(rows_of("event"))
        assert again.fetch(rows_of("trace")) == loaded.fetch(rows_of("trace"))


def rows_of(table):
    """What is exported of the rows of a table."""
    kept = "* EXCLUDE (path, file_bytes, sha256, damage)"
    if table == "event":
        # The text of times since 1970 is kept as it was written.
        kept = "* REPLACE (if(ts_ns > 1_000_000_000_000_000_000, NULL, raw) AS raw)"
    return f"SELECT {kept} FROM {table} ORDER BY ALL"


# -- damaged files ---------------------------------------------------------------------------------


def refused(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(TracekitError, match=f"^{path}: [^\n]*{reason}[^\n]*$"):
        tracekit.load(path)


def test_files_of_unknown_profilers_are_refused_in_one_line(tmp_path):
    whole = rocpd(tmp_path / "whole.db").read_bytes()
    refused(tmp_path / "cut.db", whole[:9000], "malformed")
    file = changed(rocpd(tmp_path / "other.db"), f"DROP TABLE rocpd_string{ROCPD_SUFFIX}")
    refused(file, file.read_bytes(), "not from a supported profiler")
    refused(tmp_path / "bad.pftrace", b"nonsense\n", "is not a protobuf trace, or is damaged")
    for text in (b"\n\xff\xff\xff\xff\xff\x01", b"\x0a\x02\xff\xff/host:", b"\n"):
        refused(tmp_path / "bad.xplane.pb", text, "")


def test_files_that_would_take_much_memory_are_refused(tmp_path, monkeypatch):
    held, bomb = "would take more than 0 MB of memory", "like a decompression bomb"
    for name, module, limits, reason in (
        ("xplane", protos, ["MOST_FIELD_BYTES"], "a field takes more than"),
        ("xplane", budget, ["HELD_BYTES", "HELD_RATIO"], held),
        ("pftrace", budget, ["HELD_BYTES", "HELD_RATIO"], held),
        ("rocprof", budget, ["HELD_BYTES", "HELD_RATIO"], held),
        ("rocpd4", budget, ["HELD_BYTES", "HELD_RATIO"], held),
        ("pftrace", budget, ["TEXT_BYTES", "TEXT_RATIO"], bomb),
        ("pftrace_packed", budget, ["TEXT_BYTES", "TEXT_RATIO"], bomb),
    ):
        with monkeypatch.context() as patch, pytest.raises(TracekitError, match=reason):
            for limit in limits:
                patch.setattr(module, limit, 20 if module is protos else 0)
            tracekit.load(write(tmp_path, name), temp_dir=tmp_path)
        assert not list(tmp_path.glob("tracekit-temp-*"))
