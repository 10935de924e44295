"""The verdict of a run: its ranks replayed together, and judged as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median, median_low
from typing import Any

import numpy as np
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.evidence.collect import places_of
from tracekit.replay.grammar import BUBBLE
from tracekit.replay.graph.arrays import sums
from tracekit.replay.ranks.rank_replay import RankReplay, RanksRun, not_one_run, replayable
from tracekit.replay.ranks.stragglers import PeerRanks, Pricing, blamed_wait_ns
from tracekit.stages import stage
from tracekit.verdict.model import (
    Analysis,
    ClockAhead,
    Clocks,
    Collectives,
    LateRank,
    RunSaving,
    RunVerdict,
    SlowLink,
    WaitingRank,
)
from tracekit.verdict.run_words import (
    START_SKEW,
    began_late,
    describe_link,
    headline,
    sentences,
)

SLOW_LINK = "slow-link"
# Examine this many late ranks: those for which the others waited longest.
_EXAMINED = 5
# Name this many ranks.
_NAMED = 8
# Look for a late rank's call site among this many of its events.
_EVENTS = 200
# The columns of the query link_bandwidth that describe a slow link.
_OF_LINK = ("type", "message_bytes", "wire_ns", "others_wire_ns")


def judge_run(database: Session, analyses: Sequence[Analysis]) -> RunVerdict | str:
    """The verdict of the run whose ranks these traces are, or why there is none."""
    if reason := not_one_run(database):
        return reason
    with stage("replaying all ranks together"):
        try:
            judge = _Judge(database, analyses)
        except TracekitError as error:
            return f"the ranks cannot be replayed together: {error}"
        return judge.verdict()


class _Judge:
    def __init__(self, database: Session, analyses: Sequence[Analysis]) -> None:
        self.database = database
        self.thresholds = database.thresholds
        usable = replayable(database)
        given = sorted(analyses, key=lambda each: each.trace.rank or 0)
        self.analyses = [each for each in given if each.trace.trace_id in usable]
        self.left_out = [each.trace.rank for each in given if each.trace.trace_id not in usable]
        self.joined = RankReplay(database, [each.trace.trace_id for each in self.analyses])
        self.pricing = Pricing(self.joined)
        self.peers: PeerRanks = self.pricing.peers
        self.steps = max(1, len(self.joined.step_names))
        self.world = max((each.trace.world_size or 0 for each in self.analyses), default=0)
        self.bandwidth = database.ask("link_bandwidth") if len(self.joined.members) else []

    def verdict(self) -> RunVerdict:
        joined = self.joined
        known = len(joined.members) > 0 and not joined.doubt
        run = joined.measured if known else None
        self.slow = self._slow_links() if known else []
        late = self._late(blamed_wait_ns(joined) if known else {})
        links = [
            replace(
                each,
                excess_ns=round(each.excess_ns / self.steps),
                saves_ns=round(each.saves_ns / self.steps),
            )
            for each in self.slow
        ]
        lengths = self._lengths(run) if run else []
        waiting = self._waiting(lengths) if run else []
        pace = self._pace(late, sum(lengths))
        if run and pace is None and self._exchanged().any() and (pace := self._slow_stage()):
            late = [pace, *late]
        begins = self._begins().values() if run else ()
        exchanges = joined.members.is_exchange
        bubble_ns = int(joined.members.wait_ns[exchanges].sum()) if known else 0
        found = RunVerdict(
            headline="",
            ranks=[each.trace.rank for each in self.analyses],
            world_size=self.world or None,
            steps=len(joined.step_names),
            step_ns=median_low(run.lengths.tolist()) if run else None,
            span_ns=run.span_ns if run else None,
            start_skew_ns=max(begins) - min(begins) if begins else None,
            pace_rank=pace.rank if pace else None,
            late_ranks=late,
            waiting=waiting,
            collectives=self._collectives() if len(joined.members) else None,
            clocks=self._clocks(),
            bubble_ns=bubble_ns,
            slow_links=links,
            savings=self._savings(late, bubble_ns) if known else [],
            why=[],
            unknown=[*self._unknown(), *began_late(late)],
        )
        found = replace(found, why=sentences(found, self.analyses, self.thresholds))
        return replace(found, headline=headline(found, self.analyses))

    def _pace(self, late: list[LateRank], length_ns: int) -> LateRank | None:
        """The late rank for which the others wait for a large part of their time, or without whose
        delay the run would be much shorter. A rank that only began to record late is none."""
        least, whole_ns = self.thresholds.small_gain, self.joined.measured.span_ns
        for each in late:
            saves_ns = (each.saves_ns or 0) * self.steps
            is_long = each.held_up_ns >= least * length_ns or saves_ns >= least * whole_ns
            if each.cause != START_SKEW and is_long:
                return each
        return None

    def _unknown(self) -> Iterator[str]:
        """What the traces do not show, as sentences."""
        joined, present = self.joined, len(self.analyses)
        if self.world > present:
            yield (
                f"Only {present} of {self.world:,} ranks are here: the one that comes last of all "
                "may be missing, and what looks like time on the wire may be waiting for it."
            )
        if self.left_out:
            named = ", ".join(map(str, self.left_out[:_NAMED]))
            more = f" and {len(self.left_out) - _NAMED:,} more" * (len(self.left_out) > _NAMED)
            yield f"The traces of ranks {named}{more} have no GPU ops: they are left out."
        if not len(joined.members):
            is_any = any(each.gpu and each.gpu.exposed_comm_ns for each in self.analyses)
            what = (
                "could be matched between the ranks: who waits for whom is unknown"
                if is_any
                else "was recorded on these ranks: none is seen to wait for another"
            )
            yield f"No collective {what}."
        if joined.doubt:
            yield (
                f"It is unknown who waits for whom: {joined.doubt}. So the ranks are not replayed "
                "together."
            )
        missing = present - len(joined.clocks)
        if missing and joined.clocks:
            yield f"{missing} of the ranks share no collective by which to compare their clocks."

    # -- who is late

    def _late(self, blamed: dict[int, float]) -> list[LateRank]:
        order = sorted((n for n in blamed if round(blamed[n])), key=lambda n: (-blamed[n], n))
        last = self.joined.rank[self.joined.last[~self._exchanged()]]
        times = np.bincount(last, minlength=len(self.analyses))
        found = []
        for place, number in enumerate(order):
            trace = self.analyses[number].trace
            cause, where, excess, saves = None, None, None, None
            if place < _EXAMINED:
                cause, where, excess = self._own_cause(number, blamed[number])
                saves = self._saves_like_the_others([number])
            link = self._link_of(trace.rank, blamed[number])
            if cause is None and link is not None:
                cause, where, excess = SLOW_LINK, describe_link(link), link.excess_ns
                saves = link.saves_ns
            found.append(
                LateRank(
                    trace.rank, trace.trace_id, round(blamed[number]), int(times[number]), cause,
                    where, excess if cause == START_SKEW else self._each_step(excess),
                    self._each_step(saves),
                )
            )  # fmt: skip
        return found

    def _slow_stage(self) -> LateRank | None:
        """The stage of a pipeline that takes longer than the others, so that they wait for it."""
        joined, exchanges = self.joined, self.joined.members.is_exchange
        excess = {
            number: int(np.maximum(found, 0).sum())
            for number in range(len(self.analyses))
            for found in [self.peers.excess(number)]
            if found is not None
        }
        number = max(excess, key=lambda each: excess[each], default=None)
        run = None if number is None else self.pricing.like_the_others([number])
        if number is None or run is None:
            return None
        saves = self.pricing.saved(run)
        if saves < self.thresholds.named_gain * joined.measured.span_ns:
            return None
        waited = joined.measured.wait_ns[exchanges].sum() - run.wait_ns[exchanges].sum()
        cause, place, more = self._own_cause(number, 0.0)
        trace = self.analyses[number].trace
        return LateRank(
            trace.rank, trace.trace_id, max(0, int(waited)), 0, cause, place,
            self._each_step(more), self._each_step(saves), in_pipeline=True,
        )  # fmt: skip

    def _each_step(self, ns: int | None) -> int | None:
        """A time of the whole run as the mean of its steps."""
        return None if ns is None else round(ns / self.steps)

    def _saves_like_the_others(self, numbers: Sequence[int]) -> int | None:
        """What the run saves if these ranks take as long as their peers; None: there are none."""
        run = self.pricing.like_the_others(numbers)
        return None if run is None else self.pricing.saved(run)

    def _exchanged(self) -> Any:
        """Which meetings are a send with its receive."""
        return self.joined.members.is_exchange[self.joined.last]

    def _own_cause(self, number: int, held_ns: float) -> tuple[str | None, str | None, int | None]:
        """What a late rank spends more time on than its peers, where, and how much more."""
        one_ns = held_ns / max(1, len(self.analyses) - 1)
        least_ns = self.thresholds.own_excess_share * one_ns
        begins = self._begins()
        others = [ns for other, ns in begins.items() if other != number]
        skew = begins[number] - int(median(others)) if number in begins and others else 0
        excess = self.peers.excess(number)
        side, cause = 0, 0
        more = 0
        if excess is not None and excess.size:
            side, cause = (int(each) for each in np.unravel_index(np.argmax(excess), excess.shape))
            more = int(excess[side, cause])
        if skew >= least_ns and skew > max(0, more):
            return START_SKEW, None, skew
        if more < least_ns or more <= 0:
            return None, None, None
        name = CAUSES[cause]
        return name, self._place(number, side, cause), more

    def _slow_links(self) -> list[SlowLink]:
        """The groups of ranks whose messages take longer on the wire than in similar groups, the
        most expensive first. Only groups that exchange the same messages among as many ranks are
        compared."""
        slow: dict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in self.bandwidth:
            if row["alike"] and row["slower"] >= self.thresholds.slow_link:
                slow[tuple(row["ranks"])].append(row)
        found = []
        for ranks, rows in slow.items():
            excess = [(row["wire_ns"] - row["others_wire_ns"]) * row["count"] for row in rows]
            most = rows[excess.index(max(excess))]
            about = {name: most[name] for name in _OF_LINK}
            saves_ns = self.pricing.saved(self.pricing.with_quick_messages(rows))
            found.append(SlowLink([*ranks], **about, excess_ns=sum(excess), saves_ns=saves_ns))
        return sorted(found, key=lambda link: (-link.saves_ns, -link.excess_ns))

    def _link_of(self, rank: int | None, held_ns: float) -> SlowLink | None:
        """The slow link that makes a rank late."""
        least_ns = self.thresholds.own_excess_share * held_ns / max(1, len(self.analyses) - 1)
        mine = [each for each in self.slow if rank in each.ranks and each.excess_ns >= least_ns]
        return max(mine, key=lambda each: each.excess_ns, default=None)

    def _place(self, number: int, side: int, cause: int) -> str | None:
        """The call site at which a rank spends most beyond one of its peers."""
        others = [each for each in range(len(self.analyses)) if each != number]
        peers = self.peers.peers(number) or others
        totals = {peer: int(self.peers.totals(peer)[side, :, cause].sum()) for peer in peers}
        middle = median_low(totals.values())
        peer = next(each for each, ns in totals.items() if ns == middle)
        spent: dict[str | None, int] = {}
        for sign, rank in ((1, number), (-1, peer)):
            events = self.peers.events(rank, side, cause if sign > 0 else None)
            most = sorted(events, key=lambda each: -events[each])[:_EVENTS]
            sites = places_of(most, self.database, self.joined.trace_ids[rank])
            for event in most:
                place = sites.get(event)
                spent[place] = spent.get(place, 0) + sign * events[event]
        best = max(spent, key=lambda place: spent[place], default=None)
        return best if best is not None and spent[best] > 0 else None

    # -- waiting

    def _waiting(self, lengths: list[int]) -> list[WaitingRank]:
        members, rank, ranks = self.joined.members, self.joined.rank, len(self.analyses)
        pair = rank * ranks + rank[self.joined.last[members.meeting]]
        # A row for each rank, a column for each awaited one.
        waits = sums(pair, np.where(members.is_exchange, 0, members.wait_ns), ranks**2)
        found = []
        for number, by in enumerate(waits.reshape(ranks, ranks)):
            own, last = (self.analyses[each].trace for each in (number, int(by.argmax())))
            found.append(
                WaitingRank(
                    own.rank, own.trace_id, int(by.sum()), last.rank if by.any() else None,
                    last.trace_id if by.any() else None, int(by.max()), lengths[number],
                )
            )  # fmt: skip
        return found

    def _collectives(self) -> Collectives:
        joined, members = self.joined, self.joined.members
        exchanged = self._exchanged()
        last = joined.last
        names, counts = np.unique(members.matched_by[last], return_counts=True)
        return Collectives(
            count=int((~exchanged).sum()),
            exchanges=int(exchanged.sum()),
            matched_by=dict(zip(names.tolist(), counts.tolist(), strict=True)),
            left_out=joined.ambiguous + int((~joined.is_met).sum()),
            waited_ns=joined.waited_ns,
            wire_ns=int(members.wire_ns[last][~exchanged].sum()),
            bandwidth=self.bandwidth,
        )

    def _lengths(self, run: RanksRun) -> list[int]:
        """The length of each rank's steps."""
        if not self.joined.step_names:
            return [run.span_ns] * len(self.analyses)
        return [int(each[-1] - each[0]) for each in self.joined.rank_borders(run.runs)]

    # -- clocks

    def _clocks(self) -> Clocks | None:
        rows = list(self.joined.clocks.values())
        if not rows:
            return None
        offsets = [row["offset_ns"] for row in rows]
        middle = median_low(offsets)
        ahead = [
            ClockAhead(row["rank"], row["offset_ns"] - middle, row["residual_ns"]) for row in rows
        ]
        return Clocks(max(offsets) - min(offsets), self.joined.residual_ns, len(rows), ahead)

    def _begins(self) -> dict[int, int]:
        """When the ranks whose clocks can be compared begin, by the first rank's clock."""
        joined = self.joined
        if joined.step_names:
            first = [int(each[0]) for each in joined.rank_borders(joined.measured.runs)]
        else:
            first = joined.ahead_ns.tolist()
        return {n: ns for n, ns in enumerate(first) if joined.trace_ids[n] in joined.clocks}

    # -- what removing a cause would save

    def _savings(self, late: list[LateRank], bubble_ns: int) -> list[RunSaving]:
        """What would make the run shorter, most first."""
        span, steps = self.joined.measured.span_ns, self.steps
        found: list[tuple[str, int | None, int | None]] = [
            ("straggler", each.rank, (each.saves_ns or 0) * steps)
            for each in late[:_EXAMINED]
            if each.cause != SLOW_LINK
        ]
        if len(late) > 1:
            every = range(len(self.analyses))
            found.append(("stragglers", None, self._saves_like_the_others(every)))
        if bubble_ns:
            found.append((BUBBLE, None, self._saves_without(BUBBLE)))
        graphs = self.joined.graphs
        causes = [cause for each in graphs for cause in (each.host.cause, each.device.cause)]
        names = [CAUSES[each] for each in np.unique(np.concatenate(causes))]
        found += [
            ("network" if name == "communication" else name, None, self._saves_without(name))
            for name in names
            if name != "unknown"
        ]
        found += [(SLOW_LINK, None, each.saves_ns) for each in self.slow[:1]]
        savings = [
            RunSaving(name, rank, round(ns / steps), ns / span if span else 0.0)
            for name, rank, ns in found
            if ns is not None and span and ns >= self.thresholds.named_gain * span
        ]
        return sorted(savings, key=lambda each: -each.saves_ns)

    def _saves_without(self, cause: str) -> int:
        return self.pricing.saved(self.pricing.changed([f"{cause}*0"]))
