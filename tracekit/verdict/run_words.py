"""The verdict of a run, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from tracekit.causes import words
from tracekit.replay.grammar import BUBBLE
from tracekit.text import counted, duration, lowered, percent, printable, share, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import (
    Analysis,
    LateRank,
    RunSaving,
    RunVerdict,
    SlowLink,
    WaitingRank,
)
from tracekit.verdict.regime import UNKNOWN, bound_by

START_SKEW = "start-skew"
_NAMED = 3
# A gain below this share counts as none.
_SHOWN = 0.0005
# Cut a call site in a sentence at this length.
_PLACE = 70


def headline(run: RunVerdict, analyses: Sequence[Analysis]) -> str:
    """The number of ranks, and which one sets the pace; else what bounds them, and what removing
    the largest cause of time from all of them would save."""
    present, missing = len(run.ranks), _missing(run)
    ranks = f"{present:,} of {run.world_size:,} ranks" if missing else counted(present, "rank")
    if run.pace is not None:
        cause = run.pace.cause
        return f"{ranks}: rank {run.pace_rank} sets the pace{f', by {cause}' if cause else ''}"
    bound, alike = bound_of_most(analyses)
    said = [f"{'all' if len(alike) == len(analyses) else f'{len(alike)} of them'} are {bound}"]
    if not bound or 2 * len(alike) <= len(analyses):
        said = []
    best = run.savings[0] if run.savings else None
    if missing and best is not None and best.remove == "network":
        # What looks like time on the wire may be waiting for a missing rank.
        said, best = [], None
    if best is not None and best.remove == BUBBLE:
        said.append("the stages of the pipeline wait for each other (pipeline-bubble)")
    elif best is not None:
        is_it = bound.endswith(f" by {best.remove}") and best.remove not in words("limited")
        removed = "without it" if is_it else _removed(best)
        said.append(f"{removed}, {whole(run)} would be {percent(best.share)} shorter")
    elif run.span_ns is None and any(each.gpu and each.gpu.exposed_comm_ns for each in analyses):
        said.append("who waits for whom is unknown")
    elif run.span_ns is None:
        said = said or ["no collective was recorded on them"]
    elif missing:
        said.append("none of these holds up the others, but a missing one may")
    else:
        said.append("no rank holds up the others")
    return f"{ranks}: {'; '.join(said)}"


def bound_of_most(analyses: Sequence[Analysis]) -> tuple[str, list[Analysis]]:
    """What bounds most of the ranks, and these ranks; empty if that is unknown."""
    alike: dict[str, list[Analysis]] = defaultdict(list)
    for each in analyses:
        alike[bound_by(each.verdict.regime, each.verdict.bottleneck)].append(each)
    bound = max(alike, key=lambda each: len(alike[each]), default="")
    return ("", []) if bound in ("", UNKNOWN) else (bound, alike[bound])


def _removed(best: RunSaving) -> str:
    """What a saving removes, in the words of the table of savings."""
    return {
        "straggler": f"with rank {best.rank} as quick as the others",
        "stragglers": "with every rank as quick as the others",
        "slow-link": "with the slow link as fast as the others",
        "network": "with collectives that take no time",
    }.get(best.remove, f"without {words('limited').get(best.remove, best.remove)}")


def whole(run: RunVerdict) -> str:
    """What the prices of a run are a part of."""
    return "a step of the run" if run.steps else "the run"


def _missing(run: RunVerdict) -> int:
    """How many ranks of the run are missing."""
    return max(0, (run.world_size or 0) - len(run.ranks))


def no_verdict(reason: str, analyses: Sequence[Analysis]) -> list[str]:
    """Says that several traces have no verdict as one run; empty if none of them is a rank."""
    is_run = any(each.trace.rank is not None for each in analyses)
    return [f"No verdict on all together: {reason}."] if reason and is_run else []


def began_late(late: Sequence[LateRank]) -> list[str]:
    """A sentence on each rank that is late because its recording began late."""
    return [
        f"The others wait {duration(each.held_up_ns)} for rank {each.rank}, whose recording begins "
        f"{duration(each.excess_ns)} after the median of the others: its delay happened before "
        "that, and whether it is late in other steps is unknown."
        for each in late
        if each.cause == START_SKEW
    ]


def sentences(run: RunVerdict, analyses: Sequence[Analysis], thresholds: Thresholds) -> list[str]:
    """Which rank the others wait for, why it is late, and what the run would gain."""
    if run.span_ns is None or run.collectives is None:
        return []
    done = run.collectives
    all_ns = sum(each.length_ns for each in run.waiting)
    found = []
    if done.count:
        found.append(
            f"The ranks wait for each other for {duration(done.waited_ns)} in "
            f"{counted(done.count, 'collective')}, {share(done.waited_ns, all_ns)} of their "
            f"time; the bytes take {duration(done.wire_ns)}."
        )
    late = [each for each in run.late_ranks if each.cause != START_SKEW]
    # Whether the ranks wait for each other long enough to mention.
    is_long = done.waited_ns >= thresholds.named_gain * all_ns > 0
    if late and (is_long or run.pace is not None):
        named = [each for each in late if each.held_up_ns * 20 >= done.waited_ns]
        of_drain = [each for each in named if done.exchanges and _is_unexplained(each)]
        named = [each for each in named if each not in of_drain]
        named = named[: 1 if named and named[0].in_pipeline else _NAMED]
        found += [_late(run, each, place == 0) for place, each in enumerate(named)]
        if of_drain:
            found.append(
                "Stages of a pipeline end one after the other, so they come to a collective at "
                "different times: what no rank's own work explains of it is the pipeline's drain."
            )
    elif done.count and _missing(run):
        found.append(
            f"These ranks come to their collectives together. If one of the {_missing(run):,} "
            "that are missing comes late, they wait for it, and that looks like time on the wire."
        )
    elif done.count and not is_long:
        found.append("No rank holds up the others: they come to their collectives together.")
    if run.pace is not None:
        found += _itself(run.pace, analyses)
    found += _clocks(run)
    if run.bubble_ns:
        found.append(
            f"The stages of the pipeline wait for each other for {duration(run.bubble_ns)} in "
            f"sends and receives (pipeline-bubble), {share(run.bubble_ns, all_ns)} of the ranks' "
            "time."
        )
    for link in run.slow_links[:_NAMED]:
        found.append(
            f"The link between ranks {', '.join(map(str, link.ranks))} is slow: {link.type} of "
            f"{size(link.message_bytes)} takes {duration(link.wire_ns)} there, "
            f"{duration(link.others_wire_ns)} in like groups. As fast as theirs, it would make a "
            f"step {share(link.saves_ns * max(1, run.steps), run.span_ns)} shorter "
            f"({duration(link.saves_ns)})."
        )
    return found


def _is_unexplained(late: LateRank) -> bool:
    """Whether nothing that a rank does itself makes it late."""
    return late.cause is None and not late.in_pipeline


def _late(run: RunVerdict, late: LateRank, is_first: bool) -> str:
    assert run.collectives is not None
    if late.in_pipeline:
        own = (
            ""
            if late.cause is None
            else f": {_spends(run, late, 'the median of the other stages')}"
        )
        return (
            f"The other stages of the pipeline wait for rank {late.rank}{own}. If it took as long "
            f"as they do, {whole(run)} would be {_shorter(run, late)}."
        )
    done, name = run.collectives, f"rank {late.rank}"
    part = share(late.held_up_ns, done.waited_ns)
    last = f"which comes last in {late.times_last:,} of {counted(done.count, 'collective')}"
    if not late.times_last:
        last = "which makes others come late"
    said = f"{part} of it is for {name}, {last}"
    if not is_first:
        said = f"Another {part} is for {name}, {last}"
    if late.cause == "slow-link":
        return f"{said}: its link is slow ({late.place})."
    if late.cause is None:
        return f"{said}; the traces do not show what it spends more time on than the others."
    saves = ""
    if late.saves_ns is not None and run.span_ns:
        gains = late.saves_ns * max(1, run.steps) >= _SHOWN * run.span_ns
        less = _shorter(run, late) if gains else "no shorter: others are as late"
        saves = f" If it took as long as they do, {whole(run)} would be {less}."
    peers = "the other rank" if len(run.ranks) == 2 else "the median of the ranks that do the same"
    return f"{said}: {_spends(run, late, peers)}.{saves}"


def _spends(run: RunVerdict, late: LateRank, peers: str) -> str:
    """What a late rank spends more time on than its peers, and where."""
    where = f", most of it in {_clipped(late.place)}" if late.place else ""
    each = " in the average step" if run.steps > 1 else ""
    more = f"{duration(late.excess_ns)} more on {late.cause}{each}"
    return f"it spends {more} than {peers}{where}"


def _shorter(run: RunVerdict, late: LateRank) -> str:
    saves_ns = (late.saves_ns or 0) * max(1, run.steps)
    return f"{share(saves_ns, run.span_ns or 1)} shorter ({duration(late.saves_ns)})"


def _clocks(run: RunVerdict) -> list[str]:
    """A sentence on clocks that differ by enough of a step to be seen in a timeline."""
    if run.clocks is None or run.step_ns is None:
        return []
    off = [
        each
        for each in sorted(run.clocks.ranks, key=lambda each: -abs(each.ahead_ns))
        if abs(each.ahead_ns) * 100 >= run.step_ns and abs(each.ahead_ns) > 2 * each.residual_ns
    ]
    if not off:
        return []
    named = ", ".join(
        f"rank {each.rank}'s is {duration(abs(each.ahead_ns))} "
        f"{'ahead' if each.ahead_ns > 0 else 'behind'}"
        for each in off[:_NAMED]
    )
    more = f" and {len(off) - _NAMED:,} more" if len(off) > _NAMED else ""
    return [
        f"Clocks differ: {named}{more} (by the ends of collectives, to about "
        f"{duration(run.clocks.residual_ns)}); the numbers here allow for that."
    ]


def _itself(late: LateRank, analyses: Sequence[Analysis]) -> list[str]:
    """What bounds the rank that sets the pace."""
    if late.cause == "slow-link":
        return []
    own = next(each for each in analyses if each.trace.trace_id == late.trace_id)
    bound = bound_by(own.verdict.regime, own.verdict.bottleneck)
    best = next((each for each in own.advice if not each.once), None)
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
    waits = {each.trace_id: each for each in run.waiting}
    return [_with_wait(each, waits.get(each.trace.trace_id), run, thresholds) for each in analyses]


def _with_wait(
    analysis: Analysis, waiting: WaitingRank | None, run: RunVerdict, thresholds: Thresholds
) -> Analysis:
    if waiting is None or waiting.awaited_rank is None or analysis.trace.rank == run.pace_rank:
        return analysis
    if waiting.waited_ns < thresholds.small_gain * waiting.length_ns:
        return analysis
    said = (
        f"In the run, this rank waits for others: {duration(waiting.waited_ns)} in collectives "
        f"({share(waiting.waited_ns, waiting.length_ns)} of its steps), "
        f"{duration(waiting.awaited_ns)} of it for rank {waiting.awaited_rank}."
    )
    verdict = replace(analysis.verdict, why=[*analysis.verdict.why, said])
    return replace(analysis, verdict=verdict)


def _clipped(place: str) -> str:
    """The end of a call site: it has the function's name."""
    text = printable(place)
    return text if len(text) <= _PLACE else "..." + text[3 - _PLACE :]
