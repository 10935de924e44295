"""Replays of small handmade traces, with changes: what each dependency makes of them."""

import numpy as np
import pytest

from tests.kit.traces import Together, frame, gpu_op, launch, launched, operator, slice_event
from tracekit.causes import CAUSES
from tracekit.errors import TracekitError
from tracekit.replay.changes import scale_parts
from tracekit.replay.graph import EdgeKind
from tracekit.replay.replay import Replay

US = 1_000
TRACES = Together()


@pytest.fixture
def replay(trace, loaded):
    return Replay(loaded, trace)


def predicted(replay, *changes):
    """The GPU-active span in us, replayed with changes."""
    return replay.bounds().length(replay.run(*changes)) / US


def edges(replay, kind):
    """The edges of a kind between ops, as (source op, target op)."""
    found = replay.graph.edges
    chosen = found.kind == kind
    ids = replay.graph.device.op_id
    ends = zip(found.source[chosen] - 1, found.target[chosen] - 1, strict=True)
    return {(int(ids[a]), int(ids[b])) for a, b in ends if 0 <= a < len(ids) and b < len(ids)}


def path_us(replay):
    by_cause = replay.bounds().path(replay.measured()).by_cause
    assert sum(by_cause.values()) == replay.bounds().length(replay.measured())
    return {cause: ns / US for cause, ns in by_cause.items()}


# -- predictions -----------------------------------------------------------------------------------

WORKER = {"tid": 200}
SHAPED = [[1000, 1000], [1000, 1000]], ["c10::BFloat16"] * 2
COPIED = {"category": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)"}


def synced(name, start_us, dur_us, **args):
    waits = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2, "correlation": 3}
    return slice_event("cuda_sync", name, start_us, dur_us, args=waits | args)


# By title, a trace, and the GPU-active span in us by the changes that a replay makes.
PREDICTED = {
    "an op waits for its launch and for its stream": (
        [launch(0, 5, 1), gpu_op(7, 50, 1), launch(10, 5, 2), gpu_op(58, 20, 2)],
        # The first op delays the second. The gap of 1 us between them stays. At last, its launch
        # delays it: submitted at 15 us, it takes 2 us, as the first launch did.
        {"": 71, "device*0.5": 36, "device*0.1": 12},
    ),
    "the host waits for what it synchronizes with": (
        [launch(0, 5, 1), gpu_op(7, 100, 1), launch(10, 100, 2, name="cudaDeviceSynchronize"),
         launch(120, 5, 3), gpu_op(127, 10, 3)],
        # The call returns 3 us after the op; 15 us until the next launch's end, 2 us to its op.
        # Without the wait, the launch follows at once, and the op its stream (1 us is usual).
        # Waiting is not host work.
        {"device*0.5": 50 + 3 + 15 + 2 + 5, "sync*0": 100 + 1 + 10,
         "host*0.5": 100 + 3 + 7.5 + 2 + 10},
    ),
    "a copy that blocks holds its thread": (
        [launch(0, 5, 1), gpu_op(7, 100, 1), launch(10, 112, 2, name="cudaMemcpyAsync"),
         gpu_op(108, 12, 2, **COPIED), launch(130, 5, 3), gpu_op(137, 10, 3)],
        # The call's length is the device's: it shrinks with the kernel before the copy. Of the
        # host's work, 8 us between the calls and 5 us in the last one delay the last op.
        {"": 140, "kernel:sgemm*0.5": 140 - 50 - 5, "host*0.5": 140 - 4 - 2.5},
    ),
    "a copy from pageable memory lasts as long on the host as on the device": (
        # The call returns 17 us before its copy ends.
        [launch(0, 1_000, 1, "cudaMemcpyAsync"),
         gpu_op(75, 942, 1, category="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)"),
         launch(1_010, 6, 2), gpu_op(1_020, 10, 2)],
        {"": 955, "host*0.5": 953, "device*0.5": 479},
    ),
    "so does its call behind a kernel, which it waits for": (
        [launch(0, 5, 1), gpu_op(7, 500, 1), launch(10, 1_440, 2, "cudaMemcpyAsync"),
         gpu_op(508, 959, 2, category="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)"),
         launch(1_460, 6, 3), gpu_op(1_470, 10, 3)],
        {"": 1_473, "kernel:sgemm*0.5": 1_473 - 250 - 5, "device*0.5": 250 + 1 + 479.5 + 3 + 5},
    ),
    "a stream waits for the event that the trace names": (
        [launch(0, 5, 1), gpu_op(7, 100, 1), launch(6, 1, 2, name="cudaEventRecord"),
         launch(8, 1, 3, name="cudaStreamWaitEvent"),
         synced("Stream Wait Event", 8, 1, stream=9, device=0),
         launch(10, 5, 4), gpu_op(108, 10, 4, stream=9)],
        {"device*0.5": 50 + 1 + 5},
    ),
    "kernels of a graph wait for each other": (
        [launch(0, 5, 1, name="cudaGraphLaunch"), gpu_op(7, 50, 1), gpu_op(58, 50, 1, stream=8),
         gpu_op(109, 10, 1)],
        {"device*0.5": 25 + 1 + 25 + 1 + 5},
    ),
    # 40 us of the worker's time, and the op launched in them.
    "work of another thread is waited for by the one that stands still": (
        [operator("forward", 0, 10), launch(1, 5, 1), gpu_op(8, 5, 1), frame("backward", 12, 100),
         operator("MmBackward0", 20, 40) | WORKER, launch(30, 5, 2) | WORKER, gpu_op(37, 5, 2),
         operator("AddBackward0", 65, 30) | WORKER,
         operator("optimizer", 115, 20), launch(120, 5, 3), gpu_op(127, 5, 3)],
        {"": 124, "operator:MmBackward0*0": 124 - 40},
    ),
    # The worker still works for 25 us after its launch.
    "so it is if the recording begins amid that work": (
        [operator("MmBackward0", 0, 40) | WORKER, launch(10, 5, 1) | WORKER, gpu_op(17, 5, 1),
         operator("optimizer", 50, 20), launch(55, 5, 2), gpu_op(62, 5, 2)],
        {"": 50, "operator:MmBackward0*0": 50 - 25},
    ),
    "an op without a launch waits for the one that covers its stream's gap": (
        [gpu_op(0, 10), gpu_op(0, 100, stream=9), gpu_op(101, 10)],
        {"": 111, "device*0.5": 50 + 1 + 5},
    ),
    "a change scales only what it names": (
        [operator("aten::mm", 0, 20), launch(5, 5, 1), gpu_op(12, 100, 1, name="gemm_128"),
         operator("aten::add", 30, 20), launch(35, 5, 2),
         gpu_op(113, 40, 2, name="elementwise_add")],
        {"": 141, "kernel:GEMM*0.5": 91, "kernel:*add*0.5": 121, "class:elementwise*0.5": 121,
         "operator:add*0": 100, "kernel:gemm*0.5 kernel:add*0.5": 71, "device*2": 281},
    ),
    # Each op moves 6 MB, and 2 MB of them are the intermediate.
    "fused operators move their intermediate no more": (
        [*launched([operator("aten::mul", 0, 10, *SHAPED)], 5, 30, 99, 1),
         *launched([operator("aten::add", 10, 10, *SHAPED)], 15, 130, 99, 2)],
        {"": 199, "fuse": 199 - 2 * 99 / 3, "fuse:aten": 199 - 2 * 99 / 3,
         # The pattern has to match both operators.
         "fuse:mul": None},
    ),
    "an event's wait ends with what was launched before its record": (
        [launch(0, 5, 1), gpu_op(7, 100, 1), launch(6, 1, 2, "cudaEventRecord"),
         launch(8, 300, 3, "cudaEventSynchronize"), synced("Event Sync", 8, 99, stream=7),
         launch(308, 5, 4), gpu_op(315, 100, 4)],
        {"": 408, "device*0.5": 408 - 50 - 50, "sync*0": 201},
    ),
    "a wait for a graph whose kernels are not in the trace is the device's work": (
        [launch(0, 5, 1), gpu_op(7, 50, 1), launch(60, 10, 2, "cudaGraphLaunch"),
         launch(75, 500, 3, "cudaDeviceSynchronize"), launch(580, 5, 4), gpu_op(587, 10, 4)],
        {"": 590, "host*0.5": 590 - 32.5 - 5 - 2.5, "device*0.5": 590 - 250 - 5},
    ),
    "without such a graph, what a call does after its op is its own": (
        [launch(0, 5, 1), gpu_op(7, 150, 1), launch(60, 10, 2, "cudaLaunchKernel"),
         gpu_op(158, 10, 2), launch(75, 500, 3, "cudaDeviceSynchronize"), launch(580, 5, 4),
         gpu_op(587, 10, 4)],
        {"": 590, "device*0.5": 590 - 80 - 5},
    ),
    # To pageable memory: for 200 us, the call moves the data on within the host.
    "a copy's call that goes on after the copy works": (
        [launch(0, 260, 1, "cudaMemcpyAsync"), gpu_op(10, 50, 1, **COPIED),
         launch(260, 5, 2), gpu_op(267, 100, 2)],
        {"": 357, "host*0.5": 357 - 100 - 2.5, "device*0.5": 357 - 25 - 50},
    ),
    # An allocation during a kernel: its thread continues, however long the kernel takes.
    "a call that ends before the device has done did not wait for it": (
        [launch(0, 5, 1), gpu_op(7, 100, 1), launch(6, 86, 2, "cudaMalloc"),
         launch(92, 5, 3), gpu_op(108, 50, 3)],
        {"device*0.25": 92 + 5 + 2 - 7 + 12.5},
    ),
}  # fmt: skip
PREDICTIONS = {title: (TRACES.events(each), us) for title, (each, us) in PREDICTED.items()}


@pytest.mark.parametrize("title", PREDICTIONS)
def test_a_replay_follows_the_graph(title, loaded):
    trace, expected = PREDICTIONS[title]
    replay = Replay(loaded, trace)
    for changes, us in expected.items():
        if us is None:
            with pytest.raises(TracekitError, match="no adjacent operators"):
                replay.run(changes)
        else:
            assert predicted(replay, *changes.split()) == pytest.approx(us), changes


@TRACES.of(*(each for n in range(3) for each in (launch(n, 1, n), gpu_op(10 + 6 * n, 5, n))))
def test_a_removed_op_takes_its_gap_along(replay):
    assert predicted(replay) == 5 + 1 + 5 + 1 + 5
    scale = replay.scale()
    rows = {"event_id": replay.graph.device.op_id[1:2], "factor": np.zeros(1)}
    scale_parts(rows, "op", scale, replay.graph)
    assert replay.bounds().length(replay.simulator.run(scale)) == (5 + 1 + 5) * US


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


@TRACES.of(launch(0, 1, 1), *(gpu_op(10 * place, 4, 100 + place) for place in range(50)))
def test_gaps_before_ops_without_a_launch_are_nobodys(replay, trace):
    # A device takes 1 us of each gap; nothing explains the other 5.
    path = replay.bounds().path(replay.measured()).by_cause
    assert path["unknown"] == 49 * 5 * US
    assert replay.database.verdict(trace).verdict.regime == "unknown"


# -- what a call does after its wait ---------------------------------------------------------------

CALLS = [
    ("hipFree", "allocation"),
    ("cudaFree", "allocation"),
    ("cudaDeviceSynchronize", "sync"),
    ("cudaStreamSynchronize", "sync"),
]
WAITS = ("hipFree", "cudaDeviceSynchronize")


def calling(call, ends_us=107, between=()):
    """A call, during a kernel of 100 us, that ends at `ends_us`; another kernel then."""
    return TRACES.events([
        launch(0, 5, 1), gpu_op(7, 50 if between else 100, 1), *between,
        launch(6, ends_us - 6, 2, call), launch(ends_us, 5, 3), gpu_op(ends_us + 7, 100, 3),
    ])  # fmt: skip


# The call waits until 107 us, then works for another 400 us.
@pytest.mark.parametrize(("trace", "cause"), [(calling(each, 507), of) for each, of in CALLS])
def test_a_call_that_lasts_beyond_its_wait_is_host_work(trace, cause, replay):
    assert (replay.graph.unknown == 0).all()
    assert path_us(replay)[cause] == 400
    assert predicted(replay) == 607
    # That is host work: it scales with the host and disappears with its cause.
    assert predicted(replay, "host*0.5") == 607 - 200 - 2.5
    assert predicted(replay, "device*0.5") == 607 - 50 - 50
    assert predicted(replay, f"{cause}*0") <= 607 - 400
    verdict = replay.database.verdict(trace).verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", cause)


@pytest.mark.parametrize("trace", [calling(each, 117) for each in WAITS])
def test_the_usual_return_from_a_wait_is_not_work(replay):
    # The 10 us after the op stay, however fast the host is; only the next launch's 5 us shrink.
    assert predicted(replay) - predicted(replay, "host*0.5") == 2.5


# The profiler began between the launch of the second op and its start.
@pytest.mark.parametrize("trace", [calling(each, 363, [gpu_op(58, 300, 99)]) for each in WAITS])
def test_a_call_waits_for_ops_whose_launch_is_not_recorded(replay):
    assert (replay.graph.unknown == 0).all()
    assert predicted(replay) - predicted(replay, "host*0.5") == 2.5
    assert predicted(replay) - predicted(replay, "device*0.5") == 25 + 150 + 50


def queued(kernels=1_000):
    """A queue of 600 kernels; one call goes on for 500 us after the queue has room."""
    late, depth = 800, 600
    events, at = [], 0.0
    start = [600.0 * (1 + place) for place in range(kernels)]
    for place in range(kernels):
        free = start[place - depth] if place >= depth else 0.0
        end = max(at + 4, free + 2) + (500 if place == late else 0)
        events.append(launch(at, end - at, place + 1))
        events.append(gpu_op(start[place], 599, place + 1))
        at = end + 1
    return events


@TRACES.of(*queued())
def test_a_launch_that_goes_on_after_there_is_room_works(replay):
    assert len(replay.graph.joins) > 300
    host = replay.graph.host
    launching = CAUSES.index("launch")
    worked = np.diff(host.borders)[(host.cause == launching) & ~host.blocked]
    assert worked.max() == 502 * US


@TRACES.of(*queued(680))
def test_calls_that_wait_longer_than_usual_at_one_depth_show_a_full_queue_however_few(replay):
    host = replay.graph.host
    assert host.blocked[host.cause == CAUSES.index("launch")].sum() == 80


def deeper_later():
    """The same queue; later launches take so little of it that 900 of them wait for nothing."""
    events = queued(720)
    begin = events[-1]["ts"] + 700
    for place in range(900):
        events.append(launch(begin + 5 * place, 4, 1_000 + place))
        events.append(gpu_op(begin + 10_000 + 10 * place, 9, 1_000 + place))
    return events


@TRACES.of(*deeper_later())
def test_a_queue_that_was_deeper_when_nothing_waited_is_full_at_the_depth_of_the_waits(replay):
    assert (replay.graph.edges.kind == EdgeKind.QUEUE).sum() >= 120
    (queue,) = replay.database.ask("queue_summary", trace=replay.trace_id)
    calls = [each["dur"] for each in deeper_later() if each["cat"] == "cuda_runtime"]
    assert (queue["max_depth"], queue["blocked_ns"]) == (900, sum(calls) * US - 4 * US * len(calls))


# -- waits that no call marks: slices that repeatedly end just after the awaited op ----------------

KERNEL_US = 50_000.0


def spinning(ranges, lag_us=20.0, works_us=0.0):
    """Ranges that launch a kernel, work, and then spin until it is done, without a call that says
    so."""
    events = []
    for i in range(ranges):
        begin = i * 60_000.0
        events += [
            slice_event("user_annotation", f"turn {i}", begin, 110 + KERNEL_US + lag_us),
            operator("aten::mm", begin + 10, 90),
            launch(begin + 20, 10, i + 1),
            gpu_op(begin + 110, KERNEL_US, i + 1),
            operator("aten::sort", begin + 100, works_us),
        ]
    return events


@pytest.fixture
def saved(loaded):
    def ask(trace, change):
        found = loaded.whatif(change, trace=trace, window="trace")
        return 1 - found.predicted_ns / found.window_ns

    return ask


@TRACES.of(*spinning(4))
def test_a_host_that_spins_on_the_device_gains_nothing_from_a_faster_host(trace, saved):
    # In each 60 ms, the device works for 50, and the host works for 10 between the ranges.
    assert saved(trace, "host*0.5") == pytest.approx(0.065, abs=0.001)
    assert saved(trace, "device*0.5") == pytest.approx(0.435, abs=0.001)


@TRACES.of(*spinning(4, works_us=40_000.0))
def test_a_wait_counts_however_little_of_the_kernel_it_covers(saved, trace):
    # The host works for 40 ms and for another 10 ms of each 60 ms.
    assert saved(trace, "host*0.5") == pytest.approx(0.065, abs=0.001)


@TRACES.of(*spinning(4, lag_us=-60.0))
def test_a_value_may_be_read_before_its_kernel_ends(saved, trace):
    assert saved(trace, "host*0.5") == pytest.approx(0.065, abs=0.001)
    assert saved(trace, "device*0.5") == pytest.approx(0.435, abs=0.001)


BY_CHANCE = [
    # Twice is too few to count as a wait.
    spinning(2),
    # A slice that continues long after the kernel's end works.
    spinning(4, lag_us=5_000.0),
    # So does one that ends long before it, which reads no value of the kernel.
    spinning(4, lag_us=-5_000.0),
]


@pytest.mark.parametrize(("trace", "events"), [(TRACES.events(each), each) for each in BY_CHANCE])
def test_slices_that_end_so_by_chance_are_work(trace, events, saved):
    kernels = [each for each in events if each["cat"] == "kernel"]
    span_us = max(each["ts"] + each["dur"] for each in events)
    # At twice the speed, the host runs ahead: only the kernels remain.
    left = (len(kernels) * KERNEL_US + 100) / span_us
    assert saved(trace, "host*0.5") == pytest.approx(1 - left, abs=0.001)


MESSAGES = [
    event
    for at in (20_000.0 * i for i in range(4))
    for event in (
        operator("aten::mm", at, 9_000),
        slice_event("python_function", "app.py(7): result", at + 9_000, 11_000),
        slice_event("user_annotation", "gloo:recv", at + 9_100, 10_880) | {"tid": 7},
    )
]


@pytest.mark.parametrize(
    ("trace", "gain"), [(TRACES.events(MESSAGES), 0.225), (TRACES.events(MESSAGES[:6]), 0.5)]
)
def test_a_future_that_returns_after_a_message_is_a_wait(trace, gain, saved):
    assert saved(trace, "host*0.5") == pytest.approx(gain, abs=0.01)


BACKWARD = [
    event | thread
    for at, number in ((2_000.0 * i, 2 * i + 1) for i in range(5))
    for name, begin, ns, by, thread in (
        ("aten::mm", at, 50, number, {}), ("MmBackward0", at + 400, 1_100, number + 1, WORKER),
    )
    for event in (operator(name, begin, ns), launch(begin + 10, 10, by), gpu_op(begin + 30, 10, by))
]  # fmt: skip


@TRACES.of(*BACKWARD)
def test_what_a_backward_pass_leaves_of_an_unrecorded_stretch_is_judged_by_its_own_length(replay):
    # The other thread takes 1,100 of the caller's 1,950 us between operators.
    assert "unrecorded-time" not in path_us(replay)
    assert predicted(replay, "cuda-graph") < 2_000
