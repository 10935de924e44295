"""Replaying the graph: when everything would have happened, had some work taken another time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracekit.native import replay
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, Which, distinct
from tracekit.replay.scaling import Rates, Scale, times


@dataclass(frozen=True)
class Run:
    """One replay: times in ns since the trace's start."""

    simulator: Simulator
    scale: Scale
    time: Ints
    """When each node comes."""
    length: Ints
    """Of each edge."""
    op_ns: Ints
    work: Ints
    """What threads have done at each of the simulator's points."""

    @property
    def graph(self) -> Graph:
        return self.simulator.graph

    @property
    def wait(self) -> Ints:
        """What each node waits for no known reason."""
        return times(self.graph.unknown, self.scale.unknown)

    @cached_property
    def binding(self) -> NDArray[np.int32]:
        """For each node, the edge that was latest; -1: the start of the trace."""
        edges = self.graph.edges
        reached = self.time[edges.source]
        reached += self.length
        reached += self.wait[edges.target]
        reached -= self.time[edges.target]
        tight = np.flatnonzero((reached == 0) & ~self.scale.dropped)
        # Of edges equally late, what the device did before what the host did: it was there first.
        tight = tight[np.argsort(-edges.kind[tight], kind="stable")]
        binding = np.full(len(self.time), -1, np.int32)
        binding[edges.target[tight]] = tight
        return binding

    def op_end(self, op: Which) -> Ints:
        """When GPU ops end, which start when `op_start` says."""
        return self.op_start(op) + self.op_ns[op]

    def op_start(self, op: Which) -> Ints:
        return self.time[1 : 1 + self.graph.ops][op]

    def host_time(self, key: Ints) -> Ints:
        """When threads reach keys of the host."""
        root = self.graph.root(key)
        return self.time[root] + self.work_between(self.graph.since(root, key), key)

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """What threads do between two instants each, in ns."""
        return self._work_at(until) - self._work_at(since)

    def _work_at(self, key: Ints) -> Ints:
        points = self.simulator.points
        index = np.searchsorted(points, key)
        if len(points) and np.array_equal(points[np.minimum(index, len(points) - 1)], key):
            return self.work[index]
        host, others = self.graph.host, distinct(key)
        work = host.work_at(others, host.stretch_of(others), self.scale.host)
        return work[np.searchsorted(others, key)]


class Simulator:
    """A graph, laid out to be replayed often: a pass over its edges, in order, in C."""

    def __init__(self, graph: Graph, watched: Ints | None = None) -> None:
        """`watched`: instants of the host that replays will be asked for (others cost a pass over
        its work)."""
        self.graph = graph
        edges, host = graph.edges, graph.host
        watched = np.zeros(0, np.int64) if watched is None else watched
        hosted = np.flatnonzero(edges.host_to >= 0).astype(np.int32)
        until = edges.host_to[hosted]
        since = graph.since(edges.source[hosted], until)
        asked = graph.since(graph.root(watched), watched)
        points = distinct(np.concatenate([distinct(since), until, watched, asked]))
        self.points = points
        """Instants of the host whose work a replay sums up to."""
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
        self._edges = replay.LaidOutEdges(columns, graph.ops, graph.unknown)
        self._measured: Ints | None = None
        """What threads had done at each point as recorded, once a replay has asked."""

    def run(self, scale: Scale | None = None) -> Run:
        """The replay. With nothing changed, every node comes when it was measured."""
        scale = scale or Scale.of(self.graph)
        work = self._work(scale.host)
        length, time = self._edges.replay(
            scale.op.parts, scale.fixed.parts, scale.dropped, work, scale.unknown
        )
        return Run(
            self, scale, time, length, replay.scaled(self.graph.device.ns, scale.op.parts), work
        )

    def _work(self, rates: Rates) -> Ints:
        """What threads have done at each point."""
        if rates.all_one and self._measured is not None:
            return self._measured
        work = self.graph.host.work_at(self.points, self._stretch, rates)
        if rates.all_one:
            self._measured = work
        return work
