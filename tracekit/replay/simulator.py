"""Replays the graph: the times of all nodes if some work had taken a different time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.native import replay
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Flags, Ints, Rates, distinct, times


class Scale(Struct):
    """How a replay scales each measured time. All factors start at 1."""

    host: Rates
    """The rates of the stretches of host work."""
    op: Rates
    """The rates of the GPU ops."""
    fixed: Rates
    """The rates of the edges' fixed times."""
    dropped: Flags
    """Edges that the replay ignores."""
    unknown: float = 1.0
    """The factor on unexplained waits."""

    @staticmethod
    def of(graph: Graph) -> Scale:
        return Scale(
            replace(graph.host_rates),
            Rates.of(graph.device.cause),
            replace(graph.fixed_rates),
            np.zeros(len(graph.edges), np.bool_),
        )

    def copy(self) -> Scale:
        """An independent scale with the same factors."""
        # Rates replace their arrays when they change.
        host, op, fixed = (replace(each) for each in (self.host, self.op, self.fixed))
        return Scale(host, op, fixed, self.dropped.copy(), self.unknown)


class Run(Struct, frozen=True, dict=True):
    """One replay: times in ns since the trace's start."""

    simulator: Simulator
    scale: Scale
    time: Ints
    """The time of each node."""
    length: Ints
    """The length of each edge."""
    op_ns: Ints
    work: Ints
    """The work that threads have done by each of the simulator's points."""

    @property
    def graph(self) -> Graph:
        return self.simulator.graph

    @property
    def wait(self) -> Ints:
        """Each node's unexplained wait."""
        return times(self.graph.unknown, self.scale.unknown)

    @cached_property
    def binding(self) -> NDArray[np.int32]:
        """The edge that determined each node's time; -1: the start of the trace."""
        edges = self.graph.edges
        reached = self.time[edges.source]
        reached += self.length
        reached += self.wait[edges.target]
        reached -= self.time[edges.target]
        tight = np.flatnonzero((reached == 0) & ~self.scale.dropped)
        # If edges are equally late, the one with the lowest kind binds, because it is assigned
        # last: for an op, its stream rather than its launch.
        tight = tight[np.argsort(-edges.kind[tight], kind="stable")]
        binding = np.full(len(self.time), -1, np.int32)
        binding[edges.target[tight]] = tight
        return binding

    @property
    def op_start(self) -> Ints:
        return self.time[1 : 1 + self.graph.ops]

    @cached_property
    def op_end(self) -> Ints:
        return self.op_start + self.op_ns

    def host_time(self, key: Ints) -> Ints:
        """The times at which threads reach these watched host instants (keys)."""
        root = self.graph.root(key)
        return self.time[root] + self.work_between(self.graph.since(root, key), key)

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """The work of threads from each `since` to its `until` (points of the simulator), in ns."""
        points = self.simulator.points
        return self.work[np.searchsorted(points, until)] - self.work[np.searchsorted(points, since)]


class Simulator:
    """A graph laid out for many replays, each a single pass in C over the ordered edges."""

    def __init__(self, graph: Graph, watched: Ints) -> None:
        """`watched` are the instants of the host whose times are needed."""
        self.graph = graph
        edges, host = graph.edges, graph.host
        hosted = np.flatnonzero(edges.host_to >= 0).astype(np.int32)
        until = edges.host_to[hosted]
        since = graph.since(edges.source[hosted], until)
        asked = graph.since(graph.root(watched), watched)
        points = distinct(np.concatenate([distinct(since), until, watched, asked]))
        self.points = points
        """Host instants up to which a replay sums the work."""
        self._stretch = host.stretch_of(points).astype(np.int32)
        columns = {
            "source": edges.source,
            "target": edges.target,
            "op_ns": edges.op_ns,
            "fixed_ns": edges.fixed_ns,
            "hosted": hosted,
            "since": np.searchsorted(points, since).astype(np.int32),
            "until": np.searchsorted(points, until).astype(np.int32),
        }
        self.edges = replay.LaidOutEdges(columns, graph.ops, graph.unknown)
        self._measured: Ints | None = None
        """The work that threads had done by each point as recorded; None until first needed."""

    def run(self, scale: Scale | None = None) -> Run:
        """Replays the graph. Without changes, every node has its measured time."""
        scale = scale or Scale.of(self.graph)
        scales, work = self.scales(scale)
        return self.ran(scale, work, *self.edges.replay(scales))

    def scales(self, scale: Scale) -> tuple[replay.Scales, Ints]:
        """A scale in the native library's form, and the work that threads have done by each
        point."""
        work = self.work(scale.host)
        given = (scale.op.parts, scale.fixed.parts, scale.dropped, work, scale.unknown)
        return replay.Scales(*given), work

    def ran(self, scale: Scale, work: Ints, length: Ints, time: Ints) -> Run:
        """The replay whose edges and nodes the native library timed."""
        op_ns = replay.scale_times(self.graph.device.ns, scale.op.parts)
        return Run(self, scale, time, length, op_ns, work)

    def work(self, rates: Rates) -> Ints:
        """The work that threads have done by each point, at these rates."""
        if rates.all_one and self._measured is not None:
            return self._measured
        host = self.graph.host
        parts = rates.parts
        work = replay.work_at(host.borders, host.blocked, parts, self.points, self._stretch)
        if rates.all_one:
            self._measured = work
        return work
