"""The rank that others wait for: which one it is, what made it late, and on what it spends more
time than its peers; and the savings of changes to a run of several ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracekit.causes import CAUSES
from tracekit.errors import TracekitError
from tracekit.replay.grammar import BUBBLE, STEADY, STRAGGLER, Change, parse_of_run
from tracekit.replay.graph.arrays import Flags, Floats, Ints, Numbers, sums
from tracekit.replay.ranks.rank_replay import RankReplay, RanksRun
from tracekit.replay.simulator import Scale

HOST, DEVICE = 0, 1
# Host calls that also wait for the device, and so for other ranks.
_WAITING = ("sync", "copy")


def blamed_wait_ns(joined: RankReplay) -> dict[int, float]:
    """The total wait of all other ranks for each rank in collectives, in ns.

    A wait counts for the rank that arrived last. If that rank, since it last met the others, waited
    longer for ranks in other groups than the others did, that part counts for the ranks it waited
    for: a rank that is late because of its tensor-parallel peer is not the cause. If all ranks meet
    in one group, this is held_up_ns of the query stragglers.
    """
    members = joined.members
    by_meeting: dict[int, list[int]] = defaultdict(list)
    for member, meeting in enumerate(members.meeting.tolist()):
        by_meeting[meeting].append(member)
    waits, walls = _histories(joined)
    wait_ns = members.wait_ns
    blamed: dict[int, dict[int, float]] = {}
    total: dict[int, float] = defaultdict(float)
    for meeting in np.argsort(joined.recorded_end_ns, kind="stable").tolist():
        last = int(joined.last[meeting])
        late = int(joined.rank[last])
        blamed[meeting] = {late: 1.0}
        others = [each for each in by_meeting[meeting] if each != last]
        passed, between = _passed(last, others, waits, walls)
        known = [(member, ns) for member, ns in between if int(members.meeting[member]) in blamed]
        weight = sum(ns for _, ns in known)
        if passed and weight:
            blamed[meeting] = {late: 1 - passed}
            for member, ns in known:
                for rank, part in blamed[int(members.meeting[member])].items():
                    found = blamed[meeting].get(rank, 0.0)
                    blamed[meeting][rank] = found + passed * part * ns / weight
        if not members.direction[last]:
            waited = sum(int(wait_ns[member]) for member in others)
            for rank, part in blamed[meeting].items():
                total[rank] += waited * part
    return dict(total)


_Between = list[tuple[int, int]]


def _histories(joined: RankReplay) -> tuple[dict[int, _Between], dict[int, int]]:
    """For each member, the waits of its rank since it last left a meeting of the same group
    (indices and ns), and the time from then to its arrival, without these waits and the time on the
    wire.
    """
    members, waits = joined.members, {}
    wait_ns = members.wait_ns
    walls: dict[int, int] = {}
    for own, replay, ahead in zip(joined.own, joined.replays, joined.ahead_ns, strict=True):
        start = replay.graph.device.start[joined.op[own]] + ahead
        order = np.argsort(start, kind="stable")
        groups: dict[str, int] = {}
        passed: list[tuple[int, int, int]] = []
        for at in order.tolist():
            member = int(own[at])
            group = str(members.group[member])
            since = groups.get(group, 0)
            between = passed[since:]
            left = passed[since - 1][2] if since else 0
            busy = sum(int(members.ns[each]) for each, _, _ in between)
            walls[member] = int(start[at]) - left - busy
            waits[member] = [(each, ns) for each, ns, _ in between if ns > 0]
            end = int(start[at] + members.ns[member])
            passed.append((member, int(wait_ns[member]), end))
            groups[group] = len(passed)
    return waits, walls


def _passed(
    last: int, others: list[int], waits: dict[int, _Between], walls: dict[int, int]
) -> tuple[float, _Between]:
    """The share of a lateness caused by the late rank's own waits, and these waits."""
    if not others:
        return 0.0, []

    def waited(member: int) -> int:
        return sum(ns for _, ns in waits[member])

    more_waited = waited(last) - float(np.median([waited(other) for other in others]))
    more_own = walls[last] - float(np.median([walls[other] for other in others]))
    if more_waited <= 0:
        return 0.0, []
    return more_waited / (more_waited + max(0.0, more_own)), waits[last]


# A side's work: numbers of stretches or ops, the part that each belongs to (its side, segment and
# cause as one number), and its ns.
_Side = tuple[Ints, Ints, Ints]


class PeerRanks:
    """The work of each rank by segment, from one collective's launch to the next.

    Ranks are peers if they take part in the same types of collectives in the same order: then their
    segments hold the same program. Ranks that send to each other, as stages of a pipeline do, are
    no peers. A rank's work is compared with the median of its peers.
    """

    def __init__(self, joined: RankReplay) -> None:
        self.joined = joined
        self._begin = [self._order(number) for number in range(len(joined.graphs))]
        self._chain = _chains(joined)
        self._totals: dict[int, Ints] = {}

    def _order(self, number: int) -> tuple[Ints, tuple[str, ...], Ints]:
        """A rank's collectives: when it launches them, their types, and their ops."""
        joined, device = self.joined, self.joined.graphs[number].device
        members = joined.members
        own = joined.own[number]
        own = own[joined.is_met[members.meeting[own]]]
        op = joined.op[own]
        at = np.where(device.linked[op], device.call[op], device.start[op])
        order = np.argsort(at, kind="stable")
        types = tuple(
            f"{members.type[each]} {members.direction[each]}" for each in own[order].tolist()
        )
        return at[order], types, op[order]

    def peers(self, number: int) -> list[int]:
        """The other ranks that run the same program as this one."""
        types, chain = [each[1] for each in self._begin], self._chain
        return [
            i
            for i, each in enumerate(types)
            if i != number and each == types[number] and chain[i] != chain[number]
        ]

    def sides(self, number: int) -> tuple[_Side, _Side]:
        """The work of a rank's host, and of its device without collectives, within the steps that
        all ranks recorded."""
        graph = self.joined.graphs[number]
        host, device = graph.host, graph.device
        first, last = self._span(number)
        launches, _, members = self._begin[number]

        def part(side: int, segment: Ints, cause: Numbers) -> Ints:
            return (side * (len(launches) + 1) + segment) * len(CAUSES) + cause.astype(np.int64)

        works = np.unique(np.concatenate([device.thread[device.linked],
                                          host.thread_of(graph.first_keys)]))  # fmt: skip
        at = host.time_of(host.at)
        stretch = np.flatnonzero(
            ~host.blocked & np.isin(host.thread_of(host.at), works) & (at >= first) & (at < last)
        )
        segment = np.searchsorted(launches, at[stretch], "right")
        ns = np.diff(host.borders)[stretch]
        on_host = (stretch, part(HOST, segment, host.cause[stretch]), ns)
        # Communication is left out, since it contains the waiting.
        op = np.flatnonzero(device.cause != CAUSES.index("communication"))
        begun = np.where(device.linked, device.call, device.start)
        op = op[(begun[op] >= first) & (begun[op] < last)]
        segment = np.where(
            device.linked[op],
            np.searchsorted(launches, begun[op], "right"),
            np.searchsorted(np.sort(device.start[members]), begun[op], "right"),
        )
        return on_host, (op, part(DEVICE, segment, device.cause[op]), device.ns[op])

    def _span(self, number: int) -> tuple[int, int]:
        """The host's start of the first common step and end of the last one."""
        replay, names = self.joined.replays[number], self.joined.step_names
        if not names:
            return 0, 1 << 62
        host = replay.graph.host
        ends = [replay.steps.names.index(each) for each in (names[0], names[-1])]
        begin, end = replay.steps.begin[[ends[0]]], replay.steps.end[[ends[1]]]
        return int(host.time_of(begin)[0]), int(host.time_of(end)[0])

    def totals(self, number: int) -> Ints:
        """The time of a rank by part: an array over sides, segments and causes."""
        if number not in self._totals:
            segments = len(self._begin[number][0]) + 1
            total = np.zeros(2 * segments * len(CAUSES), np.int64)
            for _, part, ns in self.sides(number):
                total += sums(part, ns, len(total))
            self._totals[number] = total.reshape(2, segments, len(CAUSES))
        return self._totals[number]

    def usual(self, number: int) -> Ints | None:
        """The median of the rank's peers for each part; None: no peers.

        A stage of a pipeline without peers is compared with all other ranks by the time that they
        spend on each cause, in any segment.
        """
        peers = self.peers(number)
        if peers:
            return np.median([self.totals(peer) for peer in peers], axis=0).astype(np.int64)
        if not self.joined.members.is_exchange.any():
            return None
        totals = self.totals(number)
        others = [
            self.totals(each).sum(axis=1) for each in range(len(self._begin)) if each != number
        ]
        whole = totals.sum(axis=1)
        share = np.zeros(whole.shape)
        np.divide(np.median(others, axis=0), whole, out=share, where=whole > 0)
        median: Ints = np.rint(totals * share[:, None, :]).astype(np.int64)
        return median

    def excess(self, number: int) -> Ints | None:
        """A rank's time beyond the median of its peers, by side and cause, in ns."""
        usual = self.usual(number)
        if usual is None:
            return None
        total: Ints = (self.totals(number) - usual).sum(axis=1)
        return total

    def events(self, number: int, side: int, cause: int | None = None) -> dict[int, int]:
        """The events of a rank's work on a side, with their time in ns; -1: outside slices.

        With a cause, only events in segments where the rank spends more time on it than its peers.
        """
        graph = self.joined.graphs[number]
        which, part, ns = self.sides(number)[side]
        every = graph.host.event[which] if side == HOST else graph.device.op_id[which]
        if cause is not None:
            usual = self.usual(number)
            assert usual is not None
            is_more = (self.totals(number) - usual)[side, :, cause] > 0
            chosen = (part % len(CAUSES) == cause) & is_more[part // len(CAUSES) % len(is_more)]
            every, ns = every[chosen], ns[chosen]
        event, index = np.unique(every, return_inverse=True)
        return dict(zip(event.tolist(), sums(index, ns, len(event)).tolist(), strict=True))

    def scale(self, number: int, factor: float, scale: Scale) -> bool:
        """Scales the difference between a rank and its peers: with 0, it takes as long as they do.

        Returns whether it has peers.
        """
        usual = self.usual(number)
        if usual is None:
            return False
        totals = self.totals(number).ravel()
        meant = (usual + factor * (self.totals(number) - usual)).ravel()
        # The last rank waits less in copies; do not count that as saved work.
        waiting = [CAUSES.index(each) for each in _WAITING]
        is_waiting = np.zeros(usual.shape, np.bool_)
        is_waiting[HOST][:, waiting] = True
        meant = np.where(is_waiting.ravel(), np.minimum(meant, totals), meant)
        factors: Floats = np.ones(len(totals))
        np.divide(meant, totals, out=factors, where=totals > 0)
        for rates, (which, part, _) in zip((scale.host, scale.op), self.sides(number), strict=True):
            changed: Flags = factors[part] != 1
            rates.scale_each(factors[part][changed], which[changed])
        return True


def _chains(joined: RankReplay) -> list[int]:
    """For each rank, the first of those that send to each other, directly or through others."""
    members = joined.members
    chain = np.arange(len(joined.graphs))
    exchange = np.flatnonzero(members.is_exchange)
    rank, meeting = joined.rank[exchange], members.meeting[exchange]
    changed = True
    while changed:
        first = np.full(members.count, len(chain))
        np.minimum.at(first, meeting, chain[rank])
        joint = chain.copy()
        np.minimum.at(joint, rank, first[meeting])
        changed = bool((joint != chain).any())
        chain = joint
    # A rank that sends to no other one is in a chain of its own.
    listed: list[int] = chain.tolist()
    return listed


class Pricing:
    """Replays of a run's ranks with changes. Lengths are in ns."""

    def __init__(self, joined: RankReplay) -> None:
        self.joined = joined
        self.peers = PeerRanks(joined)

    def saved(self, run: RanksRun) -> int:
        """The decrease of the run's length in a replay; 0 if it gets longer."""
        return max(0, self.joined.measured.span_ns - run.span_ns)

    def changed(self, texts: Sequence[str]) -> RanksRun:
        """The replay with changes such as `rank:6:host*0.5` or `straggler*0`.

        Raises:
            TracekitError: a text is not a change, or matches nothing.
        """
        joined = self.joined
        changes = [parse_of_run(text) for text in texts]
        whats = {change.what for change in changes}
        scales = joined.scales(*{STEADY} & whats)
        for each in changes:
            if each.what == STRAGGLER:
                number = self._late() if each.rank is None else self._number(each)
                if not self.peers.scale(number, each.factor, scales[number]):
                    raise TracekitError(
                        f"{each.text!r}: rank {self._ranks[number]} has no peers: no other rank "
                        "does the same work"
                    )
            elif each.what != BUBBLE:
                self._apply(each, scales)
        if BUBBLE not in whats:
            return joined.run(scales)
        self._set_apart(scales)
        return self._apart.run(scales)

    def _apply(self, each: Change, scales: list[Scale]) -> None:
        """Applies a change to a rank, or to all ranks in which it matches something."""
        numbers = range(len(scales)) if each.rank is None else [self._number(each)]
        errors = []
        for number in numbers:
            try:
                scales[number] = self.joined.replays[number].scale(each, base=scales[number])
            except TracekitError as error:
                errors.append(error)
        if len(errors) == len(numbers):
            raise errors[0]

    @cached_property
    def _ranks(self) -> list[int]:
        ranks = {row["trace_id"]: row["rank"] for row in self.joined.database.ask("overview")}
        return [ranks[each] for each in self.joined.trace_ids]

    def _number(self, each: Change) -> int:
        if each.rank not in self._ranks:
            ranks = ", ".join(map(str, sorted(self._ranks)))
            raise TracekitError(f"{each.text!r}: there is no rank {each.rank}; there are {ranks}")
        return self._ranks.index(each.rank)

    def _late(self) -> int:
        """The rank for which the others wait longest."""
        blamed_ns = blamed_wait_ns(self.joined)
        if not blamed_ns:
            raise TracekitError("straggler: the ranks do not wait for each other")
        return max(blamed_ns, key=lambda number: (blamed_ns[number], -number))

    def like_the_others(self, numbers: Iterable[int]) -> RanksRun | None:
        """The replay in which these ranks take as long as their peers; None: no peers."""
        scales = self.joined.scales()
        have_peers = [self.peers.scale(number, 0.0, scales[number]) for number in numbers]
        return self.joined.run(scales) if any(have_peers) else None

    def with_quick_messages(self, rows: Sequence[dict[str, Any]]) -> RanksRun:
        """The replay in which the messages in these rows of the query link_bandwidth take as long
        as the same messages in other groups."""
        members, last = self.joined.members, self.joined.last
        wire = np.maximum(members.wire_ns[last], 1)
        factor = np.ones(members.count)
        for row in rows:
            alike = (members.group[last] == row["group_key"]) & (members.type[last] == row["type"])
            alike &= members.bytes[last] == row["message_bytes"]
            factor[alike] = np.minimum(1.0, row["others_wire_ns"] / wire[alike])
        return self.joined.run(self.joined.scales(), factor)

    @cached_property
    def _apart(self) -> RankReplay:
        """The ranks without their sends and receives."""
        return self.joined.without(self.joined.members.is_exchange)

    def _set_apart(self, scales: list[Scale]) -> None:
        """Scales sends and receives to their wire time, for replays of `apart`."""
        joined = self.joined
        exchange = joined.members.is_exchange
        for every, scale in zip(joined.own, scales, strict=True):
            own = every[(exchange & (joined.members.ns > 0))[every]]
            rate = joined.members.wire_ns[own] / joined.members.ns[own]
            scale.op.scale_each(rate, joined.op[own])
