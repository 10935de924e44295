"""The time in a call after the awaited event is the call's own work, with the call's cause."""

import numpy as np
import pytest

from tests.kit import traces
from tests.kit.traces import gpu_op, launch
from tracekit.causes import CAUSES
from tracekit.replay.replay import Replay

US = 1_000


TRACES = traces.Together()


@pytest.fixture
def replay(trace, loaded):
    return Replay(loaded, trace)


def predicted(replay, *changes):
    """The GPU-active span in us, replayed with changes."""
    return replay.bounds().length(replay.run(*changes)) / US


def path_us(replay):
    by_cause = replay.bounds().path(replay.measured()).by_cause
    assert sum(by_cause.values()) == replay.bounds().length(replay.measured())
    return {cause: ns / US for cause, ns in by_cause.items()}


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


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1), launch(6, 1, 2, "cudaEventRecord"),
    launch(8, 300, 3, "cudaEventSynchronize"),
    traces.slice_event(
        "cuda_sync", "Event Sync", 8, 99,
        args={"correlation": 3, "stream": 7, "wait_on_stream": 7,
              "wait_on_cuda_event_record_corr_id": 2},
    ),
    launch(308, 5, 4), gpu_op(315, 100, 4),
)  # fmt: skip
def test_an_event_s_wait_ends_with_what_was_launched_before_its_record(replay):
    assert (replay.graph.unknown == 0).all()
    assert path_us(replay)["sync"] == 201
    assert predicted(replay, "device*0.5") == 408 - 50 - 50


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


# To pageable memory: for 200 us, the call moves the data on within the host.
@TRACES.of(
    launch(0, 260, 1, "cudaMemcpyAsync"),
    gpu_op(10, 50, 1, category="gpu_memcpy", name="Memcpy DtoH (Device -> Pageable)"),
    launch(260, 5, 2), gpu_op(267, 100, 2),
)  # fmt: skip
def test_a_copy_s_call_that_goes_on_after_the_copy_works(replay):
    assert path_us(replay)["copy"] == 250
    assert predicted(replay, "host*0.5") == 357 - 100 - 2.5
    assert predicted(replay, "device*0.5") == 357 - 25 - 50


# From pageable memory: the call returns 17 us before its copy ends.
@TRACES.of(
    launch(0, 1_000, 1, "cudaMemcpyAsync"),
    gpu_op(75, 942, 1, category="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)"),
    launch(1_010, 6, 2), gpu_op(1_020, 10, 2),
)  # fmt: skip
def test_a_copy_s_call_that_returns_before_the_copy_ends_lasts_as_long_as_the_copy(replay):
    assert predicted(replay) - predicted(replay, "host*0.5") < 10
    assert predicted(replay, "device*0.5") == pytest.approx(predicted(replay) / 2, abs=50)


# An allocation during a kernel that ends 15 us after it.
@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1), launch(6, 86, 2, "cudaMalloc"),
    launch(92, 5, 3), gpu_op(108, 50, 3),
)  # fmt: skip
def test_a_call_that_ends_before_the_device_has_done_did_not_wait_for_it(replay):
    assert not len(replay.graph.joins)
    # Its thread continues as before, however long the kernel takes.
    assert predicted(replay, "device*0.25") == 92 + 5 + 2 - 7 + 12.5


def queued():
    """A queue of 600 kernels; one call goes on for 500 us after the queue has room."""
    late, depth, kernels = 800, 600, 1_000
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
