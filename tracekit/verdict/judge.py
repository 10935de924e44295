"""The verdict on a trace, in sentences. tracekit/verdict/regime.py judges, confidence.py doubts.

Without GPU ops, compute operators are compared with everything else. Waits for other ranks count on
the side of the work, as a device's collectives do: less overhead would only make them longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit.causes import OF_MEMORY, UNKNOWN_LIMIT, cause_of, in_switches_of, words
from tracekit.evidence.model import Evidence, Gpu, HostThread, Idle, Launch, Period, Window
from tracekit.replay.model import Gains
from tracekit.text import duration, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.confidence import with_doubts
from tracekit.verdict.model import Saving, Verdict
from tracekit.verdict.recorder import with_omission, without_recorder
from tracekit.verdict.regime import (
    OVERHEAD,
    REGIMES,
    UNKNOWN,
    Bound,
    bound_of,
    side_by_time,
    steady_busy_ns,
    unexplained_ns,
    unrecorded_share,
    weigh,
)
from tracekit.verdict.sentences import (
    headline,
    is_captured,
    named_rest,
    named_window,
    next_step,
    steady_sentences,
    step_sentences,
    waits_for_workers,
    window_sentences,
)

_WARM_RUN = "Record a warm run first: here, launches load the code of their kernels."
_UNEXPLAINED = "Look at the longest gaps: `tracekit query idle_gaps`."
_RECORD_DEVICE = "Record the GPU, too: {no_gpu_ops}."
_RECORD_CALLS = "Record the host's calls, too: {no_runtime_calls}."
_NOTHING = "The trace has neither GPU ops nor operators: there is nothing to judge."
_SNAPSHOT = "This is a memory snapshot: it tells who holds memory, and nothing of where time goes."
_ASK_MEMORY = f"See who holds it: {OF_MEMORY}."
# Times of a device, of its idle time, and of a host thread: fields without `_ns`.
_OF_GPU = ("busy", "compute", "exposed_comm", "exposed_memcpy", "idle")
_OF_IDLE = ("host_late", "device", "unlinked", "after_last_op")
_WORK = ("compute", "communication")
_OVERHEADS = (
    "dispatch", "view", "allocation", "python", "input", "compilation", "runtime", "untraced",
)  # fmt: skip


def judge(evidence: Evidence, thresholds: Thresholds) -> Verdict:
    """The verdict on a window."""
    evidence = without_recorder(evidence)
    if evidence.gpu is not None and evidence.gains is not None:
        verdict = _judge_device(evidence, thresholds)
    elif evidence.gpu is not None:
        why = [_busy_sentence(evidence), f"The run cannot be replayed: {evidence.no_replay}."]
        verdict = _unknown(evidence.window, why, {}, [_UNEXPLAINED])
    elif evidence.host is not None:
        verdict = _judge_host(evidence.window, evidence.host, thresholds)
    else:
        is_snapshot = any(finding.code == "memory_snapshot" for finding in evidence.health)
        reason, ask = (_SNAPSHOT, _ASK_MEMORY) if is_snapshot else (_NOTHING, _RECORD_DEVICE)
        verdict = _unknown(evidence.window, [reason], {}, [ask])
    if any(finding.code == "cold_start" for finding in evidence.health):
        verdict.try_next.insert(0, _WARM_RUN)
    # The first sentence gives the last reason of an unknown regime.
    end = len(verdict.why) - (verdict.regime == UNKNOWN)
    verdict.why[end:end] = [
        *step_sentences(evidence, verdict.regime, thresholds),
        *window_sentences(evidence, verdict.regime, thresholds),
    ]
    if evidence.gains is not None and verdict.bottleneck is not None:
        verdict.why.extend(_lesser_sentences(evidence, thresholds))
    verdict = with_doubts(verdict, evidence, thresholds)
    bound = None
    if evidence.gpu is not None and evidence.gains is not None and evidence.gains.window_ns:
        bound = bound_of(evidence, thresholds)
    said = headline(verdict, evidence, bound, thresholds)
    verdict = replace(verdict, headline=said.rstrip(".") + ".")
    verdict = with_omission(verdict, evidence, thresholds)
    why, doubts, try_next = (
        [in_switches_of(evidence.profiler, text) for text in texts]
        for texts in (verdict.why, verdict.doubts, verdict.try_next)
    )
    return replace(verdict, why=why, doubts=doubts, try_next=try_next)


def judge_briefly(period: Period, thresholds: Thresholds) -> tuple[str, str | None]:
    """The regime and the bottleneck of a window, without the sentences."""
    if period.gpu is not None and period.gains is not None:
        bound = bound_of(period, thresholds)
        return bound.regime, bound.bottleneck
    if period.host is None:
        return UNKNOWN, None
    verdict = _judge_host(period.window, period.host, thresholds)
    return verdict.regime, verdict.bottleneck


def _unknown(
    window: Window,
    why: list[str],
    shares: dict[str, float],
    next_: list[str],
    savings: Sequence[Saving] = (),
    margin: float | None = None,
) -> Verdict:
    return Verdict("", UNKNOWN, None, "none", window, shares, why, [*savings], margin, next_)


def _times(found: Gpu | Idle | HostThread, names: Sequence[str]) -> dict[str, int]:
    return {name: getattr(found, f"{name}_ns") for name in names}


# -- a device --------------------------------------------------------------------------------------


def _judge_device(evidence: Evidence, thresholds: Thresholds) -> Verdict:
    window, gpu, idle, gains = evidence.window, evidence.gpu, evidence.idle, evidence.gains
    assert gpu is not None and idle is not None and gains is not None
    span = window.span_ns
    of_idle = {f"idle_{name}": ns for name, ns in _times(idle, _OF_IDLE).items()}
    shares = _times(gpu, _OF_GPU) | of_idle
    fractions = {name: ns / span if span else 0.0 for name, ns in shares.items()}
    # The most that removing math or memory saves: if it also limits all kernels of unknown limit.
    most_ns = {name: round(gain * gains.window_ns) for name, gain in gains.removed_at_most.items()}
    savings = [
        Saving(name, round(gain * gains.window_ns), most_ns.get(name))
        for name, gain in gains.removed.items()
        if gain > 0
    ]
    why = steady_sentences(evidence, thresholds) or [_busy_sentence(evidence)]
    if not gains.window_ns or not span:
        return _unknown(window, why, fractions, [], savings)
    bound = bound_of(evidence, thresholds)
    regime, margin = bound.regime, bound.margin
    bottleneck = _advised(evidence, bound, thresholds) or bound.bottleneck
    if bottleneck is None:
        unexplained = max(gains.unknown, unexplained_ns(gpu, idle, thresholds) / span)
        if unexplained < thresholds.unknown_share:
            unexplained = unrecorded_share(gpu, idle)
        why.append(
            f"{percent(unexplained)} of the window is waiting that the trace does not explain: "
            "it could turn the verdict either way."
        )
        next_ = [_UNEXPLAINED if gpu.linked else _RECORD_CALLS]
        return _unknown(window, why, fractions, next_, savings, margin)
    gained = _gain_sentences(evidence, bound, bottleneck, thresholds)
    agrees = REGIMES[side_by_time(gpu, idle, gains)] == regime
    # The reason comes first: the gains, if a busy device is not the bottleneck.
    why = [*why, *gained] if agrees else [gained[0], *why, *gained[1:]]
    why += _limit_sentences(gains, regime, thresholds)
    why += _exposed_sentences(gpu, span, thresholds)
    advice = [next_step(bottleneck, evidence.launch, thresholds, shaped=evidence.shaped)]
    return Verdict("", regime, bottleneck, "high", window, fractions, why, savings, margin, advice)


def _advised(evidence: Evidence, bound: Bound, thresholds: Thresholds) -> str | None:
    """If host and device take turns: the cause that the first advice reduces, if that saves about
    as much as removing the slower side's whole bottleneck."""
    gains = evidence.gains
    if not bound.takes_turns or evidence.advised is None or gains is None:
        return None
    most = gains.removed.get(bound.bottleneck or "", 0.0)
    return evidence.advised if evidence.advised_share >= thresholds.near_share * most else None


def _busy_sentence(evidence: Evidence) -> str:
    gpu, span = evidence.gpu, evidence.window.span_ns
    assert gpu is not None
    return (
        f"The GPU was busy for {share(gpu.busy_ns, span)} of {named_window(evidence.window)} "
        f"({duration(gpu.busy_ns)} of {duration(span)})."
    )


def _gain_sentences(
    evidence: Evidence, bound: Bound, bottleneck: str, thresholds: Thresholds
) -> list[str]:
    gains, gpu, window = evidence.gains, evidence.gpu, named_rest(evidence, thresholds)
    assert gains is not None and gpu is not None
    busy = steady_busy_ns(gpu, gains) / max(1, evidence.window.span_ns - gains.one_offs_ns)
    host, device = _gained(gains.host, thresholds), _gained(gains.device, thresholds)
    sentences = [f"Half the host's work makes {window} {host}; half the device's, {device}."]
    is_host = bound.side == "host"
    if bound.is_recorders:
        sentences.append(
            "Without what recording cost the host, halving its work would gain only "
            f"{percent(bound.host)}, halving the device's {percent(bound.device)}."
        )
    elif bound.by_time:
        waited = "more" if is_host else "less"
        by_time = f"by time alone, the GPU spent {waited} time waiting for the host than working"
        if gains.host >= thresholds.small_gain:
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
    if (saved := gains.removed.get(bottleneck, 0.0)) > 0:
        others = [
            f"{name} {percent(gain)}"
            for name, gain in gains.removed.items()
            if name != bottleneck and gain >= thresholds.named_gain
        ][:3]
        rest = f" Removing other causes: {', '.join(others)}." if others else ""
        # Where kernels of unknown limit may count as well, the next sentence gives the bound.
        at_most = "" if gains.removed_at_most.get(bottleneck, 0.0) > saved else "at most "
        sentences.append(
            f"Removing {bottleneck} would save {at_most}{percent(saved)} "
            f"({duration(round(saved * gains.window_ns))}).{rest}"
        )
    return sentences


def _lesser_sentences(evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """How far the other side is from bounding the window, and how launches reach the device."""
    causal, launch, bound = evidence.causal, evidence.launch, bound_of(evidence, thresholds)
    assert causal is not None
    is_host, sentences = bound.side == "host", []
    if causal.flip is not None and causal.flip <= thresholds.told_flip and not bound.by_time:
        side, other = ("host", "GPU") if is_host else ("GPU", "host")
        sentences.append(
            f"The {other} becomes the bottleneck only if the {side} gets about "
            f"{causal.flip:.2g} times faster."
        )
    captured, graph = is_captured(launch, thresholds), causal.gains.cuda_graph
    if is_host and graph >= thresholds.named_gain and not captured:
        sentences.append(
            f"With free launches, as in a CUDA graph, {named_rest(evidence, thresholds)} would be "
            f"{_gained(graph, thresholds)}."
        )
    if launch is not None:
        sentences.append(_launch_sentence(launch, thresholds))
    return sentences


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
        f"{share(ns, span_ns)}{'' if place else ' of the window'} ({duration(ns)})"
        f"{'' if place else ' is'} exposed {what}"
        for place, (ns, what, _) in enumerate(most)
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
        # Neither the queue nor the call explains a delay that is longer than a launch takes.
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


def _judge_host(window: Window, host: HostThread, thresholds: Thresholds) -> Verdict:
    """The verdict on the trace's busiest thread."""
    span = window.span_ns
    times = _times(host, (*_WORK, *_OVERHEADS))
    overheads = _times(host, _OVERHEADS)
    fractions = {name: ns / span if span else 0.0 for name, ns in times.items()}
    explained_ns = sum(times.values()) - host.untraced_ns
    why = [
        f"The trace has no GPU ops. Compute operators took {share(host.compute_ns, span)} of its "
        f"busiest thread ({duration(host.compute_ns)} of {duration(span)})."
    ]
    if host.launches:
        # Beside a device, what its operators take on the host is dispatch.
        taken_ns = host.compute_ns + host.dispatch_ns + host.view_ns
        why = [
            f"The trace has no GPU ops. Dispatching operators took {share(taken_ns, span)} of its "
            f"busiest thread ({duration(taken_ns)} of {duration(span)})."
        ]
    waited_ns = host.last_wait_ns if host.launches else None
    if waited_ns is not None and waited_ns < thresholds.small_gain * span:
        return _judge_late_host(window, host, fractions, why)
    if host.launches:
        why.append(
            f"{host.launches:,} calls launched work on a device that was not recorded: the trace "
            "cannot tell which side is the bottleneck."
        )
        return _unknown(window, why, fractions, [_RECORD_DEVICE])
    if host.device_evidence:
        why.append(
            f"This is a job with a GPU ({host.device_evidence}), whose work was not recorded: the "
            "trace cannot tell whether the device or the host is the bottleneck."
        )
        return _unknown(window, why, fractions, [_RECORD_DEVICE])
    if not span or explained_ns < thresholds.recorded_share * span:
        why.append(
            f"{host.operators:,} operators and the other recorded slices cover only "
            f"{share(explained_ns, span)} of it: the trace does not show what the host did."
        )
        return _unknown(window, why, fractions, [])
    overhead = sum(overheads.values())
    worked = host.compute_ns + host.communication_ns
    bound = weigh(overhead / span, worked / span)
    if host.communication_ns:
        why.append(
            f"{share(host.communication_ns, span)} is waiting for other ranks "
            f"({duration(host.communication_ns)})."
        )
    worst = max(overheads, key=lambda name: overheads[name])
    ranked: dict[str, int] = {"communication": host.communication_ns}
    for name, ns in overheads.items():
        ranked[cause_of(name)] = ranked.get(cause_of(name), 0) + ns
    savings = [
        Saving(name, ns) for name, ns in sorted(ranked.items(), key=lambda item: -item[1]) if ns > 0
    ]
    why.append(
        f"{share(overhead, span)} is overhead, "
        f"the largest part of it {worst} ({share(overheads[worst], span)})."
    )
    if bound.side == "host":
        del ranked["communication"]
        bottleneck = max(ranked, key=lambda name: ranked[name])
    else:
        bottleneck = _limit(host, thresholds)
        if bottleneck == "memory-bandwidth":
            why.append(
                f"Memory limits {share(host.memory_ns, host.compute_ns)} of the compute operators' "
                "time: by their shapes, they do few FLOPs per byte that they move."
            )
    is_remote = bottleneck == "communication" and waits_for_workers(host)
    return Verdict(
        "", bound.regime, bottleneck, "high", window, fractions, why, savings, bound.margin,
        [words("next")["workers" if is_remote else bottleneck]],
    )  # fmt: skip


def _judge_late_host(
    window: Window, host: HostThread, fractions: dict[str, float], why: list[str]
) -> Verdict:
    """The verdict where the device was not recorded, but had hardly anything left to do when the
    host had launched everything: the host is late. The time of its operators is dispatch."""
    assert host.last_wait_ns is not None
    why.append(
        f"The device was not recorded, but the last of the host's waits for it takes "
        f"{duration(host.last_wait_ns)} of {duration(window.span_ns)}, after {host.launches:,} "
        "launches: it was done almost as soon as they were, so the host is late."
    )
    times = {
        "dispatch": host.compute_ns + host.dispatch_ns + host.view_ns,
        "python": host.python_ns + host.untraced_ns,
        "launch": host.runtime_ns,
        "input": host.input_ns,
        "allocation": host.allocation_ns,
        "compilation": host.compilation_ns,
    }
    bottleneck = max(times, key=lambda name: times[name])
    return Verdict(
        "", OVERHEAD, bottleneck, "low", window, fractions, why, [], None, [_RECORD_DEVICE]
    )


def _limit(host: HostThread, thresholds: Thresholds) -> str:
    """What limits the work; math if too little is known."""
    if host.communication_ns > host.compute_ns:
        return "communication"
    is_known = host.math_ns + host.memory_ns >= thresholds.shaped_work_share * host.compute_ns
    return "memory-bandwidth" if is_known and host.memory_ns > host.math_ns else "math"
