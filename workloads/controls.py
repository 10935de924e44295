"""Small programs, each with the bottleneck in its name, which the verdict must find in its trace.

Each runs the same few matrix products, plus one thing that bounds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from tracekit.workloads.base import Shape, Workload

_PRODUCTS = 8
# The time per step that the slow loader takes, or the Python loop.
_SLOW_S = 0.02


class _Chain:
    """A chain of products, with something to do after each."""

    def __init__(self, shape: Shape) -> None:
        self.weight = shape.random(shape.dim, shape.dim, seed=1, scale=shape.dim**-0.5)
        self.x = shape.random(shape.batch * shape.seq, shape.dim, seed=0)

    def run(self, x: Tensor, between: Callable[[Tensor], object] = lambda x: None) -> Tensor:
        for _ in range(_PRODUCTS):
            x = x @ self.weight
            between(x)
        return x

    def reference(self) -> Tensor:
        x = self.x.float()
        for _ in range(_PRODUCTS):
            x = x @ self.weight.float()
        return x

    def workload(
        self, step: Callable[[], Tensor], variant: str, note: str | None = None
    ) -> Workload:
        return Workload(torch.no_grad()(step), torch.no_grad()(self.reference), variant, note)


def sync_bound(shape: Shape) -> Workload:
    """Reads a number back from the device after every product."""
    chain = _Chain(shape)
    note = None if shape.device.type != "cpu" else "a CPU computes in the call: nothing to wait for"
    return chain.workload(
        lambda: chain.run(chain.x, lambda x: x[0, 0].item()), "item after each product", note
    )


def python_bound(shape: Shape) -> Workload:
    """Spins in Python after every product, for longer than the product takes."""
    chain = _Chain(shape)

    def think(x: Tensor) -> None:
        until = time.perf_counter() + _SLOW_S / _PRODUCTS
        while time.perf_counter() < until:
            pass

    return chain.workload(lambda: chain.run(chain.x, think), "a loop after each product")


def copy_bound(shape: Shape) -> Workload:
    """Copies a large tensor from the host's pageable memory to the device in every step."""
    chain = _Chain(shape)
    large = torch.zeros(64 << 20, dtype=torch.uint8, device="cpu")
    note = None if shape.device.type != "cpu" else "on a CPU the copy is an ordinary operator"

    def step() -> Tensor:
        large.to(shape.device, copy=True)
        return chain.run(chain.x)

    return chain.workload(step, "64 MB to the device each step", note)


class _Slow(IterableDataset[Tensor]):
    """Yields the same rows forever, each batch after a delay."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            time.sleep(_SLOW_S)
            yield self.x


def input_bound(shape: Shape) -> Workload:
    """Takes each step's input from a DataLoader that is slower than the step."""
    chain = _Chain(shape)
    loaded: Iterator[Tensor] = iter(DataLoader(_Slow(chain.x.cpu()), batch_size=None))
    return chain.workload(
        lambda: chain.run(next(loaded).to(shape.device)), "a slow DataLoader, in this process"
    )
