"""When the length of a unit of work changed over runs, or else how far apart the lengths are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import pi, sqrt
from operator import itemgetter
from statistics import median, median_low
from typing import Literal

from msgspec import Struct

from tracekit.thresholds import Thresholds

# The spread of normally distributed values over their median absolute deviation.
_SPREAD = 1.4826
# The standard error of a median over that of a mean, for these.
_MEDIAN_ERROR = sqrt(pi / 2)


class StepChange(Struct, frozen=True):
    """A unit of work took `before_ns` until the run `last_before`, and `after_ns` since the run
    `run`: medians over the runs up to the next change."""

    run: str
    """The first run with the new length."""
    last_before: str
    """The last run with the old one that does the same work."""
    before_ns: float
    """The length before."""
    after_ns: float
    """The length since."""
    unit: str
    """The unit, such as step or decode."""

    @property
    def ratio(self) -> float:
        return self.after_ns / self.before_ns


class Spread(Struct, frozen=True):
    """How far apart the units of runs are, if none of them counts as changed."""

    fastest: str
    """The run with the shortest unit."""
    least_ns: float
    """Its length."""
    slowest: str
    """The run with the longest unit."""
    most_ns: float
    """Its length."""
    means: Literal["alike", "noise", "too_few_runs"]
    """alike: too close for a change; noise: no change stands out from how runs vary; too_few_runs:
    so few cannot tell a change from noise."""

    @property
    def ratio(self) -> float:
        """How many times as long the slowest takes."""
        return self.most_ns / self.least_ns if self.least_ns else 1.0


def shifts(
    steps: Sequence[tuple[str, float]], thresholds: Thresholds, unit: str = "step"
) -> list[StepChange]:
    """When the unit of work of runs changed: binary segmentation with the median as each part's
    level. `steps` are their names and lengths.

    The series is cut where the sum of absolute deviations from the levels is smallest. Each part is
    cut again, as long as its two levels differ by more than `shift_share` of the first, and by more
    than `shift_errors` times the standard error of their difference. The noise is estimated from
    the differences of neighbors, which a change of level hardly affects. A part has at least two
    runs, so that one slow night does not count as a change; only the last run may be a part alone.

    https://doi.org/10.2307/2529204 (Scott and Knott 1974, binary segmentation)
    """
    values = [ns for _, ns in steps]
    borders = [0, *_cuts(values, 0, len(values), _noise(values), thresholds), len(values)]
    levels = [median(values[a:b]) for a, b in pairwise(borders)]
    return [
        StepChange(steps[at][0], steps[at - 1][0], before, after, unit)
        for at, (before, after) in zip(borders[1:-1], pairwise(levels), strict=True)
    ]


def spread(steps: Sequence[tuple[str, float]], thresholds: Thresholds) -> Spread:
    """How far apart lengths are of which none counts as changed, and what that means. Among few
    runs hardly any change would count: one of three has to be more than six times the noise."""
    (fastest, least), (slowest, most) = (chosen(steps, key=itemgetter(1)) for chosen in (min, max))
    means: Literal["alike", "noise", "too_few_runs"] = "noise"
    if most <= (1 + thresholds.shift_share) * least:
        means = "alike"
    elif len(steps) < thresholds.few_runs:
        means = "too_few_runs"
    return Spread(fastest, least, slowest, most, means)


def _noise(values: Sequence[float]) -> float:
    """The standard deviation around the levels; 0 where two values tell nothing about it."""
    if len(values) < 3:
        return 0.0
    return _SPREAD * median_low([abs(b - a) for a, b in pairwise(values)]) / sqrt(2)


def _cuts(
    values: Sequence[float], begin: int, end: int, noise: float, thresholds: Thresholds
) -> list[int]:
    places = [
        k
        for k in range(begin + 1, end)
        if (k - begin > 1 or len(values) == 2) and (end - k > 1 or end == len(values))
    ]
    if not places:
        return []
    at = min(places, key=lambda k: _deviation(values[begin:k]) + _deviation(values[k:end]))
    a, b = median(values[begin:at]), median(values[at:end])
    error = _MEDIAN_ERROR * noise * sqrt(1 / (at - begin) + 1 / (end - at))
    if abs(b - a) <= max(thresholds.shift_share * a, thresholds.shift_errors * error):
        return []
    before = _cuts(values, begin, at, noise, thresholds)
    return [*before, at, *_cuts(values, at, end, noise, thresholds)]


def _deviation(values: Sequence[float]) -> float:
    level = median(values)
    return sum(abs(each - level) for each in values)
