"""Whether experiments bear a verdict out: from how far a step's length moved, to a regime.

A run is bound by the side whose work its length follows: the part of a step that follows a side's
work is what that work's change moved it by, over how far the work was changed. Compared are the
ranges in which the two parts lie; where they overlap, the experiments cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.text import share
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import COMPUTE, OVERHEAD, UNKNOWN


@dataclass(frozen=True)
class Moved:
    """A changed run's step over the unchanged one's, round by round: median and quartiles."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Part:
    """The part of a step that follows a side's work: the range in which it lies, 0 to 1."""

    low: float
    high: float

    def __str__(self) -> str:
        if self.high - self.low < 0.01:
            return share(self.high, 1)
        return f"{share(self.low, 1)} to {share(self.high, 1)}"


@dataclass(frozen=True)
class Judgement:
    """What the experiments say: `agrees` is None where they, or the verdict, cannot tell."""

    regime: str
    agrees: bool | None
    device: Part | None
    host: Part | None
    why: list[str]


def part_of_device(
    moved: Moved, at_most: float, grew: float | None, recorded: float, limits: Thresholds
) -> Part | None:
    """The part that follows the device's work, from a run with more of it.

    The work grew `at_most` so many times by construction, and as recorded `grew` times (less, where
    it does not scale: weights are read once for any batch, and the smallest kernels take as long).
    `recorded` is how much of the step it took, as recorded: more cannot follow it. None where the
    step grew by far more than the work did: then more was changed than that.
    """
    low = (moved.low - 1) / (at_most - 1)
    if low > limits.most_excess:
        return None
    high = recorded
    if grew is not None and grew >= 1 + limits.least_growth:
        high = min(high, (moved.high - 1) / (min(grew, at_most) - 1))
    low, high = _within(low), _within(high)
    return Part(min(low, high), max(low, high))


def part_of_host(moved: Moved, delay: float, work: float) -> Part:
    """The part that follows the host's work, from a run slowed by a known delay.

    `delay` and `work` are the added and the host's own time, as shares of the unchanged step: of
    the delay so much showed, and so much of the host's work shows.
    """
    return Part(*(_within(_within((r - 1) / delay) * work) for r in (moved.low, moved.high)))


def rest_of(part: Part) -> Part:
    """What is left of a step: on a CPU, whose operators compute in the call, overhead."""
    return Part(1 - part.high, 1 - part.low)


def judge(
    verdict: str,
    device: Part | None,
    host: Part | None,
    margin: float,
    sides: tuple[str, str] = ("the device's work", "the host's work"),
) -> Judgement:
    """The regime that the experiments show, and whether it is the verdict's.

    One side's part has to exceed the other's by `margin`, wherever in their ranges both lie.
    `sides` is what sentences call them.
    """
    if device is None or host is None:
        side = sides[0] if device is None else sides[1]
        why = [f"No experiment tells how much of the step follows {side} alone."]
        return Judgement(UNKNOWN, None, device, host, why)
    why = [f"{device} of the step follows {sides[0]}, {host} {sides[1]}."]
    regime = UNKNOWN
    if device.low > host.high + margin:
        regime = COMPUTE
    elif host.low > device.high + margin:
        regime = OVERHEAD
    else:
        why.append(f"They are not {share(margin, 1)} apart: the experiments cannot tell.")
    if regime == UNKNOWN or verdict == UNKNOWN:
        if verdict == UNKNOWN:
            why.append("The verdict is unknown: there is nothing to bear out.")
        return Judgement(regime, None, device, host, why)
    return Judgement(regime, regime == verdict, device, host, why)


def _within(part: float) -> float:
    return min(1.0, max(0.0, part))
