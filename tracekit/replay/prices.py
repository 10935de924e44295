"""Prices of changes: how much each would save, with the same price everywhere.

A gain is the fraction by which a window shrinks when the recorded graph is replayed with a change;
a price is that saving in ns. Replays leave out the recorder's cost to the host
(tracekit/replay/recorder.py) and one-offs (tracekit/replay/one_offs.py). A cause's share of the
critical path is not its gain: if two chains are equally long, either can be the critical path, and
shortening only one gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import product
from math import prod

import numpy as np
from msgspec import Struct, to_builtins

from tracekit.causes import CAUSES, LIMITS, UNKNOWN_LIMIT
from tracekit.database.remedies import Remedy, all_remedies, find_remedy
from tracekit.replay.grammar import BATCH, REMEDY, STEADY, Change, parse, times
from tracekit.replay.graph.arrays import shorter
from tracekit.replay.model import Causal, Gains, Price, WindowId, largest_first
from tracekit.replay.one_offs import OneOff
from tracekit.replay.replay import Replay
from tracekit.replay.simulator import Scale
from tracekit.replay.windows import MarkedWindows, ReplayedWindow

# Speeds, as multiples of the recorded one. Each is twice the previous one, so the grid's next point
# gives the gain from halving a side's work.
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NETWORK_SPEEDS = (1.0, 2.0, 4.0)
# The factor on the batch in remedies with a query that price a larger batch.
_TWICE = 2


class WindowGains:
    """The gains of all windows of a trace, from one shared set of replays."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        graph = replay.graph
        columns = (graph.host.cause, graph.device.cause, graph.edges.fixed_cause)
        present = set().union(*(np.flatnonzero(np.bincount(column)).tolist() for column in columns))
        causes = [CAUSES[cause] for cause in sorted(present)]
        recorder = replay.recorder
        self._has_cost = recorder.pace < 1
        self._replayed_ns = replay.lengths(replay.run(base=replay.unrecorded))
        steady_ns = self._replayed_ns
        if self._has_cost:
            steady_ns = replay.lengths(replay.run(STEADY))
        self._once_ns = replay.lengths(replay.measured()) - steady_ns if replay.one_offs else None
        self._window_ns = recorder.unrecorded(steady_ns, self._replayed_ns)
        self._recorder_ns = steady_ns - self._window_ns
        self._gained = {
            "host": self._gain(*times(host=0.5)),
            "device": self._gain(*times(device=0.5)),
            "unknown": self._gain(*times(unknown=0)),
            "cuda_graph": self._gain("cuda-graph"),
        }
        self._removed = {
            name: self._gain(*times(**{name: 0})) for name in causes if name != "unknown"
        }
        self._at_most = {
            name: self._gain(*times(**{name: 0, UNKNOWN_LIMIT: 0}))
            for name in LIMITS
            if UNKNOWN_LIMIT in causes
        }

    def _gain(self, *changes: Change | str) -> list[float]:
        """The decrease of each window's length with changes, as a fraction."""
        run = self.replay.run(*changes, base=self.replay.unrecorded)
        gains: list[float] = shorter(self._replayed_ns, self.replay.lengths(run)).tolist()
        return gains

    def gains(self, window_id: WindowId) -> Gains:
        """The gains in a window."""
        window = self.replay.index_of[window_id]
        removed = {name: gain[window] for name, gain in self._removed.items()}
        # If work queues up during another window's one-off, this window is shorter with that
        # one-off.
        one_offs_ns = 0 if self._once_ns is None else max(0, int(self._once_ns[window]))
        device_ns = sum(each.excess_ns for each in self._on_device(window_id))
        return Gains(
            window_ns=int(self._window_ns[window]),
            **{name: gain[window] for name, gain in self._gained.items()},
            removed=largest_first(removed),
            work_ns=self.replay.work_ns,
            one_offs_ns=one_offs_ns,
            device_one_offs_ns=min(device_ns, one_offs_ns),
            removed_at_most={name: gain[window] for name, gain in self._at_most.items()},
            recorder_ns=int(self._recorder_ns[window]) if self._has_cost else None,
        )

    def _on_device(self, window_id: WindowId) -> list[OneOff]:
        """The window's one-offs that are GPU ops."""
        on_device = [one_off for one_off in self.replay.one_offs if not one_off.on_host]
        windows = self.replay.windows[window_id.kind]
        if not on_device or not isinstance(windows, MarkedWindows):
            return on_device
        ops = set(windows.ops(window_id.number).tolist())
        return [one_off for one_off in on_device if one_off.ops <= ops]

    def halved_at(self, window_id: WindowId, side: str, faster: float) -> tuple[int, float, float]:
        """A window's length if a side is faster by this factor, and the gains from then halving
        the host's and the device's work."""
        scale = self.replay.scale(*times(**{side: 1 / faster}), base=self.replay.unrecorded)
        return self.replay.halved(scale, self.replay.window(window_id).length)

    def causal(self, window_id: WindowId, flip: float | None) -> Causal:
        """The gains, with the critical path and the speed at which the verdict flips."""
        window, graph = self.replay.window(window_id), self.replay.graph
        path = window.path(self.replay.run(STEADY))
        gains = self.gains(window_id)
        return Causal(
            gains=gains,
            flip=flip,
            undilated=(gains.host, gains.device) if self._has_cost else None,
            path=path.shares,
            links=[to_builtins(link) for link in path.links],
            clock_shift_ns=max(graph.device.shift_ns.values(), key=abs, default=0),
            edges_left_out=graph.rejected + graph.device.wrong_links,
        )


class Prices:
    """Prices of changes to a window, in ns of the unrecorded run (`Replay.unrecorded`)."""

    def __init__(self, replay: Replay, window: ReplayedWindow) -> None:
        self.replay, self.window = replay, window

    @cached_property
    def window_ns(self) -> int:
        """The window's length without one-offs and the recorder's cost, as in `Gains`."""
        lengths = (np.array(each) for each in (self.recorded_ns, self._replayed_ns))
        return int(self.replay.recorder.unrecorded(*lengths))

    @cached_property
    def _replayed_ns(self) -> int:
        """The replayed length. It is longer than `window_ns` if recording also slowed work that
        replays keep; all other replays are then scaled down equally."""
        return self.window.length(self.replay.run(base=self.replay.unrecorded))

    @cached_property
    def recorded_ns(self) -> int:
        """The window's length as recorded, without one-offs."""
        return self.window.length(self.replay.run(STEADY))

    @cached_property
    def must_ns(self) -> int:
        """The device's least time for the window: no change that leaves it the same products to
        compute and the same weights to read gets below."""
        return self.replay.must_ns(self.window)

    def price(self, *changes: str) -> Price:
        """The combined saving of changes such as `remedy:cuda-graph` in the unrecorded run; for
        recording less, in the recorded one.

        A larger batch saves time for the same number of samples. Changes that pay only in loops are
        priced as if no thread was descheduled, no shape was new, and the whole model was on the
        device, since they do not help with these.
        """
        remedies = [each for each in map(_remedy_of, changes) if each]
        if any(each.is_apart for each in remedies):
            # Recording less pays only in the recorded run.
            after = self.replay.run(*changes, base=self.replay.steady)
            return Price(self.recorded_ns - self.window.length(after), self.recorded_ns)
        base, before_ns = self.replay.unrecorded, self.window_ns
        in_loops = any(each.in_loops for each in remedies)
        for remedy in all_remedies().values() if in_loops else ():
            if remedy.outside_loops and len(self.replay.remedies.rows(remedy.name)["target"]):
                base = self.replay.scale(f"{REMEDY}:{remedy.name}", base=base)
                before_ns = self.length(base)
        samples = prod(map(self._samples, changes))
        saves_ns = before_ns - round(self.length(base, *changes) / samples)
        if not any(each.less_work for each in remedies):
            # More samples take at least as long together.
            must_ns = round(self.must_ns / samples)
            saves_ns = min(saves_ns, max(0, self.window_ns - must_ns))
        return Price(saves_ns, self.window_ns)

    def _samples(self, change: str) -> float:
        """The factor on the window's number of samples."""
        remedy, parsed = _remedy_of(change), parse(change)
        if remedy and remedy.is_batch:
            return _TWICE
        return parsed.factor if parsed.what == BATCH else 1

    def larger_batch(self) -> tuple[int, int] | None:
        """The largest batch that fits into the host's slack: the largest power of two that
        lengthens the window by at most the share `free_growth`, and the window's length then."""
        best, larger, thresholds = None, 2, self.replay.thresholds
        while self.replay.graph.ops and larger <= thresholds.fastest:
            length = self.length(self.replay.unrecorded, f"{BATCH}*{larger}")
            if length > (1 + thresholds.free_growth) * self.window_ns:
                break
            best = larger, length
            larger *= 2
        return best

    def combined(
        self, changes: Sequence[str], alone: Sequence[int], least_ns: float
    ) -> tuple[list[tuple[int, int]], dict[str, float], float, float]:
        """The best combination of changes, found greedily; `alone` is each change's saving by
        itself.

        Each round takes the change that saves most on top of those already taken, until none saves
        `least_ns`. The remaining changes are priced again in each round: the second of two waits in
        a row costs nothing until the first one is gone.

        Returns the index of each change taken with its added saving, the changed window's critical
        path by cause, and the further gains from halving host and device.
        """
        scale, length = self.replay.unrecorded, self.window_ns
        taken: list[tuple[int, int]] = []
        left = dict(enumerate(alone))
        while left:
            if taken:
                left = {n: length - self.length(scale, changes[n]) for n in left}
            best = max(left, key=lambda number: left[number])
            saves_ns = left.pop(best)
            if saves_ns < least_ns:
                break
            scale = self.replay.scale(changes[best], base=scale)
            length -= saves_ns
            taken.append((best, saves_ns))
        shares = self.window.path(self.replay.simulator.run(scale)).shares
        _, host, device = self.replay.halved(scale, self.window.length)
        return taken, shares, host, device

    def length(self, base: Scale, *changes: Change | str) -> int:
        """The window's length in the unrecorded run, with changes."""
        replayed_ns = self.window.length(self.replay.run(*changes, base=base))
        return round(replayed_ns * (self.window_ns / max(1, self._replayed_ns)))


def _remedy_of(change: str) -> Remedy | None:
    """The remedy in a change such as `remedy:NAME:PLACE`; None: another kind of change."""
    kind, _, name = change.partition(":")
    return find_remedy(name.partition(":")[0]) if kind == REMEDY else None


class Speed(Struct, frozen=True):
    """A window at other speeds, without one-off events and the recorder's cost.

    Each gain is the fraction of `window_ns` that halving one side's work would then save.
    """

    host: float
    """The host's speed, as a multiple of the recorded one."""
    device: float
    """The device's speed, without communication between ranks."""
    network: float
    """The speed of communication between ranks."""
    window_ns: int
    host_gain: float
    device_gain: float
    """The gain from halving the device's work, communication included."""
    network_gain: float
    """The gain from halving communication alone."""


def speeds(replay: Replay, window_id: WindowId) -> list[Speed]:
    """A window at all combinations of the speeds."""
    prices = Prices(replay, replay.window(window_id))
    has_network = "communication" in replay.work_ns
    networks = _NETWORK_SPEEDS if has_network else (1.0,)

    @cache
    def length(host: float, device: float, network: float) -> int:
        factors = {"host": 1 / host, "device": 1 / device}
        if has_network:
            # The device's change applies to communication, too.
            factors["communication"] = device / network
        return prices.length(replay.unrecorded, *times(**factors))

    points = []
    for host, device, network in product(SPEEDS, SPEEDS, networks):
        here = length(host, device, network)
        # Without communication, all speeds of the network are one.
        twice = 2 * network if has_network else 1.0
        faster = (
            length(2 * host, device, network),
            length(host, 2 * device, twice),
            length(host, device, twice),
        )
        gained = (float(shorter(here, each)) for each in faster)
        points.append(Speed(host, device, network, here, *gained))
    return points
