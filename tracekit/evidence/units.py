"""What a run repeats: its units of work by group."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tracekit.text import counted

ITERATION = "iteration"
"""Units of a few launches: the loop of all of them is judged."""
_PLURALS = {"pass": "passes", "mixed": "mixed steps"}
_NAMES = {"mixed": "mixed step"}


def named_units(kind: str) -> str:
    """Several units of a kind, in a sentence."""
    return _PLURALS.get(kind, f"{kind}s")


def with_article(kind: str) -> str:
    """One unit of a kind, such as `a step`, in a sentence."""
    return f"{'an' if kind == ITERATION else 'a'} {_NAMES.get(kind, kind)}"


def counted_units(kind: str, count: int) -> str:
    """A number of units, in a sentence."""
    return counted(count, _NAMES.get(kind, kind), named_units(kind))


class UnitGroup(Struct, frozen=True):
    """The units of work that do the same (queries/time/units.sql), of the outermost level."""

    group: int
    """Its number (id)."""
    kind: str
    """step, prefill, decode, mixed, pass, layer or iteration."""
    source: str
    """How the units are known: mark, server, frame, range, graph, sequence; single: nothing
    repeats."""
    name: str
    """The name of most of them."""
    count: int
    """The units."""
    whole: int
    """The units that the recording does not cut off."""
    cold: int
    """The units of which first-call work takes a large part."""
    start_ns: int
    """The begin of the one of median length."""
    end_ns: int
    """Its completion."""
    first_ns: int
    """The length of the first one."""
    min_ns: int
    """The length of the shortest."""
    median_ns: int
    """Half of the units are shorter."""
    max_ns: int
    """The length of the longest."""
    trend: str | None
    """settling, growing or steady; null: they are too few."""
    passes: int
    """The units in one of them that are no layers, the median."""
    requests: int | None
    """The requests of all units; null: unknown."""
    tokens: int | None
    """The tokens that all units read and generate; null: unknown."""
    is_main: bool
    """Whether the run is judged by one of these units."""
    floor_ns: int | None = None
    """The least time of the one of median length on the device, for its work as it is launched
    (queries/roofline/window_limits.sql); null: the device's peaks are not known."""
    must_ns: int | None = None
    """The part of that which no fusion removes."""
    mfu: float | None = None
    """Model FLOPs utilization: the share of its length that its products take at the peak."""
    mbu: float | None = None
    """Model bandwidth utilization: the share that reading weights and caches takes."""
    modelled: float | None = None
    """The share of its kernels' time whose work, or a lower bound of it, is known."""
    exact: float | None = None
    """The share whose work itself is known."""
    verdict: str | None = None
    """What bounds the unit of median length; null: it is not judged."""
    bottleneck: str | None = None
    """The cause whose removal gains most in it."""

    @property
    def counted(self) -> str:
        """Its number of units, in a sentence."""
        return counted_units(self.kind, self.count)


def recorded_units(units: Sequence[UnitGroup]) -> int:
    """How many units show what is usual: iterations of a few launches do only in a loop that stands
    for a step."""
    return sum(each.count for each in units if each.kind != ITERATION or each.is_main)


def is_single_pass(units: Sequence[UnitGroup]) -> bool:
    """Whether the program did its work once, in one unit that no passes divide."""
    return sum(each.count for each in units) == 1 and units[0].passes < 2
