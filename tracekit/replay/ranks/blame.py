"""For which rank the others wait: who came last, and who made it come last."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tracekit.replay.ranks.joined import Joined


def held_up(joined: Joined) -> dict[int, float]:
    """For how long all others together waited for each rank in collectives, in ns.

    A wait counts for the rank that came last. To the extent that this rank had waited longer for
    ranks of other groups than the others had, since it last met them, the wait counts for those it
    waited for: a rank that is late because its tensor-parallel peer was is not the cause. Where all
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


def _histories(joined: Joined) -> tuple[dict[int, _Between], dict[int, int]]:
    """For each member, the waits of its rank since it last left a meeting of the same group (places
    and ns), and how long that was until it arrived, without these waits and the time on the wire.
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
    """Which share of a lateness is due to the late rank's own waits, and these waits."""
    if not others:
        return 0.0, []

    def waited(place: int) -> int:
        return sum(ns for _, ns in waits[place])

    more_waited = waited(last) - float(np.median([waited(each) for each in others]))
    more_own = walls[last] - float(np.median([walls[each] for each in others]))
    if more_waited <= 0:
        return 0.0, []
    return more_waited / (more_waited + max(0.0, more_own)), waits[last]
