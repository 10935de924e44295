"""Builds the graph of a recording: its edges and their lengths."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.replay.graph import EdgeKind, Edges, Graph, root_of, since
from tracekit.replay.graph.arrays import NEVER, Ints, compact_ids
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.host import Host
from tracekit.replay.graph.recording import Recording, recording_of, stream_waits
from tracekit.replay.graph.waits import Waits, waits_of
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    from tracekit.database.session import Session


def build(database: Session, trace_id: int, thresholds: Thresholds) -> Graph:
    """The graph of a trace.

    Raises:
        TracekitError: no event has a time, or the trace's times do not fit into 64 bits.
    """
    recorded = recording_of(database, trace_id, thresholds)
    causes, device = recorded.causes, recorded.device
    host, joins, edges = _Builder(recorded).edges()
    ends = _ends(recorded, host)
    # Frees what only the search for edges needed.
    del recorded
    return _finished(causes, host, device, joins, edges, ends)


def _ends(recorded: Recording, host: Host) -> tuple[Ints, Ints]:
    """The keys at which the threads' work begins and ends (`Graph.first_keys`, `last_keys`)."""
    leading = recorded.leading
    works = np.flatnonzero((host.event >= 0) & ~host.blocked)
    thread = host.thread_of(host.at[works])
    launching = np.unique(recorded.device.thread[recorded.device.linked])
    others = np.setdiff1d(np.intersect1d(launching, thread), leading)
    first = works[np.searchsorted(thread, others)]
    last = works[np.searchsorted(thread, others, "right") - 1]
    leads = leading * host.span_ns
    return (
        np.concatenate([leads, host.at[first]]),
        np.concatenate([leads + host.span_ns - 1, host.borders[last + 1]]),
    )


def _finished(
    causes: list[str],
    host: Host,
    device: Device,
    joins: Ints,
    edges: Edges,
    ends: tuple[Ints, Ints],
) -> Graph:
    """The graph of these edges, with fixed times that fit the measured times.

    Shortens an edge that would put its target later than measured. Leaves out an edge whose source
    was measured after its target.
    """
    time = np.concatenate([[0], device.start, host.time_of(joins)]).astype(np.int64)
    in_order = time[edges.source] <= time[edges.target]
    rejected = int((~in_order).sum())
    if rejected:
        edges = edges.take(in_order)
    rank, tied = _rank_nodes(time, edges)
    if len(tied):
        rejected += len(tied)
        edges = edges.take(np.setdiff1d(np.arange(len(edges)), tied))
    fixed_ns, reached = _fitted(host, device, joins, edges, time)
    edges = replace(edges, fixed_ns=compact_ids(fixed_ns))
    latest = np.full(len(time), NEVER)
    latest[0] = 0
    np.maximum.at(latest, edges.target, reached)
    orphans = np.flatnonzero(latest == NEVER)
    if len(orphans):
        source = _before(time, orphans, len(device.start))
        latest[orphans] = time[source]
        edges = Edges.concatenate([edges, Edges.make(EdgeKind.STREAM, source, orphans)])
    # In topological order of the targets; edges of one target are ordered by kind.
    edges = edges.take(
        np.argsort(rank[edges.target].astype(np.int64) * len(EdgeKind) + edges.kind, kind="stable")
    )
    return Graph(causes, host, device, edges, time, time - latest, joins, *ends, rejected)


def _before(time: Ints, orphans: Ints, ops: int) -> Ints:
    """For each node without an edge, the op that started last before it, or the trace's start.

    The node follows that op at the measured distance, so that it stays in its place where changes
    move the ops around it.
    """
    ordered = np.argsort(time[1 : 1 + ops], kind="stable")
    place = np.searchsorted(time[1 : 1 + ops][ordered], time[orphans], "left") - 1
    return np.where(place >= 0, 1 + np.append(ordered, 0)[place], 0)


def _fitted(host: Host, device: Device, joins: Ints, edges: Edges, time: Ints) -> tuple[Ints, Ints]:
    """The edges' fixed times, shortened where necessary, and the earliest time of the target that
    each edge allows."""
    reached = time[edges.source] + edges.op_ns
    hosted = np.flatnonzero(edges.host_to >= 0)
    until = edges.host_to[hosted]
    begun = since(host, joins, len(device.start), edges.source[hosted], until)
    reached[hosted] += host.work_between(begun, until)
    fixed_ns = np.minimum(edges.fixed_ns, time[edges.target] - reached)
    reached += fixed_ns
    return fixed_ns, reached


def _rank_nodes(time: Ints, edges: Edges) -> tuple[NDArray[np.int32], Ints]:
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


class _Builder:
    def __init__(self, recorded: Recording) -> None:
        self.recorded = recorded
        self.latency = recorded.causes.index("latency")
        self.device = recorded.device
        self.order = recorded.order
        self.stream_waits = stream_waits(recorded)
        self.submitted = recorded.submitted_beside(self.stream_waits[0])
        self.limited_by = self._limited_by()

    def edges(self) -> tuple[Host, Ints, Edges]:
        """The threads (blocked where they may wait), their joins, and all edges."""
        waits = waits_of(self.recorded, self.submitted)
        # Waits that end at the same instant share a join.
        host = self.recorded.host.blocking(waits.start, waits.end)
        joins, join = np.unique(waits.end, return_inverse=True)
        ops = len(self.device.start)
        parts = [
            self._thread_edges(host, joins, waits, join),
            *self._release_edges(host, joins, waits, join, ops),
            *self._stream_edges(),
            self._launch_edges(host, joins, ops),
            self._wait_edges(),
        ]
        return host, joins, Edges.concatenate(parts)

    def _thread_edges(self, host: Host, joins: Ints, waits: Waits, join: Ints) -> Edges:
        """From each join of a thread to the next, over the work between them."""
        node = 1 + len(self.device.start) + np.arange(len(joins))
        source = root_of(host, joins, len(self.device.start), joins, "left")
        own_ns = np.full(len(joins), np.iinfo(np.int64).max)
        np.minimum.at(own_ns, join, waits.own_ns)
        cause = np.zeros(len(joins), np.int64)
        cause[join] = waits.own_cause
        return Edges.make(EdgeKind.HOST, source, node, host_to=joins, fixed_ns=own_ns, cause=cause)

    def _release_edges(
        self, host: Host, joins: Ints, waits: Waits, join: Ints, ops: int
    ) -> list[Edges]:
        """From the op or host instant that a thread waits for to the join."""
        by_op = waits.op >= 0
        op = waits.op[by_op]
        length = np.where(waits.kind[by_op] == EdgeKind.QUEUE, 0, self.device.ns[op])
        released = Edges.make(
            waits.kind[by_op], 1 + op, 1 + ops + join[by_op], op_ns=length,
            fixed_ns=waits.lag_ns[by_op], cause=waits.own_cause[by_op],
        )  # fmt: skip
        instant = waits.instant[~by_op]
        source = root_of(host, joins, ops, instant)
        handed = Edges.make(
            waits.kind[~by_op], source, 1 + ops + join[~by_op], host_to=instant,
            fixed_ns=waits.lag_ns[~by_op], cause=waits.own_cause[~by_op],
        )  # fmt: skip
        return [released, handed]

    def _stream_edges(self) -> list[Edges]:
        device, order, end = self.device, self.order, self.device.end
        later = np.flatnonzero(~order.is_first)
        before = later - 1
        gap = device.start[later] - end[before]
        overlaps = gap < 0
        # An op that overlaps the previous one, and was not just launched, starts at a fixed point
        # of that op's work.
        fresh = self.recorded.fresh[later]
        shared = np.where(
            overlaps & fresh,
            0,
            np.minimum(device.ns[before], device.start[later] - device.start[before]),
        )
        chain = Edges.make(
            EdgeKind.STREAM, 1 + before, 1 + later, op_ns=shared,
            fixed_ns=np.where(overlaps, 0, self._allowed(EdgeKind.STREAM, later, gap)),
            cause=self.latency,
        )  # fmt: skip
        # After overlapping ops, the op that ended last may not be the previous one.
        before_each = np.arange(len(end)) - 1
        other = np.flatnonzero(
            (order.last >= 0) & (order.last != before_each) & (order.free <= device.start)
        )
        last = order.last[other]
        rest = Edges.make(
            EdgeKind.STREAM, 1 + last, 1 + other, op_ns=device.ns[last],
            fixed_ns=self._allowed(EdgeKind.STREAM, other, device.start[other] - end[last]),
            cause=self.latency,
        )  # fmt: skip
        return [chain, rest]

    def _launch_edges(self, host: Host, joins: Ints, ops: int) -> Edges:
        op = np.flatnonzero(self.device.linked)
        key = host.key(self.device.thread[op], host.origin_ns + self.submitted[op])
        source = root_of(host, joins, ops, key)
        fixed = self._allowed(EdgeKind.LAUNCH, op, self.device.start[op] - self.submitted[op])
        return Edges.make(
            EdgeKind.LAUNCH, source, 1 + op, host_to=key, fixed_ns=fixed, cause=self.latency
        )

    def _wait_edges(self) -> Edges:
        """From an op to the op of another stream that waits for it."""
        target, source = self.stream_waits
        lag = self.device.start[target] - self.device.end[source]
        return Edges.make(
            EdgeKind.WAIT, 1 + source, 1 + target, op_ns=self.device.ns[source],
            fixed_ns=self._allowed(EdgeKind.WAIT, target, lag), cause=self.latency,
        )  # fmt: skip

    def _limited_by(self) -> NDArray[np.int8]:
        """The edge kind that delayed each op: launch, stream or wait, whichever was ready last.

        -1 for an op without a launch in the trace: its cause of delay is unknown.
        """
        waited = np.full(len(self.device.start), NEVER, np.int64)
        np.maximum.at(waited, self.stream_waits[0], self.device.end[self.stream_waits[1]])
        usual = self.recorded.usual
        launched = np.where(self.device.linked, self.submitted + usual.latency_ns, NEVER)
        gap_ns = usual.gap_ns
        latest = np.argmax([launched, self.order.free + gap_ns, waited + gap_ns], axis=0)
        kinds = np.array([EdgeKind.LAUNCH, EdgeKind.STREAM, EdgeKind.WAIT], np.int8)
        return np.where(self.device.linked, kinds[latest], np.int8(-1))

    def _allowed(self, kind: EdgeKind, op: Ints, lag: Ints) -> Ints:
        """The part of a lag that the device itself takes: at most its usual time, or, for the edge
        kind that delayed the op, at most `wait_ns`. A longer lag is a wait for something else."""
        usual, wait_ns = self.recorded.usual, self.recorded.thresholds.wait_ns
        usual_ns = usual.latency_ns if kind == EdgeKind.LAUNCH else usual.gap_ns
        return np.minimum(lag, np.where(self.limited_by[op] == kind, wait_ns, usual_ns))
