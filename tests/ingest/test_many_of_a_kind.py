"""Correct results for traces with thousands of threads, steps, devices, streams or ranges."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tracekit
from tests.examine.test_shared_traces import parts_add_up
from tests.kit import traces
from tests.kit.sampling import sample
from tests.kit.traces import DEVICE, HOST, gpu_op, launch, slice_event, step
from tracekit.replay.replay import Replay

Events = list[dict[str, Any]]

# Durations of a launch and its kernel, and the time from one launch to the next, in us.
CALL, KERNEL, EACH = 4, 1, 10


def _launched(place: int, **where: Any) -> Events:
    """A launch at 10 us * place, and its kernel 8 us later."""
    thread = where.pop("thread", HOST)
    at = EACH * place
    call = launch(at, CALL, place + 1) | {"tid": thread}
    return [call, gpu_op(at + 8, KERNEL, place + 1, **where)]


def _each(n: int, made: Callable[[int], Events]) -> Events:
    return [event for place in range(n) for event in made(place)]


def threads(n: int) -> Events:
    """Threads that launch once."""
    return _each(n, lambda place: _launched(place, thread=HOST + place))


def steps(n: int) -> Events:
    """Steps that all overlap, with a launch in each."""
    return _each(n, lambda place: [step(place, EACH * place, EACH * n), *_launched(place)])


def devices(n: int) -> Events:
    """Devices with one kernel each."""
    return _each(n, lambda place: _launched(place, device=DEVICE + place))


def streams(n: int) -> Events:
    """Streams with one kernel each; for each, the host and a stream wait."""
    calls = [
        event
        for place in range(n)
        for event in (
            launch(EACH * place + 5, 4, n + place, "cudaStreamSynchronize"),
            launch(EACH * place + 9.25, 0.5, 2 * n + place, "cudaStreamWaitEvent"),
        )
    ]
    return _each(n, lambda place: _launched(place, stream=7 + place)) + calls


def python_threads(n: int) -> Events:
    """Threads that loaded Python and an operator, and one that launches."""
    frames = _each(
        n,
        lambda place: [
            slice_event("python_function", "work", EACH * place, 9) | {"tid": HOST + 1 + place},
            slice_event("cpu_op", "aten::mm", EACH * place + 1, 6) | {"tid": HOST + 1 + place},
        ],
    )
    return frames + _launched(0)


N = sample("threads, steps and the like of a trace", 1200, 100)
TRACES = traces.Together()


@TRACES.of(*threads(N))
def test_threads_that_launch_in_turns_hand_nothing_over(trace, loaded):
    analysis = loaded.verdict(trace)
    assert analysis.gpu.linked == analysis.gpu.gpu_ops >= N
    assert analysis.causal.gains.unknown == 0
    assert analysis.verdict.regime == "overhead-bound"
    assert sum(analysis.causal.path.values()) == pytest.approx(1)
    assert not len(Replay(loaded, trace).graph.joins)


# One thread calls backward while another works; the other threads end before that.
AT = EACH * N


@TRACES.of(
    *threads(N),
    slice_event("cpu_op", "forward", AT, 50), slice_event("cpu_op", "backward", AT + 60, 900),
    slice_event("cpu_op", "step", AT + 970, 20),
    launch(AT + 200, 500, 9 * N) | {"tid": 7}, gpu_op(AT + 800, 50, 9 * N),
    launch(AT + 975, 5, 9 * N + 1), gpu_op(AT + 990, 50, 9 * N + 1),
)  # fmt: skip
def test_the_waiting_thread_is_found_among_many(trace, loaded):
    graph = Replay(loaded, trace).graph
    # The worker waits for work; the calling thread waits until the work is done.
    joined = {
        (graph.host.threads[int(key // graph.host.span_ns)][1], int(key % graph.host.span_ns))
        for key in graph.joins
    }
    assert {(7, (AT + 200) * 1000), (HOST, (AT + 700) * 1000)} <= joined


@TRACES.of(*steps(N))
def test_each_of_many_overlapping_steps_has_its_parts(trace, loaded):
    assert parts_add_up(loaded, trace=trace) == N + 2
    rows = {row["name"]: row for row in loaded.ask("partition", trace=trace, kind="step")}
    first, last = rows["ProfilerStep#0"], rows[f"ProfilerStep#{N - 1}"]
    assert first["gpu_ops"] == N
    assert first["compute_ns"] == N * KERNEL * 1000
    assert (last["gpu_ops"], last["compute_ns"]) == (1, KERNEL * 1000)
    # A gap that the second step's start cuts counts for that step, too.
    causes = {
        row["cause"]: (row["idle_ns"], row["gaps"])
        for row in loaded.ask("idle_causes", trace=trace, kind="step")
        if row["name"] == "ProfilerStep#1"
    }
    assert causes == {
        "launch": ((N - 1) * CALL * 1000, N - 1),
        "launch_latency": ((N - 1) * 4 * 1000, N - 1),
        "untraced": ((N - 2) * 1000, N - 2),
    }
    assert len(loaded.verdict(trace).steps) == N


@TRACES.of(*devices(N))
def test_each_device_has_its_parts(trace, loaded):
    # The launches are one loop, which is a window of the first 64 devices.
    assert parts_add_up(loaded, trace=trace) == 2 * N + 64
    rows = loaded.ask("partition", trace=trace, kind="trace")
    assert all(row["compute_ns"] == KERNEL * 1000 for row in rows)
    # The first device's launch begins with the trace.
    assert [row["host_late_ns"] for row in rows] == [
        (EACH * place + 8) * 1000 if place else 0 for place in range(N)
    ]
    causes = {
        (row["device_id"], row["cause"]): (row["idle_ns"], row["gaps"])
        for row in loaded.ask("idle_causes", trace=trace, kind="trace")
    }
    # The host launches for all other devices first; nothing is recorded between these launches.
    last = DEVICE + N - 1
    assert causes[last, "launch"] == (N * CALL * 1000, 1)
    assert causes[last, "untraced"] == ((N - 1) * (EACH - CALL) * 1000, 1)
    assert causes[last, "launch_latency"] == (4 * 1000, 1)
    analysis = loaded.verdict(trace)
    assert len(analysis.devices) == N
    assert analysis.gpu.device_id == DEVICE
    # Their timelines have few rows.
    of = f"WHERE trace_id = {trace}"
    _, rows = loaded.fetch(f"SELECT count(*) FROM gpu_timeline {of}")
    assert rows[0][0] <= 6 * N
    _, rows = loaded.fetch(
        f"SELECT device_id, sum(end_ns - start_ns) FROM gpu_timeline_by_cause {of} GROUP BY 1"
    )
    _, span = loaded.fetch(f"SELECT end_ns - start_ns FROM trace_span {of}")
    assert {ns for _, ns in rows} == {span[0][0]}


@TRACES.of(*streams(N))
def test_every_stream_is_waited_for(trace, loaded):
    assert loaded.verdict(trace).gpu.linked == N
    assert (Replay(loaded, trace).graph.unknown == 0).all()


@TRACES.of(*python_threads(N))
def test_each_python_thread_has_its_time(trace, loaded):
    _, rows = loaded.fetch(
        f"SELECT count(DISTINCT tid), sum(self_ns) FROM host_slice WHERE trace_id = {trace}"
    )
    assert rows == [(N + 1, (9 * N + CALL) * 1000)]
    assert loaded.verdict(trace).gpu.linked == 1


# -- sums along the timeline, and the joins that they replace --------------------------------------


def by_join(loaded: tracekit.Database, trace: int, kind: str) -> set[tuple[Any, ...]]:
    """The parts of windows, by a join of every window with every segment of the timeline."""
    _, rows = loaded.fetch(f"""
        SELECT w.device_id, w.name, w.start_ns, w.end_ns, activity::VARCHAR, idle_class::VARCHAR, cause::VARCHAR,
               sum(least(t.end_ns, w.end_ns) - greatest(t.start_ns, w.start_ns))::BIGINT,
               count(DISTINCT op_id) FILTER (idle_class = 'host_late')
        FROM windows AS w JOIN gpu_timeline_by_cause AS t
          ON w.trace_id = t.trace_id AND w.device_id = t.device_id AND t.end_ns > w.start_ns AND t.start_ns < w.end_ns
        WHERE w.trace_id = {trace} AND kind = '{kind}' AND w.end_ns > w.start_ns GROUP BY ALL""")  # noqa: E501
    return set(rows)


def by_sums(loaded: tracekit.Database, trace: int, kind: str) -> set[tuple[Any, ...]]:
    _, rows = loaded.fetch(f"""
        SELECT device_id, name, window_start_ns, window_end_ns, activity::VARCHAR,
               idle_class::VARCHAR, cause::VARCHAR, ns, gaps
        FROM window_timeline_parts WHERE trace_id = {trace} AND kind = '{kind}'""")
    return set(rows)


def random_events(seed: int, n_devices: int) -> Events:
    """A few threads that launch on devices, with slices of all kinds and overlapping steps."""
    rng = random.Random(seed)
    events: Events = []
    at = {thread: rng.randrange(50) for thread in range(3)}
    for number in range(max(150, 3 * n_devices)):
        thread = rng.randrange(3)
        since = at[thread] + rng.choice([0, 0, 3, 40, 300])
        work = rng.randrange(1, 60)
        name, category = rng.choice(
            [("aten::mm", "cpu_op"), ("cudaDeviceSynchronize", "cuda_runtime"),
             ("cudaMalloc", "cuda_runtime"), ("f", "python_function")]
        )  # fmt: skip
        events.append(slice_event(category, name, since, work) | {"tid": HOST + thread})
        events.append(launch(since + work, 5, number + 1) | {"tid": HOST + thread})
        at[thread] = since + work + 5 + rng.choice([0, 2, 9])
        device = number % n_devices if number < 2 * n_devices else rng.randrange(n_devices)
        linked = number + 1 if rng.random() < 0.9 else 10_000 + number
        start = since + work + rng.choice([1, 7, 90])
        events.append(gpu_op(start, rng.choice([1, 9, 200]), linked, device=device))
    until = max(at.values())
    for number in range(25):
        begin = rng.randrange(until)
        events.append(step(number, begin, rng.randrange(1, until)))
    return events


SEEDS = sample("random timelines, summed and joined", range(4), range(1))
RANDOM = {
    TRACES.events(random_events(seed, n_devices)): n_devices
    for seed in SEEDS
    for n_devices in (1, 5, 70)
}


def test_sums_along_the_timeline_equal_a_join_for_every_window(loaded):
    for trace, n_devices in RANDOM.items():
        for kind in ("gpu_active", "step", "trace"):
            expected = by_join(loaded, trace, kind)
            assert len(expected) >= n_devices
            assert by_sums(loaded, trace, kind) == expected


FEW = random_events(5, 60)
UNTIL = max(event["ts"] + event["dur"] for event in FEW)
# With ten more devices, launched at the end, causes are no longer stored for each device.
MORE = _each(
    10,
    lambda place: [
        launch(UNTIL + 10 * place, 5, 90_000 + place),
        gpu_op(UNTIL + 10 * place + 6, 3, 90_000 + place, device=60 + place),
    ],
)
STORED = [TRACES.events(FEW), TRACES.events(FEW + MORE)]


def test_causes_are_the_same_whether_stored_once_or_for_each_device(loaded):
    causes, culprits, is_stored_once = [], [], []
    for trace in STORED:
        rows = loaded.ask("idle_causes", trace=trace, kind="gpu_active")
        causes.append(
            sorted(
                (
                    tuple(value for name, value in row.items() if name != "trace_id")
                    for row in rows
                    if row["device_id"] < 60
                ),
                key=str,
            )
        )
        found = loaded.fetch(
            "SELECT host_event_id, cause::VARCHAR, sum(t.end_ns - t.start_ns) "
            "FROM gpu_timeline_by_cause AS t JOIN windows AS w "
            "ON t.trace_id = w.trace_id AND t.device_id = w.device_id AND w.kind = 'gpu_active' "
            "AND t.start_ns >= w.start_ns AND t.end_ns <= w.end_ns "
            f"WHERE t.trace_id = {trace} AND t.device_id < 60 AND idle_class = 'host_late' "
            "GROUP BY 1, 2"
        )
        culprits.append(sorted(found[1], key=str))
        stored = loaded.fetch(
            "SELECT count(*) FROM gpu_timeline WHERE idle_class = 'host_late' AND cause IS NULL "
            f"AND trace_id = {trace}"
        )
        is_stored_once.append(stored[1] != [(0,)])
    assert is_stored_once == [False, True]
    assert causes[0] == causes[1]
    assert culprits[0] == culprits[1]
    assert len(causes[0]) > 100


MOST = [*devices(70), *(step(place, 100 * place, 100) for place in range(5))]
# The last device works longest.
MOST[2 * 69 + 1]["dur"] = 500


@TRACES.of(*MOST)
def test_step_windows_are_kept_for_the_64_devices_with_most_work(trace, loaded):
    chosen = {row["device_id"] for row in loaded.ask("partition", trace=trace, kind="step")}
    assert chosen == {69, *range(63)}
    assert len(loaded.ask("partition", trace=trace, kind="trace")) == 70
    assert len(loaded.verdict(trace).steps) == 5
