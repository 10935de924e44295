"""What a verdict says of the units of work that a run repeats."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tracekit.evidence.model import Period
from tracekit.evidence.units import UnitGroup, is_single_pass
from tracekit.text import counted, duration
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import UNKNOWN, bound_by

_NAMED = 2


def with_verdicts(units: Sequence[UnitGroup], steps: Sequence[Period]) -> list[UnitGroup]:
    """The groups, each with the verdict on its step of median length."""
    judged = []
    for group in units:
        alike = sorted(
            (step for step in steps if step.group == group.group),
            key=lambda step: step.window.span_ns,
        )
        typical = alike[(len(alike) - 1) // 2] if alike else None
        if typical is not None and typical.regime != UNKNOWN:
            group = replace(group, verdict=typical.regime, bottleneck=typical.bottleneck)
        judged.append(group)
    return judged


def main_units(analysis: Analysis) -> UnitGroup | None:
    """The group of the judged step; None: another kind of window is judged."""
    group = analysis.judged.group
    return next((each for each in analysis.units if each.group == group), None)


def limited_units(units: Sequence[UnitGroup], group: int | None) -> UnitGroup | None:
    """The group whose limits are those of the judged work: its own, or the single pass of a run
    that is judged as a whole."""
    if group is None and is_single_pass(units):
        return units[0]
    return next((each for each in units if each.group == group), None)


def other_units(analysis: Analysis) -> str:
    """A sentence on the groups beside the judged one; empty: there are none."""
    main = main_units(analysis)
    others = [each for each in analysis.units if each != main and each.source != "single"]
    if main is None or not others:
        return ""
    named = "; ".join(_in_words(each) for each in others[:_NAMED])
    more = len(others) - _NAMED
    rest = f"; and {counted(more, 'other group')}" if more > 0 else ""
    return f"Beside {'it' if main.count == 1 else 'them'}: {named}{rest}"


def _in_words(group: UnitGroup) -> str:
    median = " in the median" if group.count > 1 else ""
    bound = f", {bound_by(group.verdict, group.bottleneck)}" if group.verdict else ""
    return f"{group.counted} of {duration(group.median_ns)}{median}{bound}"
