"""Healthy loops: the device does all it can, and nothing on the host is to be blamed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    Fetch,
    HandOver,
    Launch,
    Op,
    Slice,
    StreamWait,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.bench.diagnosis.programs import NONE, Program, regime
from tests.bench.diagnosis.score import Case
from tests.simulator import Machine

SEEDS = 4
PLACE = "train.py(12): train_step"
PINNED = "Memcpy HtoD (Pinned -> Device)"
SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

Maker = Callable[[random.Random, list[Any]], list[Any]]


def _read() -> Any:
    return operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))


def _loop(rng: random.Random, *first: Any, last: tuple[Any, ...] = ()) -> list[Any]:
    """Steps of products that the host launches far ahead, with `first` and `last` in each."""
    work = products(rng)
    steps = rng.randint(5, 8)
    return [step(n, line(PLACE, *first, *work, *last), Work(9 * US)) for n in range(steps)] + [
        Sync(2 * US)
    ]


def products(rng: random.Random) -> list[Any]:
    """Large products, each of which the device needs far longer for than the host."""
    count, us = rng.randint(20, 60), rng.randint(80, 400)
    kernels = [("math", int(us * rng.uniform(0.7, 1.3)) * US) for _ in range(count)]
    return [operator("aten::mm", 10 * US, Launch(4 * US, (each,))) for each in kernels]


def _idles_1_percent(rng: random.Random) -> list[Any]:
    return _loop(rng, last=(_read(), Work(rng.randint(20, 60) * US)))


def _reads_the_loss(rng: random.Random) -> list[Any]:
    return _loop(rng, last=(_read(),))


def _fills_the_queue(rng: random.Random) -> list[Any]:
    many = [operator("aten::mm", 5 * US, Launch(4 * US, (("math", 90 * US),)))] * 400
    return [step(n, *many) for n in range(5)] + [Sync(2 * US)]


def _synchronizes_at_the_end(rng: random.Random) -> list[Any]:
    return _loop(rng, last=(Sync(2 * US),))


def _loads_in_time(rng: random.Random) -> list[Any]:
    return _loop(rng, Fetch(rng.randint(40, 120) * US, 300 * US, ahead=4))


def _loads_a_little_itself(rng: random.Random) -> list[Any]:
    load = Slice(SINGLE, "user_annotation", (Work(rng.randint(100, 800) * US, "input"),))
    return _loop(rng, load)


def _copies_while_it_computes(rng: random.Random) -> list[Any]:
    copy = Launch(5 * US, (Op("copy", 400 * US, PINNED, {"bytes": 9_000_000}),), stream=13)
    return _loop(rng, operator("aten::copy_", 3 * US, copy))


def _communicates_while_it_computes(rng: random.Random) -> list[Any]:
    reduce = Launch(6 * US, (("communication", rng.randint(300, 900) * US),), 20)
    work = products(rng)
    half = len(work) // 2
    overlapped = [StreamWait(US, 7, 20), operator("nccl:all_reduce", 4 * US, reduce)]
    joined = [*work[:half], *overlapped, *work[half:], StreamWait(US, 20, 7)]
    return [step(n, *joined) for n in range(6)] + [Sync(2 * US)]


def _replays_graphs(rng: random.Random) -> list[Any]:
    kernels = tuple(("math", rng.randint(40, 90) * US) for _ in range(200))
    graph = operator("graph", 9 * US, Launch(40 * US, kernels, name="cudaGraphLaunch"))
    return [step(n, graph, Work(30 * US)) for n in range(6)] + [Sync(2 * US)]


def _allocates_at_first(rng: random.Random) -> list[Any]:
    first, *others = _loop(rng)
    mallocs = [Call("cudaMalloc", 300 * US, "allocation")] * 12
    return [step(0, *mallocs, *first.atoms), *others]


def _compiles_at_first(rng: random.Random) -> list[Any]:
    first, *others = _loop(rng)
    made = Slice("compile (dynamo_timed)", "cpu_op", (Work(80 * MS, "compilation"),))
    return [step(0, made, *first.atoms), *others]


def _runs_its_backward_pass_apart(rng: random.Random) -> list[Any]:
    backward = [
        operator("autograd::engine::evaluate_function: MmBackward0", 3 * US, each)
        for each in products(rng)
    ]
    return _loop(rng, last=(HandOver(tuple(backward)),))


def _copies_labels_from_pageable_memory(rng: random.Random) -> list[Any]:
    copy = BlockingCopy(5 * US, 3 * US, bytes=2048)
    return _loop(rng, operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, copy)))


MAKERS = (
    _idles_1_percent, _reads_the_loss, _fills_the_queue, _synchronizes_at_the_end, _loads_in_time,
    _loads_a_little_itself, _copies_while_it_computes, _communicates_while_it_computes,
    _replays_graphs, _allocates_at_first, _compiles_at_first, _runs_its_backward_pass_apart,
    _copies_labels_from_pageable_memory,
)  # fmt: skip


def programs() -> Iterator[Program]:
    """Each healthy loop, at several seeds."""
    for number, make in enumerate(MAKERS):
        name = make.__name__.strip("_").replace("_", " ")
        for seed in range(SEEDS):
            atoms = make(random.Random(1000 * number + seed))
            if "compute-bound" not in regime(atoms, Machine(), seed):
                raise AssertionError(f"{name}, {seed}: not healthy")
            case = Case(
                name=f"healthy: {name}, {seed}",
                kind="healthy",
                why="The host is far ahead; the device works without a pause that matters.",
                regime=("compute-bound",),
                changes=NONE,
                never=("overhead-bound", "sync", "input", "python", "dispatch", "launch"),
            )
            yield Program(case, atoms, seed=seed)
