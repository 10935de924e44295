"""What host threads work, calls that may wait included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, sums
from tracekit.replay.graph.edges import EdgeKind


@dataclass(frozen=True)
class HostWork:
    """The work of host threads: their stretches, and the own work of calls that may wait.

    A synchronization's own work is left out: it is a wait that the trace does not explain.
    """

    graph: Graph
    edge: Ints
    """The edges that hold the own work of calls, in the order of `at`."""
    at: Ints
    """The last key of each such call."""
    ns: Ints
    """Their own work, summed up to each of them, after a 0."""

    @staticmethod
    def of(graph: Graph) -> HostWork:
        edges = graph.edges
        edge = np.flatnonzero(
            (edges.kind == EdgeKind.HOST)
            & (edges.target > graph.ops)
            & (edges.fixed_cause != graph.number("sync"))
        )
        edge = edge[np.argsort(edges.target[edge], kind="stable")]
        at = graph.joins[edges.target[edge] - 1 - graph.ops] - 1
        ns = np.cumsum(np.append(0, edges.fixed_ns[edge].astype(np.int64)))
        return HostWork(graph, edge, at, ns)

    def between(self, begin: Ints, end: Ints) -> Ints:
        """The work from each `begin` to its `end` on the same thread, in ns."""
        own = self.ns[np.searchsorted(self.at, end)] - self.ns[np.searchsorted(self.at, begin)]
        return self.graph.host.work_between(begin, end) + own

    def lasting(self, thread: int, start_ns: int, dur_ns: int) -> tuple[int, int, int]:
        """The keys at which an interval begins and ends on a thread, and the work between them."""
        times = np.array([start_ns, start_ns + dur_ns])
        keys = self.graph.host.key(np.array([thread, thread]), times)
        begin, end = keys.tolist()
        return begin, end, int(self.between(keys[:1], keys[1:])[0]) if end > begin else 0

    def calls(self, begin: int, end: int) -> Ints:
        """The edges that hold the own work of the calls from `begin` to `end`."""
        first, last = np.searchsorted(self.at, [begin, end])
        return self.edge[first:last]

    def main_cause(self, begin: int, end: int) -> str:
        """The cause with most work between two keys of a thread."""
        graph, edge = self.graph, self.calls(begin, end)
        host = graph.host.cut(np.array([begin, end]))
        stretches = np.flatnonzero(host.within(np.array([begin]), np.array([end])))
        worked = host.worked(np.diff(host.borders)[stretches], stretches)
        edges, causes = graph.edges, len(graph.causes)
        by_cause = sums(host.cause[stretches], worked, causes)
        by_cause += sums(edges.fixed_cause[edge], edges.fixed_ns[edge], causes)
        return graph.causes[int(by_cause.argmax())]
