"""Slows the host by a known delay: a busy wait before each operator that Python calls.

https://docs.pytorch.org/docs/stable/torch.overrides.html#torch.overrides.TorchFunctionMode
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from msgspec import Struct
from torch.overrides import TorchFunctionMode

from tracekit.experiments.timing import Step
from tracekit.text import duration

_REPEATS = 25
# The cost of watching calls can be measured in steps up to this length.
_SHORT_NS = 1_000_000


class SlowedStep(Struct, frozen=True):
    """A step that does the same work with a slower host.

    `delay_ns` is the measured host time added, split into `pieces` busy waits; it includes the cost
    of watching for the calls.
    """

    step: Step
    delay_ns: int
    pieces: int
    note: str | None

    def __str__(self) -> str:
        waits = "wait" if self.pieces == 1 else "waits"
        return f"host {duration(self.delay_ns)} slower, in {self.pieces} {waits}"


def slow_step(step: Step, by_ns: int, is_compiled: bool = False) -> SlowedStep:
    """`step`, slowed by about `by_ns`, or by more if watching its calls takes longer.

    The delay is one wait before the step if no call can be watched, or if a mode would change what
    runs: torch.compile recompiles under one.
    """
    counting = _Delay(0)
    if not is_compiled:
        with counting:
            step()
    if not counting.calls:
        why = "is compiled" if is_compiled else "does not call operators from Python"

        def late() -> object:
            _wait(by_ns)
            return step()

        return SlowedStep(late, by_ns, 1, f"one wait before the step, which {why}")
    calls = counting.calls
    own_ns, bare_ns = _own_cost(step, calls)
    wait_ns = max(0, by_ns - own_ns) // calls
    waited_ns = _cost_of(calls, wait_ns)
    return SlowedStep(_under(wait_ns, step), waited_ns + own_ns - bare_ns, calls, None)


class _Delay(TorchFunctionMode):  # type: ignore[misc]
    """Waits before every call, and counts the calls."""

    def __init__(self, wait_ns: int) -> None:
        super().__init__()
        self.wait_ns = wait_ns
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.calls += 1
        _wait(self.wait_ns)
        return func(*args, **(kwargs or {}))


def _wait(ns: int) -> None:
    until = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < until:
        pass


def compiled_graphs() -> int:
    """The number of graphs that torch.compile has compiled in this process, including forgotten
    ones."""
    if "torch._dynamo" not in sys.modules:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def forget_compiled() -> int:
    """Makes torch.compile compile each function again; returns `compiled_graphs()`.

    If that number rises while a step runs, the step is compiled. Without this, torch.compile also
    stops compiling a function after many shapes.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    return compiled_graphs()


def _own_cost(step: Step, calls: int) -> tuple[int, int]:
    """The mode's own cost in ns: on the step, and on the same number of empty calls.

    The second is smaller. In a long step, noise hides the first, so the second replaces it.
    """
    bare_ns = _cost_of(calls, 0)
    step_ns = _least(step, 1)
    if step_ns > _SHORT_NS:
        return bare_ns, bare_ns
    return max(bare_ns, _least(_under(0, step)) - _least(step)), bare_ns


def _under(wait_ns: int, step: Step) -> Step:
    mode = _Delay(wait_ns)

    def slow() -> object:
        with mode:
            return step()

    return slow


def _cost_of(calls: int, wait_ns: int) -> int:
    """The time that `calls` waits of `wait_ns` add, the mode's own cost included; measured on calls
    that do nothing."""
    tensor = torch.empty(0)

    def plain() -> None:
        for _ in range(calls):
            tensor.dim()

    return max(0, _least(_under(wait_ns, plain)) - _least(plain))


def _least(call: Callable[[], object], repeats: int = _REPEATS) -> int:
    """Host time of a call in ns: the minimum of `repeats`, since other processes only add to it."""
    return int(min(timeit.repeat(call, timer=time.perf_counter_ns, number=1, repeat=repeats)))
