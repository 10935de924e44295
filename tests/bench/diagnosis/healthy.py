"""Healthy loops: the device is fully used, and the host is not to blame."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.bench.diagnosis.programs import Program, regime
from tests.bench.diagnosis.score import case_of
from tests.kit.atoms import (
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

SEEDS = 4
PLACE = "train.py(12): train_step"
PINNED = "Memcpy HtoD (Pinned -> Device)"
SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def read_item() -> Any:
    """A value that the host reads, and waits for."""
    return operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))


def _loop(rng: random.Random, *first: Any, last: tuple[Any, ...] = ()) -> list[Any]:
    """Steps of products that the host launches far ahead, with `first` and `last` in each."""
    work = products(rng)
    return _steps(rng.randint(5, 8), line(PLACE, *first, *work, *last), Work(9 * US))


def products(rng: random.Random) -> list[Any]:
    """Large products, each of which the device needs far longer for than the host."""
    count, us = rng.randint(20, 60), rng.randint(80, 400)
    kernels = [("math", int(us * rng.uniform(0.7, 1.3)) * US) for _ in range(count)]
    return [operator("aten::mm", 10 * US, Launch(4 * US, (each,))) for each in kernels]


def _steps(count: int, *atoms: Any) -> list[Any]:
    return [step(n, *atoms) for n in range(count)] + [Sync(2 * US)]


def _after_a_first(rng: random.Random, *once: Any) -> list[Any]:
    first, *others = _loop(rng)
    return [step(0, *once, *first.atoms), *others]


def _communicating(rng: random.Random) -> list[Any]:
    reduce = Launch(6 * US, (("communication", rng.randint(300, 900) * US),), 20)
    work = products(rng)
    half = len(work) // 2
    overlapped = [StreamWait(US, 7, 20), operator("nccl:all_reduce", 4 * US, reduce)]
    return _steps(6, *work[:half], *overlapped, *work[half:], StreamWait(US, 20, 7))


def _replaying(rng: random.Random) -> list[Any]:
    kernels = tuple(("math", rng.randint(40, 90) * US) for _ in range(200))
    graph = operator("graph", 9 * US, Launch(40 * US, kernels, name="cudaGraphLaunch"))
    return _steps(6, graph, Work(30 * US))


def _backward(rng: random.Random) -> list[Any]:
    name = "autograd::engine::evaluate_function: MmBackward0"
    backward = HandOver(tuple(operator(name, 3 * US, each) for each in products(rng)))
    return _loop(rng, last=(backward,))


_SHORT = operator("aten::mm", 5 * US, Launch(4 * US, (("math", 90 * US),)))
_COPY = Launch(5 * US, (Op("copy", 400 * US, PINNED, {"bytes": 9_000_000}),), stream=13)
_LABELS = BlockingCopy(5 * US, 3 * US, bytes=2048)
_COMPILE = Slice("compile (dynamo_timed)", "cpu_op", (Work(80 * MS, "compilation"),))

LOOPS: dict[str, Callable[[random.Random], list[Any]]] = {
    "idles 1 percent": lambda rng: _loop(rng, last=(read_item(), Work(rng.randint(20, 60) * US))),
    "reads the loss": lambda rng: _loop(rng, last=(read_item(),)),
    "fills the queue": lambda rng: _steps(rng.randint(4, 6), *[_SHORT] * 400),
    "synchronizes at the end": lambda rng: _loop(rng, last=(Sync(2 * US),)),
    "loads in time": lambda rng: _loop(rng, Fetch(rng.randint(40, 120) * US, 300 * US, ahead=4)),
    "loads a little itself": lambda rng: _loop(
        rng, Slice(SINGLE, "user_annotation", (Work(rng.randint(100, 800) * US, "input"),))
    ),
    "copies while it computes": lambda rng: _loop(rng, operator("aten::copy_", 3 * US, _COPY)),
    "communicates while it computes": _communicating,
    "replays graphs": _replaying,
    "allocates at first": lambda rng: _after_a_first(
        rng, *[Call("cudaMalloc", 300 * US, "allocation")] * 12
    ),
    "compiles at first": lambda rng: _after_a_first(rng, _COMPILE),
    "runs its backward pass apart": _backward,
    "copies labels from pageable memory": lambda rng: _loop(
        rng, operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, _LABELS))
    ),
}


CASE = case_of(
    "healthy", "", "The host is far ahead; the device works without a pause that matters.",
    regime="compute-bound", changes="none",
    never="overhead-bound sync input python dispatch launch",
)  # fmt: skip


def programs() -> Iterator[Program]:
    """Each healthy loop, at several seeds."""
    for number, (name, make) in enumerate(LOOPS.items()):
        for seed in range(SEEDS):
            atoms = make(random.Random(1000 * number + seed))
            assert "compute-bound" in regime(atoms, seed=seed), f"{name}, {seed}: not healthy"
            yield Program(atoms, case=replace(CASE, name=f"healthy: {name}, {seed}"), seed=seed)
