"""The run as a graph: instants of host threads and starts of GPU ops, and what each waits for.

A node is an instant at which something waits for something else: a GPU op starts, a call that
waits for the device returns, a thread takes work over or gets it back. An edge says that its target
comes no sooner than its source plus a length, which consists of host work, device work and a fixed
time. A node is measured where its latest edge puts it, or later: that `unknown` wait has no reason
in the trace, is kept as it is, and reported.

What edges there are (the source of each definition is the CUDA programming guide's chapter on
asynchronous concurrent execution, but for where the trace itself says so):

  host      a thread does one thing after another
  stream    so does a stream; ops that overlap on it start one after the other
  launch    an op starts after its launch was submitted
  wait      a stream waits for an event of another one; kernels of one graph, for each other
  sync      a call that waits for the device returns after the op that it waits for has ended
  queue     a launch finds no room until an earlier op has started
  loader    a fetch returns when other processes have loaded the batch, one after the other
  handover  a thread works on what another gives it, and that one stands still meanwhile

The idea of replaying such a graph is Daydream's (https://www.usenix.org/conference/atc20/presentation/zhu-hongyu).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph.arrays import NEVER, Flags, Ints, Numbers, narrow
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.host import Host


class Kind(IntEnum):
    """What an edge stands for."""

    HOST = 0
    STREAM = 1
    LAUNCH = 2
    WAIT = 3
    SYNC = 4
    QUEUE = 5
    HANDOVER = 6
    LOADER = 7


@dataclass(frozen=True)
class Edges:
    """Edges as columns. Nodes: 0 the trace's start, then the ops, then the host's joins.

    The length is the host work from the source (a join, or its thread's start) to the instant
    `host_to` (a place on the host's axis; -1: none), plus `op_ns` of the source's work where it is
    an op, plus `fixed_ns`.
    """

    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    host_to: Ints
    op_ns: NDArray[Any]
    fixed_ns: NDArray[Any]
    fixed_cause: NDArray[np.int8]

    @staticmethod
    def make(
        kind: Numbers | int,
        source: Numbers,
        target: Numbers,
        *,
        host_to: Numbers | int = -1,
        op_ns: Numbers | int = 0,
        fixed_ns: Numbers | int = 0,
        cause: Numbers | int = 0,
    ) -> Edges:
        """Edges, columns or one value for all."""

        def column(value: Numbers | int, kind: Any = np.int64) -> NDArray[Any]:
            return np.broadcast_to(value, len(source)).astype(kind)

        return Edges(
            column(kind, np.int8), column(source, np.int32), column(target, np.int32),
            column(host_to), narrow(column(op_ns)), narrow(column(fixed_ns)),
            column(cause, np.int8),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, which: Numbers | Flags) -> Edges:
        return Edges(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Graph:
    """The graph of one trace, ready to be swept. Times are ns since the trace's start."""

    causes: list[str]
    host: Host
    device: Device
    edges: Edges
    time: Ints
    """When each node was measured."""
    unknown: Ints
    """How much later than its latest edge says."""
    rank: NDArray[np.int32]
    """Where each node stands in an order that has sources before targets."""
    joins: Ints
    """The host's joins: places on its axis, in order."""
    rejected: int
    """Edges left out because the clock contradicts them."""

    @property
    def ops(self) -> int:
        return len(self.device.start)

    def number(self, cause: str) -> int:
        return self.causes.index(cause)

    def root(self, key: Ints) -> Ints:
        """The node that each instant of the host follows: the last join of the thread at or before
        it, or the start of the trace."""
        return root_of(self.host, self.joins, self.ops, key)

    def since(self, node: Numbers, key: Ints) -> Ints:
        """The instants of such nodes, on the threads of the instants that follow them."""
        return since(self.host, self.joins, self.ops, node, key)


def root_of(host: Host, joins: Ints, ops: int, key: Ints, side: str = "right") -> Ints:
    place = np.searchsorted(joins, key, side) - 1  # type: ignore[call-overload]
    if not len(joins):
        return np.zeros(len(key), np.int64)
    mine = (place >= 0) & (host.thread_of(joins[place]) == host.thread_of(key))
    return np.where(mine, 1 + ops + place, 0)


def since(host: Host, joins: Ints, ops: int, node: Numbers, key: Ints) -> Ints:
    begun = host.begin_of(host.thread_of(key))
    joined = node > ops
    begun[joined] = joins[node[joined] - 1 - ops]
    return begun


def finished(causes: list[str], host: Host, device: Device, joins: Ints, edges: Edges) -> Graph:
    """A graph of these edges, whose fixed times are made to fit what was measured.

    An edge that would put its target later than it was is shortened; one whose source was
    measured after its target is left out.
    """
    time = np.concatenate([[0], device.start, host.time_of(joins)]).astype(np.int64)
    kept = time[edges.source] <= time[edges.target]
    rejected = int((~kept).sum())
    if rejected:
        edges = edges.take(kept)
    rank, tied = _ranked(time, edges)
    if len(tied):
        rejected += len(tied)
        edges = edges.take(np.setdiff1d(np.arange(len(edges)), tied))
    fixed_ns, reached = _fitted(host, device, joins, edges, time)
    edges = replace(edges, fixed_ns=narrow(fixed_ns))
    latest = np.full(len(time), NEVER)
    latest[0] = 0
    np.maximum.at(latest, edges.target, reached)
    # What nothing in the trace leads to starts when it was seen to start.
    orphans = np.flatnonzero(latest == NEVER)
    latest[orphans] = 0
    if len(orphans):
        edges = joined([edges, Edges.make(Kind.HOST, np.zeros_like(orphans), orphans)])
    return Graph(causes, host, device, edges, time, time - latest, rank, joins, rejected)


def _fitted(host: Host, device: Device, joins: Ints, edges: Edges, time: Ints) -> tuple[Ints, Ints]:
    """The edges' fixed times, made to fit, and when each edge lets its target come."""
    reached = time[edges.source] + edges.op_ns
    hosted = np.flatnonzero(edges.host_to >= 0)
    until = edges.host_to[hosted]
    begun = since(host, joins, len(device.start), edges.source[hosted], until)
    reached[hosted] += host.work_between(begun, until)
    fixed_ns = np.minimum(edges.fixed_ns, time[edges.target] - reached)
    reached += fixed_ns
    return fixed_ns, reached


def joined(parts: list[Edges]) -> Edges:
    return Edges(
        *(np.concatenate([getattr(part, name) for part in parts])
          for name in Edges.__dataclass_fields__)
    )  # fmt: skip


def _ranked(time: Ints, edges: Edges) -> tuple[NDArray[np.int32], Ints]:
    """Where nodes stand, sources before targets, and the edges that no order can keep."""
    rank = _places(np.argsort(time, kind="stable"))
    against = np.flatnonzero(rank[edges.source] >= rank[edges.target])
    if not len(against):
        return rank, against
    # All at one instant as their sources: only nodes of such instants need to be sorted further.
    instants = np.unique(time[edges.target[against]])
    among = np.flatnonzero(
        (time[edges.source] == time[edges.target]) & np.isin(time[edges.target], instants)
    )
    lost: list[int] = []
    while True:
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for edge in among:
            if edges.source[edge] == edges.target[edge]:
                lost.append(int(edge))
            else:
                sorter.add(int(edges.target[edge]), int(edges.source[edge]))
        among = np.setdiff1d(among, lost)
        try:
            turn = list(sorter.static_order())
            break
        except CycleError as error:
            cycle = error.args[1]
            ends = {(cycle[i + 1], cycle[i]) for i in range(len(cycle) - 1)}
            ends |= {(b, a) for a, b in ends}
            found = [e for e in among if (edges.source[e], edges.target[e]) in ends]
            lost.append(int(found[-1]))
            among = np.setdiff1d(among, lost)
    place = np.zeros(len(time), np.int64)
    place[np.array(turn, np.int64)] = 1 + np.arange(len(turn))
    order = np.lexsort((np.arange(len(time)), place, time))
    return _places(order), np.array(sorted(lost), np.int64)


def _places(order: Ints) -> NDArray[np.int32]:
    """Where each thing stands in an order."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place
