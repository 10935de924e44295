"""Forms of JSON that other profilers and tools write have the numbers that are in their events."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit.processes import invoke
from tests.kit.traces import write
from tracekit.errors import TracekitError

FORMS = SHARED_TRACES / "forms"
needs_forms = pytest.mark.skipif(not FORMS.exists(), reason=f"{FORMS} is not there")


def device_time(run, trace=1):
    """The number of GPU ops, and the window's length and busy time."""
    (window,) = run.ask("partition", kind="gpu_active", trace=trace)
    return window["gpu_ops"], window["span_ns"], window["busy_ns"]


@needs_forms
@pytest.mark.parametrize(
    ("name", "ops", "span_ns", "busy_ns", "regime"),
    [
        ("ascend-trace-view.json.gz", 79, 5_248_000, 632_000, "overhead-bound"),
        ("proton-3.8.json.gz", 200, 9_958_000, 1_600_000, "overhead-bound"),
        ("proton-3.7.chrome_trace", 40, 198_000, 160_000, "compute-bound"),
        # Operators; the modules around them have gaps between operators in them.
        ("jax-trace-json.json.gz", 60, 11_845_000, 10_500_000, "compute-bound"),
        # Operators that others do not contain.
        ("legacy-autograd.json.gz", 60, 10_790_000, 10_200_000, "compute-bound"),
    ],
)
def test_a_form_has_the_numbers_that_are_in_its_events(name, ops, span_ns, busy_ns, regime):
    with tracekit.load(FORMS / name) as run:
        assert device_time(run) == (ops, span_ns, busy_ns)
        assert run.verdict().verdict.regime == regime
        codes = {row["code"] for row in run.ask("health")}
        assert codes.isdisjoint({"unread_device", "lost_kernels", "shared_file", "no_category"})


@needs_forms
def test_ascend_s_calls_are_of_python_s_threads():
    with tracekit.load(FORMS / "ascend-trace-view.json.gz") as run:
        verdict = run.verdict().verdict
        assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "dispatch")
        # All of them have a launch, and that is in an operator.
        ((linked, operators),) = run.fetch(
            "SELECT count(launch_id), count(*) FILTER (cpu_op_id IS NOT NULL) FROM gpu_ops AS g"
            " JOIN thread_slice AS t ON t.event_id = launch_id"
        )[1]
        assert (linked, operators) == (79, 79)
        lengths = run.fetch("SELECT dur_ns FROM slices WHERE name LIKE 'ProfilerStep%'")[1]
        assert lengths == [(2_800_000,), (2_800_000,)]


@needs_forms
def test_proton_s_kernels_are_in_their_scopes():
    with tracekit.load(FORMS / "proton-3.8.json.gz") as run:
        (scope,) = run.ask("annotation_kernels")
        assert (scope["annotation"], scope["name"], scope["count"]) == ("mlp", "matmul_kernel", 200)
        assert run.fetch("SELECT count(launch_id) FROM gpu_ops")[1] == [(200,)]


@needs_forms
def test_a_tree_of_totals_has_kernels_and_no_verdict(tmp_path):
    tree = json.loads((FORMS / "proton.hatchet").read_text())
    (tmp_path / "p.hatchet_msgpack").write_bytes(msgspec.msgpack.encode(tree))
    for path in (FORMS / "proton.hatchet", tmp_path / "p.hatchet_msgpack"):
        with tracekit.load(path) as run:
            (row,) = run.ask("kernel_tree")
            assert (row["path"], row["count"], row["gpu_ns"]) == ("mlp", 200, 1_600_000)
            analysis = run.verdict()
            assert analysis.verdict.regime == "unknown"
            assert "no time line" in analysis.verdict.headline
            assert 'give proton.start "trace" for its data' in " ".join(str(analysis).split())


def test_totals_of_a_tree_count_for_all_scopes_above(tmp_path):
    def node(name, children=(), **metrics):
        return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}

    leaves = [
        node("mm", count=2, **{"time (ns)": 300, "flops16": 600_000, "bytes": 900}),
        node("relu", count=1, **{"time (us)": 0.1}),
    ]
    tree = [node("ROOT", [node("step", [node("mlp", leaves), *leaves[1:]])]), {"CUDA": {}}]
    (tmp_path / "t.hatchet").write_text(json.dumps(tree))
    with tracekit.load(tmp_path / "t.hatchet") as run:
        rows = {row["path"]: row for row in run.ask("kernel_tree")}
    assert [(path, row["gpu_ns"], row["count"]) for path, row in rows.items()] == [
        ("step", 500, 4), ("step > mlp", 400, 3), ("step > mlp > mm", 300, 2),
        ("step > mlp > relu", 100, 1), ("step > relu", 100, 1),
    ]  # fmt: skip
    assert rows["step > mlp > mm"]["tflop_per_s"] == 2 and rows["step > mlp > mm"]["gb_per_s"] == 3


@needs_forms
def test_the_phases_of_a_compilation_are_read_from_begins_and_ends():
    with tracekit.load(FORMS / "tlparse-BE.json.gz") as run:
        rows = {row["phase"]: (row["total_ns"], row["self_ns"]) for row in run.ask("compile_times")}
    ms = 1_000_000
    assert rows["entire_frame_compile"][0] == 9_000 * ms
    assert rows["bytecode_tracing"][0] == 1_999 * ms
    assert rows["backend_compile"][0] == 6_899_990_000
    assert rows["inductor_compile"][0] == 5_500 * ms
    assert rows["async_compile.wait"] == (4_000 * ms, 4_000 * ms)


def test_an_end_belongs_to_the_last_begin_of_its_name(tmp_path):
    def at(phase, ts, name=None, **more):
        return {"ph": phase, "ts": ts, "pid": 1, "tid": 1} | ({"name": name} if name else {}) | more

    path = write(
        tmp_path / "b.json",
        [
            at("B", 0, "a"), at("B", 10.125, "b", args={"x": 1}), at("E", 20.25, args={"y": 2}),
            at("E", 30, "a"), at("E", 40, "c"), at("B", 50, "d"), at("B", 60, "e", tid=2),
            at("E", 70, "e", tid=2),
        ],
    )  # fmt: skip
    with tracekit.load(path) as run:
        rows = run.fetch(
            "SELECT phase, name, ts_ns, dur_ns, args::VARCHAR FROM event ORDER BY ts_ns, phase DESC"
        )[1]
        left_out = [row for row in run.ask("health") if row["code"] == "left_out"]
    assert rows == [
        ("X", "a", 0, 30_000, "{}"), ("X", "b", 10_125, 10_125, '{"x":1,"y":2}'),
        ("E", "c", 40_000, None, None), ("B", "d", 50_000, None, None),
        ("X", "e", 60_000, 10_000, "{}"),
    ]  # fmt: skip
    assert [row["count"] for row in left_out] == [2]


@needs_forms
def test_viztracer_s_calls_are_python_s_frames():
    with tracekit.load(FORMS / "viztracer.json.gz") as run:
        analysis = run.verdict()
        verdict = analysis.verdict
        assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "python")
        # A graph would not do the function's work.
        assert analysis.advice[0].remedy == "python-lines"
        assert [row["place"] for row in run.ask("python_lines")][:1] == [
            "/w/data.py(40): preprocess"
        ]


@needs_forms
def test_ranks_of_a_merged_profile_are_traces_of_their_own():
    with tracekit.load(FORMS / "sglang-merged.json.gz") as run:
        assert [row["rank"] for row in run.ask("overview")] == [0, 1]
        assert device_time(run, 1)[1:] == (4_013_000, 3_965_000)
        assert device_time(run, 2)[1:] == (4_035_000, 3_212_000)
        linked = run.fetch("SELECT trace_id, count(*), count(launch_id) FROM gpu_ops GROUP BY ALL")
        assert sorted(linked[1]) == [(1, 63, 63), (2, 63, 63)]


# -- small files, written here

WORK = [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 50, "tid": 51, "ts": 1.5,
     "dur": 2, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.25, "dur": 3,
     "args": {"correlation": 7, "device": 0, "stream": 7}},
]  # fmt: skip


def two_ranks(tmp_path):
    for rank in (0, 1):
        about = {"distributedInfo": {"rank": rank, "world_size": 2}, "with_stack": 1}
        events = [event | {"ts": event["ts"] + rank} for event in WORK]
        text = json.dumps(about | {"traceEvents": events})
        (tmp_path / f"rank{rank}.json").write_text(text)
    return [tmp_path / "rank0.json", tmp_path / "rank1.json"]


def ops(run):
    return run.fetch(
        "SELECT trace_id, rank, device_id, name, g.start_ns, g.dur_ns, launch_start_ns, world_size"
        " FROM gpu_ops AS g JOIN trace USING (trace_id) ORDER BY trace_id"
    )[1]


def test_what_annotate_joined_is_read_as_the_traces_that_it_came_from(tmp_path):
    two_ranks(tmp_path)
    with tracekit.load(tmp_path) as run:
        before = ops(run)
    assert [row[:3] for row in before] == [(1, 0, 0), (2, 1, 0)]
    assert invoke("annotate", tmp_path, "-o", tmp_path / "joined.json.gz").exit_code == 0
    with tracekit.load(tmp_path / "joined.json.gz") as run:
        assert ops(run) == before
        paths = [row["path"].rpartition("/")[2] for row in run.ask("overview")]
        assert paths == ["rank0", "rank1"]


def test_what_tracelens_fused_is_read_as_the_traces_that_it_came_from(tmp_path):
    fused = [
        event
        | {"pid": event["pid"] + rank * 1000, "ts": event["ts"] + rank}
        | {"args": event["args"] | {
            "rank": rank, "pid_raw": event["pid"],
            "correlation_raw": 7, "correlation": 7 + 100 * rank}}
        for rank in (0, 1) for event in WORK
    ]  # fmt: skip
    (tmp_path / "fused.json").write_text(json.dumps({"traceEvents": fused}, indent=4))
    two_ranks(tmp_path)
    with tracekit.load([tmp_path / "rank0.json", tmp_path / "rank1.json"]) as run:
        before = ops(run)
    with tracekit.load(tmp_path / "fused.json") as run:
        assert ops(run) == before


def test_a_fused_rank_keeps_its_number(tmp_path):
    events = [
        event | {"args": event["args"] | {"rank": rank, "pid_raw": event["pid"]}}
        for rank in (2, 5) for event in WORK
    ]  # fmt: skip
    with tracekit.load(write(tmp_path / "fused.json", events)) as run:
        assert [row["rank"] for row in run.ask("overview")] == [2, 5]


def test_ranks_are_ordered_by_their_labels_parts(tmp_path):
    labels = ["TP01-DP00", "TP00-DP01", "TP00-DP00", "TP10-DP00"]
    events = [event | {"pid": f"[{label}] {event['pid']}"} for label in labels for event in WORK]
    path = write(tmp_path / "m.json", events)
    with tracekit.load(path) as run:
        found = [(row["path"].rpartition("/")[2], row["rank"]) for row in run.ask("overview")]
    assert found == [("TP00-DP00", 0), ("TP01-DP00", 1), ("TP10-DP00", 2), ("TP00-DP01", 3)]


def test_tensorflow_s_timeline_has_its_streams_as_the_device(tmp_path):
    names = ["/job:localhost/replica:0/task:0/device:GPU:0 Compute",
             "/device:GPU:0/stream:all Compute", "/device:GPU:0/stream:13 Compute",
             "/device:GPU:0/memcpy Compute", "/device:CPU:0 Compute"]  # fmt: skip
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in enumerate(names)
    ]
    events += [
        {"ph": "X", "cat": "Op", "name": name, "pid": pid, "tid": 0, "ts": ts, "dur": 4,
         "args": {"name": name, "op": "MatMul"}}
        for pid, name, ts in ((0, "MatMul", 0), (1, "MatMul", 10), (2, "MatMul", 10),
                              (3, "MEMCPYHtoD", 20), (4, "Const", 1))
    ]  # fmt: skip
    with tracekit.load(write(tmp_path / "timeline.json", events)) as run:
        rows = run.fetch("SELECT kind, name, device_id, start_ns FROM gpu_ops ORDER BY start_ns")[1]
        assert rows == [("kernel", "MatMul", 0, 10_000), ("memcpy", "Memcpy HtoD", 0, 20_000)]
    # Without the lanes of streams, the device's own is its work.
    bare = [event for event in events if event["pid"] in (0, 4)]
    with tracekit.load(write(tmp_path / "bare.json", bare)) as run:
        assert run.fetch("SELECT kind, start_ns FROM gpu_ops")[1] == [("kernel", 0)]


def test_times_since_1970_keep_their_nanoseconds(tmp_path):
    start = "1715330000123456.789"
    text = (
        '[{"ph":"M","name":"process_name","pid":9,"args":{"name":"Ascend Hardware"}},'
        f'{{"ph":"X","name":"k","pid":9,"tid":2,"ts":{start},"dur":0.123,"args":{{}}}}]'
    )
    (tmp_path / "t.json").write_text(text)
    with tracekit.load(tmp_path / "t.json") as run:
        rows = run.fetch("SELECT start_ns, dur_ns FROM slices")[1]
    assert rows == [(1_715_330_000_123_456_789, 123)]


@pytest.mark.parametrize("records", ['[{"a":1},{"b":2}]', '[{"averageMs": 1}, {"averageMs": 2}]'])
def test_records_that_are_no_events_are_refused_in_a_line(tmp_path, records):
    (tmp_path / "r.json.gz").write_bytes(gzip.compress(records.encode()))
    with pytest.raises(TracekitError, match=r"is a list of records, not of events: [^\n]+$"):
        tracekit.load(tmp_path / "r.json.gz")


@needs_forms
def test_a_profile_of_trtexec_is_called_so():
    with pytest.raises(TracekitError, match="trtexec"):
        tracekit.load(FORMS / "trtexec-profile.json.gz")


def test_events_of_a_kind_that_nothing_reads_are_counted(tmp_path):
    unknown = [{"ph": "X", "cat": "mine", "name": "n", "pid": 1, "tid": 1, "ts": 0, "dur": 1}] * 3
    with tracekit.load(write(tmp_path / "u.json", [*WORK, *unknown])) as run:
        (row,) = [each for each in run.ask("health") if each["code"] == "unused_events"]
    assert row["count"] == 3 and "mine" in row["message"] and "such as n" in row["message"]


@needs_forms
@pytest.mark.parametrize(
    ("name", "regime", "bottleneck", "remedy"),
    [
        # A first run: its launches load code.
        ("cold-start.json.gz", "overhead-bound", "launch", "warm-up"),
        # No call tells which stream waits for which: the order of launches does.
        ("no-wait-events.json.gz", "compute-bound", "math", None),
        # The device's peaks are not known, but that it has TF32.
        ("fp32-unknown-device.json.gz", "compute-bound", "math-or-memory", "tensor-cores"),
    ],
)
def test_the_verdict_on_a_form_is_what_its_events_say(name, regime, bottleneck, remedy):
    with tracekit.load(FORMS / name) as run:
        analysis = run.verdict()
    verdict = analysis.verdict
    assert (verdict.regime, verdict.bottleneck) == (regime, bottleneck)
    assert remedy is None or analysis.advice[0].remedy == remedy
    assert "CUDA graph" not in str(verdict.try_next)


@needs_forms
def test_work_faster_than_the_peak_and_times_of_zero_are_doubts():
    with tracekit.load(FORMS / "over-peak.json.gz") as run:
        analysis = run.verdict()
        assert analysis.verdict.confidence != "high"
        assert any("faster than the device can" in each for each in analysis.verdict.doubts)
    with tracekit.load(FORMS / "all-at-zero.json.gz") as run:
        analysis = run.verdict()
        assert analysis.verdict.regime == "unknown" and "nan" not in str(analysis)


@needs_forms
def test_frames_of_c_only_are_named_by_their_operator():
    with tracekit.load(FORMS / "memory-unwind.pickle") as run:
        held = {row["place"]: row["live_bytes"] for row in run.ask("memory_sites")}
    assert not any("unwind" in place for place in held)
    assert sorted(held.values()) == [20 * 2_097_152] * 2


def test_jax_s_two_files_of_one_recording_say_the_same():
    """Both were written by JAX 0.10.2 on a CPU: three steps of a small program."""
    events = "SELECT kind, name, start_ns - min(start_ns) OVER (), dur_ns FROM slices ORDER BY ALL"
    data = Path(__file__).parents[1] / "data/jax"
    with tracekit.load(data / "jax-cpu-step.xplane.pb") as run:
        expected = run.fetch(events)[1]
    with tracekit.load(data / "jax-cpu-step.trace.json.gz") as run:
        assert run.fetch(events)[1] == expected
        said = {row["code"]: row["message"] for row in run.ask("health")}
    assert len(expected) == 144 and ".xplane.pb" in said["shorter_form"]
