"""The replay's loops in C give exactly the same as loops in Python, and stay within bounds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tests.kit import sanitized, simulated
from tests.kit.processes import ran
from tests.kit.programs import random_program
from tests.kit.sampling import sample
from tests.kit.simulator import Simulation
from tracekit.replay.graph.arrays import Rates
from tracekit.replay.replay import Replay
from tracekit.replay.simulator import Scale

PROGRAMS = sample("programs of the replay in Python", range(8), range(2))
FACTORS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1 / 3, 7.0]) | st.floats(0, 100)


def scaled(ns: int, rates: Rates, part: int) -> int:
    """The scaled time of a part measured to take `ns`; halves are rounded to even."""
    rate = float(rates.rate[rates.kind[part]])
    return ns if rate == 1 else round(ns * rate)


def work_until(replay: Replay, scale: Scale, points: np.ndarray) -> list[int]:
    """The work done by each point, computed stretch by stretch."""
    host, done, found = replay.graph.host, 0, []
    for stretch, (begin, end) in enumerate(pairwise(host.borders.tolist())):

        def worked(ns: int, stretch: int = stretch) -> int:
            return 0 if host.blocked[stretch] else scaled(ns, scale.host, stretch)

        done += worked(end - begin)
        inside = points[(points >= begin) & (points < end)].tolist()
        found += [done - worked(end - point) for point in inside]
    return found


def times(replay: Replay, scale: Scale) -> list[int]:
    """The time of each node, computed edge by edge."""
    graph, points = replay.graph, replay.simulator.points
    work = dict(zip(points.tolist(), work_until(replay, scale, points), strict=True))
    edges, time, latest = graph.edges, [0] * len(graph.time), {}
    for edge, (source, target) in enumerate(zip(edges.source, edges.target, strict=True)):
        length = scaled(int(edges.fixed_ns[edge]), scale.fixed, edge)
        if 1 <= source <= graph.ops:
            length += scaled(int(edges.op_ns[edge]), scale.op, source - 1)
        if edges.host_to[edge] >= 0:
            until = edges.host_to[[edge]]
            since = graph.since(edges.source[[edge]], until)
            length += work[int(until[0])] - work[int(since[0])]
        if not scale.dropped[edge]:
            latest[target] = max(latest.get(target, time[source] + length), time[source] + length)
        # The edges of a target are adjacent: after the last of them, this is its time.
        unknown = int(graph.unknown[target])
        waited = unknown if scale.unknown == 1 else round(unknown * scale.unknown)
        if target in latest:
            time[target] = latest[target] + waited
    return time


@pytest.fixture(scope="module")
def replays(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays")
    for seed in PROGRAMS:
        atoms, machine = random_program(seed)
        simulated.write(folder / f"{seed}.json", Simulation(atoms, machine, seed=seed))
    with tracekit.load(folder) as database:
        return [Replay(database, trace) for trace in database.trace_ids()]


@settings(max_examples=sample("changes of replays in Python", 300, 30))
@given(st.sampled_from(PROGRAMS), st.integers(0, 10**6), st.data())
def test_a_replay_is_to_the_nanosecond_what_its_edges_say(replays, number, seed, data):
    replay, rng = replays[number], np.random.default_rng(seed)
    scale = Scale.of(replay.graph)
    for rates in (scale.host, scale.op, scale.fixed):
        rates.scale(data.draw(FACTORS))
        rates.scale_cause(data.draw(st.integers(0, 11)), data.draw(FACTORS))
        rates.scale(data.draw(FACTORS), rng.random(len(rates.kind)) < 0.3)
        some = rng.permutation(len(rates.kind))[:9]
        if data.draw(st.booleans()):
            rates.scale_each(rng.random(len(some)), some)
    scale.unknown = data.draw(FACTORS)
    # Each target keeps at least one edge.
    follows = np.diff(replay.graph.edges.target, prepend=-1) == 0
    scale.dropped = follows & (rng.random(len(follows)) < 0.2)
    run = replay.simulator.run(scale)
    assert run.time.tolist() == times(replay, scale)
    assert run.work.tolist() == work_until(replay, scale, replay.simulator.points)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
def test_the_loops_stay_within_their_arrays_whatever_the_numbers(seed, tmp_path):
    done = ran(sanitized.compiled("fuzz_replay", tmp_path), str(seed), "100000")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "100000\n")


# -- rates: they behave as if each part had its own ------------------------------------------------

PARTS, CAUSES = 12, 3
few = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])
flags = st.lists(st.booleans(), min_size=PARTS, max_size=PARTS).map(np.array)
changes = st.one_of(
    st.tuples(st.just("all"), few, st.none()),
    st.tuples(st.just("cause"), few, st.integers(0, CAUSES - 1)),
    st.tuples(st.just("where"), few, flags),
    st.tuples(
        st.just("each"), st.lists(few, min_size=4, max_size=4), st.permutations(range(PARTS))
    ),
)


@given(st.lists(changes, max_size=8), st.lists(st.integers(0, 10**6), min_size=12, max_size=12))
def test_changes_scale_exactly_the_parts_that_they_name(changed, lengths):
    cause = np.arange(PARTS, dtype=np.int8) % CAUSES
    ns = np.array(lengths, np.int64)
    rates, expected = Rates.of(cause), np.ones(PARTS)
    for what, factor, which in changed:
        if what == "all":
            rates.scale(factor)
            expected *= factor
        elif what == "cause":
            rates.scale_cause(which, factor)
            expected[cause == which] *= factor
        elif what == "where":
            rates.scale(factor, which)
            expected[which] *= factor
        else:
            some = np.array(which[: len(factor)])
            rates.scale_each(np.array(factor), some)
            expected[some] *= factor
    whole = rates.times(ns)
    assert whole.dtype == np.int64
    assert np.array_equal(whole, np.rint(ns * expected))
    assert np.array_equal(rates.times(ns[3:7], slice(3, 7)), whole[3:7])
    some = np.array([8, 2, 2])
    assert np.array_equal(rates.times(ns[some], some), whole[some])
    # The parts' causes are the recording's own: no change may touch them.
    assert np.array_equal(cause, np.arange(PARTS) % CAUSES)


def test_unscaled_times_are_exact_at_any_length():
    rates = Rates.of(np.zeros(2, np.int8))
    long = np.array([2**62 + 1, 3], np.int64)
    assert rates.times(long).tolist() == long.tolist()
    rates.scale(0.5, np.array([False, True]))
    assert rates.times(long).tolist() == [2**62 + 1, 2]
