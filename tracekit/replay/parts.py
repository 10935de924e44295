"""Parts of a run that a change touches: intervals of host threads and GPU ops, each with a factor.

A target says what of a part changes:

  host      the host's work in an interval, and, with factor 0, the waits in it
  call      the same, and the GPU ops that it launched
  overhead  of an interval, the work that a CUDA graph or a compiler saves: launch, dispatch, python
  wait      no call in the interval waits for the device; its own work remains
  op        a GPU op

The target `cuda-graph` is no part: it stands for the change of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Flags, Floats, Ints
from tracekit.replay.graph.edges import EdgeKind
from tracekit.replay.scaling import Rates, Scale

FREED_BY_GRAPHS = ("launch", "dispatch", "python")
TARGETS = ("host", "call", "overhead", "wait", "op", "cuda-graph")
# The columns of a query whose rows are parts; for an op, all but event_id and factor may be NULL.
COLUMNS = ("target", "event_id", "pid", "tid", "start_ns", "dur_ns", "factor")


@dataclass(frozen=True)
class ChangedParts:
    """Parts of one target. The intervals of a thread do not overlap."""

    target: str
    event_id: Ints
    pid: Ints
    tid: Ints
    start_ns: Ints
    dur_ns: Ints
    factor: Floats

    @staticmethod
    def of(rows: dict[str, NDArray[Any]], target: str, factor: float | None = None) -> ChangedParts:
        """The rows with this target; without columns `target` and `factor`, all, by `factor`."""
        chosen = rows["target"] == target if "target" in rows else slice(None)
        plain = {name: np.ma.filled(rows[name], 0)[chosen] for name in COLUMNS[1:6] if name in rows}
        count = len(plain["event_id"])
        given = {name: plain.get(name, np.zeros(count, np.int64)) for name in COLUMNS[1:6]}
        factors = np.full(count, factor) if factor is not None else rows["factor"][chosen]
        return ChangedParts(target, **given, factor=np.ma.filled(factors, 1.0).astype(np.float64))

    def apply(self, scale: Scale, graph: Graph) -> None:
        """Scales the parts in `scale`, which a replay of `graph` takes."""
        if self.target == "op":
            found = np.isin(graph.device.op_id, self.event_id)
            order = np.argsort(self.event_id, kind="stable")
            at = order[np.searchsorted(self.event_id[order], graph.device.op_id[found])]
            _scale(scale.op, self.factor[at], np.flatnonzero(found))
            _close_gaps(scale, graph, np.flatnonzero(found)[self.factor[at] == 0])
            return
        host = graph.host
        thread = host.numbers(self.pid, self.tid)
        known = thread >= 0
        begin = host.key(thread[known], self.start_ns[known])
        end = host.key(thread[known], (self.start_ns + self.dur_ns)[known])
        Intervals.of(begin, end, self.factor[known]).apply(self.target, scale, graph)


@dataclass(frozen=True)
class Intervals:
    """Intervals of host threads as keys, in order, without overlaps, with a factor each."""

    begin: Ints
    end: Ints
    factor: Floats

    @staticmethod
    def of(begin: Ints, end: Ints, factor: Floats) -> Intervals:
        order = np.argsort(begin, kind="stable")
        return Intervals(begin[order], end[order], factor[order])

    def around(self, at: Ints) -> tuple[Ints, Flags]:
        """The interval of each instant, and whether it lies in one."""
        index = np.searchsorted(self.begin, at, "right") - 1
        if not len(self.begin):
            return index, np.zeros(len(at), np.bool_)
        return index, (index >= 0) & (at < self.end[index])

    def apply(self, target: str, scale: Scale, graph: Graph) -> None:
        host, edges = graph.host, graph.edges
        if not len(self.begin):
            return
        join, joins = self.around(graph.joins - 1)
        # For each edge, the place of its target among the joins; of a GPU op, a negative one.
        place = edges.target - 1 - graph.ops
        edge = np.flatnonzero(place >= 0)
        edge = edge[joins[place[edge]]]
        factor = self.factor[join[place[edge]]]
        waits = np.isin(edges.kind[edge], (EdgeKind.SYNC, EdgeKind.LOADER))
        if target == "wait":
            scale.dropped[edge[waits]] = True
            return
        stretches = host.within(self.begin, self.end)
        if target == "overhead":
            stretches &= np.isin(host.cause, [graph.number(name) for name in FREED_BY_GRAPHS])
        stretch = np.flatnonzero(stretches)
        _scale(scale.host, self.factor[self.around(host.at[stretch])[0]], stretch)
        if target == "overhead":
            return
        own = edges.kind[edge] == EdgeKind.HOST
        _scale(scale.fixed, factor[own], edge[own])
        scale.dropped[edge[waits & (factor == 0)]] = True
        if target == "call":
            linked = np.flatnonzero(graph.device.linked)
            call = host.key(graph.device.thread[linked], host.origin_ns + graph.device.call[linked])
            index, inside = self.around(call)
            gone = self.factor[index[inside]]
            _scale(scale.op, gone, linked[inside])
            _close_gaps(scale, graph, linked[inside][gone == 0])


def _close_gaps(scale: Scale, graph: Graph, ops: Ints) -> None:
    """Takes the gaps before removed ops out of their streams: what follows starts that much
    earlier."""
    if not len(ops):
        return
    removed = np.zeros(len(graph.time), np.bool_)
    removed[1 + ops] = True
    edges = graph.edges
    scale.fixed.scale(0, (edges.kind == EdgeKind.STREAM) & removed[edges.target])


def _scale(rates: Rates, factor: Floats, which: Ints) -> None:
    """Scales the parts `which`, each by its factor."""
    known, number = np.unique(factor, return_inverse=True)
    if len(known) > 16:
        rates.scale_each(factor, which)
        return
    for each, value in enumerate(known.tolist()):
        where = np.zeros(len(rates.kind), np.bool_)
        where[which[number == each]] = True
        rates.scale(value, where)
