"""Traces with wrong times, links, streams or names get a verdict, or a reason why not."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.kit.programs import random_program
from tests.kit.sampling import sample
from tests.kit.simulated import trace_event
from tests.kit.simulator import Simulation
from tests.kit.traces import Together
from tracekit.replay.replay import Replay

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
                path_ns = replay.window("step", number).path(replay.measured()).by_cause
                assert sum(path_ns.values()) == length
