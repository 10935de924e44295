"""The graph of small handmade traces: its dependencies, and the effects of changes."""

import numpy as np
import pytest

import tracekit
from tests.conftest import OWN_TRACES, trace_names
from tests.kit import traces
from tests.kit.processes import ran
from tests.kit.traces import frame, gpu_op, launch, operator, slice_event, step
from tracekit.errors import TracekitError
from tracekit.replay.changes import scale_parts
from tracekit.replay.grammar import PATTERNS
from tracekit.replay.graph import EdgeKind
from tracekit.replay.replay import Replay

US = 1_000


TRACES = traces.Together()


@pytest.fixture
def replay(trace, loaded):
    return Replay(loaded, trace)


def edges(replay, kind):
    """The edges of a kind between ops, as (source op, target op)."""
    found = replay.graph.edges
    chosen = found.kind == kind
    ids = replay.graph.device.op_id
    ends = zip(found.source[chosen] - 1, found.target[chosen] - 1, strict=True)
    return {(int(ids[a]), int(ids[b])) for a, b in ends if 0 <= a < len(ids) and b < len(ids)}


def predicted(replay, *changes):
    """The GPU-active span in us, replayed with changes."""
    return replay.bounds().length(replay.run(*changes)) / US


@pytest.mark.sampled(6, of=60)
@pytest.mark.parametrize("name", trace_names())
def test_without_changes_every_real_op_starts_when_it_did(name, shared_trace):
    replay = Replay(*shared_trace(name))
    graph = replay.graph
    if not graph.ops:
        return
    assert np.array_equal(replay.measured().time, graph.time)
    bounds = replay.bounds()
    path = bounds.path(replay.measured()).by_cause
    assert sum(path.values()) == bounds.length(replay.measured())
    for number, length in enumerate(replay.steps.lengths(replay.measured())):
        assert (
            sum(replay.window("step", number).path(replay.measured()).by_cause.values()) == length
        )


PLAIN = [
    "h100-bert-small", "h100-timesformer", "a100-nccl", "v100-ns-resolution", "v100-compiled-ddp",
]  # fmt: skip


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize("name", PLAIN)
def test_less_than_5_percent_of_a_plain_run_is_unexplained(name, shared_trace):
    replay = Replay(*shared_trace(f"{name}.json.gz"))
    graph, bounds = replay.graph, replay.bounds()
    span = bounds.length(replay.measured())
    assert bounds.path(replay.measured()).by_cause.get("unknown", 0) < 0.05 * span
    # The bound holds for all waits, not only for those on the path.
    assert graph.unknown[1 : 1 + graph.ops].sum() < 0.05 * span


BACKWARD = ["a100-nccl", "mi250-minitoy", "mi300x-resnet-checkpoint", "v100-ns-resolution"]


@pytest.mark.parametrize("name", BACKWARD)
def test_autograds_arrows_lead_to_threads_that_take_work_over(name, shared_trace):
    database, trace = shared_trace(f"{name}.json.gz")
    graph = Replay(database, trace).graph
    _, ends = database.fetch(
        "SELECT DISTINCT pid, tid FROM flows WHERE category = 'fwdbwd' AND side = 'end'"
        f" AND trace_id = {trace}"
    )
    given = graph.edges.target[graph.edges.kind == EdgeKind.HANDOVER] - 1 - graph.ops
    takers = {graph.host.threads[each] for each in graph.host.thread_of(graph.joins[given])}
    assert ends
    assert set(ends) <= takers


@TRACES.of(launch(0, 5, 1), gpu_op(7, 50, 1), launch(10, 5, 2), gpu_op(58, 20, 2))
def test_an_op_waits_for_its_launch_and_for_its_stream(replay):
    assert edges(replay, EdgeKind.STREAM) == {(1, 3)}
    # The first op delays the second. The gap of 1 us between them stays.
    assert predicted(replay) == 71
    assert predicted(replay, "device*0.5") == 36
    # Now its launch delays it: submitted at 15 us, it takes 2 us, as the first launch did.
    assert predicted(replay, "device*0.1") == 12


@TRACES.of(*(each for n in range(3) for each in (launch(n, 1, n), gpu_op(10 + 6 * n, 5, n))))
def test_a_removed_op_takes_its_gap_along(replay):
    assert predicted(replay) == 5 + 1 + 5 + 1 + 5
    scale = replay.scale(steady=False)
    rows = {"event_id": replay.graph.device.op_id[1:2], "factor": np.zeros(1)}
    scale_parts(rows, "op", scale, replay.graph)
    assert replay.bounds().length(replay.simulator.run(scale)) == (5 + 1 + 5) * US


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1), launch(10, 100, 2, name="cudaDeviceSynchronize"),
    launch(120, 5, 3), gpu_op(127, 10, 3),
)  # fmt: skip
def test_the_host_waits_for_what_it_synchronizes_with(replay):
    # The call returns 3 us after the op; 15 us until the next launch's end, 2 us to its op.
    assert predicted(replay, "device*0.5") == 50 + 3 + 15 + 2 + 5
    # Without the wait, the launch follows at once, and the op follows its stream (1 us is usual).
    assert predicted(replay, "sync*0") == 100 + 1 + 10
    # Waiting is not host work.
    assert predicted(replay, "host*0.5") == 100 + 3 + 7.5 + 2 + 10


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1),
    launch(10, 112, 2, name="cudaMemcpyAsync"),
    gpu_op(108, 12, 2, category="gpu_memcpy", name="Memcpy DtoH (Device -> Pageable)"),
    launch(130, 5, 3), gpu_op(137, 10, 3),
)  # fmt: skip
def test_a_copy_that_blocks_holds_its_thread(replay):
    assert predicted(replay) == 140
    # The call's length is the device's: it shrinks with the kernel before the copy.
    assert predicted(replay, "kernel:sgemm*0.5") == pytest.approx(140 - 50 - 5)
    assert predicted(replay, "host*0.5") > 130


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1, stream=7),
    launch(6, 1, 2, name="cudaEventRecord"), launch(8, 1, 3, name="cudaStreamWaitEvent"),
    slice_event(
        "cuda_sync", "Stream Wait Event", 8, 1,
        args={"stream": 9, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2,
              "correlation": 3, "device": 0},
    ),
    launch(10, 5, 4), gpu_op(108, 10, 4, stream=9),
)  # fmt: skip
def test_a_stream_waits_for_the_event_that_the_trace_names(replay):
    assert edges(replay, EdgeKind.WAIT) == {(1, 6)}
    assert predicted(replay, "device*0.5") == 50 + 1 + 5


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1, stream=7),
    launch(10, 5, 4), gpu_op(308, 10, 4, stream=9),
)  # fmt: skip
def test_without_a_call_between_them_streams_do_not_wait_for_each_other(replay):
    assert edges(replay, EdgeKind.WAIT) == set()
    # A launch may take 20 us; the trace does not explain the rest.
    path = replay.bounds().path(replay.measured()).by_cause
    assert path["unknown"] == (308 - 15 - 20) * US
    assert predicted(replay, "host*0", "latency*0") > 200


@TRACES.of(
    launch(0, 5, 1, name="cudaGraphLaunch"),
    gpu_op(7, 50, 1, stream=7), gpu_op(58, 50, 1, stream=8), gpu_op(109, 10, 1, stream=7),
)  # fmt: skip
def test_kernels_of_a_graph_wait_for_each_other(replay):
    assert edges(replay, EdgeKind.WAIT) == {(1, 2), (2, 3)}
    assert predicted(replay, "device*0.5") == 25 + 1 + 25 + 1 + 5


WORKER = {"tid": 200}


@TRACES.of(
    operator("forward", 0, 10), launch(1, 5, 1), gpu_op(8, 5, 1),
    frame("backward", 12, 100),
    operator("MmBackward0", 20, 40) | WORKER, launch(30, 5, 2) | WORKER, gpu_op(37, 5, 2),
    operator("AddBackward0", 65, 30) | WORKER,
    operator("optimizer", 115, 20), launch(120, 5, 3), gpu_op(127, 5, 3),
)  # fmt: skip
def test_work_of_another_thread_is_waited_for_by_the_one_that_stands_still(replay):
    kinds = replay.graph.edges.kind
    assert (kinds == EdgeKind.HANDOVER).sum() == 2
    # 40 us of the worker's time are gone, and so is the op launched in them.
    assert predicted(replay, "operator:MmBackward0*0") == predicted(replay) - 40


@TRACES.of(launch(100, 5, 1), gpu_op(97, 20, 1), launch(200, 5, 2), gpu_op(203, 20, 2))
def test_a_device_clock_that_is_ahead_is_corrected_by_the_smallest_shift(replay, trace):
    assert replay.graph.device.shift_ns == {0: 3 * US}
    assert predicted(replay) == 126
    analysis = replay.database.verdict(trace)
    assert analysis.causal.clock_shift_ns == 3 * US
    assert any("added to the device's times" in why for why in analysis.verdict.why)


@TRACES.of(launch(9_000, 5, 1), gpu_op(97, 20, 1), launch(9_100, 5, 2), gpu_op(9_107, 20, 2))
def test_an_op_long_before_its_launch_is_not_linked_to_it(replay):
    assert replay.graph.device.wrong_links == 1
    assert replay.graph.device.shift_ns == {0: 0}


@TRACES.of(launch(0, 1, 1), *(gpu_op(10 * place, 4, 100 + place) for place in range(50)))
def test_gaps_before_ops_without_a_launch_are_nobodys(replay, trace):
    # A device takes 1 us of each gap; nothing explains the other 5.
    path = replay.bounds().path(replay.measured()).by_cause
    assert path["unknown"] == 49 * 5 * US
    assert replay.database.verdict(trace).verdict.regime == "unknown"


@TRACES.of(
    operator("aten::mm", 0, 20), launch(5, 5, 1), gpu_op(12, 100, 1, name="gemm_128"),
    operator("aten::add", 30, 20), launch(35, 5, 2),
    gpu_op(113, 40, 2, name="elementwise_add"),
)  # fmt: skip
def test_a_change_scales_only_what_it_names(replay):
    assert predicted(replay) == 141
    assert predicted(replay, "kernel:GEMM*0.5") == 91
    assert predicted(replay, "kernel:*add*0.5") == 121
    assert predicted(replay, "class:elementwise*0.5") == 121
    assert predicted(replay, "operator:add*0") == pytest.approx(100)
    assert predicted(replay, "kernel:gemm*0.5", "kernel:add*0.5") == 71
    assert predicted(replay, "device*2") == 281


def test_changes_need_no_package_that_an_install_lacks():
    trace = OWN_TRACES / "simulated-overhead-bound.json.gz"
    changes = [f"{kind}:**{0 if kind == 'sync' else 0.5}" for kind in PATTERNS]
    code = (
        "import sys\n"
        "for name in 'pandas', 'pyarrow': sys.modules[name] = None\n"
        "import tracekit\n"
        f"with tracekit.load({str(trace)!r}) as run:\n"
        f"    for change in {changes!r}:\n"
        "        try: run.whatif(change)\n"
        "        except tracekit.TracekitError as error: print(error)\n"
    )
    done = ran("python", "-c", code)
    # The trace has no modules.
    assert "names nothing in this trace" in done.stdout
    assert len(done.stdout.splitlines()) == 1, done.stdout


WRONG = (
    [
        ("host", "is not a change"), ("host*", "is not a change"), ("host*-1", "is not a change"),
        ("host*1e5", "is not a change"), ("gpus*0.5", "none of host, device"),
        ("unknown*0", "none of host"), ("nothing:x*0.5", "one of kernel:NAME"),
        ("kernel:*0.5", "one of kernel:NAME"), ("sync:x*0.5", r"removed \(\*0\)"),
        ("kernel:nosuch*0.5", "names nothing"), ("fuse", "no neighbouring operators"),
        ("host*9999999", "as a multiple of the old one"), ("cuda-graph:x", "is not a change"),
]
)  # fmt: skip


@TRACES.of(launch(0, 5, 1), gpu_op(7, 50, 1))
def test_invalid_changes_are_refused_in_one_line(replay):
    for change, said in WRONG:
        with pytest.raises(TracekitError, match=said):
            replay.run(change)


SHAPED = [[1000, 1000], [1000, 1000]], ["c10::BFloat16"] * 2


@TRACES.of(
    *traces.launched([operator("aten::mul", 0, 10, *SHAPED)], 5, 30, 99, 1),
    *traces.launched([operator("aten::add", 10, 10, *SHAPED)], 15, 130, 99, 2),
)
def test_fused_operators_move_their_intermediate_no_more(replay):
    # Each op moves 6 MB, and 2 MB of them are the intermediate.
    assert predicted(replay) - predicted(replay, "fuse") == pytest.approx(2 * 99 / 3)
    assert predicted(replay, "fuse:aten") == predicted(replay, "fuse")
    # The pattern has to match both operators.
    with pytest.raises(TracekitError, match="no neighbouring operators"):
        replay.run("fuse:mul")


@TRACES.of(
    step(1, 0, 50), launch(10, 5, 1), gpu_op(17, 100, 1),
    step(2, 50, 50), launch(60, 5, 2), gpu_op(118, 100, 2),
)  # fmt: skip
def test_a_step_begins_when_the_device_has_finished_the_one_before(replay):
    # The host leaves both steps long before the device has finished their work.
    assert replay.steps.lengths(replay.measured()).tolist() == [117 * US, 101 * US]
    assert replay.steps.lengths(replay.run("device*0.5")).tolist() == [67 * US, 51 * US]


# A profiler that starts again restarts its step numbers.
@TRACES.of(
    step(1, 0, 50), launch(10, 5, 1), gpu_op(17, 100, 1),
    step(1, 200, 50), launch(210, 5, 2), gpu_op(217, 300, 2),
)  # fmt: skip
def test_steps_of_one_name_are_told_apart(trace, loaded):
    steps = loaded.verdict(trace).steps
    assert [each.gains.window_ns for each in steps] == [117 * US, 317 * US]


@TRACES.of(
    slice_event("user_annotation", "prefill", 0, 40), launch(10, 5, 1), gpu_op(17, 100, 1),
    slice_event("user_annotation", "decode", 50, 40), launch(60, 5, 2), gpu_op(118, 50, 2),
    slice_event("user_annotation", "inner", 55, 10),
)  # fmt: skip
def test_without_steps_the_outermost_ranges_are_the_phases(trace, loaded):
    phases = loaded.verdict(trace).phases
    assert [(phase.name, phase.window_ns) for phase in phases] == [
        ("prefill", 117 * US), ("decode", 51 * US),
    ]  # fmt: skip


def test_a_trace_without_a_time_cannot_be_replayed(tmp_path):
    named = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    with traces.load(tmp_path, named) as run, pytest.raises(TracekitError, match="nothing to"):
        run.whatif("host*0.5")


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1, device=0), launch(6, 5, 2), gpu_op(13, 300, 2, device=1),
    launch(12, 5, 3), gpu_op(108, 50, 3, device=0),
)  # fmt: skip
def test_devices_of_one_trace_run_beside_each_other(replay, trace):
    # Streams with the same number on two devices do not wait for each other.
    assert edges(replay, EdgeKind.STREAM) == {(1, 5)}
    halved = replay.run("device*0.5")
    lengths = [replay.window("gpu_active", device).length(halved) for device in (0, 1)]
    assert lengths == [(50 + 1 + 25) * US, 150 * US]
    assert [gpu.device_id for gpu in replay.database.verdict(trace).devices] == [1, 0]


def test_a_prediction_comes_with_its_doubts(tmp_path):
    events = [launch(0, 5, 1), gpu_op(7, 50, 1), gpu_op(60, 10, 99)]
    whole = traces.write(tmp_path / "1.json", events[:2])
    (tmp_path / "2.json").write_text(traces.write(tmp_path / "t", events).read_text()[:-20])
    with tracekit.load([whole, tmp_path / "2.json"]) as run:
        none, doubts = (run.whatif("host*0.5", trace=trace).doubts for trace in (1, 2))
    assert none == []
    assert any(each.startswith("error: the end is missing") for each in doubts)


# Three steps that wait for their kernels; the device's clock is 60 us late.
@TRACES.of(*(
    event
    for n in range(3)
    for event in (
        launch(1000 * n, 5, 2 * n + 1), gpu_op(1000 * n + 8 + 60, 500, 2 * n + 1),
        launch(1000 * n + 6, 505, 2 * n + 2, "cudaDeviceSynchronize"),
    )
))  # fmt: skip
def test_a_late_clock_of_the_device_is_set_back(replay, trace):
    analysis = replay.database.verdict(trace)
    assert replay.graph.device.shift_ns == {0: -57 * US}
    assert len(replay.graph.joins) == 3
    assert any("taken from the device's times" in why for why in analysis.verdict.why)
