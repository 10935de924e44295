"""What the runs of a lake do: runs are compared with those that repeat the same unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct

from tracekit.lake.shifts import Spread, StepChange, shifts, spread
from tracekit.thresholds import Thresholds

R = TypeVar("R", bound="RunUnit")


class RunUnit(Struct, frozen=True):
    """The unit of work that a run is compared by: the medians over the ranks that repeat it."""

    run: str
    """The run's name."""
    unit: str
    """step, prefill, decode, mixed, pass or iteration; gpu_active or host_active: nothing
    repeats, so the whole span is compared; unit: another version of tracekit wrote it."""
    unit_ns: int
    """Its length."""
    tokens: float | None
    """The tokens that one reads and generates; null: unknown (tokens)"""
    samples: float | None
    """The samples of one, as captured; null: unknown (samples)"""


def rate(amount: float | None, ns: float) -> float | None:
    """An amount of work of a unit, per second."""
    return amount * 1e9 / ns if amount and ns else None


class Work(Struct, frozen=True):
    """Runs that do the same work: the same kind of unit, with about as many tokens or samples."""

    unit: str
    """Its kind, as of a run."""
    runs: list[str]
    """The runs, in order."""
    unit_ns: float
    """The median over the runs of the unit's length."""
    tokens: float | None
    """The median of the tokens that one reads and generates; null: unknown (tokens)"""
    samples: float | None
    """The median of its samples; null: unknown (samples)"""
    spread: Spread | None
    """How far apart the lengths are; null: the unit changed."""


def works_of(
    runs: Sequence[RunUnit], thresholds: Thresholds
) -> tuple[list[Work], list[StepChange]]:
    """The works of runs, that of most runs first, and when the unit of each changed, in the order
    of the runs."""
    places = {each.run: place for place, each in enumerate(runs)}
    works, changes = [], []
    for some in alike(runs, thresholds):
        lengths = [(each.run, float(each.unit_ns)) for each in some]
        found = shifts(lengths, thresholds, some[0].unit)
        changes += found
        works.append(Work(
            some[0].unit, [each.run for each in some], median(ns for _, ns in lengths),
            _middle([each.tokens for each in some]), _middle([each.samples for each in some]),
            None if found else spread(lengths, thresholds),
        ))  # fmt: skip
    return works, sorted(changes, key=lambda each: places[each.run])


def alike(runs: Sequence[R], thresholds: Thresholds) -> list[list[R]]:
    """Runs that do the same work, the largest group first. Those whose amount of work is unknown
    are with most of the runs of their kind."""
    groups: list[list[R]] = []
    told = [each for each in runs if each.tokens or each.samples]
    for run in [*told, *(each for each in runs if not (each.tokens or each.samples))]:
        fitting = [some for some in groups if does_same(some[0], run, thresholds)]
        if fitting:
            max(fitting, key=len).append(run)
        else:
            groups.append([run])
    places = {each.run: place for place, each in enumerate(runs)}
    ordered = [sorted(some, key=lambda each: places[each.run]) for some in groups]
    return sorted(ordered, key=lambda some: (-len(some), places[some[0].run]))


def does_same(one: RunUnit, other: RunUnit, thresholds: Thresholds) -> bool:
    """Whether two runs repeat the same kind of unit, with about as much work if that is known."""
    amounts = ((one.tokens, other.tokens), (one.samples, other.samples))
    return one.unit == other.unit and all(
        not a or not b or max(a, b) <= (1 + thresholds.same_amount) * min(a, b) for a, b in amounts
    )


def _middle(amounts: Sequence[float | None]) -> float | None:
    known = [each for each in amounts if each]
    return median(known) if known else None
