"""A step's figures against its budget, and against the figures stored for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.budgets.figures import COUNTS, Figures
from tracekit.errors import TracekitError
from tracekit.text import duration, printable
from tracekit.verdict.regime import REGIMES

# A step is a mean of several, which need not be equal.
_SLACK = 0.001
_MOST_CHANGES = 12
_OTHER = ("kernels_by_class", "regime", "host_share", "time", "graph_breaks")


@dataclass(frozen=True)
class Broken:
    """A figure that is over its budget, or that cannot be known."""

    figure: str
    message: str


def check_budget(budget: Mapping[str, Any]) -> None:
    """Checks that a budget names known figures, with values that make sense.

    Raises:
        TracekitError: says which does not.
    """
    for name, value in budget.items():
        if name not in COUNTS and name not in _OTHER:
            known = ", ".join((*COUNTS, *_OTHER))
            raise TracekitError(f"{name!r} is no figure that a budget can have: it has {known}")
        if name == "regime":
            is_sound = value in REGIMES.values()
        elif name == "kernels_by_class":
            is_sound = isinstance(value, Mapping) and all(map(is_number, value.values()))
        else:
            is_sound = is_number(value)
        if not is_sound:
            raise TracekitError(f"the budget {name}={value!r} is not one that can be held")


def is_number(value: object) -> bool:
    """Whether this is a finite number that a figure can have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63


def broken(figures: Figures, budget: Mapping[str, Any], base: Figures | None) -> list[Broken]:
    """What is over the budget. Without a budget, the counts of `base` are the budget."""
    if not budget and base is not None:
        return [*_over_base(figures, base)]
    return [
        Broken(name, message)
        for name, allowed in budget.items()
        for message in _judged(name, allowed, figures, base)
    ]


def _over_base(figures: Figures, base: Figures) -> Iterator[Broken]:
    for name, allowed in base.counts.items():
        for message in _judged(name, allowed, figures, base):
            yield Broken(name, message)


def _judged(name: str, allowed: Any, figures: Figures, base: Figures | None) -> Iterator[str]:
    if name in COUNTS:
        if name not in figures.counts:
            yield f"{name} cannot be known: the trace has no work of a device"
        elif figures.counts[name] > allowed + _SLACK:
            yield f"{name}: {figures.counts[name]:,g} a step, budget {allowed:,g}"
    elif name == "graph_breaks":
        # Each break makes one more region of a compiled function.
        breaks = max(0.0, figures.counts["compiled_regions"] - 1)
        if breaks > allowed + _SLACK:
            yield f"graph_breaks: {breaks:,g} a step, budget {allowed:,g}"
    elif name == "kernels_by_class":
        for each, most in allowed.items():
            found = figures.kernels_by_class.get(each, 0)
            if "kernels" not in figures.counts:
                yield f"{each} kernels cannot be known: the trace has no work of a device"
            elif found > most + _SLACK:
                yield f"{each} kernels: {found:,g} a step, budget {most:,g}"
    elif name == "regime":
        if figures.regime != allowed:
            yield f"regime: {figures.regime}, budget {allowed}"
    elif name == "host_share":
        if figures.host_share is None:
            yield "host_share cannot be known: the trace has no work of a device"
        elif figures.host_share > allowed:
            yield f"host_share: {figures.host_share:.3f} of the window, budget {allowed:g}"
    else:
        yield from _time(allowed, figures, base)


def _time(allowed: float, figures: Figures, base: Figures | None) -> Iterator[str]:
    if base is None or base.step_ns is None:
        yield "time has nothing to compare with: store it with --tracekit-update"
    elif figures.step_ns is None:
        yield "time cannot be known: no step was timed without the profiler"
    elif base.device == figures.device and figures.step_ns > allowed * base.step_ns:
        yield (
            f"time: {duration(figures.step_ns)} a step, {figures.step_ns / base.step_ns:.2f} times "
            f"the stored {duration(base.step_ns)}, budget {allowed:g} times"
        )


def changes(figures: Figures, base: Figures) -> list[str]:
    """What runs more often or less often than in the stored figures, the largest change first."""
    found = []
    for figure in COUNTS:
        if figure == "copied_bytes" or figure not in figures.counts:
            continue
        now, then = figures.names.get(figure, {}), base.names.get(figure, {})
        for name in now.keys() | then.keys():
            change = now.get(name, 0) - then.get(name, 0)
            if abs(change) > _SLACK:
                told = f"{change:+,g} {printable(name)} ({figure}: {then.get(name, 0):,g} before)"
                found.append((-abs(change), figure, told))
    more = len(found) - _MOST_CHANGES
    largest = [told for _, _, told in sorted(found)[:_MOST_CHANGES]]
    return largest + ([f"and {more:,} more"] if more > 0 else [])
