"""Compares two runs of lakes, and all runs of a lake in order: how long the same step took, when
that changed, and which rank changed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import pi, sqrt
from statistics import median, median_low
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from tracekit.compare.diff import Diff, Pair, common_rank, compare_runs
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import selection
from tracekit.lake.reading import Lake, open_parts, selected_parts
from tracekit.lake.runs import RunPart
from tracekit.records import Record
from tracekit.thresholds import Thresholds

T = TypeVar("T")
SCHEMA = "tracekit/history/1"

# A trace whose clock begins after 2001 counts from the Unix epoch.
_AFTER_EPOCH_NS = 10**18
# The spread of normally distributed values over their median absolute deviation.
_SPREAD = 1.4826
# The standard error of a median over that of a mean, for these.
_MEDIAN_ERROR = sqrt(pi / 2)
FIGURES = (
    "span_ns",
    "busy_ns",
    "compute_ns",
    "exposed_comm_ns",
    "exposed_memcpy_ns",
    "idle_ns",
    "host_late_ns",
    "kernels",
    "operators",
)


def open_pair(
    a: str,
    b: str,
    resources: Resources | None = None,
    thresholds: Thresholds | None = None,
) -> Pair:
    """Opens two runs of lakes, or parts of them, and chooses the rank to compare: the one that sets
    the pace of the slower run, else the first one that both have.

    Raises:
        TracekitError: when a path selects several runs, or they have no rank in common.
    """
    parts = []
    for path in (a, b):
        selected = selected_parts(selection(path))
        if len(selected) > 1:
            names = ", ".join(each.run.name for each in selected[:8])
            raise TracekitError(
                f"{path}: holds several runs: choose one, as LAKE/run=NAME: {names}"
            )
        parts += selected
    resources = resources or Resources()
    lake = open_parts(parts, resources)
    return _pair(lake, (parts[0], parts[1]), thresholds or Thresholds())


def _pair(lake: Lake, parts: tuple[RunPart, RunPart], thresholds: Thresholds) -> Pair:
    names = (parts[0].run.name, parts[1].run.name)
    with (
        open_parts(parts[:1], lake.resources) as first,
        open_parts(parts[1:], lake.resources) as second,
    ):
        runs = compare_runs(first, second, names, thresholds)
    first_ranks, second_ranks = ([(r.name, r.rank) for r in each.ranks] for each in parts)
    a, b, note = common_rank(names, first_ranks, second_ranks, runs)
    return Pair(lake, parts[0].ranks[a].trace_id, parts[1].ranks[b].trace_id, note, runs)


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


class History(Record, frozen=True):
    """The runs in order of `time`, or of `name` if a trace has no time since the epoch.

    `compared` are the runs of the diff: those beside the last change.
    """

    form: ClassVar[str] = SCHEMA

    order: str
    """time or name."""
    runs: list[RunFigures]
    """The runs in that order."""
    changes: list[StepChange]
    """When the step changed."""
    compared: tuple[str, str] | None
    """The runs that `diff` compares; null: the step never changed."""
    diff: Diff | None
    """What changed at the last change."""


def history(lake: Lake, thresholds: Thresholds | None = None, top: int = 10) -> History:
    """The history of the runs in a lake, with what changed at the last change.

    Raises:
        TracekitError: when fewer than two runs have operators or GPU ops.
    """
    order, runs = _in_order(lake)
    judged = thresholds or Thresholds()
    changes = shifts([(each.run, each.step_ns) for each in runs], judged)
    if not changes:
        return History(order, runs, changes, None, None)
    compared = (changes[-1].last_before, changes[-1].run)
    return History(order, runs, changes, compared, _two(lake, *compared, judged).diff(top))


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
    pair = _two(lake, usual.run, runs[-1].run, Thresholds())
    return [each for each in conditions if pair.fails(each)]


def _two(lake: Lake, first: str, second: str, thresholds: Thresholds) -> Pair:
    """Two runs of a lake, and the rank to compare."""
    parts = {each.run.name: each for each in lake.parts}
    return _pair(lake, (parts[first], parts[second]), thresholds)


def began_ns(lake: Lake) -> dict[int, int]:
    """When each trace began, since the Unix epoch, if it has that time."""
    starts = dict(lake.fetch("SELECT trace_id, coalesce(base_time_ns, 0) FROM trace")[1])
    for trace_id, start_ns in lake.fetch("SELECT trace_id, start_ns FROM trace_span")[1]:
        starts[trace_id] += start_ns
    return {trace_id: ns for trace_id, ns in starts.items() if ns > _AFTER_EPOCH_NS}


def _in_order(lake: Lake) -> tuple[str, list[RunFigures]]:
    run_of = {rank.trace_id: rank.run for rank in lake.ranks}
    starts = began_ns(lake)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in lake.ask("run_metrics"):
        rows.setdefault(run_of[row["trace_id"]], []).append(row)
    if len(rows) < 2:
        raise TracekitError(
            f"{lake.name}: a history needs two runs with operators or GPU ops, and the lake has "
            f"{len(rows)}"
        )
    runs = []
    for run, figures in rows.items():
        started = min(starts.get(row["trace_id"], 0) for row in figures) or None
        medians = {}
        for name in FIGURES:
            known = [row[name] for row in figures if row[name] is not None]
            medians[name] = median(known) if known else None
        runs.append(RunFigures(run, started, len(figures), medians))
    return put_in_order(runs, lambda each: (each.started_ns, each.run)), runs


def put_in_order(runs: list[T], when: Callable[[T], tuple[int | None, str]]) -> str:
    """Sorts runs by start time, or by name if one of them has none; returns which."""
    is_timed = all(when(each)[0] is not None for each in runs)
    runs.sort(key=lambda each: (when(each)[0] or 0 if is_timed else 0, when(each)[1]))
    return "time" if is_timed else "name"


def shifts(steps: Sequence[tuple[str, float]], thresholds: Thresholds) -> list[StepChange]:
    """When the step changed: binary segmentation with the median as each part's level.

    The series is cut where the sum of absolute deviations from the levels becomes least, and each
    part is cut again, as long as its two levels differ by more than `shift_share` of the first, and
    by more than `shift_errors` times the standard error of their difference. The noise is taken
    from the differences of neighbours, which a change of level hardly affects. A part has at least
    two runs, so that one slow night is no change; only the last run may stand alone.

    https://doi.org/10.2307/2529204 (Scott and Knott 1974, binary segmentation)
    """
    values = [ns for _, ns in steps]
    borders = [0, *_cuts(values, 0, len(values), _noise(values), thresholds), len(values)]
    parts = [steps[a:b] for a, b in pairwise(borders)]
    return [
        StepChange(after[0][0], before[-1][0], _level(before), _level(after))
        for before, after in pairwise(parts)
    ]


def _level(part: Sequence[tuple[str, float]]) -> float:
    return median(ns for _, ns in part)


def _noise(values: Sequence[float]) -> float:
    """The standard deviation around the levels; 0 where two values tell nothing about it."""
    if len(values) < 3:
        return 0.0
    return _SPREAD * median_low([abs(b - a) for a, b in pairwise(values)]) / sqrt(2)


def _cuts(
    values: Sequence[float], begin: int, end: int, noise: float, thresholds: Thresholds
) -> list[int]:
    """Where the values from `begin` to `end` are cut."""
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
    return [
        *_cuts(values, begin, at, noise, thresholds),
        at,
        *_cuts(values, at, end, noise, thresholds),
    ]


def _deviation(values: Sequence[float]) -> float:
    level = median(values)
    return sum(abs(each - level) for each in values)
