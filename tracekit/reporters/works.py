"""What the runs of a lake do, in words: their units of work, lengths and rates."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.evidence.units import with_article
from tracekit.lake.shifts import Spread, StepChange
from tracekit.lake.works import Work, rate
from tracekit.text import counted, duration, percent, printable

# Windows of runs that repeat nothing.
_SPANS = {"gpu_active": "GPU-active span", "host_active": "span of the busiest thread"}
# What the spread of units means if none counts as a change.
_NO_CHANGE = {
    "alike": "too little to count as a change",
    "noise": "no lasting change stands out from the variation of runs",
    "too_few_runs": "too few runs to tell a change from noise",
}
# Larger ratios are shown as multiples.
_TIMES = 1.2
_SHOWN = 6
# Rates from this on are shown without decimals.
_WHOLE = 100


def name_of(unit: str) -> str:
    """A unit in a heading, such as `step` or `GPU-active span`."""
    return _SPANS.get(unit, unit)


def one(unit: str) -> str:
    """A unit as a sentence's subject, such as `a step` or `the GPU-active span`."""
    return f"the {_SPANS[unit]}" if unit in _SPANS else with_article(unit)


def the(unit: str) -> str:
    """A known unit as a sentence's subject, such as `the step`."""
    return f"the {name_of(unit)}"


def rates(tokens: float | None, samples: float | None, *lengths_ns: float) -> str:
    """Tokens or samples per second at each of some lengths of a unit, such as ` (1,690 tokens a
    second)`; empty: they are not known."""
    told = []
    for name, amount in (("tokens", tokens), ("samples", samples)):
        per_second = [per_s(each) for ns in lengths_ns if (each := rate(amount, ns))]
        if per_second:
            told.append(f"{' and '.join(dict.fromkeys(per_second))} {name} a second")
    return f" ({', '.join(told)})" if told else ""


def per_s(rate: float | None) -> str:
    """A rate without its unit; '-' for None."""
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= _WHOLE else f"{rate:.3g}"


def of_amount(work: Work) -> str:
    """How much a unit does, such as ` of 32 tokens`; empty: it is not known."""
    known = {"token": work.tokens, "sample": work.samples}
    told = [counted(round(amount), name) for name, amount in known.items() if amount]
    return f" of {' and '.join(told)}" if told else ""


def spread_of(work: Work | None, *, names: bool = True) -> str:
    """A sentence on the lengths of a work's units and what they mean; empty: a unit changed."""
    if work is None or work.spread is None:
        return ""
    spread, what = work.spread, f"{one(work.unit)}{of_amount(work)} takes"
    if spread.slowest == spread.fastest:
        in_run = f" in run {spread.fastest}" if names else ""
        return printable(f"{what} {duration(spread.least_ns)}{in_run}{_rates_of(work)}")
    first, last = (f" in run {each}" if names else "" for each in (spread.fastest, spread.slowest))
    return printable(
        f"{what} {duration(spread.least_ns)}{first} and {duration(spread.most_ns)}{last}, "
        f"{_longer(spread)}{rates(work.tokens, work.samples, spread.least_ns, spread.most_ns)}: "
        f"{_NO_CHANGE[spread.means]}"
    )


def _longer(spread: Spread) -> str:
    ratio = spread.ratio
    return f"{ratio:.3g} times as long" if ratio >= _TIMES else f"{percent(ratio - 1)} longer"


def _rates_of(work: Work) -> str:
    return rates(work.tokens, work.samples, work.unit_ns)


def different(works: Sequence[Work]) -> str:
    """A sentence if runs do different work, with what they do; empty: they do the same."""
    if len(works) < 2:
        return ""
    told = [
        f"{one(work.unit)}{of_amount(work)} takes {duration(work.unit_ns)} in {_runs(work.runs)}"
        f"{_rates_of(work)}"
        for work in works[:_SHOWN]
    ]
    more = len(works) - len(told)
    rest = f"; and {counted(more, 'other work', 'other works')}" if more else ""
    return printable(
        f"The runs do different work, so their lengths do not compare: {'; '.join(told)}{rest}"
    )


def _runs(runs: Sequence[str]) -> str:
    return f"run {runs[0]}" if len(runs) == 1 else counted(len(runs), "run")


def compared(works: Sequence[Work]) -> list[str]:
    """Sentences on the works of several runs in which nothing counts as changed."""
    told = [each for each in works if each.spread and (len(each.runs) > 1 or len(works) == 1)]
    return [spread_of(each) for each in told[:_SHOWN]]


def rates_before_and_since(works: Sequence[Work], change: StepChange) -> str:
    """Tokens or samples a second before and since a change, such as ` (1,690 -> 1,200 tokens a
    second)`; empty: they are not known."""
    work = next((each for each in works if change.run in each.runs), None)
    if work is None:
        return ""
    lengths = (change.before_ns, change.after_ns)
    return rates(work.tokens, work.samples, *lengths).replace(" and ", " -> ", 1)
