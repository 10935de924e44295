"""The verdict on a trace, in sentences. The regime comes from regime.py, doubts from doubts.py."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tracekit.causes import (
    LIMITS,
    UNKNOWN_LIMIT,
    UNRECORDED,
    in_switches_of,
    in_words_of,
    words,
)
from tracekit.evidence.model import Evidence, Gpu, Launch, Period, is_snapshot
from tracekit.replay.model import Gains, largest_first
from tracekit.text import duration, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Basis, Case
from tracekit.verdict.confidence import with_doubts
from tracekit.verdict.judge_host import judge_host, times_of, unknown
from tracekit.verdict.memory import judge_memory
from tracekit.verdict.model import Saving, Verdict
from tracekit.verdict.next_steps import is_captured, next_step
from tracekit.verdict.notes import hole_sentences, notes_of, recorded_meanwhile
from tracekit.verdict.once import named_rest, named_window, steady_reason
from tracekit.verdict.recorder import without_recorder
from tracekit.verdict.regime import (
    OVERHEAD,
    REGIMES,
    UNKNOWN,
    Bound,
    bound_of,
    removed_of,
    side_by_time,
    steady_busy_ns,
)
from tracekit.verdict.sentences import headline, kinds_of, turns_of
from tracekit.verdict.units import limited_units
from tracekit.verdict.windows import are_few, outside, step_sentences, window_sentences

_NOTHING = ("The trace has neither GPU ops nor operators", ": there is nothing to judge")
_SNAPSHOT = (
    "This is a memory snapshot", ": it tells who holds memory, and nothing of where time goes"
)  # fmt: skip
# Causes for which the host's time is waiting.
_WAITING = ("sync", "copy")
# Times of a device and of its idle time: field names without `_ns`.
_OF_GPU = ("busy", "compute", "exposed_comm", "exposed_memcpy", "idle")
_OF_IDLE = ("host_late", "device", "unlinked", "after_last_op")


def judge(evidence: Evidence, thresholds: Thresholds) -> Verdict:
    """The verdict on a window: its bound, refined by what follows from it."""
    evidence = without_recorder(evidence)
    basis = Basis(evidence, thresholds, _bound(evidence, thresholds))
    case = Case(evidence, thresholds, basis.bound, verdict=_judged(basis))
    for refined in REFINEMENTS:
        case = replace(case, verdict=refined(case))
    return case.verdict


# What a warm run has less of.
_OF_A_START = ("launch", "compilation", "allocation")


def _bound(evidence: Evidence, thresholds: Thresholds) -> Bound | None:
    period, gains = evidence.period, evidence.period.gains
    if period.gpu is None or gains is None or not gains.window_ns or not period.window.span_ns:
        return None
    return bound_of(period, thresholds)


def _judged(basis: Basis) -> Verdict:
    """The regime and the bottleneck with their reasons; a first sentence if the regime is
    unknown."""
    evidence, period = basis.evidence, basis.period
    if period.gpu is not None and period.gains is not None:
        return _judge_device(basis)
    if period.gpu is not None:
        reason = ("The run cannot be replayed", f": {evidence.no_replay}")
        why = [f"{_busy(period)}."]
        return unknown(period.window, why, reason, {}, [words("next")["idle_gaps"]])
    if period.host is not None:
        return judge_host(period.window, period.host, basis.thresholds)
    if evidence.memory is not None:
        return judge_memory(period.window, evidence.memory, basis.thresholds)
    if is_snapshot(evidence.health):
        ask = f"See who holds it: {words('commands')['memory']}."
        return unknown(period.window, [], _SNAPSHOT, {}, [ask])
    return unknown(period.window, [], _NOTHING, {}, [words("next")["record_device"]])


# -- refinements -----------------------------------------------------------------------------------


def _with_reasons(case: Case) -> Verdict:
    """Other windows and the other side as reasons; the reason for an unknown regime comes last."""
    verdict = case.verdict
    at = len(verdict.why) - (verdict.regime == UNKNOWN)
    windows = [*step_sentences(case), *window_sentences(case)]
    why = [*verdict.why[:at], *windows, *verdict.why[at:]]
    is_replayed = case.bound is not None and verdict.bottleneck is not None
    return replace(verdict, why=[*why, *_lesser_sentences(case)] if is_replayed else why)


def _with_next(case: Case) -> Verdict:
    """What to record next time: a warm run first, and last the data that was guessed."""
    verdict, gains, first, last = case.verdict, case.period.gains, [], []
    if case.finding("cold_start"):
        first = [words("next")["warm_run"]]
        if verdict.bottleneck in _OF_A_START:
            return replace(verdict, try_next=first)
    if verdict.margin is not None and verdict.bottleneck in ("python", UNRECORDED):
        if gains is not None and not gains.work_ns.get("dispatch"):
            last = [words("next")["record_operators"]]
        elif case.finding("no_stacks"):
            last = [words("next")["record_stacks"]]
    return replace(verdict, try_next=[*first, *verdict.try_next, *last])


def _with_headline(case: Case) -> Verdict:
    """Also with what must be known beside it."""
    said = f"{headline(case).rstrip('.')}."
    return replace(case.verdict, headline=said, notes=notes_of(case))


def _in_its_words(case: Case) -> Verdict:
    """With the device's word for a GPU, and the recorder's switches."""
    verdict, word = case.verdict, case.evidence.device_word
    why, doubts, try_next, notes = (
        [in_words_of(word, _switched(case, text)) for text in texts]
        for texts in (verdict.why, verdict.doubts, verdict.try_next, verdict.notes)
    )
    lowered_by = [
        replace(each, sentence=in_words_of(word, _switched(case, each.sentence)))
        for each in verdict.lowered_by
    ]
    said = in_words_of(word, verdict.headline)
    return replace(
        verdict, headline=said, why=why, doubts=doubts, try_next=try_next, lowered_by=lowered_by,
        notes=notes,
    )  # fmt: skip


def _switched(case: Case, text: str) -> str:
    """The text with the recorder's switches, without switching off stacks that were off."""
    text = in_switches_of(case.evidence.profiler, text)
    return text.replace("with_stack=False, ", "") if case.finding("no_stacks") else text


# Each returns the verdict for a case.
REFINEMENTS: tuple[Callable[[Case], Verdict], ...] = (
    _with_reasons,
    _with_next,
    _with_headline,
    with_doubts,
    _in_its_words,
)


# -- what bounds a window --------------------------------------------------------------------------


def judge_briefly(period: Period, thresholds: Thresholds) -> tuple[str, str | None]:
    """The regime and the bottleneck of a window, without the sentences."""
    if period.gpu is not None and period.gains is not None:
        bound = bound_of(period, thresholds)
        return bound.regime, bound.bottleneck
    if period.host is None:
        return UNKNOWN, None
    verdict = judge_host(period.window, period.host, thresholds)
    return verdict.regime, verdict.bottleneck


def _judge_device(basis: Basis) -> Verdict:
    evidence, period = basis.evidence, basis.period
    bound, thresholds = basis.bound, basis.thresholds
    window, gpu, idle, gains = period.window, period.gpu, period.idle, period.gains
    assert gpu is not None and idle is not None and gains is not None
    span = window.span_ns
    of_idle = {f"idle_{name}": ns for name, ns in times_of(idle, _OF_IDLE).items()}
    shares = times_of(gpu, _OF_GPU) | of_idle
    fractions = {name: ns / span if span else 0.0 for name, ns in shares.items()}
    # The upper bound on removing math or memory, if it also limits all kernels with unknown limit.
    most_ns = {name: round(gain * gains.window_ns) for name, gain in gains.removed_at_most.items()}
    saved_ns = {name: round(gain * gains.window_ns) for name, gain in _removed(evidence).items()}
    savings = [
        Saving(name, ns, max(ns, most_ns[name]) if name in most_ns else None)
        for name, ns in saved_ns.items()
        if ns > 0
    ]
    busy = steady_reason(basis) or (_busy(period), "")
    if bound is None:
        return unknown(window, [], busy, fractions, [], savings)
    why = [f"{busy[0]}{busy[1]}."]
    regime, margin = bound.regime, bound.margin
    bottleneck = _advised(evidence, bound) or bound.bottleneck
    # A few ops do not represent a long trace.
    is_few = are_few(evidence.ops, evidence.units, thresholds)
    if is_few and (bottleneck == UNRECORDED or outside(basis)):
        count = "1 GPU op was" if evidence.ops == 1 else f"{evidence.ops} GPU ops were"
        reason = (f"Only {count} recorded, too few to represent a run", "")
        return unknown(window, why, reason, fractions, [words("next")["more_work"]], savings)
    if bottleneck is None:
        # The largest part of the window, so that users can look it up.
        ns, what = max(
            (idle.unlinked_ns, "for ops whose launch is unknown"),
            (idle.device_ns, "although work is launched"),
            (idle.causes.get("untraced", 0), "with nothing recorded on the host"),
        )
        why += hole_sentences(evidence, thresholds)
        activities = recorded_meanwhile(evidence) if ns == idle.causes.get("untraced") else ""
        if activities:
            what = "while its launching thread calls nothing"
            why.append(f"These waits are in {activities}.")
        reason = (
            f"For {share(ns, span)} of the window, the GPU waits {what}",
            ", which the trace does not explain: it could turn the verdict either way",
        )
        has_operators = bool(gains.work_ns.get("dispatch"))
        asks = ["record_launches" if has_operators else "record_calls"]
        if evidence.has_calls:
            asks = ["keep_links"]
        if activities or gpu.linked:
            asks = ["unrecorded_waits" if activities else "idle_gaps"]
        if ns == idle.causes.get("untraced") and not has_operators:
            asks = ["record_operators", *asks]
        next_ = [words("next")[ask] for ask in asks]
        return unknown(window, why, reason, fractions, next_, savings, margin)
    gained = _gain_sentences(basis, bound, bottleneck)
    agrees = REGIMES[side_by_time(gpu, idle, gains)] == regime
    # The main reason comes first: the gains, if a busy device is not the bottleneck.
    why = [*why, *gained] if agrees else [gained[0], *why, *gained[1:]]
    if bottleneck == UNKNOWN_LIMIT and evidence.dominant:
        why.append(f"{evidence.dominant[:1].upper()}{evidence.dominant[1:]}.")
    if bound.takes_turns:
        most = share(min(turns_of(period)), gains.window_ns)
        why.append(f"Overlapping host and GPU alone would save at most {most}.")
    why += _limit_sentences(gains, regime, thresholds)
    why += _exposed_sentences(gpu, span, thresholds)
    why += hole_sentences(evidence, thresholds)
    why += _floor_sentences(evidence, thresholds)
    kind = kinds_of(basis).get(bottleneck, bottleneck)
    advice = [next_step(kind, evidence.launch, thresholds, shaped=evidence.shaped)]
    if kind in (*LIMITS, UNKNOWN_LIMIT) and gains.device > 0:
        rest, gain = named_rest(basis), percent(gains.device)
        advice[0] += f" In half the device's time, {rest} would be {gain} shorter."
    return Verdict("", regime, bottleneck, "none", window, fractions, why, savings, margin, advice)


def _advised(evidence: Evidence, bound: Bound) -> str | None:
    """The cause that the first advice reduces, if it makes host and device take turns; or if the
    advice removes waits of a host that bounds the run, and thereby saves more than removing the
    slower side's bottleneck or halving the host's work (a replay without the waits' time still
    keeps their order)."""
    gains, advised = evidence.period.gains, evidence.advised
    if advised is None or gains is None or bound.bottleneck is None:
        return None
    if bound.takes_turns:
        return advised if advised in words("takes_turns") else None
    most = gains.removed.get(bound.bottleneck, 0.0)
    is_waiting = bound.side == "host" and advised in _WAITING
    return advised if is_waiting and evidence.advised_share > min(most, bound.host) else None


def _removed(evidence: Evidence) -> dict[str, float]:
    """The gain from removing each cause, largest first; at least the gain of the first advice
    against it."""
    removed, advised = removed_of(evidence.period), evidence.advised
    if advised in _WAITING:
        removed[advised] = max(removed.get(advised, 0.0), evidence.advised_share)
    return largest_first(removed)


def _busy(period: Period) -> str:
    gpu, span = period.gpu, period.window.span_ns
    assert gpu is not None
    return (
        f"The GPU was busy for {share(gpu.busy_ns, span)} of {named_window(period.window)} "
        f"({duration(gpu.busy_ns)} of {duration(span)})"
    )


def _gain_sentences(basis: Basis, bound: Bound, bottleneck: str) -> list[str]:
    thresholds, window = basis.thresholds, named_rest(basis)
    gains, gpu = basis.period.gains, basis.period.gpu
    assert gains is not None and gpu is not None
    busy = steady_busy_ns(gpu, gains) / max(1, gains.window_ns)
    host, device = _gained(gains.host, thresholds), _gained(gains.device, thresholds)
    recorder = "Without the profiler's cost, half" if gains.recorder_ns else "Half"
    sentences = [f"{recorder} the host's work makes {window} {host}; half the device's, {device}."]
    is_host = bound.side == "host"
    if bound.by_time:
        waited = "more" if is_host else "less"
        by_time = f"by time alone, the GPU spent {waited} time waiting for the host than working"
        if bound.is_even:
            sentences.append("Neither helps much: host and device wait for each other in turn.")
        elif gains.host >= thresholds.small_gain:
            sentences.append(
                f"With the host's gain capped at the device's idle share ({percent(bound.host)}), "
                f"neither helps much; {by_time}."
            )
        elif busy >= thresholds.busy_share:
            sentences.append(
                "Neither helps: the host's and the device's chains of work are about equally long, "
                "and the host has no slack. The device is busy nearly all the time."
            )
        else:
            sentences.append(f"Neither helps much; {by_time}.")
    removed = _removed(basis.evidence)
    if (saved := removed.get(bottleneck, 0.0)) > 0:
        others = [
            f"{name} {percent(gain)}"
            for name, gain in removed.items()
            if name != bottleneck and gain >= thresholds.named_gain
        ][:3]
        rest = f" Removing other causes: {', '.join(others)}." if others else ""
        # If kernels with unknown limit may count too, the next sentence gives the bound.
        at_most = "" if gains.removed_at_most.get(bottleneck, 0.0) > saved else "at most "
        sentences.append(
            f"Removing {bottleneck} would save {at_most}{percent(saved)} "
            f"({duration(round(saved * gains.window_ns))}).{rest}"
        )
    return sentences


def _lesser_sentences(case: Case) -> list[str]:
    """The other side's distance from bounding the window, and how launches reach the device."""
    evidence, thresholds, bound = case.evidence, case.thresholds, case.bound
    launch, gains, flip = evidence.launch, evidence.period.gains, evidence.flip
    assert gains is not None and bound is not None
    is_host, sentences = bound.side == "host", []
    if flip is not None and flip <= thresholds.report_flip_up_to and not bound.by_time:
        side, other = ("host", "GPU") if is_host else ("GPU", "host")
        sentences.append(
            f"The {other} becomes the bottleneck only if the {side} gets about "
            f"{flip:.2g} times faster."
        )
    captured, graph = is_captured(launch, thresholds), gains.cuda_graph
    rest = named_rest(case)
    if is_host and graph >= thresholds.named_gain and not captured:
        sentences.append(
            f"With free launches, as in a CUDA graph, {rest} would be {_gained(graph, thresholds)}."
        )
    if launch is not None:
        sentences.append(_launch_sentence(launch, thresholds))
    return sentences


def _floor_sentences(evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """How fast the device could do the judged unit's work; none if that is little of its length,
    or too little of the work is known to say."""
    unit = limited_units(evidence.units, evidence.period.group)
    floor_ns, must_ns = (unit.floor_ns, unit.must_ns) if unit else (None, None)
    if unit is None or floor_ns is None or must_ns is None:
        return []
    least_ns, known = thresholds.small_gain * unit.median_ns, unit.modelled or 0.0
    if floor_ns < least_ns or 2 * known < 1:
        return []
    how = "as it is launched"
    if duration(must_ns) == duration(floor_ns):
        how = "however it is fused"
    elif must_ns >= least_ns:
        how += f", and {duration(must_ns)} however it is fused"
    return [
        f"At its peaks, the device needs {duration(floor_ns)} at least for the work of a "
        f"{unit.kind} {how} (of the kernels' time, {percent(unit.exact)} is of known work and "
        f"{percent(known - (unit.exact or 0.0))} of work with a lower bound)."
    ]


def _exposed_sentences(gpu: Gpu, span_ns: int, thresholds: Thresholds) -> list[str]:
    """A sentence, from the accounting, about communication and copies that no compute overlaps."""
    exposed = [
        (gpu.exposed_comm_ns, "communication", "no compute overlaps it"),
        (gpu.exposed_memcpy_ns, "copies and fills", "no kernel overlaps them"),
    ]
    most = sorted(each for each in exposed if each[0] >= thresholds.exposed_share * span_ns)[::-1]
    if not most:
        return []
    parts = [
        f"{share(ns, span_ns)}{'' if number else ' of the window'} ({duration(ns)})"
        f"{'' if number else ' is'} exposed {what}"
        for number, (ns, what, _) in enumerate(most)
    ]
    lonely = most[0][2] if len(most) == 1 else "no compute overlaps them"
    return [f"{', '.join(parts)}: {lonely}."]


def _gained(gain: float, thresholds: Thresholds) -> str:
    return "no shorter" if gain < thresholds.shown_gain else f"{percent(gain)} shorter"


def _launch_sentence(launch: Launch, thresholds: Thresholds) -> str:
    delay, waiting = launch.first_delay_p50_ns, launch.queue_depth_p50 - 1
    call, floor_ns = launch.launch_call_p50_ns, thresholds.launch_floor_ns
    if delay < 0:
        meaning = ": device and host clocks differ, so delays do not tell who waits"
    elif delay <= floor_ns:
        meaning = f" (floor: up to {duration(floor_ns)}): the device waits when work arrives"
    elif waiting > 0:
        meaning = f": work queues up before it runs ({waiting:,} ahead)"
    else:
        spent = f"{duration(call)} of it" if call < delay else "all of it"
        # Neither the queue nor the call explains a delay longer than a launch.
        late = ": the device waits when work arrives" if delay <= thresholds.wait_ns else ""
        meaning = f" with an empty queue, {spent} in the call{late}"
    calls = "launch" if launch.count == 1 else "launches"
    return f"{launch.count:,} {calls}, median delay {duration(delay)}{meaning}."


def _limit_sentences(gains: Gains, regime: str, thresholds: Thresholds) -> list[str]:
    """A sentence that prices math and memory as ranges, if the device bounds the window and the
    doubt matters (tracekit/replay/prices.py, `removed_at_most`)."""
    doubtful = gains.removed.get(UNKNOWN_LIMIT, 0.0)
    if regime == OVERHEAD or doubtful < thresholds.named_gain:
        return []
    ranges = []
    for name, most in gains.removed_at_most.items():
        low, high = sorted(max(gain, 0.0) for gain in (gains.removed.get(name, 0.0), most))
        ranges.append(f"{name} {share(low, 1)} to {share(high, 1)}")
    return [
        f"The trace does not show whether math or memory limits kernels worth "
        f"{share(doubtful, 1)}: removing {', '.join(ranges)}."
    ]
