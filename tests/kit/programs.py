"""Random programs for the simulator: loops with random mixes of the habits that bound runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    Fetch,
    HandOver,
    Launch,
    Poll,
    Slice,
    StreamWait,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.kit.simulator import Machine

COMPUTE, SIDE, COMM = 7, 13, 20
_SYNCHRONOUS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def random_program(seed: int) -> tuple[list[Any], Machine]:
    """A program and its machine; the seed determines the mix of work and habits."""
    rng = random.Random(seed)
    machine = Machine(
        queue_limit=rng.choice([1024, 1024, 1024, 1200]), records_waits=rng.random() < 0.5
    )
    habits = {
        name
        for name, chance in {
            "backward": 0.5, "sync": 0.35, "item": 0.3, "fetch": 0.25, "input": 0.2, "copy": 0.3,
            "comm": 0.35, "side": 0.25, "alloc": 0.2, "compile": 0.1, "graph": 0.15, "burst": 0.15,
        }.items()
        if rng.random() < chance
    }  # fmt: skip
    pace = {
        "dispatch": rng.uniform(3, 25) * US,
        "python": rng.choice([0.0, rng.uniform(1, 40) * US]),
        "call": rng.uniform(3, 9) * US,
        "op": rng.uniform(2, 120) * US,
        # Slow, or never waited for: a trace does not show how far ahead a loader is.
        "load": rng.choice([rng.uniform(50, 150) * US, rng.uniform(20, 60) * MS]),
    }
    steps = [step(number, *random_step(rng, habits, pace)) for number in range(rng.randint(2, 5))]
    return [*steps, Sync(2 * US)], machine


def waiting_program(seed: int) -> tuple[list[Any], Machine]:
    """A program of steps of one kind, in which the host waits for the device: for graphs that run
    on streams of their own, in named calls, in copies or in a loop of its own."""
    rng = random.Random(seed)
    pace = {
        "dispatch": rng.uniform(3, 25) * US,
        "python": 0.0,
        "call": rng.uniform(3, 9) * US,
        "op": rng.uniform(2, 80) * US,
    }
    lanes = rng.choice([(), (31,), (31, 32), (COMPUTE, 31)])
    waits = rng.choice(["sync", "stream", "copy", "poll", "silence", "value", "none"])
    operators, kernels = rng.randint(4, 40), rng.randint(10, 60)
    after_ns = rng.randint(0, 2_000) * US
    if waits in ("poll", "silence", "value"):
        # A short stretch without records cannot be told from work.
        pace["op"], kernels = pace["op"] + 40 * US, kernels + 30

    def a_step() -> Iterator[Any]:
        for _ in range(operators):
            yield from _operator(rng, pace)
        graph = tuple(_kernel(rng, pace) for _ in range(kernels))
        launched = Launch(30 * US, graph, name="cudaGraphLaunch", lanes=lanes)
        yield operator("graph", 5 * US, launched)
        match waits:
            case "sync":
                yield Sync(2 * US)
            case "stream":
                yield Sync(2 * US, COMPUTE)
            case "copy":
                yield operator("aten::item", 2 * US, BlockingCopy(5 * US, 2 * US))
            case "poll":
                yield line("engine.py(88): wait_for_outputs", Poll(1 * US, 20 * US))
            case "silence":
                yield Poll(1 * US, 20 * US)
            case "value":
                yield operator(
                    "aten::copy_", 5 * US, Launch(5 * US, (("memory-bandwidth", 90 * US),))
                )
                yield line("engine.py(88): wait_for_tokens", Poll(1 * US, 0, early_ns=40 * US))
        yield line("engine.py(97): schedule", Work(after_ns))

    steps = [step(number, *a_step()) for number in range(rng.randint(4, 7))]
    return [*steps, Sync(2 * US)], Machine()


def random_step(rng: random.Random, habits: set[str], pace: dict[str, float]) -> list[Any]:
    operators = rng.randint(15, 60)
    atoms: list[Any] = []
    if "fetch" in habits:
        atoms.append(Fetch(60 * US, int(pace["load"])))
    elif "input" in habits:
        work = Work(rng.randint(200, 3000) * US, "input")
        atoms.append(Slice(_SYNCHRONOUS, "user_annotation", (work,)))
    if "compile" in habits and rng.random() < 0.5:
        work = Work(rng.randint(1, 5) * MS, "compilation")
        atoms.append(Slice("compile (dynamo_timed)", "cpu_op", (work,)))
    if "alloc" in habits:
        atoms.append(Call("cudaMalloc", rng.randint(50, 900) * US, "allocation"))
    if "copy" in habits:
        atoms.append(_copy(rng))
    for number in range(operators):
        atoms += _operator(rng, pace)
        if "item" in habits and rng.random() < 0.08:
            atoms.append(operator("aten::item", 2 * US, Sync(rng.randint(1, 3) * US, COMPUTE)))
        if "side" in habits and number % 10 == 5:
            atoms += _aside(rng, SIDE, "memory-bandwidth")
        if "burst" in habits and number == operators // 2 and rng.random() < 0.4:
            atoms += [
                a
                for _ in range(1500)
                for a in _operator(rng, pace | {"python": 0, "dispatch": 2 * US})
            ]
    if "graph" in habits:
        kernels = tuple(_kernel(rng, pace) for _ in range(rng.randint(10, 60)))
        atoms.append(operator("graph", 5 * US, Launch(30 * US, kernels, name="cudaGraphLaunch")))
    if "backward" in habits:
        atoms.append(HandOver(tuple(_backward(rng, habits, pace, operators))))
    elif "comm" in habits:
        atoms += _aside(rng, COMM, "communication")
    if "sync" in habits:
        atoms.append(Sync(rng.randint(1, 3) * US))
    return atoms


def _backward(
    rng: random.Random, habits: set[str], pace: dict[str, float], operators: int
) -> list[Any]:
    atoms: list[Any] = []
    for number in range(operators):
        atoms.append(
            operator(
                "autograd::engine::evaluate_function: MmBackward0",
                3 * US,
                *_operator(rng, pace | {"python": 0}),
            )
        )
        if "comm" in habits and number % 12 == 11:
            atoms += _aside(rng, COMM, "communication", joins=number + 12 >= operators)
    return atoms


def _operator(rng: random.Random, pace: dict[str, float]) -> list[Any]:
    before = int(pace["dispatch"] * rng.uniform(0.5, 1.5))
    launch = Launch(int(pace["call"] * rng.uniform(0.7, 1.3)), (_kernel(rng, pace),))
    inner = operator("aten::mm", before // 2, launch, after_ns=before // 5)
    outer = operator("aten::linear", before // 2, inner)
    python = int(pace["python"] * rng.uniform(0.5, 1.5))
    return [outer, *([Work(python)] if python else [])]


def _kernel(rng: random.Random, pace: dict[str, float]) -> tuple[str, int]:
    ns = int(pace["op"] * rng.uniform(0.3, 2))
    if ns < 7_500:
        return "latency", ns
    return rng.choice(["math-or-memory", "memory-bandwidth"]), max(ns, 8_500)


def _aside(rng: random.Random, stream: int, cause: str, joins: bool = True) -> list[Any]:
    """Work on another stream, after the compute stream's work so far.

    If `joins`, the compute stream's next work waits for it.
    """
    ns = rng.randint(20, 600) * US
    back = [StreamWait(US, stream, COMPUTE)] if joins else []
    return [
        StreamWait(US, COMPUTE, stream),
        operator("aside", 4 * US, Launch(5 * US, ((cause, ns),), stream)),
        *back,
    ]


def _copy(rng: random.Random) -> Slice:
    copy = BlockingCopy(rng.randint(5, 60) * US, rng.randint(10, 900) * US)
    return operator("aten::copy_", 4 * US, copy)
