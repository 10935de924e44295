"""The fact `host_wait`: who waits for whom, and how that is known."""

from collections import Counter

import pytest

import tracekit
from tests.kit import simulated, traces
from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Fetch,
    Launch,
    Poll,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.kit.simulator import Machine, Simulation
from tracekit.replay.replay import Replay

LONG = Launch(5 * US, (("math", 400 * US),))
SHORT = Launch(5 * US, (("math", 3 * US),))
MULTIPLY = operator("aten::mm", 5 * US, LONG)
SPINS = "engine.py(88): wait_for_outputs"


def waits(folder, atoms, machine=None):
    """What the host of a simulated program waits for: a count by what and how it is known."""
    path = simulated.write(folder / "t.json", Simulation(atoms, machine or Machine()))
    with tracekit.load(path) as run:
        found = Replay(run.session, 1).host_waits
    return Counter(zip(found["waits_for"], found["known_from"], strict=True))


def steps(*atoms):
    return [*(step(n, *atoms) for n in range(5)), Sync(2 * US)]


PROGRAMS = {
    "a call that synchronizes": ([MULTIPLY, Sync(2 * US)], ("device op", "named call")),
    "one that waits for a stream": ([MULTIPLY, Sync(2 * US, 7)], ("device op", "named call")),
    "a copy of a value": (
        [MULTIPLY, operator("aten::item", 2 * US, BlockingCopy(5 * US, 2 * US))],
        ("device op", "blocking copy"),
    ),
    "a loop that asks for the last op": (
        [MULTIPLY, line(SPINS, Poll(1 * US, 20 * US))],
        ("device op", "polling"),
    ),
    "a value that is read before its kernel ends": (
        [MULTIPLY, line(SPINS, Poll(1 * US, 0, early_ns=15 * US))],
        ("device op", "polling"),
    ),
    "a loader": ([Fetch(60 * US, 3 * MS), SHORT], ("loader", "long fetch")),
    "an op that another one follows": (
        [MULTIPLY, Launch(5 * US, (("math", 3 * US),), 13), line(SPINS, Poll(1 * US, 20 * US))],
        ("device op", "silence"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_wait_says_for_whom_and_how_that_is_known(name, tmp_path):
    atoms, expected = PROGRAMS[name]
    assert waits(tmp_path, steps(*atoms))[expected] >= 4


LOOK_ALIKES = {
    "a call after the device is done": [SHORT, Work(90 * US), Sync(2 * US)],
    "work of the same length each time": [MULTIPLY, line(SPINS, Work(700 * US))],
    "a fetch of a batch that is there": [Fetch(60 * US, 90 * US), MULTIPLY, Work(MS)],
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_work_is_no_wait(name, tmp_path):
    found = waits(tmp_path, steps(*LOOK_ALIKES[name]))
    # The program ends with a synchronization.
    assert sum(found.values()) <= 1, found


@pytest.mark.parametrize("room_ns", [1_500, -600])
def test_a_launch_waits_for_room_in_a_full_queue(tmp_path, room_ns):
    atoms = [Launch(2_000, (("math", 20_000),)) for _ in range(1_500)]
    machine = Machine(queue_limit=600, room_ns=room_ns)
    assert waits(tmp_path, atoms, machine)["device op", "full queue"] > 500
    with tracekit.load(tmp_path / "t.json") as run:
        predicted = run.whatif("gpu*0.5")
    assert predicted.predicted_ns == pytest.approx(predicted.window_ns / 2, rel=0.05)


def test_a_wait_has_the_op_and_the_times_of_the_recorded_events(tmp_path):
    events = [
        traces.launch(0, 1, 1), traces.gpu_op(5, 80, 1),
        traces.launch(20, 70, 9, "cudaDeviceSynchronize"),
        traces.launch(100, 1, 2), traces.gpu_op(101, 4, 2),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        (row,) = run.sql("FROM host_wait").iter_rows(named=True)
        (shown,) = run.query("who_waits").iter_rows(named=True)
    assert (row["start_ns"], row["end_ns"], row["released_ns"]) == (20_000, 90_000, 85_000)
    assert (row["event_id"], row["awaited_id"], row["known_from"]) == (2, 1, "named call")
    assert (shown["call"], shown["count"], shown["wait_ns"]) == ("cudaDeviceSynchronize", 1, 70_000)
    assert shown["lag_ns"] == 5_000


def test_a_collective_of_the_host_waits_for_other_ranks(tmp_path):
    events = [traces.operator("aten::mm", 0, 40), traces.operator("gloo:all_reduce", 50, 900)]
    with traces.load(tmp_path, events) as run:
        (row,) = run.sql("FROM host_wait").iter_rows(named=True)
    assert (row["waits_for"], row["known_from"]) == ("other rank", "remote call")
    assert (row["event_id"], row["awaited_id"], row["released_ns"]) == (1, None, None)
