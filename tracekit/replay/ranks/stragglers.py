"""The rank that others wait for, and the savings of changes to a run of several ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.replay.grammar import BUBBLE, STEADY, STRAGGLER, Change, parse_of_run
from tracekit.replay.graph.arrays import Ints
from tracekit.replay.ranks.peers import PeerRanks
from tracekit.replay.ranks.rank_replay import RankReplay, RanksRun
from tracekit.replay.simulator import Scale


def blamed_wait_ns(joined: RankReplay, run: RanksRun | None = None) -> dict[int, float]:
    """The total wait of all other ranks for each rank in collectives, in ns, as recorded or in a
    replay.

    A wait counts for the rank that arrived last. If that rank, since it last met the others, waited
    longer for ranks in other groups than the others did, that part counts for the ranks it waited
    for: a rank that is late because of its tensor-parallel peer is not the cause. If all ranks meet
    in one group, this is held_up_ns of the query stragglers.
    """
    members = joined.members
    by_meeting: dict[int, list[int]] = defaultdict(list)
    for member, meeting in enumerate(members.meeting.tolist()):
        by_meeting[meeting].append(member)
    waits, walls = _histories(joined, run)
    wait_ns = members.wait_ns if run is None else run.wait_ns
    lasts = joined.last if run is None else _last_to_wait(joined, wait_ns)
    blamed: dict[int, dict[int, float]] = {}
    total: dict[int, float] = defaultdict(float)
    for meeting in np.argsort(joined.recorded_end_ns, kind="stable").tolist():
        last = int(lasts[meeting])
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


def _last_to_wait(joined: RankReplay, wait_ns: Ints) -> Ints:
    """The member of each meeting that waits least: the one that comes last in a replay."""
    meeting = joined.members.meeting
    order = np.lexsort((joined.last[meeting] != np.arange(len(meeting)), wait_ns, meeting))
    last = np.zeros(joined.members.count, np.int64)
    last[meeting[order[::-1]]] = order[::-1]
    return last


def _histories(
    joined: RankReplay, run: RanksRun | None
) -> tuple[dict[int, _Between], dict[int, int]]:
    """For each member, the waits of its rank since it last left a meeting of the same group
    (indices and ns), and the time from then to its arrival, without these waits and the time on the
    wire.
    """
    members, waits = joined.members, {}
    wait_ns = members.wait_ns if run is None else run.wait_ns
    walls: dict[int, int] = {}
    for number, (own, ahead) in enumerate(zip(joined.own, joined.ahead_ns, strict=True)):
        ops = joined.op[own]
        if run is None:
            start, length = joined.replays[number].graph.device.start[ops], members.ns[own]
        else:
            start, length = run.runs[number].time[1 + ops], run.runs[number].op_ns[ops]
        start = start + ahead
        order = np.argsort(start, kind="stable")
        groups: dict[str, int] = {}
        passed: list[tuple[int, int, int]] = []
        taken: list[int] = []
        for at in order.tolist():
            member = int(own[at])
            group = str(members.group[member])
            since = groups.get(group, 0)
            between = passed[since:]
            left = passed[since - 1][2] if since else 0
            walls[member] = int(start[at]) - left - sum(taken[since:])
            waits[member] = [(each, ns) for each, ns, _ in between if ns > 0]
            passed.append((member, int(wait_ns[member]), int(start[at] + length[at])))
            taken.append(int(length[at]))
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


class Pricing:
    """Replays of a run's ranks with changes. Lengths are in ns."""

    def __init__(self, joined: RankReplay, base: Sequence[Scale] | None = None) -> None:
        """`base` are the scales of each rank on which changes are made, without what happened
        once."""
        self.joined, self.base = joined, base
        self.peers = PeerRanks(joined, base)

    @cached_property
    def before(self) -> RanksRun:
        """The replay without changes."""
        return self.joined.measured if self.base is None else self.joined.run(self.base)

    def saved(self, run: RanksRun) -> int:
        """The decrease of the run's length in a replay; 0 if it gets longer."""
        return max(0, self.before.span_ns - run.span_ns)

    def _scales(self, *changes: str) -> list[Scale]:
        """The scales of each rank, which the caller may change."""
        if self.base is None:
            return self.joined.scales(*changes)
        return [each.copy() for each in self.base]

    def changed(self, texts: Sequence[str]) -> RanksRun:
        """The replay with changes such as `rank:6:host*0.5` or `straggler*0`.

        Raises:
            TracekitError: a text is not a change, or matches nothing.
        """
        joined = self.joined
        changes = [parse_of_run(text) for text in texts]
        whats = {change.what for change in changes}
        scales = self._scales(*{STEADY} & whats)
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
        scales = self._scales()
        have_peers = [self.peers.scale(number, 0.0, scales[number]) for number in numbers]
        return self.joined.run(scales) if any(have_peers) else None

    def steady(self) -> RanksRun | None:
        """The replay in which no part of a step takes longer than in the median step; None: steps
        cannot be compared."""
        scales = self._scales()
        numbers = range(len(scales))
        are_steady = [self.peers.make_steady(number, scales[number]) for number in numbers]
        return self.joined.run(scales) if any(are_steady) else None

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
        return self.joined.run(self._scales(), factor)

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
