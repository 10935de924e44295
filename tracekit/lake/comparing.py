"""Compares two runs of lakes, and all runs of a lake in order: how long the same unit of work took,
when that changed, and which rank changed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct, field

from tracekit.compare.diff import (
    Diff,
    NothingInCommon,
    Pair,
    common_rank,
    compare_runs,
    require_common_rank,
)
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import selection
from tracekit.lake.reading import Lake, open_parts, selected_parts
from tracekit.lake.runs import LakeRun
from tracekit.lake.shifts import Spread, StepChange
from tracekit.lake.works import RunUnit, Work, does_same, rate, works_of
from tracekit.records import Record

# A trace whose clock begins after 2001 counts from the Unix epoch.
_AFTER_EPOCH_NS = 10**18
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
    ranks = [list(each.ranks.values()) for each in (a, b)]
    first_ranks, second_ranks = ([(r.name, r.rank) for r in some] for some in ranks)
    require_common_rank(names, first_ranks, second_ranks)
    with lake.alone(a) as first, lake.alone(b) as second:
        runs = compare_runs(first, second, names)
    one, other, note = common_rank(names, first_ranks, second_ranks, runs)
    return Pair(lake, ranks[0][one].trace_id, ranks[1][other].trace_id, note, runs)


class RunFigures(RunUnit, frozen=True):
    """One run: the medians of figures over its ranks.

    `started_ns` counts from the Unix epoch; None: its traces have no such time.
    """

    started_ns: int | None
    """When it started, since the Unix epoch."""
    ranks: int
    """How many ranks it has (count)"""
    figures: dict[str, float | None]
    """Figures of the query run_metrics; without GPU ops, those of a device are null."""
    tokens_per_s: float | None
    """Those that each rank reads and generates; null: unknown (tokens/s)"""
    samples_per_s: float | None
    """Those of each rank; null: unknown (samples/s)"""


class MedianChange(Struct, frozen=True):
    """A figure of two runs, as the medians over their ranks."""

    metric: str
    """A column of the query run_metrics, with its unit at the end."""
    a: float | None
    """The figure of a (the metric's unit)"""
    b: float | None
    """The figure of b (the metric's unit)"""


class History(Record, frozen=True):
    """The runs in order of `time`, or of `name` if a trace has no time since the epoch. Only runs
    that do the same work are compared with each other.

    `compared` are the runs of the diff: those beside the last change, if they share a rank.
    """

    form: ClassVar[str] = "tracekit/history/1"

    order: str
    """By what the runs are ordered: time or name."""
    runs: list[RunFigures]
    """The runs in that order."""
    changes: list[StepChange]
    """When the unit of runs that do the same work changed."""
    compared: tuple[str, str] | None
    """The runs that `diff` compares: the nearest to the last change that share a rank; null: no
    unit changed."""
    diff: Diff | None
    """What changed at the last change; null: no unit changed, or these runs cannot be
    compared."""
    left_out: str | None = None
    """Why `diff` does not compare the runs beside the last change."""
    spread: Spread | None = None
    """How far apart the units are; null: one changed, or the runs do different work (`works`)."""
    are_few: bool = False
    """Whether the runs of the last change, or of all if there is none, are so few that they cannot
    tell a change from noise."""
    works: list[Work] = field(default_factory=list)
    """What the runs do, that of most runs first. More than one: the runs do different work."""
    medians: list[MedianChange] = field(default_factory=list)
    """The runs beside the last change, by the medians over their ranks; empty: no unit changed."""


def history(lake: Lake, top: int = 10) -> History:
    """The history of the runs in a lake, with what changed at the last change.

    Raises:
        TracekitError: when fewer than two runs have operators or GPU ops.
    """
    order, runs = _in_order(lake)
    works, changes = works_of(runs, lake.thresholds)
    if not changes:
        apart = works[0].spread if len(works) == 1 else None
        few = len(works[0].runs) < lake.thresholds.few_runs
        return History(order, runs, changes, None, None, None, apart, few, works)
    beside = (changes[-1].last_before, changes[-1].run)
    names = next(each.runs for each in works if beside[1] in each.runs)
    compared, found, left_out = _compared(lake, names, beside, top)
    by_name = {each.run: each for each in runs}
    return History(
        order, runs, changes, compared, found, left_out,
        are_few=len(names) < lake.thresholds.few_runs, works=works,
        medians=_medians(*(by_name[each] for each in beside)),
    )  # fmt: skip


def _compared(
    lake: Lake, names: list[str], beside: tuple[str, str], top: int
) -> tuple[tuple[str, str], Diff | None, str | None]:
    """The runs around a change that share a rank, what changed between them, and why the two beside
    it are not compared."""
    left_out = None
    for pair in _nearest(names, beside[1]):
        try:
            return pair, _two(lake, *pair).diff(top), left_out
        except NothingInCommon as error:
            left_out = left_out or str(error)
    return beside, None, left_out


def _medians(a: RunFigures, b: RunFigures) -> list[MedianChange]:
    return [
        MedianChange(name, a.figures[name], b.figures[name])
        for name in FIGURES
        if name.endswith("_ns")
    ]


def _nearest(names: list[str], first_after: str) -> list[tuple[str, str]]:
    """Pairs of a run before a change and one since, the two beside it first."""
    at = names.index(first_after)
    before, after = names[:at][::-1], names[at:]
    pairs = [(i + j, i, a, b) for i, a in enumerate(before) for j, b in enumerate(after)]
    return [(a, b) for _, _, a, b in sorted(pairs)[:_MOST_TRIED]]


def last_failing(lake: Lake, conditions: Sequence[str]) -> list[str]:
    """The conditions (see `tracekit.compare.diff.fails`) that are true of the last run as b, with
    as a the one of median length among the runs before that do the same work.

    Raises:
        TracekitError: when there are not two such runs, or a condition is not valid.
    """
    if not conditions:
        return []
    _, runs = _in_order(lake)
    last = runs[-1]
    before = [each for each in runs[:-1] if does_same(each, last, lake.thresholds)]
    if not before:
        raise TracekitError(
            f"{lake.name}: no run before {last.run!r} does the same work, so there is nothing to "
            f"compare it with; `tracekit history {lake.name}` tells what each run does"
        )
    usual = sorted(before, key=lambda each: each.unit_ns)[(len(before) - 1) // 2]
    pair = _two(lake, usual.run, last.run)
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
    names = ("unit_ns", "tokens", "samples", *FIGURES)
    medians = ", ".join(f"median({name}) FILTER (is_usual)" for name in names)
    sql = catalog.render_template("lake_runs", medians=medians, after=_AFTER_EPOCH_NS)
    runs = [_figures(*row) for row in lake.fetch(sql)[1]]
    return "time" if all(each.started_ns for each in runs) else "name", runs


def _figures(
    run: str, started_ns: int | None, ranks: int, unit: str, unit_ns: float,
    tokens: float | None, samples: float | None, *figures: float | None,
) -> RunFigures:  # fmt: skip
    length = round(unit_ns or 0)
    rates = (rate(amount, length) for amount in (tokens, samples))
    named = dict(zip(FIGURES, figures, strict=True))
    return RunFigures(
        run, unit, length, tokens, samples, started_ns, ranks, named, *rates
    )  # fmt: skip
