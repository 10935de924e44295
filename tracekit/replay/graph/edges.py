"""Edges of the graph, and an order of its nodes in which every edge leads forward."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph.arrays import Flags, Ints, Numbers, narrow


class EdgeKind(IntEnum):
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

    The length is the host work from the source (a join, or its thread's start) to the key
    `host_to` of the host (-1: none), plus `op_ns` of the source's work where it is
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


def joined(parts: list[Edges]) -> Edges:
    return Edges(
        *(np.concatenate([getattr(part, name) for part in parts])
          for name in Edges.__dataclass_fields__)
    )  # fmt: skip


def ranked(time: Ints, edges: Edges) -> tuple[NDArray[np.int32], Ints]:
    """Where nodes stand, sources before targets, and the edges that no order can keep."""
    rank = _ranks(np.argsort(time, kind="stable"))
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
    first = np.zeros(len(time), np.int64)
    first[np.array(turn, np.int64)] = 1 + np.arange(len(turn))
    order = np.lexsort((np.arange(len(time)), first, time))
    return _ranks(order), np.array(sorted(lost), np.int64)


def _ranks(order: Ints) -> NDArray[np.int32]:
    """Where each node stands in an order."""
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank
