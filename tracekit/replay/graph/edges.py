"""Edges of the graph, and a topological order of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph.arrays import Columns, Ints, Numbers, compact_ids


class EdgeKind(IntEnum):
    """The kind of a dependency; the package's docstring defines each."""

    HOST = 0
    STREAM = 1
    LAUNCH = 2
    WAIT = 3
    SYNC = 4
    QUEUE = 5
    HANDOVER = 6
    LOADER = 7


@dataclass(frozen=True)
class Edges(Columns):
    """Edges as columns. Node 0 is the trace's start; the ops follow, then the host's joins.

    An edge's length is the sum of the host work from the source (a join, or the start of a thread)
    to the key `host_to` (-1: no host work), `op_ns` of the source's work if it is an op, and
    `fixed_ns`.
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
        """Makes edges; each argument is a column, or one value for all edges."""

        def column(value: Numbers | int, kind: Any = np.int64) -> NDArray[Any]:
            return np.broadcast_to(value, len(source)).astype(kind)

        return Edges(
            column(kind, np.int8), column(source, np.int32), column(target, np.int32),
            column(host_to), compact_ids(column(op_ns)), compact_ids(column(fixed_ns)),
            column(cause, np.int8),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kind)


def rank_nodes(time: Ints, edges: Edges) -> tuple[NDArray[np.int32], Ints]:
    """The rank of each node in a topological order, and the edges to drop because they close a
    cycle."""
    rank = _ranks(np.argsort(time, kind="stable"))
    against = np.flatnonzero(rank[edges.source] >= rank[edges.target])
    if not len(against):
        return rank, against
    # These edges join nodes of the same instant: only the nodes of such instants need sorting.
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
    """The rank of each node in an order."""
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank
