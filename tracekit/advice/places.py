"""The call sites at which a remedy applies in a window, and what it saves there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.changes import Rows
from tracekit.replay.prices import Prices

if TYPE_CHECKING:
    from tracekit.advice.catalogue import Remedy


@dataclass(frozen=True)
class Place:
    """A remedy at one call site, or at all of its call sites together."""

    remedy: Remedy
    where: str | None
    detail: str | None
    count: int
    change: str
    """The change as `tracekit whatif` takes it."""
    at_most_ns: int
    """An upper bound of the time that it removes, on any thread or device; the window's length for
    changes that also remove time outside their rows."""
    parts: tuple[Place, ...] = ()
    """The call sites with most time, if it stands for several."""
    saves_ns: int = 0
    """What the remedy saves there, in ns of the window; 0 before it is priced."""


def price_alone(place: Place, prices: Prices, least_ns: float) -> Place:
    """The call site with what the remedy saves there; if that is at least `least_ns`, with those of
    its parts at which it saves anything alone, the highest saving first."""
    priced = replace(place, saves_ns=prices.saved(place.change), parts=())
    if priced.saves_ns < least_ns:
        return priced
    parts = [replace(each, saves_ns=prices.saved(each.change)) for each in place.parts]
    worth = sorted((each for each in parts if each.saves_ns > 0), key=lambda each: -each.saves_ns)
    return replace(priced, parts=tuple(worth))


def find_places(remedy: Remedy, rows: Rows, start_ns: int, end_ns: int, most: int) -> list[Place]:
    """What a remedy changes in a window: all of its call sites together, listing at most `most`; or
    each call site, if each has its own cause."""
    start = np.ma.filled(rows["start_ns"], start_ns)
    inside = (start < end_ns) & (start + np.ma.filled(rows["dur_ns"], 0) >= start_ns)
    chosen = {name: rows[name][inside] for name in ("place", "detail", "target", "event_id")}
    number: dict[str, int] = {}
    numbers = (number.setdefault(name, len(number)) for name in chosen["place"])
    place = np.fromiter(numbers, np.int64, len(chosen["place"]))
    dur = np.ma.filled(rows["dur_ns"], 0)[inside]
    factor = np.ma.filled(rows["factor"], 1.0)[inside].astype(np.float64)
    saved = np.bincount(place, dur * (1 - factor), len(number))
    whole_window = set(chosen["target"].tolist()) & {"call", "cuda-graph"}
    event_id = np.ma.filled(chosen["event_id"], -1).astype(np.int64)
    # The number of distinct events at each call site.
    many = int(event_id.max(initial=0)) + 2
    distinct = np.unique(place * many + event_id + 1)
    counts = np.bincount(distinct // many, minlength=len(number))
    first = np.unique(place, return_index=True)[1]
    found = [
        Place(
            remedy,
            name or None,
            str(chosen["detail"][first[at]]) or None,
            int(counts[at]),
            f"remedy:{remedy.name}:{name}" if name else f"remedy:{remedy.name}",
            end_ns - start_ns if whole_window or remedy.is_batch else int(saved[at]),
        )
        for name, at in number.items()
    ]
    found.sort(key=lambda each: (-each.at_most_ns, each.where is None, each.where or ""))
    if len(found) < 2 or remedy.is_by_place:
        return found[:most]
    # A call site without a name has no change of its own.
    parts = tuple(each for each in found[:most] if each.where)
    return [
        Place(
            remedy,
            found[0].where,
            found[0].detail,
            len(np.unique(event_id)),
            f"remedy:{remedy.name}",
            sum(each.at_most_ns for each in found),
            parts,
        )
    ]
