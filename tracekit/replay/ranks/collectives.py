"""Meetings of ranks: collectives that several ranks joined, and the order in which the ranks'
graphs are replayed together."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.database.session import Session
from tracekit.native.replay import Turns
from tracekit.replay.graph import Edges, Graph
from tracekit.replay.graph.arrays import Columns, Flags, Ints, Numbers, compact_ids

_ARRIVE, _NEED = 0, 1


class CollectiveMembers(Columns, frozen=True):
    """The kernels of meetings: collectives, or sends with their receives (the rows of the query
    collective_members), in order of `meeting`."""

    meeting: Ints
    """The number of each kernel's meeting, from 0."""
    trace_id: Ints
    event_id: Ints
    ns: Ints
    """The kernel's duration, waiting included."""
    wire_ns: Ints
    """Time on the wire: the duration on the rank that arrived last."""
    is_last: Flags
    type: NDArray[Any]
    direction: NDArray[Any]
    """send, receive, or an empty text for a collective."""
    matched_by: NDArray[Any]
    group: NDArray[Any]
    bytes: Ints
    """-1: unknown."""

    def __len__(self) -> int:
        return len(self.meeting)

    @property
    def count(self) -> int:
        return int(self.meeting.max(initial=-1)) + 1

    @property
    def wait_ns(self) -> Ints:
        """Each rank's wait for the last one."""
        return self.ns - self.wire_ns

    @property
    def is_exchange(self) -> Flags:
        """Which collectives are sends or receives."""
        flags: Flags = self.direction != ""
        return flags

    def take(self, which: Numbers | Flags) -> CollectiveMembers:
        """Some of the members, with meetings renumbered."""
        some = super().take(which)
        return replace(some, meeting=np.unique(some.meeting, return_inverse=True)[1])


def members_of(database: Session) -> tuple[CollectiveMembers, int]:
    """The members of all meetings, and the number of meetings left out because a rank has several
    kernels in them, so it is unknown which one met the others."""
    rows = database.arrays("collective_members")

    def numbers(name: str) -> Ints:
        return np.ma.filled(rows[name], -1).astype(np.int64)

    def words(name: str) -> NDArray[Any]:
        return np.ma.filled(rows[name].astype(object), "").astype(np.str_)

    members = CollectiveMembers(
        numbers("call") - 1, numbers("trace_id"), numbers("event_id"), numbers("dur_ns"),
        numbers("wire_ns"), np.ma.filled(rows["is_last"], False).astype(np.bool_), words("type"),
        words("direction"), words("matched_by"), words("group_key"), numbers("message_bytes"),
    )  # fmt: skip
    pairs = np.stack([members.meeting, members.trace_id])
    pairs, times = np.unique(pairs, axis=1, return_counts=True)
    twice = np.unique(pairs[0][times > 1])
    return members.take(~np.isin(members.meeting, twice)), len(twice)


class Seats:
    """The kernels of one rank that meet other ranks' kernels.

    Each gets a separate node for the end of the meeting. Nodes that followed the kernel's end now
    follow that node; nodes that followed its start still do.
    """

    def __init__(self, graph: Graph, ops: Ints, meeting: Ints, waits: np.ndarray) -> None:
        """`ops` are the numbers of the kernels among the graph's ops, `meeting` their meetings.

        `waits` marks those that end only with their meeting; the others only arrive.
        """
        self.graph = graph
        self.ops = ops
        self.meeting = meeting
        self.waits = waits
        edges = graph.edges
        self.node = 1 + ops
        nodes = len(graph.time)
        self.leaving = nodes + np.arange(len(ops))
        """The nodes for the ends."""
        seat = np.full(nodes, -1, np.int64)
        seat[self.node] = np.arange(len(ops))
        # An edge from such a kernel follows the kernel's end if the edge counts any of its time.
        at = np.flatnonzero(seat[edges.source] >= 0)
        at = at[waits[seat[edges.source[at]]]]
        at = at[(edges.op_ns[at] > 0) | (graph.device.ns[edges.source[at] - 1] == 0)]
        self._moved, self._seat = at, seat[edges.source[at]]
        first, last = _groups(edges, nodes)
        self.known = last[self.node]
        """The number of edges after which the start of each kernel is known."""
        self.needed = np.full(len(ops), len(edges), np.int64)
        """The first edge that needs the end of each kernel."""
        np.minimum.at(self.needed, self._seat, first[edges.target[at]])

    def with_ends(self, is_met: np.ndarray) -> Graph:
        """The graph with the ends of the meetings `is_met` as nodes."""
        graph, edges = self.graph, self.graph.edges
        met = is_met[self.meeting[self._seat]]
        at, seat = self._moved[met], self._seat[met]
        # An op that overlaps the kernel's end starts that much before the meeting's end.
        early = graph.device.ns[edges.source[at] - 1] - edges.op_ns[at]
        source, op_ns = edges.source.copy(), edges.op_ns.copy()
        fixed_ns = edges.fixed_ns.astype(np.int64)
        source[at] = self.leaving[seat]
        op_ns[at] = 0
        fixed_ns[at] -= early
        ends = graph.time[self.node] + graph.device.ns[self.ops]
        shift = np.zeros(len(self.ops), np.int64)
        return replace(
            graph,
            edges=replace(edges, source=source, op_ns=op_ns, fixed_ns=compact_ids(fixed_ns)),
            time=np.concatenate([graph.time, ends]),
            unknown=np.concatenate([graph.unknown, shift]),
        )


def _groups(edges: Edges, nodes: int) -> tuple[Ints, Ints]:
    """For each node, its first edge and the one after its last; 0 for a node without edges."""
    first, last = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    border = np.flatnonzero(np.diff(edges.target, prepend=-1, append=-1) != 0)
    if len(edges):
        first[edges.target[border[:-1]]] = border[:-1]
        last[edges.target[border[:-1]]] = border[1:]
    return first, last


def turns_of(seats: list[Seats], arrivals: Ints, at_ns: Ints) -> tuple[Turns, np.ndarray]:
    """The turns of a replay of all ranks, and which meetings take place.

    If ranks arrive at their meetings in contradictory orders, the earliest blocking meeting is left
    out, and so on.

    Args:
        seats: the seats of each rank.
        arrivals: the number of kernels that arrive at each meeting.
        at_ns: the measured end of each meeting.
    """
    is_met = np.ones(len(arrivals), np.bool_)
    pending, done = arrivals.copy(), np.zeros(len(arrivals), np.bool_)
    waiting: dict[int, list[int]] = defaultdict(list)
    events = [_events(seat) for seat in seats]
    passed, cursor = [0] * len(seats), [0] * len(seats)
    turns: list[tuple[int, int, int]] = []
    runnable = list(range(len(seats)))
    while runnable:
        while runnable:
            rank = runnable.pop()
            mine = events[rank]
            while passed[rank] < len(mine):
                position, kind, meeting = mine[passed[rank]]
                if kind == _NEED and not done[meeting]:
                    waiting[meeting].append(rank)
                    break
                passed[rank] += 1
                if kind == _NEED:
                    continue
                if position > cursor[rank]:
                    turns.append((rank, cursor[rank], position))
                    cursor[rank] = position
                pending[meeting] -= 1
                if pending[meeting] == 0 and not done[meeting]:
                    done[meeting] = True
                    turns.append((-1, meeting, 0))
                    runnable += waiting.pop(meeting, [])
        if waiting:
            stuck = min(waiting, key=lambda meeting: at_ns[meeting])
            is_met[stuck], done[stuck] = False, True
            runnable += waiting.pop(stuck)
    turns += [
        (rank, cursor[rank], len(each.graph.edges))
        for rank, each in enumerate(seats)
        if cursor[rank] < len(each.graph.edges)
    ]
    columns = np.array(turns, np.int64).reshape(-1, 3)
    run, first, last = (np.ascontiguousarray(column) for column in columns.T)
    begin = np.zeros(len(turns), np.int64)
    for number, each in enumerate(seats):
        own = run == number
        hosted = np.flatnonzero(each.graph.edges.host_to >= 0)
        begin[own] = np.searchsorted(hosted, first[own])
    return Turns(run.astype(np.int32), first, last, begin, len(run)), is_met


def _events(seats: Seats) -> list[tuple[int, int, int]]:
    """The events along a rank's edges, in order: a kernel arrives, or an end is needed."""
    events = [
        *zip(seats.known.tolist(), [_ARRIVE] * len(seats.ops), seats.meeting.tolist(), strict=True),
        *zip(seats.needed.tolist(), [_NEED] * len(seats.ops), seats.meeting.tolist(), strict=True),
    ]
    return sorted(events)
