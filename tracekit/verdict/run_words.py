"""The verdict of a run, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tracekit.causes import words
from tracekit.evidence.model import Collectives, SlowLink, WaitingRank
from tracekit.evidence.run import Lateness, RunEvidence
from tracekit.replay.grammar import BUBBLE
from tracekit.text import counted, duration, lowered, percent, printable, share, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis, LateRank, RunVerdict
from tracekit.verdict.pipeline_words import bubble
from tracekit.verdict.regime import UNKNOWN, bound_by, split_bound

# Why a rank is late, besides causes of time.
START_SKEW = "start-skew"
SLOW_LINK = "slow-link"
_NAMED = 3
# A gain below this share counts as none.
_SHOWN = 0.0005
# Cut a call site in a sentence at this length.
_LONGEST = 70


def headline(run: RunVerdict, analyses: Sequence[Analysis]) -> str:
    """The number of ranks, and which one sets the pace; else what bounds them, and what removing
    the largest cause of time from all of them would save."""
    present, missing = len(run.ranks), _missing(run)
    ranks = f"{present:,} of {run.world_size:,} ranks" if missing else counted(present, "rank")
    if run.pace is not None:
        cause = run.pace.cause
        return f"{ranks}: rank {run.pace_rank} sets the pace{f', by {cause}' if cause else ''}"
    if run.lateness is not None:
        shorter = share(run.lateness.saves_ns, run.span_ns or 1)
        return (
            f"{ranks}: lateness moves from rank to rank, by {run.lateness.cause}; without it, "
            f"{whole(run)} would be {shorter} shorter"
        )
    bound, clauses = _bound_clause(analyses)
    best = run.savings[0] if run.savings else None
    if missing and best is not None and best.remove == "network":
        # What looks like time on the wire may be waiting for a missing rank.
        clauses, best = [], None
    if best is not None and best.remove == BUBBLE:
        clauses.append("the stages of the pipeline wait for each other (pipeline-bubble)")
    elif best is not None and best.remove in words("limited"):
        # Nobody can do without the kernels' work.
        clauses = clauses or [f"what limits {whole(run)} most is the kernels' own time"]
    elif best is not None:
        without = words("removed").get(best.remove, f"without {best.remove}")
        if clauses and bound.endswith(f" by {best.remove}"):
            without = "without it"
        shorter = f"{whole(run)} would be {percent(best.share)} shorter"
        clauses.append(f"{without.format(best.rank)}, {shorter}")
    elif run.span_ns is None and is_communicating(analyses):
        clauses.append("who waits for whom is unknown")
    elif run.span_ns is None:
        clauses = clauses or ["no collective was recorded on them"]
    elif missing:
        clauses.append("none of these holds up the others, but a missing one may")
    else:
        clauses.append("no rank holds up the others")
    return f"{ranks}: {'; '.join(clauses)}"


def _bound_clause(analyses: Sequence[Analysis]) -> tuple[str, list[str]]:
    """What bounds more than half of the ranks, or else their regime, and a clause that says so;
    empty if that is unknown."""
    for causes in (True, False):
        bound, bound_alike = bound_of_most(analyses, causes=causes)
        if bound not in ("", "bound") and 2 * len(bound_alike) > len(analyses):
            are_all = len(bound_alike) == len(analyses)
            return bound, [f"{'all' if are_all else f'{len(bound_alike)} of them'} are {bound}"]
    return bound, []


def is_communicating(analyses: Sequence[Analysis]) -> bool:
    """Whether any of the ranks communicates while it does not compute."""
    return any(analysis.gpu and analysis.gpu.exposed_comm_ns for analysis in analyses)


def bound_of_most(
    analyses: Sequence[Analysis], *, causes: bool = True
) -> tuple[str, list[Analysis]]:
    """What bounds most of the ranks, with its cause or without, and these ranks; empty if that is
    unknown."""
    by_bound: dict[str, list[Analysis]] = defaultdict(list)
    for analysis in analyses:
        named = analysis.verdict.regime, analysis.verdict.bottleneck
        by_bound[bound_by(*named) if causes else split_bound(*named)[0]].append(analysis)
    most = max(by_bound, key=lambda bound: len(by_bound[bound]), default="")
    return ("", []) if most in ("", UNKNOWN) else (most, by_bound[most])


def happened_once(evidence: RunEvidence) -> Iterator[str]:
    """A sentence on what the run's length and prices leave out, if that is much."""
    once, least = evidence.once, evidence.thresholds.small_gain
    if once and sum(once.values()) >= least * (evidence.span_ns or 0):
        causes = ", ".join(sorted(once, key=lambda cause: -once[cause])[:_NAMED])
        yield f"{duration(sum(once.values()))} that happened once is left out ({causes})."


def whole(run: RunVerdict) -> str:
    """What the prices of a run are a part of."""
    return "a step of the run" if run.steps else "the run"


def _missing(run: RunVerdict) -> int:
    """How many ranks of the run are missing."""
    return max(0, (run.world_size or 0) - len(run.ranks))


def no_verdict(reason: str, analyses: Sequence[Analysis]) -> list[str]:
    """Says that several traces have no verdict as one run; empty if none of them is a rank."""
    are_ranks = any(analysis.trace.rank is not None for analysis in analyses)
    return [f"No verdict on all together: {reason}."] if reason and are_ranks else []


def began_late(late_ranks: Sequence[LateRank]) -> list[str]:
    """A sentence on each rank that is late because its recording began late."""
    return [
        f"The others wait {duration(late.held_up_ns)} for rank {late.rank}, whose recording begins "
        f"{duration(late.excess_ns)} after the median of the others: its delay happened before "
        "that, and whether it is late in other steps is unknown."
        for late in late_ranks
        if late.cause == START_SKEW
    ]


def sentences(run: RunVerdict, analyses: Sequence[Analysis], thresholds: Thresholds) -> list[str]:
    """Which rank the others wait for, why it is late, and what the run would gain."""
    if run.span_ns is None or run.collectives is None:
        return []
    met = run.collectives
    all_ns = sum(waiting.length_ns for waiting in run.waiting)
    why = []
    if met.count:
        why.append(
            f"The ranks wait for each other for {duration(met.waited_ns)} in "
            f"{counted(met.count, 'collective')}, {share(met.waited_ns, all_ns)} of their "
            f"time; the bytes take {duration(met.wire_ns)}."
        )
    late_ranks = [late for late in run.late_ranks if late.cause != START_SKEW]
    for late in run.late_ranks:
        if late.cause == START_SKEW and late.held_up_ns * 20 >= met.waited_ns > 0:
            why.append(
                f"{share(late.held_up_ns, met.waited_ns)} of it is for rank {late.rank}, whose "
                "recording begins late: that tells nothing of other steps."
            )
    # Whether the ranks wait for each other long enough to mention.
    is_long = met.waited_ns >= thresholds.named_gain * all_ns > 0
    if run.lateness is not None:
        why += _in_turn(run, met, late_ranks, run.lateness, thresholds)
    elif late_ranks and (is_long or run.pace is not None):
        why += _late_sentences(run, met, late_ranks, thresholds)
    elif met.count and _missing(run):
        why.append(
            f"These ranks come to their collectives together. If one of the {_missing(run):,} "
            "that are missing comes late, they wait for it, and that looks like time on the wire."
        )
    elif met.count and not is_long:
        why.append("No rank holds up the others: they come to their collectives together.")
    if run.pace is not None:
        why += _itself(run.pace, analyses)
    why += _clocks(run)
    why += bubble(run, all_ns)
    for link in run.slow_links[:_NAMED]:
        why.append(
            f"The link between ranks {', '.join(map(str, link.ranks))} is slow: {link.type} of "
            f"{size(link.message_bytes)} takes {duration(link.wire_ns)} there, "
            f"{duration(link.others_wire_ns)} in like groups. As fast as theirs, it would make a "
            f"step {share(link.saves_ns * max(1, run.steps), run.span_ns)} shorter "
            f"({duration(link.saves_ns)})."
        )
    return why


def _spread(
    run: RunVerdict, met: Collectives, named: Sequence[LateRank], thresholds: Thresholds
) -> str:
    """Says that several ranks are late for some of the waiting each, and none is worth a change;
    empty if one is."""
    saves_ns = [late.saves_ns for late in named if late.saves_ns is not None]
    most_ns = max(saves_ns, default=0) * max(1, run.steps)
    if len(saves_ns) < len(named) or most_ns >= thresholds.named_gain * (run.span_ns or 1):
        return ""
    ranks = [str(late.rank) for late in named[:_NAMED]]
    if len(named) > _NAMED:
        ranks.append(f"{len(named) - _NAMED} more")
    waited = share(sum(late.held_up_ns for late in named), met.waited_ns)
    return (
        f"{waited} of it is for ranks {', '.join(ranks[:-1])} and {ranks[-1]}, each for a part: as "
        "quick as the others, none "
        f"of them would make {whole(run)} {percent(thresholds.named_gain)} shorter alone."
    )


def _late_sentences(
    run: RunVerdict, met: Collectives, late_ranks: Sequence[LateRank], thresholds: Thresholds
) -> Iterator[str]:
    """Which ranks the others wait for, and why they are late."""
    long = [late for late in late_ranks if late.held_up_ns * 20 >= met.waited_ns]
    drained = drained_ranks(met, long)
    named = [late for late in long if late not in drained]
    if len(named) > 1 and run.pace is None and (spread := _spread(run, met, named, thresholds)):
        yield spread
        named = []
    for number, late in enumerate(named[: 1 if named and named[0].in_pipeline else _NAMED]):
        yield _in_pipeline(run, late) if late.in_pipeline else _late(run, met, late, number == 0)
    if drained:
        yield (
            "Stages of a pipeline end one after the other, so they come to a collective at "
            "different times: what no rank's own work explains of it is the pipeline's drain."
        )


def _in_turn(
    run: RunVerdict,
    met: Collectives,
    late_ranks: Sequence[LateRank],
    lateness: Lateness,
    thresholds: Thresholds,
) -> Iterator[str]:
    """How lateness moves from rank to rank, what it costs, and what the ranks have in common."""
    late = [each for each in late_ranks if each.times_last]
    most = max(late, key=lambda each: each.held_up_ns)
    alone_ns = max(each.saves_ns or 0 for each in late) * max(1, run.steps)
    yield (
        f"No rank sets the pace alone: {counted(len(late), 'rank')} come last in turn, rank "
        f"{most.rank} in {most.times_last:,} of {counted(met.count, 'collective')}, for "
        f"{share(most.held_up_ns, met.waited_ns)} of the waiting. As quick as the others, a single "
        f"rank would make {whole(run)} at most {share(alone_ns, run.span_ns or 1)} shorter; if no "
        f"rank took longer than usual for a part of a step, it would be "
        f"{share(lateness.saves_ns, run.span_ns or 1)} shorter "
        f"({duration(lateness.saves_ns / max(1, run.steps))})."
    )
    if not lateness.stops:
        return
    calls = counted(lateness.stops, "call")
    ranks = counted(lateness.stopped_ranks, "rank")
    where = f"{calls} of up to {duration(lateness.longest_ns)} on {ranks}"
    named = ", ".join(_clipped(place) for place in lateness.places)
    if lateness.kinds >= thresholds.fewest_alike:
        yield (
            f"What the ranks have in common: {where} that usually take microseconds, in "
            f"{lateness.kinds:,} kinds of calls ({named}): threads lose their cores. Keep each "
            "rank's threads on cores of their own (threads-and-quota), on all ranks."
        )
    elif named:
        yield f"What the ranks have in common: {where} that are usually shorter ({named})."


def drained_ranks(met: Collectives | None, late_ranks: Sequence[LateRank]) -> list[LateRank]:
    """The ranks that come late to a collective because the pipeline drains: nothing that they do
    themselves makes them late, or nothing that would make the run shorter."""
    if met is None or not met.exchanges:
        return []
    return [
        late
        for late in late_ranks
        if not late.in_pipeline and (late.cause is None or late.saves_ns == 0)
    ]


def _in_pipeline(run: RunVerdict, late: LateRank) -> str:
    peers = "the median of the other stages"
    spends = "" if late.cause is None else f": {_spends(run, late, peers)}"
    return (
        f"The other stages of the pipeline wait for rank {late.rank}{spends}. If it took as long "
        f"as they do, {whole(run)} would be {_shorter(run, late)}."
    )


def _late(run: RunVerdict, met: Collectives, late: LateRank, is_first: bool) -> str:
    name, part = f"rank {late.rank}", share(late.held_up_ns, met.waited_ns)
    last = "which makes others come late"
    if late.times_last:
        last = f"which comes last in {late.times_last:,} of {counted(met.count, 'collective')}"
    waits = f"{part} of it" if is_first else f"Another {part}"
    sentence = f"{waits} is for {name}, {last}"
    if late.cause == SLOW_LINK:
        return f"{sentence}: its link is slow ({late.place})."
    if late.cause is None:
        return f"{sentence}; the traces do not show what it spends more time on than the others."
    saves = ""
    if late.saves_ns is not None and run.span_ns:
        gains = late.saves_ns * max(1, run.steps) >= _SHOWN * run.span_ns
        shorter = _shorter(run, late) if gains else "no shorter: others are as late"
        saves = f" If it took as long as they do, {whole(run)} would be {shorter}."
    peers = "the other rank" if len(run.ranks) == 2 else "the median of the ranks that do the same"
    return f"{sentence}: {_spends(run, late, peers)}.{saves}"


def _spends(run: RunVerdict, late: LateRank, peers: str) -> str:
    """What a late rank spends more time on than its peers, and where."""
    where = f", most of it in {_clipped(late.place)}" if late.place else ""
    step = " in the average step" if run.steps > 1 else ""
    excess = f"{duration(late.excess_ns)} more on {late.cause}{step}"
    return f"it spends {excess} than {peers}{where}"


def _shorter(run: RunVerdict, late: LateRank) -> str:
    saves_ns = (late.saves_ns or 0) * max(1, run.steps)
    return f"{share(saves_ns, run.span_ns or 1)} shorter ({duration(late.saves_ns)})"


def _clocks(run: RunVerdict) -> list[str]:
    """A sentence on clocks that differ by enough of a step to be seen in a timeline."""
    if run.clocks is None or run.step_ns is None:
        return []
    differing = [
        clock
        for clock in sorted(run.clocks.ranks, key=lambda clock: -abs(clock.ahead_ns))
        if abs(clock.ahead_ns) * 100 >= run.step_ns and abs(clock.ahead_ns) > 2 * clock.residual_ns
    ]
    if not differing:
        return []
    named = ", ".join(
        f"rank {clock.rank}'s is {duration(abs(clock.ahead_ns))} "
        f"{'ahead' if clock.ahead_ns > 0 else 'behind'}"
        for clock in differing[:_NAMED]
    )
    rest = f" and {len(differing) - _NAMED:,} more" if len(differing) > _NAMED else ""
    return [
        f"Clocks differ: {named}{rest} (by the ends of collectives, to about "
        f"{duration(run.clocks.residual_ns)}); the numbers here allow for that."
    ]


def _itself(late: LateRank, analyses: Sequence[Analysis]) -> list[str]:
    """What bounds the rank that sets the pace."""
    if late.cause == SLOW_LINK:
        return []
    analysis = next(rank for rank in analyses if rank.trace.trace_id == late.trace_id)
    bound = bound_by(analysis.verdict.regime, analysis.verdict.bottleneck)
    best = next((advice for advice in analysis.advice if not advice.once), None)
    worth = ""
    if best is not None and best.where:
        worth = f"; most worth a change there: {lowered(best.title)} ({_clipped(best.where)})"
    return [f"Rank {late.rank} itself is {bound}{worth}."]


def describe_link(link: SlowLink) -> str:
    """A link in a phrase."""
    ranks = ", ".join(map(str, link.ranks))
    return f"{link.type} of {size(link.message_bytes)} among ranks {ranks}"


def with_waits(
    analyses: Sequence[Analysis], run: RunVerdict, thresholds: Thresholds
) -> list[Analysis]:
    """The analyses of a run's ranks, in which the verdict of each says which rank it waits for, if
    it waits long."""
    waits = {waiting.trace_id: waiting for waiting in run.waiting}
    return [
        _with_wait(analysis, waits.get(analysis.trace.trace_id), run, thresholds)
        for analysis in analyses
    ]


def _with_wait(
    analysis: Analysis, waiting: WaitingRank | None, run: RunVerdict, thresholds: Thresholds
) -> Analysis:
    if waiting is None or waiting.awaited_rank is None or analysis.trace.rank == run.pace_rank:
        return analysis
    if waiting.waited_ns < thresholds.small_gain * waiting.length_ns:
        return analysis
    sentence = (
        f"In the run, this rank waits for others: {duration(waiting.waited_ns)} in collectives "
        f"({share(waiting.waited_ns, waiting.length_ns)} of its steps), "
        f"{duration(waiting.awaited_ns)} of it for rank {waiting.awaited_rank}."
    )
    verdict = replace(analysis.verdict, why=[*analysis.verdict.why, sentence])
    return replace(analysis, verdict=verdict)


def _clipped(call_site: str) -> str:
    """The end of a call site: it has the function's name."""
    text = printable(call_site)
    return text if len(text) <= _LONGEST else "..." + text[3 - _LONGEST :]
