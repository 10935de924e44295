"""Replays the ranks of a run together: a change on one rank affects the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np
from msgspec import Struct

from tracekit.database.session import Session
from tracekit.native.replay import MeetingNodes, replay_ranks
from tracekit.replay.graph.arrays import Flags, Floats, Ints, Which, times
from tracekit.replay.ranks.collectives import CollectiveMembers, Seats, members_of, turns_of
from tracekit.replay.replay import Replay
from tracekit.replay.simulator import Run, Scale, Simulator
from tracekit.text import duration

# Types of collectives that no rank leaves before all have arrived (aligned_clocks in
# queries/views/collectives.sql).
_END_TOGETHER = ("allreduce", "allgather", "reducescatter", "alltoall", "barrier")


def clock_doubt(waited_ns: int, calls: int, residual_ns: int) -> str | None:
    """A warning that collectives do not end together, so that waits are unknown.

    `waited_ns` is the time that all ranks waited in `calls` kernels of collectives.
    """
    mean = waited_ns / max(1, calls)
    if residual_ns <= mean or not calls:
        return None
    return (
        f"the ends of the same collectives differ by {duration(residual_ns)} between ranks, more "
        f"than one waits in a collective on average ({duration(mean)}): they may not be the same, "
        "or may be left by one before others enter"
    )


def not_one_run(database: Session) -> str | None:
    """Why a database's traces are not the ranks of one run; None: they may be."""
    beside = {row[0] for row in database.fetch("SELECT trace_id FROM front_end")[1]}
    traces = [each for each in database.ask("overview") if each["trace_id"] not in beside]
    ranks = [trace["rank"] for trace in traces]
    if len(traces) < 2:
        return "there is only one trace"
    if None in ranks:
        return f"the rank is not recorded in {ranks.count(None)} of the {len(ranks)} traces"
    if len(set(ranks)) < len(ranks):
        return "several traces are from the same rank"
    of_ranks = (
        "SELECT DISTINCT job FROM jobs WHERE trace_id NOT IN (SELECT trace_id FROM front_end)"
    )
    jobs = {row[0] for row in database.fetch(of_ranks)[1]}
    if len(jobs) > 1:
        return f"the traces are from {len(jobs)} runs: their recordings or world sizes differ"
    if len(replayable(database)) < 2:
        return "fewer than two of the traces have GPU ops, so no ranks can be replayed together"
    return None


def replayable(database: Session) -> list[int]:
    """The trace_ids of the ranks that can be replayed, in order of rank: those with GPU ops."""
    traces = [each for each in database.ask("overview") if each["gpu_ops"] and each["span_ns"]]
    return [each["trace_id"] for each in sorted(traces, key=lambda each: each["rank"] or 0)]


class RanksRun(Struct, frozen=True, dict=True):
    """One replay of all ranks. Times of a rank are ns since its trace's start."""

    of: RankReplay
    runs: list[Run]
    """The replay of each rank."""
    ended: Ints
    """The end of each meeting, on the first rank's clock."""
    wire_ns: Ints

    @cached_property
    def wait_ns(self) -> Ints:
        """Each member's wait for the last one in its meeting."""
        members, of = self.of.members, self.of
        arrived = self.ended - self.wire_ns
        waits = np.zeros(len(members), np.int64)
        for own, run in zip(of.own, self.runs, strict=True):
            at = run.time[1 + of.op[own]] + of.arrive_ns[own]
            waits[own] = arrived[members.meeting[own]] - at
        return np.where(of.is_met[members.meeting] & of.waits, np.maximum(waits, 0), 0)

    @cached_property
    def borders(self) -> Ints:
        """The start of the run's first step, and the times at which each step is complete on all
        ranks, on the first rank's clock; without steps, the recording's start and end."""
        of = self.of
        if of.step_names:
            latest: Ints = np.max(of.rank_borders(self.runs), axis=0)
            return latest
        spans = [
            (each.bounds("trace").span(run)[0] + ahead, each.bounds().span(run)[1] + ahead)
            for run, each, ahead in zip(self.runs, of.replays, of.ahead_ns, strict=True)
        ]
        return np.array([max(each) for each in zip(*spans, strict=True)], np.int64)

    @property
    def lengths(self) -> Ints:
        """The length of each step of the run."""
        return np.diff(self.borders)

    @property
    def span_ns(self) -> int:
        return int(self.borders[-1] - self.borders[0])


class RankReplay:
    """The graphs of a run's ranks, which can be replayed together with changes."""

    def __init__(self, database: Session, trace_ids: Sequence[int]) -> None:
        self.database = database
        self.trace_ids = list(trace_ids)
        members, self.ambiguous = members_of(database)
        self.replays = [Replay(database, each) for each in trace_ids]
        rank, op = np.full((2, len(members)), -1, np.int64)
        for number, (trace_id, replay) in enumerate(zip(trace_ids, self.replays, strict=True)):
            mine = members.trace_id == trace_id
            rank[mine] = number
            op[mine] = replay.graph.device.numbers(members.event_id[mine])
        is_known = op >= 0
        # A collective recorded by only one rank is not a meeting.
        many = np.bincount(members.meeting[is_known], minlength=members.count) > 1
        is_known &= many[members.meeting]
        self.members: CollectiveMembers = members.take(is_known)
        self.rank = rank[is_known]
        """The rank of each member: an index into `trace_ids`."""
        self.op = op[is_known]
        """The number of each member's kernel among its rank's ops."""
        self.clocks = {row["trace_id"]: row for row in database.ask("rank_clocks")}
        """The answer of the query rank_clocks, by trace_id."""
        self.ahead_ns = self._ahead()
        """The offset from each rank's clock to the first rank's clock."""
        self._meet()

    @property
    def residual_ns(self) -> int:
        """The difference between the ends of the same collectives, on one clock."""
        return max((row["residual_ns"] for row in self.clocks.values()), default=0)

    @cached_property
    def waited_ns(self) -> int:
        """The total wait of all ranks in collectives, without sends and receives."""
        return int(self.members.wait_ns[~self.members.is_exchange].sum())

    @property
    def doubt(self) -> str | None:
        """Why it is unknown which rank waits for which (collectives do not end together); None: it
        is known."""
        calls = int((~self.members.is_exchange).sum())
        return clock_doubt(self.waited_ns, calls, self.residual_ns)

    # -- laying out

    def _ahead(self) -> Ints:
        query = "SELECT trace_id, coalesce(base_time_ns, 0) FROM trace"
        base = dict(self.database.fetch(query)[1])
        offsets = []
        for trace, replay in zip(self.trace_ids, self.replays, strict=True):
            graph = replay.graph
            offset = self.clocks.get(trace, {"offset_ns": 0})["offset_ns"]
            shift = max(graph.device.shift_ns.values(), key=abs, default=0)
            offsets.append(base[trace] + graph.host.origin_ns - shift - offset)
        return np.array([each - offsets[0] for each in offsets], np.int64)

    def _meet(self) -> None:
        members, count = self.members, self.members.count
        self.own = [np.flatnonzero(self.rank == number) for number in range(len(self.replays))]
        """The members of each rank: indices."""
        start = np.zeros(len(members), np.int64)
        for own, replay in zip(self.own, self.replays, strict=True):
            start[own] = replay.graph.device.start[self.op[own]]
        end = start + members.ns
        ahead = self.ahead_ns[self.rank]
        last = np.zeros(count, np.int64)
        last[members.meeting[members.is_last]] = np.flatnonzero(members.is_last)
        aligned = np.array([trace in self.clocks for trace in self.trace_ids], np.bool_)
        # A send may be over before its receive begins: then the latter came last, as clocks tell.
        paired = np.flatnonzero(members.is_exchange & aligned[self.rank])
        paired = paired[np.argsort((start + ahead)[paired], kind="stable")]
        both = np.bincount(members.meeting[paired], minlength=count) > 1
        paired = paired[both[members.meeting[paired]]]
        last[members.meeting[paired]] = paired
        ended = (end + ahead)[last]
        came = ended - members.wire_ns[last]
        # A rank that left before the last one arrived (a broadcast's sender) does not wait for it.
        loose = ~np.isin(members.type, _END_TOGETHER)
        left = loose & aligned[self.rank] & (end + ahead + self.residual_ns < came[members.meeting])
        # If some sends do, messages up to their size are buffered: no send of them waits.
        is_send = members.direction == "send"
        buffered = members.bytes[left & is_send].max(initial=-1)
        left |= is_send & (members.bytes <= buffered) & (members.wait_ns == 0)
        self.waits = ~left
        """Which members end only with their meeting."""
        self.arrive_ns: Ints = np.where(left, ahead, ended[members.meeting] - end)
        self._leave_ns = end - ended[members.meeting]
        self.recorded_end_ns = ended
        seats: list[Seats] = []
        self._leaving = np.zeros(len(members), np.int64)
        for own, replay in zip(self.own, self.replays, strict=True):
            each = Seats(replay.graph, self.op[own], members.meeting[own], self.waits[own])
            self._leaving[own] = each.leaving
            seats.append(each)
        arrivals = np.bincount(members.meeting, minlength=count)
        self._turns, self.is_met = turns_of(seats, arrivals, ended)
        self.graphs = [seat.with_ends(self.is_met) for seat in seats]
        self.simulators = [
            Simulator(graph, replay.watched)
            for graph, replay in zip(self.graphs, self.replays, strict=True)
        ]
        self.last = last
        """The member of each meeting that arrived last."""
        self._arrive = self._nodes(slice(None), 1 + self.op, self.arrive_ns)
        self._leave = self._nodes(self.waits, self._leaving, self._leave_ns)

    def _nodes(self, which: Which, node: Ints, ns: Ints) -> MeetingNodes:
        meeting = self.members.meeting[which]
        order = np.argsort(meeting, kind="stable")
        begin = np.searchsorted(meeting[order], np.arange(self.members.count + 1))
        return MeetingNodes(
            begin.astype(np.int64),
            self.rank[which][order].astype(np.int32),
            node[which][order].astype(np.int32),
            ns[which][order],
        )

    def without(self, members: Flags) -> RankReplay:
        """The same ranks without these members' meetings."""
        other = copy(self)
        for name in ("measured", "waited_ns"):
            other.__dict__.pop(name, None)
        others = ~members
        other.members = self.members.take(others)
        other.rank, other.op = self.rank[others], self.op[others]
        other._meet()
        return other

    # -- replays

    @cached_property
    def measured(self) -> RanksRun:
        """The replay without changes: every kernel starts when it was recorded."""
        return self.run(self.scales())

    def scales(self, *changes: str) -> list[Scale]:
        """The scales of a replay with changes, for each rank."""
        return [replay.scale(*changes) for replay in self.replays]

    def run(self, scales: Sequence[Scale], wire: Floats | None = None) -> RanksRun:
        """Replays all ranks with these scales.

        A collective's time on the wire is scaled by the largest factor on its kernel among the
        ranks, times `wire`.
        """
        members = self.members
        factor = np.zeros(members.count)
        for own, scale in zip(self.own, scales, strict=True):
            rate = scale.op.rate[scale.op.kind[self.op[own]]]
            np.maximum.at(factor, members.meeting[own], rate)
        if wire is not None:
            factor *= wire
        wire_ns = times(members.wire_ns[self.last], factor)
        given = [each.scales(s) for each, s in zip(self.simulators, scales, strict=True)]
        replays, ended = replay_ranks(
            [each.edges for each in self.simulators],
            [native for native, _ in given],
            self._turns, self._arrive, self._leave, wire_ns,
        )  # fmt: skip
        runs = []
        ends = self.waits & self.is_met[members.meeting]
        played = zip(self.own, self.simulators, scales, given, replays, strict=True)
        for every, simulator, scale, (_, work), (length, time) in played:
            runs.append(simulator.ran(scale, work, length, time))
            own = every[ends[every]]
            waited = time[self._leaving[own]] - time[1 + self.op[own]]
            runs[-1].op_ns[self.op[own]] = waited
        return RanksRun(self, runs, ended, wire_ns)

    # -- windows

    @cached_property
    def step_names(self) -> list[str]:
        """The steps that all ranks recorded, in order."""
        steps = [replay.steps for replay in self.replays]
        counts = [Counter([] if each.is_loop else each.names) for each in steps]
        return [name for name in counts[0] if all(count[name] == 1 for count in counts)]

    def rank_borders(self, runs: Sequence[Run]) -> list[Ints]:
        """For each rank, the start of its first step, and the end of each step."""
        borders = []
        for run, each, ahead in zip(runs, self.replays, self.ahead_ns, strict=True):
            number_of = {name: number for number, name in enumerate(each.steps.names)}
            numbers = [number_of[name] for name in self.step_names]
            begin, end = each.steps.spans(run)
            borders.append(np.append(begin[numbers[0]], end[numbers]) + ahead)
        return borders
