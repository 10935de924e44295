"""What the programs are made with, and their list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.bench.pairs import Maker
from tests.bench.programs import NAMES
from tracekit.experiments.timing import Step


class Sized(Maker):
    """Makes what programs need: large on a GPU, tiny on a CPU."""

    def tokens(self, *sizes: int, vocabulary: int) -> Tensor:
        return torch.randint(vocabulary, sizes, device=self.device)

    @property
    def backend(self) -> str:
        """The compiler; on a CPU none, since generated code takes long to compile."""
        return "inductor" if self.is_gpu else "eager"

    def compiled(self, function: Any) -> Any:
        return torch.compile(function, backend=self.backend)

    def graphed(self, step: Step) -> Step:
        """The step as a CUDA graph; on a CPU, the step."""
        from tracekit.workloads.graphs import captured

        return captured(step) if self.is_gpu else step

    def pinned(self, batch: Tensor) -> Tensor:
        """The batch in pinned memory, if there is a GPU to copy it to."""
        return batch.pin_memory() if self.is_gpu else batch

    def bf16(self, allowed: bool) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=allowed)

    @contextmanager
    def tf32(self, allowed: bool) -> Iterator[None]:
        """Lets fp32 products run on tensor cores within the block."""
        torch.backends.cuda.matmul.allow_tf32 = allowed
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False


@dataclass(frozen=True)
class Change:
    """A switch of a program: the remedy that names the change, and how many times as many samples
    the changed step has."""

    remedy: str
    samples: int = 1


@dataclass(frozen=True)
class Program:
    """A program: `make(maker, **switches)` builds its step. `steps` is how many are recorded."""

    name: str
    about: str
    make: Callable[..., Step]
    changes: dict[str, Change]
    steps: int

    def build(self, maker: Sized, switch: str | None = None) -> Step:
        """The step as it is written, or with one change."""
        torch.manual_seed(0)
        return self.make(maker, **({switch: True} if switch else {}))


PROGRAMS: dict[str, Program] = {}


def program(steps: int = 8, **changes: str | tuple[str, int]) -> Callable[[Any], Any]:
    """Adds a program of the function's name. `changes`: the remedy of each switch, with the number
    of times as many samples if it has more."""

    def add(make: Any) -> Any:
        name = make.__name__.replace("_", "-")
        found = {
            switch: Change(each) if isinstance(each, str) else Change(*each)
            for switch, each in changes.items()
        }
        about = (make.__doc__ or "").splitlines()[0]
        PROGRAMS[name] = Program(name, about, make, found, steps)
        return make

    return add


def all_programs() -> dict[str, Program]:
    """Every program of PyTorch, by name, in order."""
    from tests.bench.programs import inference, kernels, training  # noqa: F401

    return {name: PROGRAMS[name] for name in NAMES if name in PROGRAMS}
