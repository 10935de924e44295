"""What remedies would save in a window, by replays, alone and combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracekit.advice.model import Addition, Together
from tracekit.replay.changes import Rows, scale_cause
from tracekit.replay.graph.arrays import Ints

if TYPE_CHECKING:
    from tracekit.advice.catalogue import Remedy
    from tracekit.replay.gains import WindowGains
    from tracekit.replay.simulator import Scale


# The batch by which a batch's query prices it.
_TWICE = 2


@dataclass(frozen=True)
class Place:
    """A remedy at one place of the program, or at all of its places together."""

    remedy: Remedy
    where: str | None
    detail: str | None
    count: int
    change: str
    """The change as `tracekit whatif` takes it."""
    at_most_ns: int
    """An upper bound of the time that it takes away, on any thread or device; of changes that also
    take away what is not in their rows, none: the window's length."""
    parts: tuple[Place, ...] = ()
    """If it stands for several places, those with most time."""


@dataclass(frozen=True)
class Priced:
    """A place and what the remedy saves there, in ns of the window."""

    place: Place
    saves_ns: int
    parts: tuple[Priced, ...] = ()
    """What it saves at each of its places alone, most first: those where it saves anything."""


class Prices:
    """Prices of changes to one window of a trace; all replays leave one-off events out."""

    def __init__(self, gains: WindowGains, kind: str, number: int) -> None:
        """Args:
        gains: of the trace; its graph is replayed.
        kind, number: the window, as in `WindowGains.gains`.
        """
        self.replay = gains.replay
        self.window = gains.window(kind, number)
        self.window_ns = gains.gains(kind, number).window_ns
        self.stalls: Place | None = None
        """Where a thread did not run: no graph and no compiler mends that."""

    def alone(self, place: Place, least_ns: float = 0) -> Priced:
        """What a remedy saves at a place; from `least_ns` on, also at each of its parts."""
        saves_ns = self._saved(place)
        if saves_ns < least_ns:
            return Priced(place, saves_ns)
        parts = (Priced(each, self._saved(each)) for each in place.parts)
        worth = sorted((each for each in parts if each.saves_ns > 0), key=_by_price)
        return Priced(place, saves_ns, tuple(worth))

    def _saved(self, place: Place) -> int:
        plain, before_ns = self._plain(), self.window_ns
        if place.remedy.in_loops and self.stalls is not None:
            plain = self._with(plain, self.stalls)
            before_ns = self._length(plain)
        length = self._length(self._with(plain, place))
        return before_ns - (round(length / _TWICE) if place.remedy.is_batch else length)

    def larger_batch(self, remedy: Remedy, growth: float) -> Priced | None:
        """The largest batch that the host's slack gives away: as many times larger (a power of two)
        as lengthens the window by the share `growth` at most.

        What it saves is time for the same number of samples.
        """
        best: tuple[int, int] | None = None
        times = 2
        while self.replay.graph.ops and times <= self.replay.thresholds.fastest:
            scale = self._plain()
            self.replay.change(scale, f"batch*{times}")
            length = self._length(scale)
            if length > (1 + growth) * self.window_ns:
                break
            best = (times, length)
            times *= 2
        if best is None:
            return None
        times, length = best
        detail = f"{times} times as large in {length / self.window_ns:.2f} times the time"
        place = Place(remedy, None, detail, 1, f"batch*{times}", self.window_ns)
        return Priced(place, self.window_ns - round(length / times))

    def together(self, priced: list[Priced], least_ns: float) -> Together | None:
        """The best combination of what was priced alone, found greedily, if only of one change;
        None: no change saves `least_ns`.

        Each turn takes what saves most with what was taken before it; the turns end when nothing
        saves `least_ns`. All that is left is priced again in each turn: of two waits in a row, the
        second one costs nothing until the first one is gone.
        """
        scale, length = self._plain(), self.window_ns
        taken: list[Priced] = []
        left = list(priced)
        while left:
            if taken:
                left = [
                    Priced(each.place, length - self._length(self._with(scale, each.place)))
                    for each in left
                ]
            best = max(left, key=lambda each: each.saves_ns)
            if best.saves_ns < least_ns:
                break
            left.remove(best)
            scale = self._with(scale, best.place)
            length -= best.saves_ns
            taken.append(best)
        if not taken:
            return None
        path = self.window.path(self.replay.simulator.run(scale)).by_cause
        total = sum(path.values())
        halved = {side: self._length(self._scaled(scale, side)) for side in ("host", "device")}
        return Together(
            saves_ns=self.window_ns - length,
            share=(self.window_ns - length) / self.window_ns,
            additions=[
                Addition(each.place.remedy.name, each.place.where, each.saves_ns) for each in taken
            ],
            changes=[each.place.change for each in taken],
            bound_by={cause: ns / total for cause, ns in path.items()} if total else {},
            host_gain=(length - halved["host"]) / length if length else 0.0,
            device_gain=(length - halved["device"]) / length if length else 0.0,
        )

    def _plain(self) -> Scale:
        return self.replay.scale(steady=True)

    def _with(self, scale: Scale, place: Place) -> Scale:
        changed = scale.copy()
        self.replay.change(changed, place.change)
        return changed

    def _scaled(self, scale: Scale, side: str) -> Scale:
        changed = scale.copy()
        scale_cause(side, 0.5, changed, self.replay.graph)
        return changed

    def _length(self, scale: Scale) -> int:
        return self.window.length(self.replay.simulator.run(scale))


def places(remedy: Remedy, rows: Rows, start_ns: int, end_ns: int, most: int) -> list[Place]:
    """What a remedy changes in a window: all of its places together, with at most `most` of them;
    of one whose places have a cause each, these places."""
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
    counts = _distinct_of(place, event_id, len(number))
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
    found.sort(key=_by_potential)
    if len(found) < 2 or remedy.is_by_place:
        return found[:most]
    # A place without a name has no change of its own.
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


def _by_price(priced: Priced) -> int:
    return -priced.saves_ns


def _by_potential(place: Place) -> tuple[int, bool, str]:
    return -place.at_most_ns, place.where is None, place.where or ""


def _distinct_of(place: Ints, event_id: Ints, places: int) -> Ints:
    """The number of distinct events at each place."""
    order = np.lexsort((event_id, place))
    place, event_id = place[order], event_id[order]
    is_new = np.append(True, (np.diff(place) != 0) | (np.diff(event_id) != 0))[: len(place)]
    return np.bincount(place[is_new], minlength=places)
