"""Programs with one fault each, and the same programs without it: they run on a CPU or on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import tracekit
from tracekit.experiments.timing import Step

STEPS, WARMUP = 8, 10
T = TypeVar("T")


class Maker:
    """Makes tensors and models on a device; small ones on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.is_gpu = device, device.type == "cuda"
        self.large = 4096 if self.is_gpu else 256
        torch.manual_seed(0)

    def random(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*sizes, device=self.device, dtype=dtype)

    def pick(self, on_gpu: T, on_cpu: T) -> T:
        """A size for a GPU, or a tiny one for the rehearsal on a CPU."""
        return on_gpu if self.is_gpu else on_cpu

    def layers(self, count: int, width: int) -> nn.Module:
        layers = [each for _ in range(count) for each in (nn.Linear(width, width), nn.ReLU(True))]
        return nn.Sequential(*layers).to(self.device)


# The step with the fault, and the step without it.
Steps = tuple[Step, Step]


@dataclass(frozen=True)
class Pair:
    """A fault, the remedy that names the change, and its steps.

    The mended step has `samples` times as many samples. `needs_gpu`: a CPU has no such fault.
    """

    name: str
    remedy: str
    steps: Callable[[Maker], Steps]
    samples: int
    needs_gpu: bool


PAIRS: list[Pair] = []


def pair(remedy: str, samples: int = 1, needs_gpu: bool = False) -> Callable[[Any], Any]:
    """Adds a pair with the function's name."""

    def add(steps: Any) -> Any:
        PAIRS.append(Pair(steps.__name__.replace("_", " "), remedy, steps, samples, needs_gpu))
        return steps

    return add


def record(
    step: Step, trace: Path, steps: int = STEPS, warmup: int = WARMUP, **recorded: bool
) -> None:
    """Profiles a step; `recorded` are options of tracekit.profile, such as stacks."""
    with tracekit.profile(trace, steps, warmup=warmup, **recorded) as profiler:
        for _ in range(warmup + 1 + steps):
            step()
            profiler.step()


@pair("cuda-graph", needs_gpu=True)
def many_small_kernels(make: Maker) -> Steps:
    from tracekit.workloads.graphs import captured

    step = torch.no_grad()(partial(make.layers(24, 256).eval(), make.random(8, 256)))
    return step, captured(step)


@pair("torch-compile")
def a_chain_of_elementwise_operators(make: Maker) -> Steps:
    size, times = (make.large, 6) if make.is_gpu else (64, 60)
    x = make.random(size, size)

    @torch.no_grad()
    def chain(x: Tensor) -> Tensor:
        for _ in range(times):
            x = torch.tanh(x * 1.01 + 0.1)
        return x

    return partial(chain, x), partial(torch.compile(chain), x)


@pair("tensor-cores", needs_gpu=True)
def products_in_fp32(make: Maker) -> Steps:
    a, b = (make.random(make.large, make.large) for _ in range(2))

    def step(allowed: bool) -> Tensor:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        found = torch.relu(a @ b)
        torch.backends.cuda.matmul.allow_tf32 = False
        return found

    return partial(step, False), partial(step, True)


@pair("tensor-cores", needs_gpu=True)
def training_in_fp32(make: Maker) -> Steps:
    model, x = make.layers(4, make.large // 2), make.random(make.large, make.large // 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    return _training(model, x, optimizer), _training(model, x, optimizer, mixed=True)


def _training(
    model: nn.Module,
    x: Tensor,
    optimizer: torch.optim.Optimizer,
    mixed: bool = False,
    to_none: bool = True,
) -> Step:
    def step() -> None:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=mixed):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)

    return step


@pair("larger-batch", samples=8)
def a_small_batch(make: Maker) -> Steps:
    step = torch.no_grad()(make.layers(24, 256).eval())
    return partial(step, make.random(8, 256)), partial(step, make.random(64, 256))


@pair("pinned-copies", needs_gpu=True)
def inputs_in_pageable_memory(make: Maker) -> Steps:
    weight, batch = make.random(make.large, make.large), torch.randn(make.large, make.large)

    def step(x: Tensor) -> Tensor:
        found = x.to(make.device, non_blocking=True)
        for _ in range(4):
            found = found @ weight
        return found

    return partial(step, batch), partial(step, batch.pin_memory())


class Images(Dataset[Tensor]):
    """Images that take 4 ms to load."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.004)
        return torch.ones(64)


@pair("dataloader-workers")
def batches_loaded_in_the_process(make: Maker) -> Steps:
    size, times = (64, 8) if make.is_gpu else (256, 20)
    weight = make.random(size, size)

    def loading(workers: int) -> Step:
        loader: Iterator[Tensor] = iter(DataLoader(Images(), 4, num_workers=workers))

        def step() -> Tensor:
            x = next(loader).to(make.device).mean() * weight
            for _ in range(times):
                x = torch.relu(x @ weight)
            return x

        return step

    return loading(0), loading(4 if make.is_gpu else 2)


@pair("sync-by-line", needs_gpu=True)
def values_read_in_the_loop(make: Maker) -> Steps:
    model, x = make.layers(1, 1024), make.random(1024, 1024)

    @torch.no_grad()
    def step(reads: bool) -> float:
        total, found = 0.0, x
        for _ in range(12):
            found = model(found)
            total += found[0, 0].item() if reads else 0.0
        return total

    return partial(step, True), partial(step, False)


@pair("create-on-device", needs_gpu=True)
def tensors_made_on_the_CPU(make: Maker) -> Steps:
    x = make.random(1024, 1024)

    def step(device: str | torch.device) -> Tensor:
        found = x
        for _ in range(6):
            found = found + torch.zeros(1024, 1024, device=device).to(make.device)
        return found

    return partial(step, "cpu"), partial(step, make.device)


@pair("batch-items")
def a_loop_over_items(make: Maker) -> Steps:
    sizes = (64, 16, 256) if make.is_gpu else (800, 1, 16)
    model, items = make.layers(1, sizes[-1]).eval(), make.random(*sizes)
    one_by_one = torch.no_grad()(lambda: [model(x) for x in items])
    return one_by_one, torch.no_grad()(lambda: model(items.flatten(0, 1)))


@pair("python-lines")
def Python_in_the_step(make: Maker) -> Steps:
    weight, first = make.random(64, 64), make.random(4, 64)

    def parse(count: int) -> int:
        total = 0
        for number in range(count):
            total += number % 7
        return total

    def step(count: int) -> int:
        x = first
        for _ in range(200):
            x = torch.relu(x @ weight)
        return parse(count)

    return partial(step, 200_000), partial(step, 0)


@pair("fused-attention")
def attention_by_hand(make: Maker) -> Steps:
    sizes = (8, 16, 1024, 64) if make.is_gpu else (1, 2, 128, 64)
    q, k, v = (make.random(*sizes, dtype=torch.bfloat16) for _ in range(3))

    def by_hand() -> Tensor:
        return torch.softmax(q @ k.transpose(-2, -1) / 8, -1) @ v

    return by_hand, partial(functional.scaled_dot_product_attention, q, k, v)


@pair("fused-optimizer")
def an_optimizer_that_steps_each_parameter(make: Maker) -> Steps:
    def training(**how: bool) -> Step:
        model = make.layers(24, 256)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
        return _training(model, make.random(64, 256), optimizer)

    return training(foreach=False), training(fused=True)


@pair("fused-norms")
def normalization_by_hand(make: Maker) -> Steps:
    x = make.random(make.large, make.large, dtype=torch.bfloat16)
    weight = make.random(make.large, dtype=torch.bfloat16)

    def by_hand() -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * (wide * scale).to(x.dtype)

    return by_hand, partial(functional.rms_norm, x, weight.shape, weight, 1e-6)


@pair("mask-again")
def the_same_mask_in_each_step(make: Maker) -> Steps:
    size = make.large // 2
    x = make.random(size, size, dtype=torch.bfloat16)

    def made() -> Tensor:
        ones = torch.ones(size, size, dtype=torch.bool, device=make.device)
        return torch.tril(ones).logical_not()

    kept = made()

    def step(mask: Callable[[], Tensor]) -> Tensor:
        found = x
        for _ in range(4):
            found = (found @ x).masked_fill(mask(), 0.0)
        return found

    return partial(step, made), partial(step, lambda: kept)


@pair("zero-grad-to-none")
def gradients_set_to_zero(make: Maker) -> Steps:
    model, x = make.layers(8, make.large // 2), make.random(64, make.large // 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    return _training(model, x, optimizer, to_none=False), _training(model, x, optimizer)
