"""Correct results for traces with thousands of threads, steps, devices, streams or ranges."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tracekit
from tests.kit import traces
from tests.kit.sampling import sample
from tests.kit.traces import DEVICE, HOST, gpu_op, launch, slice_event, step

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


def busy_threads(n: int) -> Events:
    """Threads that launch twice, each active for the whole trace."""
    return _each(
        n,
        lambda place: (
            _launched(place, thread=HOST + place) + _launched(n + place, thread=HOST + place)
        ),
    )


def steps(n: int) -> Events:
    """Steps that all overlap, with a launch in each."""
    return _each(n, lambda place: [step(place, EACH * place, EACH * n), *_launched(place)])


def steps_of_threads(n: int) -> Events:
    """Steps, each on its own thread."""
    return _each(
        n,
        lambda place: [
            step(place, EACH * place, EACH - 1) | {"tid": HOST + place},
            *_launched(place, thread=HOST + place),
        ],
    )


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
    """Threads that run Python and an operator, and one that launches."""
    frames = _each(
        n,
        lambda place: [
            slice_event("python_function", "work", EACH * place, 9) | {"tid": HOST + 1 + place},
            slice_event("cpu_op", "aten::mm", EACH * place + 1, 6) | {"tid": HOST + 1 + place},
        ],
    )
    return frames + _launched(0)


def ranges(n: int) -> Events:
    """User ranges with a launch in each."""
    return _each(
        n,
        lambda place: [
            slice_event("user_annotation", f"range {place}", EACH * place, 9),
            *_launched(place),
        ],
    )


SHAPES = {
    made.__name__: made
    for made in (
        threads, busy_threads, steps, steps_of_threads, devices, streams, python_threads, ranges,
    )
}  # fmt: skip


@pytest.fixture(params=sample("numbers of threads, steps and the like", [300, 1200], [300]))
def n(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def run(n: int, tmp_path, request) -> Iterator[tracekit.Database]:
    with traces.load(tmp_path, SHAPES[request.param](n)) as database:
        yield database


def shape(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", [name], indirect=True)


def parts_add_up(run: tracekit.Database) -> int:
    """Checks that the parts of each window add up; returns the number of windows."""
    causes: dict[tuple[Any, ...], int] = {}
    for row in run.ask("idle_causes"):
        key = (row["device_id"], row["kind"], row["name"], row["start_ns"], row["end_ns"])
        causes[key] = causes.get(key, 0) + row["idle_ns"]
    rows = run.ask("partition")
    for row in rows:
        key = (row["device_id"], row["kind"], row["name"], row["start_ns"], row["end_ns"])
        assert row["busy_ns"] + row["idle_ns"] == row["span_ns"]
        assert causes.get(key, 0) == row["host_late_ns"]
    return len(rows)


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize("run", ["threads", "busy_threads", "steps_of_threads"], indirect=True)
def test_threads_that_launch_in_turns_hand_nothing_over(run, n):
    analysis = run.verdict()
    assert analysis.gpu.linked == analysis.gpu.gpu_ops >= n
    assert analysis.causal.gains.unknown == 0
    assert analysis.verdict.regime == "overhead-bound"
    assert sum(analysis.causal.path.values()) == pytest.approx(1)
    assert not len(replayed(run).graph.joins)


def replayed(run: tracekit.Database) -> Any:
    from tracekit.replay.replay import Replay

    return Replay(run, 1)


def test_the_waiting_thread_is_found_among_many(tmp_path, n):
    # One thread calls backward while another works; the other threads end before that.
    at = EACH * n
    events = [
        *threads(n),
        slice_event("cpu_op", "forward", at, 50), slice_event("cpu_op", "backward", at + 60, 900),
        slice_event("cpu_op", "step", at + 970, 20),
        launch(at + 200, 500, 9 * n) | {"tid": 7}, gpu_op(at + 800, 50, 9 * n),
        launch(at + 975, 5, 9 * n + 1), gpu_op(at + 990, 50, 9 * n + 1),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        graph = replayed(run).graph
    # The worker waits for work; the calling thread waits until the work is done.
    joined = {
        (graph.host.threads[int(key // graph.host.span_ns)][1], int(key % graph.host.span_ns))
        for key in graph.joins
    }
    assert {(7, (at + 200) * 1000), (HOST, (at + 700) * 1000)} <= joined


@shape("steps")
def test_each_of_many_overlapping_steps_has_its_parts(run, n):
    assert parts_add_up(run) == n + 2
    rows = {row["name"]: row for row in run.ask("partition", kind="step")}
    first, last = rows["ProfilerStep#0"], rows[f"ProfilerStep#{n - 1}"]
    assert first["gpu_ops"] == n
    assert first["compute_ns"] == n * KERNEL * 1000
    assert (last["gpu_ops"], last["compute_ns"]) == (1, KERNEL * 1000)
    # A gap that the second step's start cuts counts for that step, too.
    causes = {
        row["cause"]: (row["idle_ns"], row["gaps"])
        for row in run.ask("idle_causes", kind="step")
        if row["name"] == "ProfilerStep#1"
    }
    assert causes == {
        "launch": ((n - 1) * CALL * 1000, n - 1),
        "launch_latency": ((n - 1) * 4 * 1000, n - 1),
        "untraced": ((n - 2) * 1000, n - 2),
    }
    assert len(run.verdict().steps) == n


@shape("devices")
def test_each_device_has_its_parts(run, n):
    assert parts_add_up(run) == 2 * n
    rows = run.ask("partition", kind="trace")
    assert all(row["compute_ns"] == KERNEL * 1000 for row in rows)
    # The first device's launch begins with the trace.
    assert [row["host_late_ns"] for row in rows] == [
        (EACH * place + 8) * 1000 if place else 0 for place in range(n)
    ]
    causes = {
        (row["device_id"], row["cause"]): (row["idle_ns"], row["gaps"])
        for row in run.ask("idle_causes", kind="trace")
    }
    # Before its own launch the host launches for other devices; in between it is untraced.
    last = DEVICE + n - 1
    assert causes[last, "launch"] == (n * CALL * 1000, 1)
    assert causes[last, "untraced"] == ((n - 1) * (EACH - CALL) * 1000, 1)
    assert causes[last, "launch_latency"] == (4 * 1000, 1)
    analysis = run.verdict()
    assert len(analysis.devices) == n
    assert analysis.gpu.device_id == DEVICE
    # Their timelines have few rows.
    _, rows = run.fetch("SELECT count(*) FROM gpu_timeline")
    assert rows[0][0] <= 6 * n
    _, rows = run.fetch(
        "SELECT device_id, sum(end_ns - start_ns) FROM gpu_timeline_by_cause GROUP BY 1"
    )
    _, span = run.fetch("SELECT end_ns - start_ns FROM trace_span")
    assert {ns for _, ns in rows} == {span[0][0]}


@shape("streams")
def test_every_stream_is_waited_for(run, n):
    assert run.verdict().gpu.linked == n
    assert (replayed(run).graph.unknown == 0).all()


@shape("python_threads")
def test_each_python_thread_has_its_time(run, n):
    _, rows = run.fetch("SELECT count(DISTINCT tid), sum(self_ns) FROM host_slice")
    assert rows == [(n + 1, (9 * n + CALL) * 1000)]
    assert run.verdict().gpu.linked == 1


@shape("ranges")
def test_user_ranges_are_the_phases(run, n):
    phases = run.verdict().phases
    assert [phase.name for phase in phases] == [f"range {place}" for place in range(n)]


# -- sums along the timeline, and the joins that they replace --------------------------------------


def by_join(run: tracekit.Database, kind: str) -> set[tuple[Any, ...]]:
    """The parts of windows, by a join of every window with every segment of the timeline."""
    _, rows = run.fetch(f"""
        SELECT w.device_id, w.name, w.start_ns, w.end_ns, activity::VARCHAR, idle_class::VARCHAR, cause::VARCHAR,
               sum(least(t.end_ns, w.end_ns) - greatest(t.start_ns, w.start_ns))::BIGINT,
               count(DISTINCT op_id) FILTER (idle_class = 'host_late')
        FROM windows AS w JOIN gpu_timeline_by_cause AS t
          ON w.trace_id = t.trace_id AND w.device_id = t.device_id AND t.end_ns > w.start_ns AND t.start_ns < w.end_ns
        WHERE kind = '{kind}' AND w.end_ns > w.start_ns GROUP BY ALL""")  # noqa: E501
    return set(rows)


def by_sums(run: tracekit.Database, kind: str) -> set[tuple[Any, ...]]:
    _, rows = run.fetch(f"""
        SELECT device_id, name, window_start_ns, window_end_ns, activity::VARCHAR,
               idle_class::VARCHAR, cause::VARCHAR, ns, gaps
        FROM window_timeline_parts WHERE kind = '{kind}'""")
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


@pytest.mark.sampled(4, of=12)
@pytest.mark.parametrize("n_devices", [1, 5, 70])
@pytest.mark.parametrize("seed", range(4))
def test_sums_along_the_timeline_equal_a_join_for_every_window(seed, n_devices, tmp_path):
    with traces.load(tmp_path, random_events(seed, n_devices)) as run:
        for kind in ("gpu_active", "step", "trace"):
            expected = by_join(run, kind)
            assert len(expected) >= n_devices
            assert by_sums(run, kind) == expected


def test_causes_are_the_same_whether_stored_once_or_for_each_device(tmp_path):
    few = random_events(5, 60)
    until = max(event["ts"] + event["dur"] for event in few)
    # With ten more devices, launched at the end, causes are no longer stored for each device.
    more = [
        event
        for place in range(10)
        for event in (
            launch(until + 10 * place, 5, 90_000 + place),
            gpu_op(until + 10 * place + 6, 3, 90_000 + place, device=60 + place),
        )
    ]
    found = []
    for name, events in (("few", few), ("many", few + more)):
        with tracekit.load(traces.write(tmp_path / f"{name}.json", events)) as run:
            rows = run.ask("idle_causes", kind="gpu_active")
            culprits = run.fetch(
                "SELECT host_event_id, cause::VARCHAR, sum(t.end_ns - t.start_ns) "
                "FROM gpu_timeline_by_cause AS t JOIN windows AS w "
                "ON t.device_id = w.device_id AND w.kind = 'gpu_active' "
                "AND t.start_ns >= w.start_ns AND t.end_ns <= w.end_ns "
                "WHERE t.device_id < 60 AND idle_class = 'host_late' GROUP BY 1, 2"
            )[1]
            stored = run.fetch(
                "SELECT count(*) FROM gpu_timeline WHERE idle_class = 'host_late' AND cause IS NULL"
            )[1][0][0]
            found.append(
                (
                    stored > 0,
                    [tuple(row.values()) for row in rows if row["device_id"] < 60],
                    sorted(culprits, key=str),
                )
            )
    assert [each[0] for each in found] == [False, True]
    assert sorted(found[0][1], key=str) == sorted(found[1][1], key=str)
    assert found[0][2] == found[1][2]
    assert len(found[0][1]) > 100


def test_step_windows_are_kept_for_the_64_devices_with_most_work(tmp_path):
    events = [*devices(70), *(step(place, 100 * place, 100) for place in range(5))]
    # The last device works longest.
    events[2 * 69 + 1]["dur"] = 500
    with traces.load(tmp_path, events) as run:
        chosen = {row["device_id"] for row in run.ask("partition", kind="step")}
        assert chosen == {69, *range(63)}
        assert len(run.ask("partition", kind="trace")) == 70
        assert len(run.verdict().steps) == 5
