"""Replays of random programs, with changes, are compared with runs of the changed programs; damaged
traces of programs get a verdict, or a reason why not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracekit
from tests.kit.programs import random_program, waiting_program
from tests.kit.sampling import sample
from tests.kit.simulated import trace_event, truth, write
from tests.kit.simulator import Simulation
from tests.kit.traces import Together
from tracekit.errors import TracekitError
from tracekit.replay.model import WindowId
from tracekit.replay.replay import Replay

QUESTIONS = [
    ("host*0.5",), ("device*0.5",), ("host*2",), ("python*0",), ("dispatch*0.5",), ("sync*0",),
    ("copy*0",), ("communication*0.5",), ("kernel:gemm*0.5",), ("cuda-graph",), ("input*0",),
    ("launch*0.3", "device*0.7"),
]  # fmt: skip


# Blocks large enough that one program may be wrong: the op that a call waited for can be a
# coincidence.
PROGRAMS = [range(n, n + 125) for n in range(0, 500, 125)]
PROGRAMS = sample("blocks of up to 125 random programs", PROGRAMS, [range(6)])
# Traces per database; a question about one trace scans them all.
_AT_ONCE = 25


@pytest.mark.slow
@pytest.mark.parametrize("seeds", PROGRAMS, ids=str)
def test_predictions_are_within_2_percent_and_regimes_agree(seeds, tmp_path):
    asked, wrong, flipped = 0, [], []
    for first in range(seeds.start, seeds.stop, _AT_ONCE):
        some = seeds[first - seeds.start :][:_AT_ONCE]
        for seed, gains in _gains({each: random_program(each) for each in some}, tmp_path):
            asked += len(gains)
            wrong += [
                (seed, question, predicted, true)
                for question, (predicted, true) in gains.items()
                if abs(predicted - true) > 0.02 * (1 - true)
            ]
            host, device = gains["host*0.5",], gains["device*0.5",]
            if abs(host[1] - device[1]) > 0.05 and (host[0] > device[0]) != (host[1] > device[1]):
                flipped.append(seed)
    assert asked > 11 * len(seeds)
    assert len(wrong) <= 0.01 * asked, wrong
    assert not flipped


WAITING = sample("blocks of up to 50 programs that wait", [range(50), range(50, 100)], [range(10)])
PACES = [("host*0.5",), ("device*0.5",), ("host*2",), ("launch*0.3", "device*0.7")]


@pytest.mark.parametrize("seeds", WAITING, ids=str)
def test_faster_hosts_and_devices_are_predicted_within_3_percent_whatever_is_waited_for(
    seeds, tmp_path
):
    programs = {seed: waiting_program(seed) for seed in seeds}
    wrong = [
        (seed, question, predicted, true)
        for seed, gains in _gains(programs, tmp_path, PACES)
        for question, (predicted, true) in gains.items()
        if abs(predicted - true) > 0.03 * (1 - true)
    ]
    assert len(wrong) <= 0.01 * len(PACES) * len(seeds), wrong


def _gains(programs, folder, questions=QUESTIONS):
    """Each program's gains by question: predicted by the replay, and true in the simulator."""
    spans = {}
    for seed, (atoms, machine) in programs.items():
        simulation = Simulation(atoms, machine, seed=seed)
        write(folder / f"{seed}.json", simulation)
        spans[seed] = simulation.span_ns
    with tracekit.load([folder / f"{seed}.json" for seed in programs]) as run:
        traces = {int(Path(row["path"]).stem): row["trace_id"] for row in run.traces()}
        for seed, (atoms, machine) in programs.items():
            replay = Replay(run, traces[seed])
            bounds = replay.bounds()
            span = bounds.length(replay.measured())
            # Without changes, no time moves, and the critical path is as long as the window.
            assert span == spans[seed]
            assert np.array_equal(replay.measured().time, replay.graph.time)
            assert sum(bounds.path(replay.measured()).by_cause.values()) == span
            gains = {}
            for question in questions:
                try:
                    predicted = bounds.length(replay.run(*question))
                except TracekitError:
                    continue  # Not every program has matrix products.
                true = truth(atoms, question, machine, seed)
                gains[question] = (1 - predicted / span, 1 - true / span)
            yield seed, gains


# -- wrong times, links, streams and names ---------------------------------------------------------

CASES = sample("random events that a replay is asked about", 12, 5)
NAMES = [
    "cudaDeviceSynchronize", "cudaStreamWaitEvent", "cudaEventRecord", "cudaFree", "cudaMalloc",
    "cudaMemcpy", "cudaGraphLaunch", "ProfilerStep#1", "nn.Module: A_0", "", None,
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
]  # fmt: skip
CATEGORIES = [
    "kernel", "cuda_runtime", "cpu_op", "gpu_memcpy", "cuda_sync", "user_annotation",
    "python_function", None,
]  # fmt: skip


def damaged(event: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The event with one wrong value."""
    event = event | {"args": dict(event["args"])}
    match rng.randrange(9):
        case 0:
            event["ts"] = rng.randrange(10_000) + rng.choice([-1e6, -50, -3, 3, 50, 1e6])
        case 1:
            event["ts"] = rng.choice([0, 1e15, -1e15, None, "12.5"])
        case 2:
            event["dur"] = rng.choice([0, -5, 1e9, None, 0.5, "3", 1e300])
        case 3:
            event["args"]["correlation"] = rng.choice([0, 1, -1, rng.randrange(1000), "x", 2**63])
        case 4:
            event["args"]["stream"] = rng.choice([0, 7, -1, "s", None, 99999999999])
        case 5:
            event["args"]["device"] = rng.choice([0, 1, -1, "d", None])
        case 6:
            event[rng.choice(["pid", "tid"])] = rng.choice([0, "t", -5, 3, 2**40])
        case 7:
            event["cat"] = rng.choice(CATEGORIES)
        case _:
            event["name"] = rng.choice(NAMES)
    return event


@pytest.mark.parametrize("seed", sample("seeds of damage to a replay", range(6), range(1)))
def test_no_damage_upsets_a_replay(seed, tmp_path):
    rng, together = random.Random(seed), Together()
    for case in range(CASES):
        program, machine = random_program(100 * seed + case)
        simulation = Simulation(program[:2], machine, seed=case)
        events = [trace_event(event) for event in simulation.events()]
        for _ in range(rng.choice([1, 5, len(events) // 10])):
            place = rng.randrange(len(events))
            events[place] = damaged(events[place], rng)
        together.events(events)
    with together.load(tmp_path) as run, run.session.sharing():
        for trace in run.trace_ids():
            analysis = run.verdict(trace)
            if analysis.causal is None:
                assert analysis.verdict.regime == "unknown" or analysis.gpu is None
                continue
            replay = Replay(run, trace)
            assert np.array_equal(replay.measured().time, replay.graph.time)
            bounds = replay.bounds()
            for changes in ((), ("sync*0",), ("cuda-graph",), ("host*0", "device*0.5")):
                changed = replay.run(*changes)
                assert sum(bounds.path(changed).by_cause.values()) == bounds.length(changed)
            for number, length in enumerate(replay.steps.lengths(replay.measured())):
                path_ns = replay.window(WindowId("step", number)).path(replay.measured()).by_cause
                assert sum(path_ns.values()) == length
