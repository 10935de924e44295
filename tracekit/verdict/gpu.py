"""Turns the gains of replayed changes into a regime, a bottleneck and sentences.

A run is overhead-bound if halving the host's work gains more than halving the device's, and
compute-bound if it gains less (tracekit/replay). If neither gains the threshold `small_gain`, the
accounting decides: whether the device spent more time busy than waiting for the host.
tracekit/verdict/cpu.py judges traces without GPU ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracekit.causes import OF_DEVICE, OF_HOST
from tracekit.replay.gains import Causal, Gains
from tracekit.text import duration, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import COMPUTE, OVERHEAD, UNKNOWN, is_captured, next_step
from tracekit.verdict.cpu import judge_host
from tracekit.verdict.limits import limit_sentences, unknown_limits_ns
from tracekit.verdict.model import (
    Facts,
    Finding,
    Gpu,
    Idle,
    OneOffEvent,
    Period,
    Repetition,
    Saving,
    Verdict,
    Window,
)
from tracekit.verdict.steady import (
    repetition_doubts,
    steady_busy_ns,
    steady_sentences,
    step_sentences,
    window_sentences,
)

_UNEXPLAINED = "Look at the longest gaps: `tracekit query idle_gaps`."

_SERIOUS = {
    "truncated": "The trace is cut off; the missing part could change the verdict.",
    "rejected_events": "Parts of the trace could not be read.",
    "unlinked_gpu_ops": "Some GPU ops have no launch in the trace.",
    "graph_without_kernels": "The trace does not show what its CUDA graphs ran.",
    "starts_before_launch": "Device and host clocks differ.",
    "profiler_dilation": "The profiler slowed the host: without it, the overhead is smaller.",
}


@dataclass(frozen=True)
class Beside:
    """What a verdict mentions beside its window: the trace's one-offs, steps and other windows."""

    one_offs: Sequence[OneOffEvent] = ()
    steps: Sequence[Period] = ()
    windows: Sequence[Period] = ()
    repetition: Repetition | None = None


def judge(
    facts: Facts,
    health: list[Finding],
    causal: Causal | None,
    thresholds: Thresholds,
    beside: Beside | None = None,
    no_replay: str = "",
) -> Verdict:
    """The verdict on a window.

    `causal` is None without a replay; then `no_replay` says why a trace with GPU ops could not be
    replayed.
    """
    beside = beside or Beside()
    if facts.gpu is not None and facts.idle is not None and causal is not None:
        verdict = _judge_gpu(facts, facts.gpu, facts.idle, causal, beside, thresholds)
    elif facts.gpu is not None:
        why = [_busy_sentence(facts, facts.gpu), f"The run cannot be replayed: {no_replay}."]
        verdict = Verdict(UNKNOWN, None, "none", {}, why, [], None, [_UNEXPLAINED])
    elif facts.host is not None:
        verdict = judge_host(facts, facts.host, thresholds)
    else:
        reason = "The trace has neither GPU ops nor operators: there is nothing to judge."
        verdict = Verdict(UNKNOWN, None, "none", {}, [reason], [], None, [])
    if facts.window.kind != "step":
        verdict.why.extend(step_sentences(beside.steps, verdict.regime))
    verdict.why.extend(window_sentences(facts, verdict.regime, beside.windows))
    return _doubted(verdict, facts, health, causal, beside, thresholds)


def judge_briefly(
    facts: Facts, gains: Gains | None, thresholds: Thresholds
) -> tuple[str, str | None]:
    """The regime and the bottleneck of a window, without the sentences."""
    if facts.gpu is not None and facts.idle is not None and gains is not None:
        return regime_of(gains, facts.gpu, facts.idle, thresholds)
    verdict = judge(facts, [], None, thresholds)
    return verdict.regime, verdict.bottleneck


# -- regime and bottleneck -------------------------------------------------------------------------


def regime_of(gains: Gains, gpu: Gpu, idle: Idle, thresholds: Thresholds) -> tuple[str, str | None]:
    """The regime and the bottleneck by gains, or by the accounting if neither side gains."""
    # If unexplained waits belonged to one side, halving that side would gain half of them.
    if gains.unknown >= thresholds.unknown_share and gains.unknown / 2 > abs(
        gains.device - gains.host
    ):
        return UNKNOWN, None
    if max(gains.host, gains.device) < thresholds.small_gain:
        regime = _accounted(gpu, idle, gains)
    else:
        regime = OVERHEAD if gains.host > gains.device else COMPUTE
    return regime, _bottleneck(regime, gains)


def _accounted(gpu: Gpu, idle: Idle, gains: Gains) -> str:
    """The regime by time alone: the device's busy time against its time waiting for the host,
    one-offs aside."""
    return OVERHEAD if _waited_ns(idle) - gains.one_offs_ns > gpu.busy_ns else COMPUTE


def _waited_ns(idle: Idle) -> int:
    # A device also waits for the host while the call that launches its next op is still running
    # (nothing else was queued), and after its last op.
    latency = idle.causes.get("launch_latency", 0)
    return idle.host_late_ns - latency + idle.device_in_launch_ns + idle.after_last_op_ns


def _bottleneck(regime: str, gains: Gains) -> str:
    """The cause, on the regime's side, whose removal gains most."""
    names = OF_HOST if regime == OVERHEAD else OF_DEVICE
    best = max(names, key=lambda name: gains.removed.get(name, 0.0))
    if gains.removed.get(best, 0.0) > 0:
        return best
    # Two chains are equally long, so removing one gains nothing: take the cause with most time.
    return max(names, key=lambda name: gains.work_ns.get(name, 0))


# -- a device --------------------------------------------------------------------------------------


def _judge_gpu(
    facts: Facts, gpu: Gpu, idle: Idle, causal: Causal, beside: Beside, thresholds: Thresholds
) -> Verdict:
    gains, span = causal.gains, facts.window.span_ns
    shares = {
        "busy": gpu.busy_ns,
        "compute": gpu.compute_ns,
        "exposed_comm": gpu.exposed_comm_ns,
        "exposed_memcpy": gpu.exposed_memcpy_ns,
        "idle": gpu.idle_ns,
        "idle_host_late": idle.host_late_ns,
        "idle_device": idle.device_ns,
        "idle_unlinked": idle.unlinked_ns,
        "idle_after_last_op": idle.after_last_op_ns,
    }
    fractions = {name: ns / span if span else 0.0 for name, ns in shares.items()}
    savings = [
        Saving(name, round(gain * gains.window_ns), unknown_limits_ns(name, gains))
        for name, gain in gains.removed.items()
        if gain > 0
    ]
    why = [_busy_sentence(facts, gpu)]
    why += steady_sentences(facts, gains, beside.one_offs, thresholds)
    if not gains.window_ns or not span:
        return Verdict(UNKNOWN, None, "none", fractions, why, savings, None, [])
    margin = gains.device - gains.host
    regime, bottleneck = regime_of(gains, gpu, idle, thresholds)
    if bottleneck is None:
        why.append(
            f"{_percent(gains.unknown)} of the window is waiting that the trace does not explain: "
            "it could turn the verdict either way."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, savings, margin, [_UNEXPLAINED])
    busy = steady_busy_ns(facts, beside.one_offs) / max(1, span - gains.one_offs_ns)
    why += _gain_sentences(facts, busy, causal, regime, bottleneck, thresholds)
    why += limit_sentences(gains, regime, thresholds)
    why += _exposed_sentences(gpu, span, thresholds)
    if facts.launch is not None:
        why.append(_launch_sentence(facts, thresholds))
    advice = [next_step(bottleneck, facts.launch, thresholds)]
    return Verdict(regime, bottleneck, "high", fractions, why, savings, margin, advice)


def _busy_sentence(facts: Facts, gpu: Gpu) -> str:
    span = facts.window.span_ns
    return (
        f"The GPU was busy for {share(gpu.busy_ns, span)} of {_called(facts.window)} "
        f"({duration(gpu.busy_ns)} of {duration(span)})."
    )


def _gain_sentences(
    facts: Facts,
    busy: float,
    causal: Causal,
    regime: str,
    bottleneck: str,
    thresholds: Thresholds,
) -> list[str]:
    gains, window = causal.gains, _replayed_window(facts, causal.gains)
    host, device = _gained(gains.host, thresholds), _gained(gains.device, thresholds)
    sentences = [
        f"In a replay with the host's work halved, {window} is {host}; "
        f"with the device's work halved, {device}."
    ]
    if max(gains.host, gains.device) < thresholds.small_gain:
        if busy >= thresholds.busy_share:
            sentences.append(
                "Neither helps: the host's and the device's chains of work are about equally long, "
                "and the host has no slack. The device is busy nearly all the time."
            )
        else:
            more = "more" if regime == OVERHEAD else "less"
            sentences.append(
                f"Neither helps much; by time alone, the GPU spent {more} time waiting for the "
                "host than working."
            )
    elif causal.flip is not None:
        side, other = ("host", "GPU") if regime == OVERHEAD else ("GPU", "host")
        sentences.append(
            f"The {other} becomes the bottleneck only if the {side} gets about "
            f"{causal.flip:.2g} times faster."
        )
    else:
        side = "host" if regime == OVERHEAD else "GPU"
        sentences.append(
            f"The {side} stays the bottleneck even if it gets {thresholds.fastest:.0f} times "
            "faster."
        )
    if (saved := gains.removed.get(bottleneck, 0.0)) > 0:
        others = [
            f"{name} {_percent(gain)}"
            for name, gain in gains.removed.items()
            if name != bottleneck and gain >= thresholds.named_gain
        ][:3]
        rest = f" Removing other causes: {', '.join(others)}." if others else ""
        sentences.append(
            f"Removing {bottleneck} would save at most {_percent(saved)} "
            f"({duration(round(saved * gains.window_ns))}).{rest}"
        )
    captured = is_captured(facts.launch, thresholds)
    if regime == OVERHEAD and gains.cuda_graph > 0 and not captured:
        sentences.append(
            f"With free launches, as in a CUDA graph, {_called(facts.window)} would be "
            f"{_gained(gains.cuda_graph, thresholds)}."
        )
    return sentences


def _replayed_window(facts: Facts, gains: Gains) -> str:
    """Names the window whose fractions the gains are; for a step, adds its replayed length."""
    if facts.window.kind != "step":
        return _called(facts.window)
    return (
        f"{_called(facts.window)} ({duration(gains.window_ns)}, from the previous step's "
        "completion to its own)"
    )


def _called(window: Window) -> str:
    """The window in a sentence: a step by its name, the others with an article."""
    return window.name if window.kind == "step" else f"the {window.name}"


def _exposed_sentences(gpu: Gpu, span_ns: int, thresholds: Thresholds) -> list[str]:
    """Sentences about communication and copies that no compute overlaps, by the accounting."""
    exposed = [
        (gpu.exposed_comm_ns, "communication: no compute overlaps it"),
        (gpu.exposed_memcpy_ns, "copies and fills: no kernel overlaps them"),
    ]
    return [
        f"{share(ns, span_ns)} of the window ({duration(ns)}) is exposed {what}."
        for ns, what in sorted(exposed, reverse=True)
        if ns >= thresholds.exposed_share * span_ns
    ]


def _gained(gain: float, thresholds: Thresholds) -> str:
    if abs(gain) < thresholds.shown_gain:
        return "no shorter"
    return f"{_percent(abs(gain))} {'shorter' if gain > 0 else 'longer'}"


def _percent(fraction: float) -> str:
    return share(fraction, 1)


def _launch_sentence(facts: Facts, thresholds: Thresholds) -> str:
    launch = facts.launch
    assert launch is not None
    delay, waiting = launch.delay_p50_ns, launch.queue_depth_p50 - 1
    floor = f"the device's floor (up to {duration(thresholds.launch_floor_ns)})"
    if delay <= thresholds.launch_floor_ns:
        meaning = f"at {floor}, so the device is already waiting when work arrives"
    elif waiting > 0:
        ahead = f"(median: {waiting:,} ahead)"
        meaning = f"above {floor}, because work queues up before it runs {ahead}"
    else:
        meaning = (
            f"above {floor}, though the median launch finds its queue empty: launch calls are "
            "slow, or the op waits for something else"
        )
    calls = "launch" if launch.count == 1 else "launches"
    return f"{launch.count:,} {calls}, median launch delay {duration(delay)}: {meaning}."


# -- confidence ------------------------------------------------------------------------------------


def _doubted(
    verdict: Verdict,
    facts: Facts,
    health: list[Finding],
    causal: Causal | None,
    beside: Beside,
    thresholds: Thresholds,
) -> Verdict:
    """The verdict with its confidence lowered by each doubt, and a sentence for each."""
    margin = verdict.margin
    if verdict.regime == UNKNOWN or margin is None:
        return verdict
    doubts = []
    if abs(margin) < thresholds.close_margin:
        doubts.append(f"The two sides are within {thresholds.close_margin:.0%}: a close call.")
    ops = facts.gpu.gpu_ops if facts.gpu else facts.host.operators if facts.host else 0
    if ops < thresholds.few_ops:
        doubts.append(f"Only {ops} ops were recorded: too few to represent a run.")
    for finding in health:
        if finding.code == "profiler_dilation" and verdict.regime == COMPUTE:
            continue
        if finding.code in _SERIOUS:
            doubts.append(_SERIOUS[finding.code])
    if causal is not None:
        doubts += repetition_doubts(causal.gains, beside.one_offs, beside.repetition)
        doubts += _causal_doubts(verdict, facts, causal, thresholds)
    if verdict.bottleneck == "python" and any(each.code == "no_stacks" for each in health):
        advice = "Record Python stacks (with_stack=True) to see which lines the time goes to."
        verdict = replace(verdict, try_next=[*verdict.try_next, advice])
    plain = abs(margin) >= thresholds.plain_margin
    level = min(2, len(doubts) + (0 if plain else 1))
    if ops < thresholds.few_ops:
        level = 2
    confidence = ("high", "medium", "low")[level]
    return replace(verdict, confidence=confidence, why=verdict.why + doubts)


def _causal_doubts(
    verdict: Verdict, facts: Facts, causal: Causal, thresholds: Thresholds
) -> list[str]:
    doubts = []
    if causal.gains.unknown >= thresholds.doubtful_share:
        doubts.append(
            f"{_percent(causal.gains.unknown)} of the window is waiting that the trace does not "
            "explain."
        )
    if facts.gpu is not None and facts.idle is not None:
        accounted = _accounted(facts.gpu, facts.idle, causal.gains)
        if accounted != verdict.regime:
            doubts.append(
                "By time alone (device busy time against time waiting for the host), the run would "
                f"be {accounted}."
            )
    if causal.clock_shift_ns:
        doubts.append(
            f"For the replay, {duration(causal.clock_shift_ns)} were added to the device's times: "
            "the smallest shift with which no op starts before its launch."
        )
    if causal.undilated is not None and verdict.regime == OVERHEAD:
        host, device = causal.undilated
        if host <= max(device, thresholds.small_gain):
            doubts.append(
                "Without the profiler's cost to the host, halving the host's work would gain only "
                f"{_percent(host)}, halving the device's {_percent(device)}."
            )
    return doubts
