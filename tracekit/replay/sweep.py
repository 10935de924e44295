"""Replaying the graph: when everything would have happened, had some work taken another time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tracekit.replay.graph import Graph
from tracekit.replay.host import NEVER, Flags, Floats, Ints, Worked, times

# So many rows of a sweep are turned into Python's numbers at once.
_AT_ONCE = 100_000


@dataclass
class Scale:
    """What everything takes of its measured time; to begin with, all of it."""

    host: Floats
    """Of each stretch of host work."""
    op: Floats
    """Of each GPU op."""
    fixed: Floats
    """Of each edge's fixed time."""
    dropped: Flags
    """Edges that hold no more."""
    unknown: float = 1.0
    """Of waits that the trace does not explain."""

    @staticmethod
    def of(graph: Graph) -> Scale:
        return Scale(
            np.ones(len(graph.host.at)),
            np.ones(graph.ops),
            np.ones(len(graph.edges)),
            np.zeros(len(graph.edges), np.bool_),
        )


@dataclass(frozen=True)
class Run:
    """One replay: times in ns since the trace's start."""

    graph: Graph
    scale: Scale
    time: Ints
    """When each node comes."""
    length: Ints
    """Of each edge."""
    wait: Ints
    """What each node waits for no known reason."""
    op_ns: Ints

    @property
    def worked(self) -> Worked:
        """How the threads get on: large, so not kept."""
        return self.graph.host.worked(self.scale.host)

    @cached_property
    def binding(self) -> Ints:
        """For each node, the edge that was latest; -1: the start of the trace."""
        edges = self.graph.edges
        reached = self.time[edges.source] + self.length + self.wait[edges.target]
        tight = np.flatnonzero((reached == self.time[edges.target]) & ~self.scale.dropped)
        # Of edges equally late, what the device did before what the host did: it was there first.
        tight = tight[np.argsort(-edges.kind[tight], kind="stable")]
        binding = np.full(len(self.time), -1, np.int64)
        binding[edges.target[tight]] = tight
        return binding

    def op_start(self, op: Ints) -> Ints:
        return self.time[1 + op]

    def op_end(self, op: Ints) -> Ints:
        return self.time[1 + op] + self.op_ns[op]

    def host_time(self, key: Ints) -> Ints:
        """When threads reach instants of the host (places on its axis)."""
        if not len(key):
            return key
        root, since = self.graph.root(key)
        both = np.concatenate([since, key])
        work = self.worked.until(both)
        return self.time[root] + work[len(key) :] - work[: len(key)]


@dataclass(frozen=True)
class Sweep:
    """A graph, laid out to be replayed often: a pass over its nodes, in order."""

    graph: Graph
    _hosted: Ints = field(init=False)
    """Edges that have host work."""
    _points: Ints = field(init=False)
    _stretch: Ints = field(init=False)
    _rows: tuple[Ints, Ints, Ints, Ints] = field(init=False)
    _place: Ints = field(init=False)

    def __post_init__(self) -> None:
        graph, edges = self.graph, self.graph.edges
        hosted = np.flatnonzero(edges.host_to != edges.host_from)
        points = np.concatenate([edges.host_from[hosted], edges.host_to[hosted]])
        set_ = object.__setattr__
        set_(self, "_hosted", hosted)
        set_(self, "_points", points)
        set_(self, "_stretch", graph.host.stretch_of(points).astype(np.int32))
        # A row takes the later of two edges; a node with more has rows before its own, each of
        # which is the first edge of the next, at no distance.
        order = np.lexsort((edges.kind, graph.rank[edges.target]))
        target = graph.rank[edges.target[order]]
        new = np.append(True, np.diff(target) != 0)[: len(target)]
        first = np.flatnonzero(new)
        count = np.diff(np.append(first, len(order)))
        rows = np.maximum(1, count - 1)
        start = np.cumsum(rows) - rows
        total = int(rows.sum()) if len(rows) else 0
        # Row 0 is the start of the trace; the node of rank r is ready in row `place[r]`.
        place = np.zeros(len(graph.time), np.int64)
        place[target[first]] = 1 + start + rows - 1
        a_edge = np.full(total, -1, np.int64)
        b_edge = np.full(total, -1, np.int64)
        a_edge[start] = order[first]
        within = np.arange(len(order)) - np.repeat(first, count)
        more = within >= 1
        row = np.repeat(start, count)[more] + within[more] - 1
        b_edge[row] = order[more]
        source = place[graph.rank[edges.source]]
        previous = np.arange(total)
        a_source = np.where(a_edge >= 0, source[a_edge], previous)
        b_source = np.where(b_edge >= 0, source[b_edge], 0)
        rows = (each.astype(np.int32) for each in (a_edge, a_source, b_edge, b_source))
        set_(self, "_rows", tuple(rows))
        set_(self, "_place", place)

    def run(self, scale: Scale | None = None) -> Run:
        """The replay. With nothing changed, every node comes when it was measured."""
        graph, edges, host = self.graph, self.graph.edges, self.graph.host
        scale = scale or Scale.of(graph)
        worked = host.worked(scale.host)
        work = worked.until(self._points, self._stretch)
        op_ns = times(graph.device.ns, scale.op)
        op_part = np.zeros(len(edges), np.int64)
        by_op = edges.op >= 0
        op_part[by_op] = times(edges.op_ns[by_op], scale.op[edges.op[by_op]])
        fixed = times(edges.fixed_ns, scale.fixed)
        length = op_part + fixed
        length[self._hosted] += work[len(self._hosted) :] - work[: len(self._hosted)]
        length[scale.dropped] = NEVER // 2
        wait = times(graph.unknown, scale.unknown)
        time = self._latest(length + wait[edges.target])
        return Run(graph, scale, time, length, wait, op_ns)

    def _latest(self, length: Ints) -> Ints:
        """When each node comes, given the edges' lengths: the latest of its edges' ends."""
        a_edge, a_source, b_edge, b_source = self._rows
        ready = [0]
        append = ready.append
        # Numbers are objects in a loop, and large: so many at once.
        for first in range(0, len(a_edge), _AT_ONCE):
            chunk = slice(first, first + _AT_ONCE)
            # The first edge of a row may be the row before it.
            a_length = np.where(a_edge[chunk] >= 0, length[a_edge[chunk]], 0)
            b_length = np.where(b_edge[chunk] >= 0, length[b_edge[chunk]], NEVER // 2)
            for a, a_ns, b, b_ns in zip(
                a_source[chunk].tolist(),
                a_length.tolist(),
                b_source[chunk].tolist(),
                b_length.tolist(),
                strict=True,
            ):
                x = ready[a] + a_ns
                y = ready[b] + b_ns
                append(x if x >= y else y)
        every = np.array(ready, np.int64)
        return every[self._place][self.graph.rank]
