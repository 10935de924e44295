"""The verdict of a run: its ranks judged as one. A pure function of evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec.structs import replace

from tracekit.causes import UNKNOWN_LIMIT
from tracekit.evidence.model import SlowLink, WaitingRank
from tracekit.evidence.run import EXAMINED, Lateness, RankEvidence, RankExcess, RunEvidence
from tracekit.verdict.model import Analysis, LateRank, RunSaving, RunVerdict
from tracekit.verdict.run_words import (
    SLOW_LINK,
    START_SKEW,
    began_late,
    describe_link,
    drained_ranks,
    happened_once,
    headline,
    is_communicating,
    sentences,
)

# Name this many ranks.
_NAMED = 8


def judge_run(evidence: RunEvidence, analyses: Sequence[Analysis]) -> RunVerdict:
    """The verdict of a run, of whose ranks there are these analyses."""
    by_trace = {analysis.trace.trace_id: analysis for analysis in analyses}
    analyses = [by_trace[rank.trace_id] for rank in evidence.ranks]
    late = _late_ranks(evidence)
    pace = _pace(evidence, late)
    if pace is None and (pace := _slow_stage(evidence)):
        late = [pace, *late]
    lateness = _lateness(evidence, late) if pace is None else None
    begins = [rank.begins_ns for rank in evidence.ranks if rank.begins_ns is not None]
    verdict = RunVerdict(
        headline="",
        ranks=[rank.rank for rank in evidence.ranks],
        world_size=evidence.world_size or None,
        steps=evidence.steps,
        step_ns=evidence.step_ns,
        span_ns=evidence.span_ns,
        start_skew_ns=max(begins) - min(begins) if begins else None,
        pace_rank=pace.rank if pace else None,
        late_ranks=late,
        lateness=lateness,
        waiting=_waiting(evidence, late),
        collectives=evidence.collectives,
        clocks=evidence.clocks,
        bubble_ns=evidence.bubble_ns,
        pipeline=evidence.pipeline,
        slow_links=[*evidence.slow_links],
        savings=_savings(evidence, late, lateness),
        why=[],
        unknown=[*_unknown(evidence, analyses), *began_late(late)],
    )
    why = [*sentences(verdict, analyses, evidence.thresholds), *happened_once(evidence)]
    verdict = replace(verdict, why=why)
    return replace(verdict, headline=headline(verdict, analyses))


def _steps(evidence: RunEvidence) -> int:
    """What times of the run are divided by to become those of a step."""
    return max(1, evidence.steps)


# -- who is late


def _late_ranks(evidence: RunEvidence) -> list[LateRank]:
    """The ranks that others wait for; those that they wait longest for have a cause."""
    late_ranks, steps = [], _steps(evidence)
    awaited = [rank for rank in evidence.ranks if round(rank.awaited_ns)]
    for number, rank in enumerate(sorted(awaited, key=lambda rank: -rank.awaited_ns)):
        others = max(1, len(evidence.ranks) - 1)
        least_ns = evidence.thresholds.own_excess_share * rank.awaited_ns / others
        excess = None
        if number < EXAMINED:
            excess = _excess_of(evidence, rank, rank.excess, least_ns)
        late = _late_rank(evidence, rank, round(rank.awaited_ns), excess, rank.saves_ns)
        link = _link_of(evidence.slow_links, rank, least_ns / steps) if excess is None else None
        if link is not None:
            late = replace(
                late, cause=SLOW_LINK, place=describe_link(link), excess_ns=link.excess_ns,
                saves_ns=link.saves_ns,
            )  # fmt: skip
        late_ranks.append(late)
    return late_ranks


def _waiting(evidence: RunEvidence, late_ranks: Sequence[LateRank]) -> list[WaitingRank]:
    """How long each rank waits, and for whom; for nobody where a pipeline drains."""
    drained = {late.rank for late in drained_ranks(evidence.collectives, late_ranks)}
    return [
        replace(waiting, awaited_rank=None, awaited_trace_id=None, awaited_ns=0)
        if waiting.awaited_rank in drained
        else waiting
        for waiting in evidence.waiting
    ]


def _late_rank(
    evidence: RunEvidence,
    rank: RankEvidence,
    held_up_ns: int,
    excess: RankExcess | None,
    saves_ns: int | None,
) -> LateRank:
    """A rank that others wait for, with times as means of the run's steps; a start is late once."""
    steps = _steps(evidence)
    late = LateRank(
        rank.rank, rank.trace_id, held_up_ns, rank.times_last, None, None, None,
        None if saves_ns is None else round(saves_ns / steps),
    )  # fmt: skip
    if excess is None:
        return late
    excess_ns = excess.ns if excess.cause == START_SKEW else round(excess.ns / steps)
    return replace(late, cause=excess.cause, place=excess.call_site, excess_ns=excess_ns)


def _excess_of(
    evidence: RunEvidence, rank: RankEvidence, excess: RankExcess | None, least_ns: float
) -> RankExcess | None:
    """What makes a rank late: a start after the others, or what it spends more time on; None: both
    are shorter than `least_ns`."""
    others = [other.begins_ns for other in evidence.ranks if other.trace_id != rank.trace_id]
    begins = [ns for ns in others if ns is not None]
    excess_ns = excess.ns if excess is not None else 0
    if rank.begins_ns is not None and begins:
        skew_ns = rank.begins_ns - int(median(begins))
        if skew_ns >= least_ns and skew_ns > excess_ns:
            return RankExcess(START_SKEW, skew_ns)
    return excess if excess_ns >= least_ns else None


def _link_of(links: Sequence[SlowLink], rank: RankEvidence, least_ns: float) -> SlowLink | None:
    """The slow link that makes a rank late by at least this time in a step."""
    slow = [link for link in links if rank.rank in link.ranks and link.excess_ns >= least_ns]
    return max(slow, key=lambda link: link.excess_ns, default=None)


def _pace(evidence: RunEvidence, late_ranks: Sequence[LateRank]) -> LateRank | None:
    """The late rank without whose delay the run would be much shorter; if that is unknown, the one
    for which the others wait for a large part of their time. A rank that only began to record late
    is none, nor is one of many that are late in turn."""
    least = evidence.thresholds.small_gain
    waited_ns = sum(late.held_up_ns for late in late_ranks if late.cause != START_SKEW)
    most_ns = evidence.thresholds.pace_share * waited_ns
    lengths_ns = sum(waiting.length_ns for waiting in evidence.waiting)
    for late in late_ranks:
        is_long = late.held_up_ns >= least * lengths_ns
        if late.saves_ns is not None:
            # Where others are as late, one that is quicker shortens nothing.
            is_long = late.saves_ns * _steps(evidence) >= least * (evidence.span_ns or 0)
        if late.cause != START_SKEW and is_long and late.held_up_ns >= most_ns:
            return late
    return None


def _lateness(evidence: RunEvidence, late_ranks: Sequence[LateRank]) -> Lateness | None:
    """What makes one rank late after another, if that makes the run much longer."""
    found, thresholds = evidence.lateness, evidence.thresholds
    late = [each for each in late_ranks if each.cause != START_SKEW and each.times_last]
    if found is None or len(late) < 2 or evidence.steps < thresholds.fewest_alike:
        return None
    is_much = found.saves_ns >= thresholds.small_gain * (evidence.span_ns or 0)
    return found if is_much else None


def _slow_stage(evidence: RunEvidence) -> LateRank | None:
    """The stage of a pipeline that takes longer than the others, so that they wait for it."""
    stage, least = evidence.slow_stage, evidence.thresholds.named_gain
    if stage is None or stage.saves_ns < least * (evidence.span_ns or 0):
        return None
    rank = next(rank for rank in evidence.ranks if rank.trace_id == stage.trace_id)
    excess = _excess_of(evidence, rank, stage.excess, 0.0)
    late = _late_rank(evidence, rank, stage.spared_ns, excess, stage.saves_ns)
    return replace(late, times_last=0, in_pipeline=True)


# -- what removing a cause would save, and what is unknown


def _savings(
    evidence: RunEvidence, late_ranks: Sequence[LateRank], lateness: Lateness | None
) -> list[RunSaving]:
    """What would make the run shorter, most first."""
    span_ns, steps = evidence.span_ns, _steps(evidence)
    saved: list[tuple[str, int | None, int | None]] = [
        ("straggler", late.rank, (late.saves_ns or 0) * steps)
        for late in late_ranks[:EXAMINED]
        if late.cause != SLOW_LINK
    ]
    if lateness is not None:
        saved.append(("lateness", None, lateness.saves_ns))
    elif len(late_ranks) > 1:
        saved.append(("stragglers", None, evidence.alike_saves_ns))
    saved += [
        ("network" if cause == "communication" else cause, None, ns)
        for cause, ns in evidence.saved_ns.items()
    ]
    saved += [(SLOW_LINK, None, link.saves_ns * steps) for link in evidence.slow_links[:1]]
    savings = [
        RunSaving(name, rank, round(ns / steps), ns / span_ns)
        for name, rank, ns in saved
        # Nobody can remove kernels whose limit is unknown.
        if ns is not None
        and span_ns
        and name != UNKNOWN_LIMIT
        and ns >= evidence.thresholds.named_gain * span_ns
    ]
    return sorted(savings, key=lambda saving: -saving.saves_ns)


def _unknown(evidence: RunEvidence, analyses: Sequence[Analysis]) -> Iterator[str]:
    """What the traces do not show, as sentences."""
    present, left_out = len(evidence.ranks), evidence.left_out
    if evidence.world_size > present:
        yield (
            f"Only {present} of {evidence.world_size:,} ranks are here: the one that comes last of "
            "all may be missing, and what looks like time on the wire may be waiting for it."
        )
    if left_out:
        named = ", ".join(map(str, left_out[:_NAMED]))
        others = f" and {len(left_out) - _NAMED:,} more" * (len(left_out) > _NAMED)
        yield f"The traces of ranks {named}{others} have no GPU ops: they are left out."
    if evidence.collectives is None:
        what = (
            "could be matched between the ranks: who waits for whom is unknown"
            if is_communicating(analyses)
            else "was recorded on these ranks: none is seen to wait for another"
        )
        yield f"No collective {what}."
    if evidence.doubt:
        yield (
            f"It is unknown who waits for whom: {evidence.doubt}. So the ranks are not replayed "
            "together."
        )
    compared = evidence.clocks.compared if evidence.clocks else 0
    if 0 < compared < present:
        yield (
            f"{present - compared} of the ranks share no collective by which to compare their "
            "clocks."
        )
