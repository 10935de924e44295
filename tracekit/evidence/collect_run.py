"""Collects the evidence on a run: replays its ranks together, and asks where they spend more time
than others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from statistics import median_low
from typing import Any

import numpy as np
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.evidence.collect import call_sites_of
from tracekit.evidence.collect_lateness import lateness_of
from tracekit.evidence.collect_once import once_of
from tracekit.evidence.collect_pipeline import pipeline_of
from tracekit.evidence.model import (
    CallSite,
    ClockAhead,
    Clocks,
    Collectives,
    Pipeline,
    SlowLink,
    WaitingRank,
)
from tracekit.evidence.run import EXAMINED, RankEvidence, RankExcess, RunEvidence, SlowStage
from tracekit.evidence.server import front_ends_of
from tracekit.replay.grammar import BUBBLE
from tracekit.replay.graph.arrays import Flags, Ints, sums
from tracekit.replay.ranks.rank_replay import RankReplay, not_one_run, replayable
from tracekit.replay.ranks.stragglers import Pricing, blamed_wait_ns
from tracekit.stages import stage

# Look for a late rank's call site among this many of its events.
_EVENTS = 200
# The columns of the query link_bandwidth that describe a slow link.
_OF_LINK = ("type", "message_bytes", "wire_ns", "others_wire_ns")


def run_evidence(database: Session) -> RunEvidence | str:
    """The evidence on the run whose ranks the traces of a database are, or why they are none."""
    if reason := not_one_run(database):
        return reason
    with stage("replaying all ranks together"):
        usable = replayable(database)
        try:
            joined = RankReplay(database, usable)
        except TracekitError as error:
            return f"the ranks cannot be replayed together: {error}"
        return _Collector(database, joined).evidence()


class _Collector:
    """Ranks are known by their index in the joint replay, `number`."""

    def __init__(self, database: Session, joined: RankReplay) -> None:
        self.database, self.joined, self.thresholds = database, joined, database.thresholds
        self.once, base = once_of(joined)
        self.pricing = Pricing(joined, base)
        self.peers = self.pricing.peers
        self.numbers = range(len(joined.trace_ids))
        self.bandwidth = database.ask("link_bandwidth") if len(joined.members) else []
        overview = {row["trace_id"]: row for row in database.ask("overview")}
        self.traces = [overview.pop(trace_id) for trace_id in joined.trace_ids]
        """The rows of the question overview about the ranks."""
        beside = front_ends_of(database)
        self.left_out = sorted(r["rank"] for i, r in overview.items() if i not in beside)

    def evidence(self) -> RunEvidence:
        joined = self.joined
        recorded = RunEvidence(
            thresholds=self.thresholds,
            ranks=[RankEvidence(rank=row["rank"], trace_id=row["trace_id"]) for row in self.traces],
            left_out=self.left_out,
            world_size=max(row["world_size"] or 0 for row in self.traces),
            steps=len(joined.step_names),
            doubt=joined.doubt,
            collectives=self._collectives() if len(joined.members) else None,
            clocks=self._clocks(),
        )
        return recorded if joined.doubt or not len(joined.members) else self._replayed(recorded)

    def _replayed(self, recorded: RunEvidence) -> RunEvidence:
        """The evidence with what replays of all ranks show."""
        joined, before = self.joined, self.pricing.before
        # What happened once is no part of what the ranks wait for each other.
        apart = before if self.once else None
        awaited_ns = blamed_wait_ns(joined, apart)
        late = sorted((n for n in awaited_ns if round(awaited_ns[n])), key=lambda n: -awaited_ns[n])
        came_last = joined.rank[joined.last[~self._is_exchange]]
        times_last = np.bincount(came_last, minlength=len(self.numbers)).tolist()
        begins_ns = self._begins()
        ranks = [
            replace(
                rank,
                begins_ns=begins_ns.get(number),
                awaited_ns=awaited_ns.get(number, 0.0),
                times_last=times_last[number],
            )
            for number, rank in enumerate(recorded.ranks)
        ]
        for number in late[:EXAMINED]:
            excess, saves_ns = self._excess(number), self._saves_like_peers([number])
            ranks[number] = replace(ranks[number], excess=excess, saves_ns=saves_ns)
        has_stages = self._is_exchange.any()
        slow_stage = self._slow_stage() if has_stages else None
        pipeline = pipeline_of(joined, self.traces) if has_stages else None
        bubble_ns = int(self._wait_ns[joined.members.is_exchange].sum())
        are_several = len(late) + (slow_stage is not None) > 1
        return replace(
            recorded,
            ranks=ranks,
            step_ns=median_low(before.lengths.tolist()),
            span_ns=before.span_ns,
            once=self.once,
            waiting=self._waiting(),
            bubble_ns=bubble_ns,
            slow_links=self._slow_links(),
            pipeline=pipeline,
            slow_stage=slow_stage,
            saved_ns=self._saved(pipeline, with_bubble=bubble_ns > 0),
            lateness=lateness_of(self.database, self.pricing) if len(late) > 1 else None,
            alike_saves_ns=self._saves_like_peers(self.numbers) if are_several else None,
        )

    @cached_property
    def _is_exchange(self) -> Flags:
        """Which meetings are a send with its receive."""
        flags: Flags = self.joined.members.is_exchange[self.joined.last]
        return flags

    @cached_property
    def _wait_ns(self) -> Ints:
        """Each member's wait for the last one, without what happened once."""
        return self.pricing.before.wait_ns if self.once else self.joined.members.wait_ns

    # -- what a rank does more than its peers

    def _excess(self, number: int) -> RankExcess | None:
        """The cause on which a rank spends most beyond its peers."""
        excess = self.peers.excess(number)
        if excess is None or not excess.size:
            return None
        side, cause = (int(index) for index in np.unravel_index(excess.argmax(), excess.shape))
        ns = int(excess[side, cause])
        if ns <= 0:
            return None
        return RankExcess(CAUSES[cause], ns, self._call_site(number, side, cause))

    def _call_site(self, number: int, side: int, cause: int) -> str | None:
        """The call site at which a rank spends most beyond one of its peers."""
        others = [other for other in self.numbers if other != number]
        peers = self.peers.peers(number) or others
        totals = {peer: int(self.peers.totals(peer)[side, :, cause].sum()) for peer in peers}
        middle_ns = median_low(totals.values())
        peer = next(peer for peer, ns in totals.items() if ns == middle_ns)
        spent_ns: dict[str | None, int] = {}
        for sign, rank in ((1, number), (-1, peer)):
            events = self.peers.events(rank, side, cause if rank == number else None)
            longest = sorted(events, key=lambda event: -events[event])[:_EVENTS]
            sites = call_sites_of(longest, self.database, self.joined.trace_ids[rank])
            for event in longest:
                site = sites.get(event, CallSite())
                where = site.where or site.name or None
                spent_ns[where] = spent_ns.get(where, 0) + sign * events[event]
        most = max(spent_ns, key=lambda where: spent_ns[where], default=None)
        return most if most is not None and spent_ns[most] > 0 else None

    def _slow_stage(self) -> SlowStage | None:
        joined, exchanges = self.joined, self.joined.members.is_exchange
        excess = {number: self.peers.excess(number) for number in self.numbers}
        beyond_ns = {
            number: int(np.maximum(ns, 0).sum()) for number, ns in excess.items() if ns is not None
        }
        if not beyond_ns:
            return None
        number = max(beyond_ns, key=lambda number: beyond_ns[number])
        run = self.pricing.like_the_others([number])
        if run is None:
            return None
        spared_ns = self.pricing.before.wait_ns[exchanges].sum() - run.wait_ns[exchanges].sum()
        saves_ns = self.pricing.saved(run)
        trace_id, excess_of = joined.trace_ids[number], self._excess(number)
        return SlowStage(trace_id, max(0, int(spared_ns)), saves_ns, excess_of)

    # -- what changes would save

    def _saves_like_peers(self, numbers: Iterable[int]) -> int | None:
        """What the run saves if these ranks take as long as their peers; None: there are none."""
        run = self.pricing.like_the_others(numbers)
        return None if run is None else self.pricing.saved(run)

    def _saved(self, pipeline: Pipeline | None, *, with_bubble: bool) -> dict[str, int]:
        graphs = self.joined.graphs
        causes = [cause for graph in graphs for cause in (graph.host.cause, graph.device.cause)]
        names = [CAUSES[cause] for cause in np.unique(np.concatenate(causes))]
        removed = [BUBBLE] * with_bubble + [name for name in names if name != "unknown"]
        saved = {name: self.pricing.saved(self.pricing.changed([f"{name}*0"])) for name in removed}
        if pipeline is not None and with_bubble:
            # A stage may idle at the end of a step, where no receive shows what it waits for.
            steps = len(self.joined.step_names)
            saved[BUBBLE] = max(saved[BUBBLE], pipeline.least_idle_ns * steps)
        return saved

    def _slow_links(self) -> list[SlowLink]:
        """The groups of ranks whose messages take longer on the wire than in similar groups. Only
        groups that exchange the same messages among as many ranks are compared."""
        slow: dict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in self.bandwidth:
            if row["alike"] and row["slower"] >= self.thresholds.slow_link:
                slow[tuple(row["ranks"])].append(row)
        steps, links = max(1, len(self.joined.step_names)), []
        for ranks, rows in slow.items():
            excess = [(row["wire_ns"] - row["others_wire_ns"]) * row["count"] for row in rows]
            most = rows[excess.index(max(excess))]
            messages = {name: most[name] for name in _OF_LINK}
            saves_ns = self.pricing.saved(self.pricing.with_quick_messages(rows))
            means = {"excess_ns": round(sum(excess) / steps), "saves_ns": round(saves_ns / steps)}
            links.append(SlowLink([*ranks], **messages, **means))
        return sorted(links, key=lambda link: (-link.saves_ns, -link.excess_ns))

    # -- waits and clocks

    def _waiting(self) -> list[WaitingRank]:
        joined, members = self.joined, self.joined.members
        ranks, lengths_ns = len(self.numbers), self._lengths()
        pair = joined.rank * ranks + joined.rank[joined.last[members.meeting]]
        # A row for each rank, a column for each awaited one.
        waits = sums(pair, np.where(members.is_exchange, 0, self._wait_ns), ranks**2)
        waiting = []
        for trace, by_ns, length_ns in zip(
            self.traces, waits.reshape(ranks, ranks), lengths_ns, strict=True
        ):
            awaited = self.traces[int(by_ns.argmax())] if by_ns.any() else {}
            waiting.append(
                WaitingRank(
                    trace["rank"], trace["trace_id"], int(by_ns.sum()), awaited.get("rank"),
                    awaited.get("trace_id"), int(by_ns.max()), length_ns,
                )
            )  # fmt: skip
        return waiting

    def _lengths(self) -> list[int]:
        """The length of each rank's steps."""
        before = self.pricing.before
        if not self.joined.step_names:
            return [before.span_ns] * len(self.numbers)
        return [int(ends[-1] - ends[0]) for ends in self.joined.rank_borders(before.runs)]

    def _begins(self) -> dict[int, int]:
        """When the ranks whose clocks can be compared begin, by the first rank's clock."""
        joined = self.joined
        begins = joined.ahead_ns.tolist()
        if joined.step_names:
            begins = [int(ends[0]) for ends in joined.rank_borders(joined.measured.runs)]
        return {n: ns for n, ns in enumerate(begins) if joined.trace_ids[n] in joined.clocks}

    def _collectives(self) -> Collectives:
        joined, members, last = self.joined, self.joined.members, self.joined.last
        names, counts = np.unique(members.matched_by[last], return_counts=True)
        return Collectives(
            count=int((~self._is_exchange).sum()),
            exchanges=int(self._is_exchange.sum()),
            matched_by=dict(zip(names.tolist(), counts.tolist(), strict=True)),
            left_out=joined.ambiguous + int((~joined.is_met).sum()),
            waited_ns=int(self._wait_ns[~members.is_exchange].sum()),
            wire_ns=int(members.wire_ns[last][~self._is_exchange].sum()),
            bandwidth=self.bandwidth,
        )

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
