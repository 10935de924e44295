"""What the ranks of a run do between their collectives, compared with their peers and with other
steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.causes import CAUSES
from tracekit.replay.graph.arrays import Flags, Floats, Ints, Numbers, sums
from tracekit.replay.ranks.rank_replay import RankReplay
from tracekit.replay.simulator import Scale

HOST, DEVICE = 0, 1
# Host calls that also wait for the device, and so for other ranks.
_WAITING = ("sync", "copy")
# A side's work: numbers of stretches or ops, the part that each belongs to (its side, segment and
# cause as one number), and its ns.
_Side = tuple[Ints, Ints, Ints]


class PeerRanks:
    """The work of each rank by segment, from one collective's launch to the next.

    Ranks are peers if they take part in the same types of collectives in the same order: then their
    segments hold the same program. Ranks that send to each other, as stages of a pipeline do, are
    no peers. A rank's work is compared with the median of its peers.
    """

    def __init__(self, joined: RankReplay, base: Sequence[Scale] | None = None) -> None:
        """`base` are the scales of each rank without what happened once, if that is no part of its
        work."""
        self.joined, self.base = joined, base
        self._begin = [self._order(number) for number in range(len(joined.graphs))]
        self._chain = _chains(joined)
        self._totals: dict[int, Ints] = {}
        self._steps: dict[tuple[int, ...], Floats | None] = {}
        self.stops: dict[int, dict[int, int]] = {}
        """How much longer than usual the calls of a rank take that stopped, by event."""

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
        if self.base is not None:
            rates = self.base[number].host
            ns = np.rint(ns * rates.rate[rates.kind[stretch]]).astype(np.int64)
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

    def steady(self, number: int) -> Ints | None:
        """What each part of a rank's work takes, at most as long as in the median of all steps of
        the rank and its peers, all without stops; None: the steps do not have the same collectives.
        The array is like that of `totals`."""
        totals, peers = self._running(number), tuple(sorted([number, *self.peers(number)]))
        if peers not in self._steps:
            self._steps[peers] = self._median_step(peers)
        usual = self._steps[peers]
        if usual is None:
            return None
        lower: Ints = np.minimum(totals, usual).astype(np.int64)
        return lower

    def _median_step(self, peers: Sequence[int]) -> Floats | None:
        """The median over steps and ranks of each part of a step, without stops, for all steps."""
        steps = max(1, len(self.joined.step_names))
        all_ = np.stack([self._running(peer) for peer in peers])
        each, rest = divmod(all_.shape[2] - 1, steps)
        if rest or not each:
            return None
        inner = all_[:, :, :-1].reshape(len(peers), 2, steps, each, -1)
        usual: Floats = np.concatenate(
            [
                np.tile(np.median(inner, axis=(0, 2)), (1, steps, 1)),
                np.median(all_[:, :, -1:], axis=0),
            ],
            axis=1,
        )
        return usual

    def host_ns(self, number: int) -> dict[int, int]:
        """How long each event of a rank's host works itself."""
        which, _, ns = self.sides(number)[HOST]
        events = self.joined.graphs[number].host.event[which]
        every, index = np.unique(events, return_inverse=True)
        return dict(zip(every.tolist(), sums(index, ns, len(every)).tolist(), strict=True))

    def _stopless(self, number: int) -> Floats:
        """The part of each stretch of a rank's host that remains without stops."""
        which, _, ns = self.sides(number)[HOST]
        events = self.joined.graphs[number].host.event[which]
        stops, kept = self.stops.get(number, {}), np.ones(len(ns))
        for event in stops.keys() & {*events.tolist()}:
            own = events == event
            kept[own] = 1 - min(1.0, stops[event] / max(1, int(ns[own].sum())))
        return kept

    def _running(self, number: int) -> Ints:
        """The time of a rank by part, as `totals`, without stops."""
        totals = self.totals(number)
        if not self.stops.get(number):
            return totals
        _, part, ns = self.sides(number)[HOST]
        stopped = np.rint(ns * (1 - self._stopless(number))).astype(np.int64)
        without: Ints = totals - sums(part, stopped, totals.size).reshape(totals.shape)
        return without

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
        self._set(number, self.totals(number), meant, scale)
        return True

    def make_steady(self, number: int, scale: Scale) -> bool:
        """Scales a rank's work so that no part of a step takes longer than `steady`.

        Returns whether its steps can be compared.
        """
        steady = self.steady(number)
        if steady is None:
            return False
        which = self.sides(number)[HOST][0]
        kept = self._stopless(number)
        scale.host.scale_each(kept[kept != 1], which[kept != 1])
        self._set(number, self._running(number), steady, scale)
        return True

    def _set(self, number: int, now: Ints, meant: Numbers, scale: Scale) -> None:
        """Scales the parts of a rank's work from the times that they take now to others."""
        factors: Floats = np.ones(now.size)
        np.divide(meant.ravel(), now.ravel(), out=factors, where=now.ravel() > 0)
        for rates, (which, part, _) in zip((scale.host, scale.op), self.sides(number), strict=True):
            changed: Flags = factors[part] != 1
            rates.scale_each(factors[part][changed], which[changed])


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
