"""Times steps without the profiler: rounds of several steps each, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median_high
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from tracekit.errors import TracekitError, first_line

if TYPE_CHECKING:
    import torch

Step = Callable[[], object]
N = TypeVar("N", int, float)

ROUNDS = 15
# The approximate length of a round. The limit on its steps keeps the launch queue from filling.
_ROUND_NS = 5_000_000
_MOST_STEPS = 50
_WARM_ROUNDS = 2


class StepFailed(TracekitError):
    """The step `name` failed while it was timed, for this `reason`."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.reason = name, first_line(error)
        super().__init__(f"{name}: failed while it ran: {self.reason}")


class Rounds(Struct, frozen=True):
    """Nanoseconds per step in each round; round N is the same for all steps timed together.

    `step_ns` is by CUDA events on a GPU, by the wall clock elsewhere. `host_ns` is the time until
    the host has issued the step's work; it includes waits for the device only if the step waits.
    """

    step_ns: list[int]
    host_ns: list[int]

    @property
    def median_ns(self) -> int:
        return median_high(self.step_ns)

    @property
    def spread(self) -> float:
        """The interquartile range of the steps over their median."""
        low, middle, high = _quartiles(self.step_ns)
        return (high - low) / max(1, middle)


class StepRatio(Struct, frozen=True):
    """Step length of a changed run over the unchanged run's, by round: median and quartiles."""

    ratio: float
    """The median."""
    low: float
    """The lower quartile (times as long)"""
    high: float
    """The upper quartile (times as long)"""


def _quartiles(values: list[N]) -> tuple[N, N, N]:
    """As in the SQL macro `percentile`: always measured values."""
    ordered, count = sorted(values), len(values)
    return ordered[count // 4], ordered[count // 2], ordered[3 * count // 4]


def step_ratio(before: Rounds, after: Rounds) -> StepRatio:
    """The ratio round by round, so that a slow spell of the machine affects both."""
    pairs = zip(after.step_ns, before.step_ns, strict=True)
    low, middle, high = _quartiles([a / max(1, b) for a, b in pairs])
    return StepRatio(middle, low, high)


def interleaved(
    steps: Mapping[str, Step],
    device: torch.device,
    rounds: int = ROUNDS,
    on_failure: Callable[[StepFailed], object] | None = None,
) -> dict[str, Rounds]:
    """Times all `steps` in turns, so that a slow spell of the machine affects each of them.

    Each is warmed up first, and runs enough times per round to fill some milliseconds. If one
    raises, `on_failure` gets the error, and the others start over.

    Raises:
        StepFailed: when one of them raises, and there is no `on_failure`.
    """
    while True:
        try:
            return _interleaved(steps, device, rounds)
        except StepFailed as error:
            if on_failure is None:
                raise
            on_failure(error)
            steps = {name: step for name, step in steps.items() if name != error.name}


def _interleaved(steps: Mapping[str, Step], device: torch.device, rounds: int) -> dict[str, Rounds]:
    clock = _by_events if device.type == "cuda" else _by_wall_clock
    counts = {name: _steps_a_round(name, step, clock) for name, step in steps.items()}
    by_name: dict[str, Rounds] = {name: Rounds([], []) for name in steps}
    for number in range(_WARM_ROUNDS + rounds):
        for name, step in steps.items():
            step_ns, host_ns = _timed(name, step, counts[name], clock)
            if number >= _WARM_ROUNDS:
                by_name[name].step_ns.append(step_ns)
                by_name[name].host_ns.append(host_ns)
    return by_name


_Clock = Callable[[Step, int], tuple[int, int]]


def _steps_a_round(name: str, step: Step, clock: _Clock) -> int:
    # The first call compiles, allocates and fills caches, so the second one counts.
    _timed(name, step, 1, clock)
    once_ns, _ = _timed(name, step, 1, clock)
    return max(1, min(_MOST_STEPS, _ROUND_NS // max(1, once_ns)))


def _timed(name: str, step: Step, count: int, clock: _Clock) -> tuple[int, int]:
    try:
        step_ns, host_ns = clock(step, count)
    except Exception as error:
        raise StepFailed(name, error) from error
    return step_ns // count, host_ns // count


def _by_wall_clock(step: Step, count: int) -> tuple[int, int]:
    began = time.perf_counter_ns()
    for _ in range(count):
        step()
    passed = time.perf_counter_ns() - began
    return passed, passed


def _by_events(step: Step, count: int) -> tuple[int, int]:
    """https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution"""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    began = time.perf_counter_ns()
    for _ in range(count):
        step()
    issued = time.perf_counter_ns() - began
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) * 1e6), issued
