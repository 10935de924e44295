"""How much changes of a run would gain: the figures that its verdict rests on.

A gain is the fraction by which a window gets shorter when the recorded graph is replayed with a
change. A cause's share of the critical path does not tell its gain: if two chains are equally long,
either can be the critical path, and shortening one of them gains nothing.

`speeds` gives the window's length at every combination of a few speeds of host, device and network;
`recorded_path` gives the critical path piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from tracekit.causes import LIMITS, OF_HOST, UNKNOWN_LIMIT
from tracekit.replay.changes import scale_cause
from tracekit.replay.critical_path import Path
from tracekit.replay.graph.arrays import sums
from tracekit.replay.model import Causal, Gains
from tracekit.replay.one_offs import OneOff
from tracekit.replay.simulator import Run
from tracekit.replay.whatif import Replay
from tracekit.replay.windows import Bounds, Marked, gpu_active_lengths

_HALF = 0.5
# Times as fast as recorded. Each is twice the one before it, so that the next point of the grid
# tells what halving a side's work gains.
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NETWORK_SPEEDS = (1.0, 2.0, 4.0)


class WindowGains:
    """The gains of all windows of a trace, from one shared set of replays.

    With `steady`, every replay leaves out what happened once (tracekit/replay/one_offs).
    """

    def __init__(
        self,
        replay: Replay,
        dilation: float | None = None,
        steady: bool = True,
        recorder_ns: int = 0,
    ) -> None:
        """Args:
        dilation: how many times as long recording made a step, where that was measured.
        steady: leave out what happened once.
        recorder_ns: else what recording cost the host, as events cost.
        """
        self.replay = replay
        self.steady = steady
        graph = replay.graph
        self._whole = replay.bounds("trace")
        columns = (graph.host.cause, graph.device.cause, graph.edges.fixed_cause)
        present = set().union(*(np.flatnonzero(np.bincount(each)).tolist() for each in columns))
        totals = graph.host.totals(len(graph.causes))
        totals += sums(graph.device.cause, graph.device.ns, len(graph.causes))
        self._work_ns = {name: int(ns) for name, ns in zip(graph.causes, totals, strict=True) if ns}
        measured = replay.run(steady=steady)
        self._windows = {key: number for number, key in enumerate(self._keys(measured))}
        self._measured_ns = self._lengths(measured)
        is_same = not (steady and replay.one_offs)
        self._recorded_ns = self._measured_ns if is_same else self._lengths(replay.measured())
        host_ns = sum(self._work_ns.get(cause, 0) for cause in OF_HOST)
        # An estimate of more than half of the host's work would be too rough to go by.
        if dilation is None and 0 < 2 * recorder_ns <= host_ns:
            dilation = host_ns / (host_ns - recorder_ns)
        self._undilated = self._without(dilation) if dilation and dilation > 1 else None
        self._gains = {
            "host": self._gain(self._scaled(host=_HALF)),
            "device": self._gain(self._scaled(device=_HALF)),
            "unknown": self._gain(self._scaled(unknown=0.0)),
            "cuda-graph": self._gain(replay.run("cuda-graph", steady=steady)),
        }
        causes = [graph.causes[cause] for cause in sorted(present)]
        self._removed = {
            name: self._gain(self._scaled(**{name: 0.0})) for name in causes if name != "unknown"
        }
        self._at_most = {
            name: self._gain(self._scaled(**{name: 0.0, UNKNOWN_LIMIT: 0.0}))
            for name in LIMITS
            if UNKNOWN_LIMIT in causes
        }

    def gains(self, kind: str, number: int) -> Gains:
        """The gains in a window.

        Args:
            kind: `gpu_active`, `trace`, `step` or `range`.
            number: of the device (`gpu_active`), of the step or of the range; unused for `trace`,
                which is one window for all devices.
        """
        window = self._windows["trace", 0] if kind == "trace" else self._windows[kind, number]
        measured = self._measured_ns[window]
        removed = [(name, gain[window]) for name, gain in self._removed.items()]
        one_offs_ns = self._recorded_ns[window] - measured
        device_ns = sum(each.excess_ns for each in self._on_device(kind, number))
        return Gains(
            measured,
            self._gains["host"][window],
            self._gains["device"][window],
            dict(sorted(removed, key=lambda item: -item[1])),
            self._gains["cuda-graph"][window],
            self._gains["unknown"][window],
            self._work_ns,
            one_offs_ns,
            min(device_ns, max(0, one_offs_ns)),
            {name: gain[window] for name, gain in self._at_most.items()},
            self._undilated[window] if self._undilated else None,
        )

    def _on_device(self, kind: str, number: int) -> list[OneOff]:
        """The one-offs of the window that are ops."""
        found = [each for each in self.replay.one_offs if self.steady and not each.on_host]
        if not found or kind not in ("step", "range"):
            return found
        ops = set(self._marked(kind).ops(number).tolist())
        return [each for each in found if each.ops <= ops]

    def causal(self, kind: str, number: int, flip: float | None) -> Causal:
        """The gains with the critical path, and with the speed at which the verdict flips."""
        gains = self.gains(kind, number)
        window = self.window(kind, number)
        path = window.path(self.replay.run(steady=self.steady))
        total = sum(path.by_cause.values())
        graph = self.replay.graph
        return Causal(
            gains=gains,
            flip=flip,
            undilated=gains.undilated,
            path={cause: ns / total for cause, ns in path.by_cause.items()},
            links=[asdict(link) for link in path.links],
            clock_shift_ns=max(graph.device.shift_ns.values(), key=abs, default=0),
            edges_left_out=graph.rejected + graph.device.wrong_links,
        )

    def _scaled(self, **factors: float) -> Run:
        """A replay with sides or causes scaled by factors, such as `host=0.5`."""
        scale = self.replay.scale(steady=self.steady)
        for what, factor in factors.items():
            scale_cause(what, factor, scale, self.replay.graph)
        return self.replay.simulator.run(scale)

    def window(self, kind: str, number: int) -> ReplayedWindow:
        """The window that `gains` names, whose length and critical path any replay tells."""
        if kind == "trace":
            return ReplayedWindow(self._whole, 0)
        if kind == "gpu_active":
            return ReplayedWindow(self.replay.bounds(kind, number), 0)
        return ReplayedWindow(self._marked(kind), number)

    def _marked(self, kind: str) -> Marked:
        found = self.replay.steps if kind == "step" else self.replay.ranges
        assert found is not None
        return found

    def _keys(self, run: Run) -> Iterator[tuple[str, int]]:
        """What `gains` names windows by, in the order of `_lengths`."""
        for device in gpu_active_lengths(run):
            yield "gpu_active", device
        yield "trace", 0
        for number in range(len(self.replay.steps.lengths(run))):
            yield "step", number
        if self.replay.ranges is not None:
            for number in range(len(self.replay.ranges.lengths(run))):
                yield "range", number

    def _lengths(self, run: Run) -> list[int]:
        """The lengths of all windows in a replay."""
        ranges = self.replay.ranges
        return [
            *gpu_active_lengths(run).values(),
            self._whole.length(run),
            *self.replay.steps.lengths(run).tolist(),
            *([] if ranges is None else ranges.lengths(run).tolist()),
        ]

    def _gain(self, run: Run) -> list[float]:
        """How much shorter all windows are in a replay, as fractions of their lengths."""
        return [
            (measured - length) / measured if measured else 0.0
            for measured, length in zip(self._measured_ns, self._lengths(run), strict=True)
        ]

    def halved(
        self, window: ReplayedWindow, host: float = 1.0, device: float = 1.0
    ) -> tuple[int, float, float]:
        """With the sides' work scaled by these factors: a window's length, and what halving the
        host's or the device's work gains then."""
        length = window.length(self._scaled(host=host, device=device))
        halves = (
            window.length(self._scaled(host=host * _HALF, device=device)),
            window.length(self._scaled(host=host, device=device * _HALF)),
        )
        host_gain, device_gain = ((length - half) / length if length else 0.0 for half in halves)
        return length, host_gain, device_gain

    def _without(self, dilation: float) -> list[tuple[float, float]]:
        """What halving host and device gains in all windows of a run that is not recorded."""
        plain = self._lengths(self._scaled(host=1 / dilation))
        sides = ({"host": _HALF / dilation}, {"host": 1 / dilation, "device": _HALF})
        halves = (self._lengths(self._scaled(**factors)) for factors in sides)
        return [
            ((length - host) / length, (length - device) / length) if length else (0.0, 0.0)
            for length, host, device in zip(plain, *halves, strict=True)
        ]


@dataclass(frozen=True)
class ReplayedWindow:
    """A window with its length and critical path in any replay."""

    of: Bounds | Marked
    number: int

    def length(self, run: Run) -> int:
        return int(self.of.lengths(run)[self.number])

    def path(self, run: Run) -> Path:
        return self.of.path(run, self.number)


@dataclass(frozen=True)
class Speed:
    """A window at other speeds than recorded, without one-off events.

    Each gain is what halving the work of one side would make the window shorter then, as a fraction
    of `window_ns`.
    """

    host: float
    """How many times as fast as recorded the host is."""
    device: float
    """The same of the device's work, without communication between ranks."""
    network: float
    """The same of communication between ranks."""
    window_ns: int
    host_gain: float
    device_gain: float
    """Of halving the device's work, communication included."""
    network_gain: float
    """Of halving communication alone."""


def speeds(gains: WindowGains, kind: str, number: int) -> list[Speed]:
    """The window that `WindowGains.gains` names, at all combinations of the speeds."""
    window, replay = gains.window(kind, number), gains.replay
    has_network = bool(gains.gains(kind, number).work_ns.get("communication"))
    networks = _NETWORK_SPEEDS if has_network else (1.0,)
    lengths: dict[tuple[float, float, float], int] = {}

    def length(host: float, device: float, network: float) -> int:
        point = host, device, network if has_network else 1.0
        if point not in lengths:
            scale = replay.scale(steady=gains.steady)
            scale_cause("host", 1 / host, scale, replay.graph)
            scale_cause("device", 1 / device, scale, replay.graph)
            if has_network:
                # The device's change holds for communication, too.
                scale_cause("communication", device / network, scale, replay.graph)
            lengths[point] = window.length(replay.simulator.run(scale))
        return lengths[point]

    found = []
    for host, device, network in product(SPEEDS, SPEEDS, networks):
        here = length(host, device, network)
        faster = (
            length(2 * host, device, network),
            length(host, 2 * device, 2 * network),
            length(host, device, 2 * network),
        )
        shorter = ((here - each) / here if here else 0.0 for each in faster)
        found.append(Speed(host, device, network, here, *shorter))
    return found


@dataclass(frozen=True)
class PathPiece:
    """A stretch of the path with one cause, on one side; on the trace's clock."""

    start_ns: int
    dur_ns: int
    cause: str
    side: str
    """host or device."""


def recorded_path(replay: Replay, from_ns: int, to_ns: int, parts: int) -> list[PathPiece]:
    """The critical path of the whole trace between two instants.

    Neighbours of one cause and side are one piece. Pieces shorter than one of `parts` equal parts
    of the interval are summed up by cause inside their part, and lie side by side there.
    """
    run = replay.measured()
    origin = replay.graph.host.origin_ns
    since, until = from_ns - origin, to_ns - origin
    blocks = [
        kept
        for block in replay.bounds("trace").pieces(run)
        if len((kept := block.between(since, until)).ns)
    ]
    if not blocks:
        return []
    start, ns, cause, on_device = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("start", "ns", "cause", "on_device")
    )
    order = np.argsort(start, kind="stable")
    start, ns, kind = start[order], ns[order], 2 * cause[order].astype(np.int64) + on_device[order]
    # Neighbours of one kind are one piece.
    first = np.flatnonzero(np.append(True, np.diff(kind) != 0))
    start, ns, kind = start[first], np.add.reduceat(ns, first), kind[first]
    part_ns = max(1, -(-(until - since) // parts))
    part = np.where(ns < part_ns, (start - since) // part_ns, -1 - np.arange(len(ns)))
    order = np.lexsort((start, kind, part))
    start, ns, kind, part = start[order], ns[order], kind[order], part[order]
    first = np.flatnonzero(np.append(True, (np.diff(kind) != 0) | (np.diff(part) != 0)))
    found = zip(
        np.minimum.reduceat(start, first).tolist(),
        np.add.reduceat(ns, first).tolist(),
        kind[first].tolist(),
        part[first].tolist(),
        strict=True,
    )
    pieces: list[PathPiece] = []
    end_of: dict[int, int] = {}
    for begin, length, which, at in sorted(found):
        begin = max(begin, end_of.get(at, begin))
        end_of[at] = begin + length
        name = replay.graph.causes[which // 2]
        pieces.append(PathPiece(begin + origin, length, name, "device" if which % 2 else "host"))
    return pieces
