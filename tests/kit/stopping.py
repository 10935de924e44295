"""Simulated runs of data-parallel ranks whose threads lose their cores now and then, or which start
cold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import ranks_simulated, simulated
from tests.kit.atoms import MS, US, Launch, Op, Sync, Work, line, operator, step
from tests.kit.ranks_simulated import KERNEL
from tests.kit.simulator import Simulation

# Calls of several kinds: a thread stops in any of them.
_KINDS = ("aten::mm", "aten::add", "aten::mul", "aten::relu", "aten::layer_norm")


@dataclass(frozen=True)
class Stopping:
    """A run in which each step ends with an all-reduce of all ranks."""

    ranks: int = 4
    steps: int = 12
    calls: int = 40
    call_ns: int = 30 * US
    """The time that the host takes for a call; its kernel takes a third of it."""
    stops: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """How long a rank's thread stops in a step, by step and rank, in ns."""
    longer: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """How much longer a rank's largest kernel takes in a step, by step and rank, in ns."""
    cold_ns: int = 0
    """How long one launch of the first step takes, on each rank."""
    checkpoint_ns: int = 0
    """How long rank 0 writes a checkpoint, once, between its steps."""
    marks: bool = True
    """Whether steps are marked."""


def in_turn(seed: int = 0, ns: int = 8 * MS, each: int = 4, **job: Any) -> Stopping:
    """A run in which each rank stops as often as the others, each in steps of its own."""
    rng, plain = random.Random(seed), Stopping(**job)
    steps = [number % plain.steps for number in range(plain.ranks * each)]
    rng.shuffle(steps)
    stops = {
        (step, rank): round(ns * rng.uniform(0.6, 1.4))
        for rank in range(plain.ranks)
        for step in steps[rank * each : (rank + 1) * each]
    }
    return Stopping(**job, stops=stops)


def uneven(seed: int = 0, ns: int = 4 * MS, each: int = 3, **job: Any) -> Stopping:
    """A run in which batches differ: one rank after another has more to compute."""
    return Stopping(**job, longer=in_turn(seed, ns, each, **job).stops)


def _atoms(job: Stopping, rank: int) -> Iterator[Any]:
    for number in range(job.steps):
        atoms = _step(job, number, rank)
        yield from [step(number + 1, *atoms)] if job.marks else atoms


def _step(job: Stopping, number: int, rank: int) -> Iterator[Any]:
    stop_ns = job.stops.get((number, rank), 0)
    stopped = (7 * number + 11 * rank) % job.calls if stop_ns else -1
    for turn in range(job.calls):
        name = _KINDS[turn % len(_KINDS)]
        lost = stop_ns if turn == stopped else 0
        more = 0 if turn else job.longer.get((number, rank), 0)
        cold_ns = job.cold_ns if (number, turn) == (0, 3) else 0
        launch = Launch(5 * US + cold_ns, (("math", job.call_ns // 3 + more),))
        yield operator(name, job.call_ns - 5 * US + lost, launch)
    if (number, rank) == (job.steps // 2, 0) and job.checkpoint_ns:
        yield line("checkpoint.py(17): save", Work(job.checkpoint_ns))
    args = {
        "Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
        "dtype": "Float", "Process Group Name": "dp", "Group size": job.ranks, "Seq": number + 1,
        "Process Group Ranks": str([*range(job.ranks)]),
    }  # fmt: skip
    kernel = Op("communication", 100 * US, KERNEL.format("AllReduce_Sum_f32"), args)
    yield operator("c10d::allreduce_", 5 * US, Launch(5 * US, (kernel,)))
    yield operator("Optimizer.step#SGD.step", 5 * US, Launch(5 * US, (("math", 20 * US),)))
    yield Sync(2 * US)


def simulate(job: Stopping) -> list[Simulation]:
    """The runs of all ranks."""
    return simulated.ranks([[*_atoms(job, rank)] for rank in range(job.ranks)])


def write(folder: Path, job: Stopping) -> list[Simulation]:
    """Runs a job and writes the traces of its ranks."""
    return ranks_simulated.write_ranks(folder, simulate(job))
