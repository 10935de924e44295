"""What each rank does between its collectives, compared with the ranks that do the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracekit.replay.graph.arrays import Flags, Floats, Ints, Numbers
from tracekit.replay.ranks.joined import Joined
from tracekit.replay.scaling import Scale

HOST, DEVICE = 0, 1
# Calls of the host in which it also waits for the device, and so for other ranks.
_WAITING = ("sync", "copy")


@dataclass(frozen=True)
class Stretches:
    """The parts of one rank's work: stretches of its threads, then its GPU ops."""

    host: Ints
    """Numbers of stretches."""
    op: Ints
    """Numbers of GPU ops, without collectives."""
    part: Ints
    """The part that each of these belongs to: its side, segment and cause as one number."""
    ns: Ints


class Alike:
    """The work of each rank by segment, from one collective's launch to the next.

    Ranks are alike if they take part in the same types of collectives in the same order: then their
    segments hold the same program. Work of a rank is compared with the median of those alike.
    """

    def __init__(self, joined: Joined) -> None:
        self.joined = joined
        self.causes = len(joined.graphs[0].causes) if joined.graphs else 0
        self._begin = [self._order(number) for number in range(len(joined.graphs))]
        self._signature = [each[1] for each in self._begin]

    def _order(self, number: int) -> tuple[Ints, tuple[str, ...], Ints]:
        """When a rank launches its collectives, of what types they are, and which ops."""
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
        """The other ranks that are like this one."""
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

    @cached_property
    def _totals(self) -> dict[int, Ints]:
        return {}

    def totals(self, number: int) -> Ints:
        """The time of a rank by part: an array over sides, segments and causes."""
        if number not in self._totals:
            found = self.stretches(number)
            segments = len(self._begin[number][0]) + 1
            total = np.zeros(2 * segments * self.causes, np.int64)
            np.add.at(total, found.part, found.ns)
            self._totals[number] = total.reshape(2, segments, self.causes)
        return self._totals[number]

    def usual(self, number: int) -> Ints | None:
        """The median of those alike, part by part; None: no rank is like this one.

        A stage of a pipeline that is like no other is compared with all other ranks by what they
        spend on each cause, however that is spread over the segments.
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
        """What a rank spends beyond the median of those alike, by side and cause, in ns."""
        usual = self.usual(number)
        if usual is None:
            return None
        total: Ints = (self.totals(number) - usual).sum(axis=1)
        return total

    def events(self, number: int, side: int, cause: int) -> dict[int, int]:
        """The events of a rank's work on a cause, with their time in ns; -1: in no slice.

        Of the segments, only those in which the rank spends more than those alike.
        """
        usual, found = self.usual(number), self.stretches(number)
        assert usual is not None
        graph, hosts = self.joined.graphs[number], len(found.host)
        more = (self.totals(number) - usual)[side, :, cause] > 0
        part = found.part[:hosts] if side == HOST else found.part[hosts:]
        ns = found.ns[:hosts] if side == HOST else found.ns[hosts:]
        segments = self.totals(number).shape[1]
        chosen = (part % self.causes == cause) & more[part // self.causes % segments]
        every = graph.host.event[found.host] if side == HOST else graph.device.op_id[found.op]
        event, place = np.unique(every[chosen], return_inverse=True)
        total = np.zeros(len(event), np.int64)
        np.add.at(total, place, ns[chosen])
        return dict(zip(event.tolist(), total.tolist(), strict=True))

    def scale(self, number: int, factor: float, scale: Scale) -> bool:
        """Scales what makes a rank differ from those alike: with 0, it takes as long as they do.

        Returns whether there are any.
        """
        usual = self.usual(number)
        if usual is None:
            return False
        found, own = self.stretches(number), self.totals(number).ravel()
        meant = (usual + factor * (self.totals(number) - usual)).ravel()
        # Who comes last waits less in its copies than the others do: that is no work that it lacks.
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
