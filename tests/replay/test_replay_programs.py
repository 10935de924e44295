"""Compares replays of random programs, with changes, with runs of the changed programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracekit
from tests.kit.programs import random_program
from tests.kit.sampling import sample
from tests.kit.simulated import truth, write
from tests.kit.simulator import Simulation
from tracekit.errors import TracekitError
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
        for seed, gains in _gains(seeds[first - seeds.start :][:_AT_ONCE], tmp_path):
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


def _gains(seeds, folder):
    """Each program's gains by question: predicted by the replay, and true in the simulator."""
    programs = {seed: random_program(seed) for seed in seeds}
    spans = {}
    for seed, (atoms, machine) in programs.items():
        simulation = Simulation(atoms, machine, seed=seed)
        write(folder / f"{seed}.json", simulation)
        spans[seed] = simulation.span_ns
    with tracekit.load([folder / f"{seed}.json" for seed in seeds]) as run:
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
            for question in QUESTIONS:
                try:
                    predicted = bounds.length(replay.run(*question))
                except TracekitError:
                    continue  # Not every program has matrix products.
                true = truth(atoms, question, machine, seed)
                gains[question] = (1 - predicted / span, 1 - true / span)
            yield seed, gains
