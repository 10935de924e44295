"""Builds the graph of a recording: its edges and their lengths."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.replay.graph import EdgeKind, Edges, Graph
from tracekit.replay.graph.arrays import NEVER, Ints, compact_ids
from tracekit.replay.graph.calls import waits_in_calls
from tracekit.replay.graph.host import Host
from tracekit.replay.graph.recording import Recording, recording_of
from tracekit.replay.graph.silences import waits_in_silence
from tracekit.replay.graph.stream_waits import stream_waits
from tracekit.replay.graph.waits import Waits


def build(database: Session, trace_id: int) -> tuple[Graph, Waits]:
    """The graph of a trace, and the waits of its threads.

    Raises:
        TracekitError: when no event has a time, or the trace's times do not fit into 64 bits.
    """
    builder = _Builder(recording_of(database, trace_id))
    graph, waits, edges = builder.graph, builder.waits, builder.edges()
    # Frees the memory that only the search for edges needed.
    del builder
    return _finished(graph, edges), waits


def _finished(graph: Graph, edges: Edges) -> Graph:
    """The graph with these edges, with fixed times adjusted to the measured times.

    Shortens edges that would put their target later than measured. Leaves out edges whose source
    was measured after its target, or at the same instant if it is a later node.
    """
    time = graph.time
    rank = np.empty(len(time), np.int32)
    rank[np.argsort(time, kind="stable")] = np.arange(len(time), dtype=np.int32)
    in_order = rank[edges.source] < rank[edges.target]
    rejected = int((~in_order).sum())
    if rejected:
        edges = edges.take(in_order)
    # The earliest time of the target that each edge allows.
    reached = time[edges.source] + edges.op_ns
    hosted = np.flatnonzero(edges.host_to >= 0)
    until = edges.host_to[hosted]
    reached[hosted] += graph.host.work_between(graph.since(edges.source[hosted], until), until)
    fixed_ns = np.minimum(edges.fixed_ns, time[edges.target] - reached)
    reached += fixed_ns
    edges = replace(edges, fixed_ns=compact_ids(fixed_ns))
    latest = np.full(len(time), NEVER)
    latest[0] = 0
    np.maximum.at(latest, edges.target, reached)
    orphans = np.flatnonzero(latest == NEVER)
    if len(orphans):
        source = _before(time, orphans, graph.ops)
        latest[orphans] = time[source]
        edges = Edges.concatenate([edges, Edges.make(EdgeKind.STREAM, source, orphans)])
    # In topological order of the targets; edges of one target are ordered by kind.
    edges = edges.take(
        np.argsort(rank[edges.target].astype(np.int64) * len(EdgeKind) + edges.kind, kind="stable")
    )
    return replace(graph, edges=edges, unknown=time - latest, rejected=rejected)


def _before(time: Ints, orphans: Ints, ops: int) -> Ints:
    """For each node without an edge, the op that started last before it, or the trace's start.

    The node follows that op at the measured distance, so that it stays in its place where changes
    move the ops around it.
    """
    ordered = np.argsort(time[1 : 1 + ops], kind="stable")
    place = np.searchsorted(time[1 : 1 + ops][ordered], time[orphans], "left") - 1
    return np.where(place >= 0, 1 + np.append(ordered, 0)[place], 0)


class _Builder:
    """Finds the nodes of a recording's graph, and all edges between them."""

    def __init__(self, recorded: Recording) -> None:
        self.recorded = recorded
        self.latency = CAUSES.index("latency")
        self.device, self.streams = recorded.device, recorded.streams
        self.stream_waits = stream_waits(recorded)
        self.submitted = recorded.submitted_beside(*self.stream_waits)
        self.limited_by = self._limited_by()
        in_calls = waits_in_calls(recorded, self.submitted)
        self.waits = Waits.concatenate([in_calls, waits_in_silence(recorded)])
        # Waits that end at the same instant share a join.
        joins, self.join = np.unique(self.waits.end, return_inverse=True)
        host = recorded.host.blocking(self.waits.start, self.waits.end)
        host = host.judging_rests(recorded.thresholds.unrecorded_ns)
        time = np.concatenate([[0], self.device.start, host.time_of(joins)]).astype(np.int64)
        none = Edges.concatenate([])
        ends = self._ends(host)
        self.graph = Graph(host, self.device, none, time, time, joins, *ends, 0)

    def _ends(self, host: Host) -> tuple[Ints, Ints]:
        """The keys at which the threads' work begins and ends (`Graph.first_keys`, `last_keys`)."""
        leading = self.recorded.leading
        works = np.flatnonzero((host.event >= 0) & ~host.blocked)
        thread = host.thread_of(host.at[works])
        launching = np.unique(self.device.thread[self.device.linked])
        others = np.setdiff1d(np.intersect1d(launching, thread), leading)
        first = works[np.searchsorted(thread, others)]
        last = works[np.searchsorted(thread, others, "right") - 1]
        leads = leading * host.span_ns
        return (
            np.concatenate([leads, host.at[first]]),
            np.concatenate([leads + host.span_ns - 1, host.borders[last + 1]]),
        )

    def edges(self) -> Edges:
        """All edges."""
        return Edges.concatenate(
            [
                self._thread_edges(),
                *self._release_edges(),
                *self._stream_edges(),
                self._launch_edges(),
                self._wait_edges(),
            ]
        )

    def _thread_edges(self) -> Edges:
        """Edges from each join of a thread to the next, over the work between them."""
        graph, joins = self.graph, self.graph.joins
        node = 1 + graph.ops + np.arange(len(joins))
        own_ns = np.full(len(joins), np.iinfo(np.int64).max)
        np.minimum.at(own_ns, self.join, self.waits.own_ns)
        cause = np.zeros(len(joins), np.int64)
        cause[self.join] = self.waits.own_cause
        return Edges.make(
            EdgeKind.HOST, graph.root(joins, "left"), node, host_to=joins, fixed_ns=own_ns,
            cause=cause,
        )  # fmt: skip

    def _release_edges(self) -> list[Edges]:
        """Edges from the op or host instant that a thread waits for to the join."""
        by_op = self.waits.op >= 0
        node = 1 + self.graph.ops + self.join
        for_op, others = self.waits.take(by_op), self.waits.take(~by_op)
        length = np.where(for_op.kind == EdgeKind.QUEUE, 0, self.device.ns[for_op.op])
        released = Edges.make(
            for_op.kind, 1 + for_op.op, node[by_op], op_ns=length, fixed_ns=for_op.lag_ns,
            cause=for_op.own_cause,
        )  # fmt: skip
        handed = Edges.make(
            others.kind, self.graph.root(others.instant), node[~by_op], host_to=others.instant,
            fixed_ns=others.lag_ns, cause=others.own_cause,
        )  # fmt: skip
        return [released, handed]

    def _stream_edges(self) -> list[Edges]:
        device, streams, end = self.device, self.streams, self.device.end
        later = np.flatnonzero(~streams.is_first)
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
            (streams.last >= 0) & (streams.last != before_each) & (streams.free <= device.start)
        )
        last = streams.last[other]
        rest = Edges.make(
            EdgeKind.STREAM, 1 + last, 1 + other, op_ns=device.ns[last],
            fixed_ns=self._allowed(EdgeKind.STREAM, other, device.start[other] - end[last]),
            cause=self.latency,
        )  # fmt: skip
        return [chain, rest]

    def _launch_edges(self) -> Edges:
        op, host = np.flatnonzero(self.device.linked), self.graph.host
        key = host.key(self.device.thread[op], host.origin_ns + self.submitted[op])
        source = self.graph.root(key)
        fixed = self._allowed(EdgeKind.LAUNCH, op, self.device.start[op] - self.submitted[op])
        return Edges.make(
            EdgeKind.LAUNCH, source, 1 + op, host_to=key, fixed_ns=fixed, cause=self.latency
        )

    def _wait_edges(self) -> Edges:
        """Edges from an op to the op on another stream that waits for it."""
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
        latest = np.argmax([launched, self.streams.free + gap_ns, waited + gap_ns], axis=0)
        kinds = np.array([EdgeKind.LAUNCH, EdgeKind.STREAM, EdgeKind.WAIT], np.int8)
        return np.where(self.device.linked, kinds[latest], np.int8(-1))

    def _allowed(self, kind: EdgeKind, op: Ints, lag: Ints) -> Ints:
        """The device's own part of a lag: at most its usual time or, for the edge kind that delayed
        the op, at most `wait_ns`. A longer lag is a wait for something else."""
        usual, wait_ns = self.recorded.usual, self.recorded.thresholds.wait_ns
        usual_ns = usual.latency_ns if kind == EdgeKind.LAUNCH else usual.gap_ns
        return np.minimum(lag, np.where(self.limited_by[op] == kind, wait_ns, usual_ns))
