"""Decides whether experiments support a verdict: from changes of a step's length to a regime.

A run is bound by the side whose work its length follows. The part of a step that follows a side's
work is the step's relative change over the work's relative change. Each part is known as a range;
if the two ranges overlap, the experiments are inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.text import share
from tracekit.thresholds import Thresholds
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN


@dataclass(frozen=True)
class Moved:
    """Step length of a changed run over the unchanged run's, by round: median and quartiles."""

    ratio: float
    """The median."""
    low: float
    """The lower quartile (times as long)"""
    high: float
    """The upper quartile (times as long)"""


@dataclass(frozen=True)
class ShareRange:
    """The part of a step that follows a side's work, as a range within 0 to 1."""

    low: float
    """At least."""
    high: float
    """At most."""

    def __str__(self) -> str:
        if self.high - self.low < 0.01:
            return share(self.high, 1)
        return f"{share(self.low, 1)} to {share(self.high, 1)}"


@dataclass(frozen=True)
class Judgement:
    """What the experiments say: `agrees` is None if they, or the verdict, are inconclusive."""

    regime: str
    """What the experiments say."""
    agrees: bool | None
    """Whether they support the verdict; null: it cannot be told."""
    device: ShareRange | None
    """The part of a step that follows the device's work."""
    host: ShareRange | None
    """The part of a step that follows the host's work."""
    why: list[str]
    """The reasons, as sentences."""


def part_of_device(
    moved: Moved, at_most: float, grew: float | None, recorded: float, limits: Thresholds
) -> ShareRange | None:
    """The part of a step that follows the device's work, from a run with more of that work.

    By construction the work grew at most `at_most` times. In the recording it grew `grew` times:
    less, because weights are read once for any batch, and the smallest kernels take no longer.
    `recorded` is the work's recorded share of the step, the most that can follow it. None if the
    step grew far more than the work did: then the experiment changed something else, too.
    """
    low = (moved.low - 1) / (at_most - 1)
    if low > limits.most_excess:
        return None
    high = recorded
    if grew is not None and grew >= 1 + limits.least_growth:
        high = min(high, (moved.high - 1) / (min(grew, at_most) - 1))
    low, high = _within(low), _within(high)
    return ShareRange(min(low, high), max(low, high))


def part_of_host(moved: Moved, delay: float, work: float) -> ShareRange:
    """The part of a step that follows the host's work, from a run slowed by a known delay.

    `delay` and `work` are the added time and the host's own time, as shares of the unchanged step.
    The same fraction of the host's work shows in the step as of the delay.
    """
    return ShareRange(*(_within(_within((r - 1) / delay) * work) for r in (moved.low, moved.high)))


def rest_of(part: ShareRange) -> ShareRange:
    """The rest of a step: the overhead on a CPU, where operators compute within the call."""
    return ShareRange(1 - part.high, 1 - part.low)


def judge(
    verdict: str,
    device: ShareRange | None,
    host: ShareRange | None,
    margin: float,
    sides: tuple[str, str] = ("the device's work", "the host's work"),
) -> Judgement:
    """The regime that the experiments show, and whether it is the verdict's.

    One side's whole range has to exceed the other's by `margin`. `sides` names the two sides in
    sentences.
    """
    if device is None or host is None:
        side = sides[0] if device is None else sides[1]
        why = [f"No experiment shows how much of the step follows {side} alone."]
        return Judgement(UNKNOWN, None, device, host, why)
    why = [f"{device} of the step follows {sides[0]}; {host} follows {sides[1]}."]
    regime = UNKNOWN
    if device.low > host.high + margin:
        regime = COMPUTE
    elif host.low > device.high + margin:
        regime = OVERHEAD
    else:
        why.append(f"They are less than {share(margin, 1)} apart: the experiments cannot tell.")
    if regime == UNKNOWN or verdict == UNKNOWN:
        if verdict == UNKNOWN:
            why.append("The verdict is unknown: there is nothing to confirm.")
        return Judgement(regime, None, device, host, why)
    return Judgement(regime, regime == verdict, device, host, why)


def _within(part: float) -> float:
    return min(1.0, max(0.0, part))
