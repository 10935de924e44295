"""The rank that others wait for: which came last, which made it come last, and what it spends more
time on than the ranks that do the same."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct

from tracekit.replay.graph.arrays import Flags, Floats, Ints, Numbers, sums
from tracekit.replay.ranks.rank_replay import RankReplay
from tracekit.replay.simulator import Scale

HOST, DEVICE = 0, 1
# Host calls that also wait for the device, and so for other ranks.
_WAITING = ("sync", "copy")


def blamed_wait_ns(joined: RankReplay) -> dict[int, float]:
    """For how long all others together waited for each rank in collectives, in ns.

    A wait counts for the rank that came last. To the extent that this rank had waited longer for
    ranks of other groups than the others had, since it last met them, the wait counts for those it
    waited for: a rank that is late because its tensor-parallel peer was is not the cause. If all
    ranks meet in one group, this is held_up_ns of the query stragglers.
    """
    members = joined.members
    by_meeting: dict[int, list[int]] = defaultdict(list)
    for place, meeting in enumerate(members.meeting.tolist()):
        by_meeting[meeting].append(place)
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
        known = [(place, ns) for place, ns in between if int(members.meeting[place]) in blamed]
        weight = sum(ns for _, ns in known)
        if passed and weight:
            blamed[meeting] = {late: 1 - passed}
            for place, ns in known:
                for rank, part in blamed[int(members.meeting[place])].items():
                    found = blamed[meeting].get(rank, 0.0)
                    blamed[meeting][rank] = found + passed * part * ns / weight
        if not members.direction[last]:
            waited = sum(int(wait_ns[place]) for place in others)
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
    for number, replay in enumerate(joined.replays):
        own = np.flatnonzero(joined.rank == number)
        start = replay.graph.device.start[joined.op[own]] + joined.ahead_ns[number]
        order = np.argsort(start, kind="stable")
        groups: dict[str, int] = {}
        passed: list[tuple[int, int, int]] = []
        for at in order.tolist():
            place = int(own[at])
            group = str(members.group[place])
            since = groups.get(group, 0)
            between = passed[since:]
            left = passed[since - 1][2] if since else 0
            busy = sum(int(members.ns[each]) for each, _, _ in between)
            walls[place] = int(start[at]) - left - busy
            waits[place] = [(each, ns) for each, ns, _ in between if ns > 0]
            end = int(start[at] + members.ns[place])
            passed.append((place, int(wait_ns[place]), end))
            groups[group] = len(passed)
    return waits, walls


def _passed(
    last: int, others: list[int], waits: dict[int, _Between], walls: dict[int, int]
) -> tuple[float, _Between]:
    """The share of a lateness that is due to the late rank's own waits, and these waits."""
    if not others:
        return 0.0, []

    def waited(place: int) -> int:
        return sum(ns for _, ns in waits[place])

    more_waited = waited(last) - float(np.median([waited(each) for each in others]))
    more_own = walls[last] - float(np.median([walls[each] for each in others]))
    if more_waited <= 0:
        return 0.0, []
    return more_waited / (more_waited + max(0.0, more_own)), waits[last]


class Stretches(Struct, frozen=True):
    """The parts of one rank's work: stretches of its threads, then its GPU ops."""

    host: Ints
    """Numbers of stretches."""
    op: Ints
    """Numbers of GPU ops, without collectives."""
    part: Ints
    """The part that each of these belongs to: its side, segment and cause as one number."""
    ns: Ints


class PeerRanks:
    """The work of each rank by segment, from one collective's launch to the next.

    Ranks are peers if they take part in the same types of collectives in the same order: then their
    segments hold the same program. A rank's work is compared with the median of its peers.
    """

    def __init__(self, joined: RankReplay) -> None:
        self.joined = joined
        self.causes = len(joined.graphs[0].causes) if joined.graphs else 0
        self._begin = [self._order(number) for number in range(len(joined.graphs))]
        self._signature = [each[1] for each in self._begin]
        self._totals: dict[int, Ints] = {}

    def _order(self, number: int) -> tuple[Ints, tuple[str, ...], Ints]:
        """A rank's collectives: when it launches them, their types, and their ops."""
        joined, device = self.joined, self.joined.graphs[number].device
        members = joined.members
        own = np.flatnonzero((joined.rank == number) & joined.is_met[members.meeting])
        op = joined.op[own]
        at = np.where(device.linked[op], device.call[op], device.start[op])
        order = np.argsort(at, kind="stable")
        types = tuple(
            f"{members.type[each]} {members.direction[each]}" for each in own[order].tolist()
        )
        return at[order], types, op[order]

    def peers(self, number: int) -> list[int]:
        """The other ranks that do the same as this one."""
        mine = self._signature[number]
        return [
            other
            for other, signature in enumerate(self._signature)
            if other != number and signature == mine
        ]

    def stretches(self, number: int) -> Stretches:
        """The parts of a rank's work within the steps that all ranks recorded."""
        graph = self.joined.graphs[number]
        host, device = graph.host, graph.device
        first, last = self._span(number)
        launches, _, members = self._begin[number]
        works = np.unique(np.concatenate([device.thread[device.linked],
                                          host.thread_of(graph.first_keys)]))  # fmt: skip
        at = host.time_of(host.at)
        stretch = np.flatnonzero(
            ~host.blocked & np.isin(host.thread_of(host.at), works) & (at >= first) & (at < last)
        )
        ns = np.diff(host.borders)[stretch]
        # Communication is left out: it contains the waiting.
        op = np.flatnonzero(device.cause != graph.number("communication"))
        submitted = np.where(device.linked[op], device.call[op], -1)
        inside = (device.linked[op] & (submitted >= first) & (submitted < last)) | (
            ~device.linked[op] & (device.start[op] >= first) & (device.start[op] < last)
        )
        op, submitted = op[inside], submitted[inside]
        segment = np.where(
            submitted >= 0,
            np.searchsorted(launches, submitted, "right"),
            np.searchsorted(np.sort(device.start[members]), device.start[op], "right"),
        )
        segments = len(launches) + 1
        host_part = self._part(HOST, np.searchsorted(launches, at[stretch], "right"),
                               host.cause[stretch], segments)  # fmt: skip
        op_part = self._part(DEVICE, segment, device.cause[op], segments)
        return Stretches(
            stretch, op, np.concatenate([host_part, op_part]), np.concatenate([ns, device.ns[op]])
        )

    def _part(self, side: int, segment: Ints, cause: Numbers, segments: int) -> Ints:
        return (side * segments + segment) * self.causes + cause.astype(np.int64)

    def _span(self, number: int) -> tuple[int, int]:
        """When the host begins the first of the common steps and ends the last."""
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
            found = self.stretches(number)
            segments = len(self._begin[number][0]) + 1
            total = sums(found.part, found.ns, 2 * segments * self.causes)
            self._totals[number] = total.reshape(2, segments, self.causes)
        return self._totals[number]

    def usual(self, number: int) -> Ints | None:
        """The median of the rank's peers, part by part; None: it has no peers.

        A stage of a pipeline without peers is compared with all other ranks by the time that they
        spend on each cause, in any segment.
        """
        peers = self.peers(number)
        if peers:
            return np.median([self.totals(each) for each in peers], axis=0).astype(np.int64)
        if not self.joined.members.is_exchange.any():
            return None
        own = self.totals(number)
        others = [
            self.totals(each).sum(axis=1) for each in range(len(self._begin)) if each != number
        ]
        whole = own.sum(axis=1)
        share = np.zeros(whole.shape)
        np.divide(np.median(others, axis=0), whole, out=share, where=whole > 0)
        found: Ints = np.rint(own * share[:, None, :]).astype(np.int64)
        return found

    def excess(self, number: int) -> Ints | None:
        """What a rank spends beyond the median of its peers, by side and cause, in ns."""
        usual = self.usual(number)
        if usual is None:
            return None
        total: Ints = (self.totals(number) - usual).sum(axis=1)
        return total

    def events(self, number: int, side: int, cause: int | None = None) -> dict[int, int]:
        """The events of a rank's work on a side, with their time in ns; -1: in no slice.

        With a cause: only those in segments in which the rank spends more on it than its peers.
        """
        found, graph = self.stretches(number), self.joined.graphs[number]
        hosts = len(found.host)
        half = slice(hosts) if side == HOST else slice(hosts, None)
        part, ns = found.part[half], found.ns[half]
        every = graph.host.event[found.host] if side == HOST else graph.device.op_id[found.op]
        if cause is not None:
            usual = self.usual(number)
            assert usual is not None
            more = (self.totals(number) - usual)[side, :, cause] > 0
            chosen = (part % self.causes == cause) & more[part // self.causes % len(more)]
            every, ns = every[chosen], ns[chosen]
        event, place = np.unique(every, return_inverse=True)
        return dict(zip(event.tolist(), sums(place, ns, len(event)).tolist(), strict=True))

    def scale(self, number: int, factor: float, scale: Scale) -> bool:
        """Scales what makes a rank differ from its peers: with 0, it takes as long as they do.

        Returns whether it has peers.
        """
        usual = self.usual(number)
        if usual is None:
            return False
        found, own = self.stretches(number), self.totals(number).ravel()
        meant = (usual + factor * (self.totals(number) - usual)).ravel()
        # The last rank waits less in copies; do not count that as saved work.
        waiting = [self.joined.graphs[number].number(each) for each in _WAITING]
        is_waiting = np.zeros(usual.shape, np.bool_)
        is_waiting[HOST][:, waiting] = True
        meant = np.where(is_waiting.ravel(), np.minimum(meant, own), meant)
        factors: Floats = np.ones(len(own))
        np.divide(meant, own, out=factors, where=own > 0)
        each = factors[found.part]
        hosts = len(found.host)
        for rates, which, rate in (
            (scale.host, found.host, each[:hosts]),
            (scale.op, found.op, each[hosts:]),
        ):
            changed: Flags = rate != 1
            rates.scale_each(rate[changed], which[changed])
        return True
