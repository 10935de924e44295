"""What changes to a run of several ranks would save, by replaying all its ranks together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.replay.grammar import BUBBLE, STEADY, STRAGGLER, RunChange, parse_of_run
from tracekit.replay.ranks.rank_replay import RankReplay, RanksRun
from tracekit.replay.ranks.stragglers import PeerRanks, blamed_wait_ns
from tracekit.replay.simulator import Scale


class Pricing:
    """Replays of a run's ranks with changes. Lengths are in ns."""

    def __init__(self, joined: RankReplay) -> None:
        self.joined = joined
        self.peers = PeerRanks(joined)

    def saved(self, run: RanksRun) -> int:
        """How much shorter the run is in a replay, from start to end."""
        return self.joined.measured.span_ns - run.span_ns

    def changed(self, texts: Sequence[str]) -> RanksRun:
        """The replay with changes such as `rank:6:host*0.5` or `straggler*0`.

        Raises:
            TracekitError: a text is not a change, or matches nothing.
        """
        joined = self.joined
        changes = [parse_of_run(text, joined.graphs[0].causes) for text in texts]
        whats = {each.change.what for each in changes}
        scales = joined.scales(steady=STEADY in whats)
        for each in changes:
            if each.change.what == STRAGGLER:
                number = self._late() if each.rank is None else self._number(each)
                if not self.peers.scale(number, each.change.factor, scales[number]):
                    raise TracekitError(
                        f"{each.text!r}: rank {self._ranks[number]} has no peers: no other rank "
                        "does the same work"
                    )
            elif each.change.what != BUBBLE:
                self._apply(each, scales)
        if BUBBLE not in whats:
            return joined.run(scales)
        self._set_apart(scales)
        return self._apart.run(scales)

    def _apply(self, each: RunChange, scales: list[Scale]) -> None:
        """Applies a change to a rank, or to all ranks in which it matches something."""
        numbers = range(len(scales)) if each.rank is None else [self._number(each)]
        errors = []
        for number in numbers:
            try:
                self.joined.replays[number].apply(each.change, scales[number])
            except TracekitError as error:
                errors.append(error)
        if len(errors) == len(numbers):
            raise errors[0]

    @cached_property
    def _ranks(self) -> list[int]:
        ranks = {row["trace_id"]: row["rank"] for row in self.joined.database.ask("overview")}
        return [ranks[each] for each in self.joined.trace_ids]

    def _number(self, each: RunChange) -> int:
        if each.rank not in self._ranks:
            known = ", ".join(map(str, sorted(self._ranks)))
            raise TracekitError(f"{each.text!r}: there is no rank {each.rank}; there are {known}")
        return self._ranks.index(each.rank)

    def _late(self) -> int:
        """The rank for which the others wait longest."""
        blamed_ns = blamed_wait_ns(self.joined)
        if not blamed_ns:
            raise TracekitError("straggler: no rank is waited for")
        return max(blamed_ns, key=lambda number: (blamed_ns[number], -number))

    def like_the_others(self, numbers: Iterable[int]) -> RanksRun | None:
        """The replay in which these ranks take as long as their peers; None: they have no peers."""
        scales = self.joined.scales()
        found = [self.peers.scale(number, 0.0, scales[number]) for number in numbers]
        return self.joined.run(scales) if any(found) else None

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
        """Scales sends and receives to their time on the wire, for replays of `apart`."""
        joined = self.joined
        exchange = joined.members.is_exchange
        for number, scale in enumerate(scales):
            own = np.flatnonzero(exchange & (joined.rank == number) & (joined.members.ns > 0))
            rate = joined.members.wire_ns[own] / joined.members.ns[own]
            scale.op.scale_each(rate, joined.op[own])
