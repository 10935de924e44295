"""Replaying the graph: when everything would have happened, had some work taken another time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import NEVER, Ints, Which, distinct
from tracekit.replay.scaling import Rates, Scale, times

# So many edges are measured, and so many rows of a sweep turned into Python's numbers, at once.
_AT_ONCE = 50_000
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Run:
    """One replay: times in ns since the trace's start."""

    simulator: Simulator
    scale: Scale
    time: Ints
    """When each node comes."""
    length: Ints
    """Of each edge."""
    wait: Ints
    """What each node waits for no known reason."""
    op_ns: Ints
    work: Ints
    """What threads have done at each of the sweep's points."""

    @property
    def graph(self) -> Graph:
        return self.simulator.graph

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
        """When threads reach instants of the host (places on its axis)."""
        root = self.graph.root(key)
        return self.time[root] + self.work_between(self.graph.since(root, key), key)

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """What threads do between two instants each, in ns."""
        return self._work_at(until) - self._work_at(since)

    def _work_at(self, key: Ints) -> Ints:
        points = self.simulator.points
        place = np.searchsorted(points, key)
        if len(points) and np.array_equal(points[np.minimum(place, len(points) - 1)], key):
            return self.work[place]
        host, others = self.graph.host, distinct(key)
        work = host.work_at(others, host.stretch_of(others), self.scale.host)
        return work[np.searchsorted(others, key)]


@dataclass(frozen=True)
class Simulator:
    """A graph, laid out to be replayed often: a pass over its nodes, in order."""

    graph: Graph
    watched: Ints = field(default_factory=lambda: _NONE)
    """Instants of the host that replays will be asked for (others cost a pass over its work)."""
    points: Ints = field(init=False)
    """Instants of the host whose work a replay sums up to."""
    _stretch: NDArray[np.int32] = field(init=False)
    _hosted: NDArray[np.int32] = field(init=False)
    """Edges that have host work, and the points between which it lies."""
    _since: NDArray[np.int32] = field(init=False)
    _until: NDArray[np.int32] = field(init=False)
    _rows: tuple[NDArray[np.int32], ...] = field(init=False)
    _place: NDArray[np.int32] = field(init=False)
    """The row in which each node is ready."""
    _measured: list[Ints] = field(default_factory=list)
    """What threads had done at each point as recorded, once a replay has asked."""

    def __post_init__(self) -> None:
        self._lay_out_host()
        self._lay_out_rows()

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _lay_out_host(self) -> None:
        graph, edges, host = self.graph, self.graph.edges, self.graph.host
        hosted = np.flatnonzero(edges.host_to >= 0).astype(np.int32)
        until = edges.host_to[hosted]
        since = graph.since(edges.source[hosted], until)
        asked = graph.since(graph.root(self.watched), self.watched)
        points = distinct(np.concatenate([distinct(since), until, self.watched, asked]))
        self._set(
            points=points,
            _stretch=host.stretch_of(points).astype(np.int32),
            _hosted=hosted,
            _since=np.searchsorted(points, since).astype(np.int32),
            _until=np.searchsorted(points, until).astype(np.int32),
        )

    def _lay_out_rows(self) -> None:
        """A row takes the later of two edges; a node with more has rows before its own, each of
        which is the first edge of the next, at no distance."""
        graph, edges = self.graph, self.graph.edges
        target = graph.rank[edges.target]
        order = np.lexsort((edges.kind, target)).astype(np.int32)
        target = target[order]
        first = np.flatnonzero(np.append(True, np.diff(target) != 0)[: len(target)])
        count = np.diff(np.append(first, len(order)))
        rows = np.maximum(1, count - 1)
        start = np.cumsum(rows) - rows
        total = int(rows.sum()) if len(rows) else 0
        # Row 0 is the start of the trace; the node of rank r is ready in row `place[r]`.
        place = np.zeros(len(graph.time), np.int32)
        place[target[first]] = start + rows
        a_edge = np.full(total, -1, np.int32)
        b_edge = np.full(total, -1, np.int32)
        a_edge[start] = order[first]
        within = np.arange(len(order), dtype=np.int32) - np.repeat(first, count)
        more = within >= 1
        b_edge[(np.repeat(start, count) + within - 1)[more]] = order[more]
        place = place[graph.rank]
        previous = np.arange(total, dtype=np.int32)
        a_source = np.where(a_edge >= 0, place[edges.source[a_edge]], previous)
        b_source = np.where(b_edge >= 0, place[edges.source[b_edge]], 0)
        self._set(_rows=(a_edge, a_source, b_edge, b_source.astype(np.int32)), _place=place)

    def run(self, scale: Scale | None = None) -> Run:
        """The replay. With nothing changed, every node comes when it was measured."""
        graph, edges = self.graph, self.graph.edges
        scale = scale or Scale.of(graph)
        work = self._work(scale.host)
        length = np.empty(len(edges), np.int64)
        for first in range(0, len(edges), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            op_part, fixed, _ = scale.lengths(edges, some)
            length[some] = op_part + fixed
        length[self._hosted] += work[self._until] - work[self._since]
        length[scale.dropped] = NEVER // 2
        wait = graph.unknown if scale.unknown == 1 else times(graph.unknown, scale.unknown)
        time = self._latest(length, wait)
        return Run(self, scale, time, length, wait, scale.op.times(graph.device.ns), work)

    def _work(self, rates: Rates) -> Ints:
        """What threads have done at each point."""
        if rates.all_one and self._measured:
            return self._measured[0]
        work = self.graph.host.work_at(self.points, self._stretch, rates)
        if rates.all_one:
            self._measured.append(work)
        return work

    def _latest(self, length: Ints, wait: Ints) -> Ints:
        """When each node comes, given the edges' lengths: the latest of its edges' ends."""
        a_edge, a_source, b_edge, b_source = self._rows
        ready = np.zeros(1 + len(a_edge), np.int64)
        for first in range(0, len(a_edge), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            # The first edge of a row may be the row before it.
            a = self._within(ready, first, a_source[rows], a_edge[rows], 0, length, wait)
            b = self._within(ready, first, b_source[rows], b_edge[rows], NEVER // 2, length, wait)
            recent = [0]
            append = recent.append
            for a_row, a_ns, b_row, b_ns in zip(*a, *b, strict=True):
                x = recent[a_row] + a_ns
                y = recent[b_row] + b_ns
                append(x if x >= y else y)
            ready[1 + first : first + len(recent)] = recent[1:]
        return ready[self._place]

    def _within(
        self,
        ready: Ints,
        first: int,
        source: NDArray[np.int32],
        edge: NDArray[np.int32],
        none: int,
        length: Ints,
        wait: Ints,
    ) -> tuple[list[int], list[int]]:
        """Sources among the rows after `first`, and how much later each edge ends; where the source
        is an earlier row, it is 0, which comes at 0."""
        ns = np.where(edge >= 0, length[edge] + wait[self.graph.edges.target[edge]], none)
        ns += np.where(source <= first, ready[np.minimum(source, first)], 0)
        return np.maximum(source - first, 0).tolist(), ns.tolist()
