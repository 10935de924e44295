"""Pairs that this machine's CPU runs, with a fault and without: recorded, then timed in turns
without the profiler, to compare predictions with observations."""

from __future__ import annotations

import importlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import tracekit
from tests.bench.diagnosis.score import Case

STEPS, ROUNDS = 8, 5
# The machine's own noise: the difference between two timings of one program, as a share of a step.
NOISE = 0.03
Step = Callable[[], object]


@dataclass(frozen=True)
class Pair:
    """A step with the fault, and a step without it; None: it is healthy."""

    faulty: Callable[[], Step]
    mended: Callable[[], Step] | None = None
    stacks: bool = False
    compiles: bool = False


class Images(Dataset[Tensor]):
    """Images that take 4 ms to load."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.004)
        return torch.ones(64)


def _loading(workers: int) -> Step:
    weight = torch.randn(64, 64)
    loader: Iterator[Tensor] = iter(DataLoader(Images(), batch_size=4, num_workers=workers))

    def step() -> None:
        x = next(loader)
        for _ in range(2500):
            x = torch.relu(x @ weight)

    return step


def _spinning(spins: int) -> Step:
    weight = torch.randn(64, 64)

    def parse() -> int:
        total = 0
        for number in range(spins):
            total += number % 7
        return total

    def step() -> int:
        x = torch.ones(4, 64)
        for _ in range(200):
            x = torch.relu(x @ weight)
        return parse()

    return step


def _rows(together: bool) -> Step:
    weight, items = torch.randn(16, 16), torch.randn(800, 1, 16)

    def step() -> list[Tensor]:
        if together:
            return [torch.relu(items.flatten(0, 1) @ weight)]
        return [torch.relu(each @ weight) for each in items]

    return step


def _products(reads: bool, size: int = 640) -> Step:
    a = torch.randn(size, size)

    def step() -> float:
        total = 0.0
        for _ in range(6):
            product = a @ a
            total += product[0, 0].item() if reads else 0.0
        return total

    return step


def _making(each_time: bool) -> Step:
    a, kept = torch.randn(256, 256), torch.randn(500_000)

    def step() -> Tensor:
        noise = torch.randn(500_000) if each_time else kept
        return a @ a + noise[0]

    return step


def _chain(compiled: bool) -> Step:
    x = torch.randn(64, 64)

    def chain(x: Tensor) -> Tensor:
        for _ in range(60):
            x = torch.tanh(x * 1.01 + 0.1)
        return x

    run = torch.compile(chain) if compiled else chain

    def step() -> Tensor:
        with torch.no_grad():
            return run(x)

    return step


PAIRS = {
    "batches loaded in the process": Pair(partial(_loading, 0), partial(_loading, 2)),
    "batches loaded by workers": Pair(partial(_loading, 2)),
    "Python in the step": Pair(partial(_spinning, 200_000), partial(_spinning, 0), stacks=True),
    "a loop over items": Pair(partial(_rows, False), partial(_rows, True)),
    "a chain run eagerly": Pair(partial(_chain, False), partial(_chain, True), compiles=True),
    "tensors made in the step": Pair(partial(_making, True), partial(_making, False)),
    "reads of values": Pair(partial(_products, True)),
    "products": Pair(partial(_products, False)),
    "products, with stacks": Pair(partial(_products, False), stacks=True),
}


def captured(case: Case, folder: Path) -> Iterator[tuple[Case, Path]]:
    """A pair's case with the observations, and its trace in `folder`; none if it cannot run."""
    pair = PAIRS[case.name.removeprefix("captured: ")]
    if pair.compiles and not shutil.which("g++"):
        return
    # Other programs on this machine disturb one thread less than several that wait for each other.
    torch.set_num_threads(1)
    trace = folder / f"{case.name.replace(': ', ' ')}.json"
    faulty = pair.faulty()
    with tracekit.profile(trace, STEPS, warmup=2, stacks=pair.stacks) as profiler:
        for _ in range(STEPS + 3):
            faulty()
            profiler.step()
    write_matched_patterns(faulty, trace)
    if pair.mended:
        share = _observed(faulty, pair.mended())
        saves = (share - NOISE, min(share + NOISE, 1.0))
        case = replace(case, why=f"{case.why} Observed: {share:.1%} less without.", saves=saves)
    yield case, trace


def _observed(faulty: Step, mended: Step) -> float:
    """The time that a step saves without the fault, as a share: the median of rounds in turns."""
    shares = []
    for _ in range(ROUNDS + 1):
        took = []
        for step in (faulty, mended):
            began = time.perf_counter_ns()
            for _ in range(STEPS):
                step()
            took.append(time.perf_counter_ns() - began)
        shares.append(1 - took[1] / took[0])
    # The first round warms up: compiles, starts workers.
    return median(shares[1:])


# PyTorch's own patterns of faults, with the change that each suggests.
PATTERNS = {
    "ExtraCUDACopyPattern": "tensors_on_device",
    "FP32MatMulPattern": "tensor_cores",
    "OptimizerSingleTensorPattern": "fused_optimizer",
    "SynchronizedDataLoaderPattern": "dataloader_workers",
    "GradNotSetToNonePattern": "zero_grad_to_none",
    "MatMulDimInFP16Pattern": "gemm_padding",
}


def write_matched_patterns(step: Step, trace: Path) -> None:
    """Writes beside a trace which patterns PyTorch's matcher finds; it needs a running profiler."""
    from torch.profiler import ProfilerActivity, profile

    matcher = importlib.import_module("torch.profiler._pattern_matcher")
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as found:
        for _ in range(3):
            step()
    names = [
        change
        for name, change in PATTERNS.items()
        if getattr(matcher, name)(found, False).matched_events()
    ]
    trace.with_suffix(".patterns").write_text(json.dumps(names))
