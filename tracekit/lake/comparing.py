"""Compares two runs of lakes, and all runs of a lake in order: how long the same step took, when
that changed, and which rank changed it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import pi, sqrt
from operator import itemgetter
from statistics import median, median_low
from typing import ClassVar, Literal

from msgspec import Struct

from tracekit.compare.diff import Diff, NothingInCommon, Pair, common_rank, compare_runs
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import selection
from tracekit.lake.reading import Lake, open_parts, selected_parts
from tracekit.lake.runs import LakeRun
from tracekit.records import Record
from tracekit.thresholds import Thresholds

# A trace whose clock begins after 2001 counts from the Unix epoch.
_AFTER_EPOCH_NS = 10**18
# The spread of normally distributed values over their median absolute deviation.
_SPREAD = 1.4826
# The standard error of a median over that of a mean, for these.
_MEDIAN_ERROR = sqrt(pi / 2)
# How many pairs of runs around a change are tried until one shares a rank.
_MOST_TRIED = 20
FIGURES = (
    "span_ns", "busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns",
    "host_late_ns", "kernels", "operators",
)  # fmt: skip


def open_pair(a: str, b: str, resources: Resources) -> Pair:
    """Opens two runs of lakes, or parts of them, and chooses the rank to compare: the one that sets
    the pace of the slower run, else the first one that both have.

    Raises:
        TracekitError: when a path selects several runs, or they have no rank in common.
    """
    parts = []
    for path in (a, b):
        selected = selected_parts(selection(path))
        if len(selected) > 1:
            names = ", ".join(each.name for each in selected[:8])
            raise TracekitError(
                f"{path}: holds several runs: choose one, as LAKE/run=NAME: {names}"
            )
        parts += selected
    return _pair(open_parts(parts, resources), parts[0], parts[1])


def _pair(lake: Lake, a: LakeRun, b: LakeRun) -> Pair:
    names = (a.name, b.name)
    with lake.alone(a) as first, lake.alone(b) as second:
        runs = compare_runs(first, second, names)
    ranks = [list(each.ranks.values()) for each in (a, b)]
    first_ranks, second_ranks = ([(r.name, r.rank) for r in some] for some in ranks)
    one, other, note = common_rank(names, first_ranks, second_ranks, runs)
    return Pair(lake, ranks[0][one].trace_id, ranks[1][other].trace_id, note, runs)


class RunFigures(Struct, frozen=True):
    """One run: the medians over its ranks of the figures of the query run_metrics.

    `started_ns` counts from the Unix epoch; None: its traces have no such time.
    """

    run: str
    """The run's name."""
    started_ns: int | None
    """When it started, since the Unix epoch."""
    ranks: int
    """How many ranks it has (count)"""
    figures: dict[str, float | None]
    """Figures of the query run_metrics; without GPU ops, those of a device are null."""

    @property
    def step_ns(self) -> float:
        return self.figures["span_ns"] or 0


class StepChange(Struct, frozen=True):
    """The step took `before_ns` until the run `last_before`, and `after_ns` since the run `run`:
    medians over the runs up to the next change."""

    run: str
    """The first run with the new step."""
    last_before: str
    """The last run with the old one."""
    before_ns: float
    """The step before."""
    after_ns: float
    """The step since."""

    @property
    def ratio(self) -> float:
        return self.after_ns / self.before_ns


class Spread(Struct, frozen=True):
    """How far apart the steps of runs are, if none of them counts as changed."""

    fastest: str
    """The run with the shortest step."""
    least_ns: float
    """Its step."""
    slowest: str
    """The run with the longest step."""
    most_ns: float
    """Its step."""
    means: Literal["alike", "noise", "too_few_runs"]
    """alike: too close for a change; noise: no change stands out from how runs vary; too_few_runs:
    so few cannot tell a change from noise."""

    @property
    def ratio(self) -> float:
        """How many times as long the slowest takes."""
        return self.most_ns / self.least_ns if self.least_ns else 1.0


class History(Record, frozen=True):
    """The runs in order of `time`, or of `name` if a trace has no time since the epoch.

    `compared` are the runs of the diff: those beside the last change, if they share a rank.
    """

    form: ClassVar[str] = "tracekit/history/1"

    order: str
    """By what the runs are ordered: time or name."""
    runs: list[RunFigures]
    """The runs in that order."""
    changes: list[StepChange]
    """When the step changed."""
    compared: tuple[str, str] | None
    """The runs that `diff` compares: the nearest to the last change that share a rank; null: the
    step never changed."""
    diff: Diff | None
    """What changed at the last change; null: the step never changed, or these runs cannot be
    compared."""
    left_out: str | None = None
    """Why `diff` does not compare the runs beside the last change."""
    spread: Spread | None = None
    """How far apart the steps are; null: the step changed."""
    are_few: bool = False
    """Whether the runs are so few that they cannot tell a change from noise."""


def history(lake: Lake, top: int = 10) -> History:
    """The history of the runs in a lake, with what changed at the last change.

    Raises:
        TracekitError: when fewer than two runs have operators or GPU ops.
    """
    order, runs = _in_order(lake)
    thresholds = lake.thresholds
    steps = [(each.run, each.step_ns) for each in runs]
    changes, few = shifts(steps, thresholds), len(runs) < thresholds.few_runs
    if not changes:
        return History(order, runs, changes, None, None, None, spread(steps, thresholds), few)
    beside = (changes[-1].last_before, changes[-1].run)
    left_out = None
    for compared in _nearest([each.run for each in runs], beside[1]):
        try:
            found = _two(lake, *compared).diff(top)
        except NothingInCommon as error:
            left_out = left_out or str(error)
            continue
        return History(order, runs, changes, compared, found, left_out, are_few=few)
    return History(order, runs, changes, beside, None, left_out, are_few=few)


def _nearest(names: list[str], first_after: str) -> list[tuple[str, str]]:
    """Pairs of a run before a change and one since, the two beside it first."""
    at = names.index(first_after)
    before, after = names[:at][::-1], names[at:]
    pairs = [(i + j, i, a, b) for i, a in enumerate(before) for j, b in enumerate(after)]
    return [(a, b) for _, _, a, b in sorted(pairs)[:_MOST_TRIED]]


def last_failing(lake: Lake, conditions: Sequence[str]) -> list[str]:
    """The conditions (see `tracekit.compare.diff.fails`) that are true of the last run as b, with
    as a the one of median step among the runs before.

    Raises:
        TracekitError: when there are not two runs, or a condition is not valid.
    """
    if not conditions:
        return []
    _, runs = _in_order(lake)
    before = sorted(runs[:-1], key=lambda each: each.step_ns)
    usual = before[(len(before) - 1) // 2]
    pair = _two(lake, usual.run, runs[-1].run)
    return [each for each in conditions if pair.fails(each)]


def _two(lake: Lake, first: str, second: str) -> Pair:
    parts = {each.name: each for each in lake.parts}
    return _pair(lake, parts[first], parts[second])


def _in_order(lake: Lake) -> tuple[str, list[RunFigures]]:
    order, runs = runs_in_order(lake)
    if len(runs) < 2:
        raise TracekitError(
            f"{lake.name}: a history needs two runs with operators or GPU ops, and the lake has "
            f"{len(runs)}"
        )
    return order, runs


def runs_in_order(lake: Lake) -> tuple[str, list[RunFigures]]:
    """The runs in order of `time`, or of `name` if a trace has no time since the epoch."""
    medians = ", ".join(f"median({name})" for name in FIGURES)
    sql = catalog.render_template("lake_runs", medians=medians, after=_AFTER_EPOCH_NS)
    _, rows = lake.fetch(sql)
    runs = [
        RunFigures(run, started_ns, ranks, dict(zip(FIGURES, figures, strict=True)))
        for run, started_ns, ranks, *figures in rows
    ]
    return "time" if all(each.started_ns for each in runs) else "name", runs


def shifts(steps: Sequence[tuple[str, float]], thresholds: Thresholds) -> list[StepChange]:
    """When the step changed: binary segmentation with the median as each part's level.

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
        StepChange(steps[at][0], steps[at - 1][0], before, after)
        for at, (before, after) in zip(borders[1:-1], pairwise(levels), strict=True)
    ]


def spread(steps: Sequence[tuple[str, float]], thresholds: Thresholds) -> Spread:
    """How far apart steps are of which none counts as changed, and what that means. Among few runs
    hardly any change would count: one of three has to be more than six times the noise."""
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
