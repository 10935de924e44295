"""How sure a verdict is: each doubt lowers the confidence and adds a sentence that names it."""

from __future__ import annotations

from dataclasses import replace

from tracekit.replay.gains import Causal
from tracekit.text import duration, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Beside, Facts, Finding, HostThread, Verdict
from tracekit.verdict.regime import (
    COMPUTE,
    OVERHEAD,
    REGIMES,
    UNKNOWN,
    accounted,
    bound_of,
    weigh,
)
from tracekit.verdict.steady import is_single_pass, repeats_nothing, repetition_doubts

# From the surest down; each doubt lowers it by one.
LEVELS = ("high", "medium", "low")
# More sentences than this are not read; so many of them are reasons, however many the doubts.
_MOST, _FEWEST = 6, 4

_SERIOUS = {
    "truncated": "The trace is cut off; the missing part could change the verdict.",
    "rejected_events": "Parts of the trace could not be read.",
    "shared_file": "Two writers shared the trace's file, and parts of both are missing.",
    "unlinked_gpu_ops": "Some GPU ops have no launch in the trace.",
    "graph_without_kernels": "The trace does not show what its CUDA graphs ran.",
    "starts_before_launch": "Device and host clocks differ.",
    "profiler_dilation": "The profiler slowed the host: without it, the overhead is smaller.",
}


def doubted(
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
        return replace(verdict, why=verdict.why[:_MOST])
    doubts = []
    if abs(margin) < thresholds.close_margin:
        doubts.append(f"The two sides are within {thresholds.close_margin:.0%}: a close call.")
    ops = facts.gpu.gpu_ops if facts.gpu else facts.host.operators if facts.host else 0
    doubts += repetition_doubts(ops, causal, beside.one_offs, beside.repetition, thresholds)
    if causal is not None:
        doubts += _causal_doubts(verdict, facts, causal, thresholds)
    if facts.gpu is None and facts.host is not None:
        doubts += _host_doubts(verdict, facts.host, shaped=beside.shaped)
    # They come last: the caveats tell of them as well.
    for finding in health:
        if finding.code == "profiler_dilation" and verdict.regime == COMPUTE:
            continue
        if finding.code in _SERIOUS:
            doubts.append(_SERIOUS[finding.code])
    if verdict.bottleneck == "python" and any(each.code == "no_stacks" for each in health):
        advice = "Record Python stacks (with_stack=True) to see which lines the time goes to."
        verdict = replace(verdict, try_next=[*verdict.try_next, advice])
    plain = abs(margin) >= thresholds.plain_margin
    level = min(len(LEVELS) - 1, len(doubts) + (0 if plain else 1))
    if ops < thresholds.few_ops or repeats_nothing(beside.repetition):
        level = len(LEVELS) - 1
    if level == 0 and is_single_pass(beside.repetition, thresholds):
        level = 1
        doubts.append("A single pass was recorded: no second one shows how much of it is usual.")
    confidence = LEVELS[level]
    reasons = verdict.why[: max(_FEWEST, _MOST - len(doubts))]
    return replace(verdict, confidence=confidence, why=[*reasons, *doubts][:_MOST])


def _causal_doubts(
    verdict: Verdict, facts: Facts, causal: Causal, thresholds: Thresholds
) -> list[str]:
    doubts = []
    if causal.gains.unknown >= thresholds.doubtful_share:
        doubts.append(
            f"{percent(causal.gains.unknown)} of the window is waiting that the trace does not "
            "explain."
        )
    if facts.gpu is not None and facts.idle is not None:
        bound = bound_of(facts, causal.gains, thresholds)
        if bound.is_capped:
            doubts.append(
                f"The device is idle for only {percent(bound.host)} of the window: the host gains "
                "more only if streams run side by side without slowing each other."
            )
        by_time = REGIMES[accounted(facts.gpu, facts.idle, causal.gains)]
        if by_time != verdict.regime:
            doubts.append(
                "By time alone (device busy time against time waiting for the host), the run would "
                f"be {by_time}."
            )
    if causal.clock_shift_ns < -thresholds.wait_ns:
        doubts.append(
            f"For the replay, {duration(-causal.clock_shift_ns)} were taken from the device's "
            "times: calls returned before the ops that they wait for ended."
        )
    if causal.clock_shift_ns > 0:
        doubts.append(
            f"For the replay, {duration(causal.clock_shift_ns)} were added to the device's times: "
            "the smallest shift with which no op starts before its launch."
        )
    if causal.undilated is not None and verdict.regime == OVERHEAD:
        host, device = causal.undilated
        # Without that cost, a host that gains little has slack.
        if weigh(host, device, "device", thresholds.small_gain).regime != OVERHEAD:
            doubts.append(
                "Without the profiler's cost to the host, halving the host's work would gain only "
                f"{percent(host)}, halving the device's {percent(device)}."
            )
    return doubts


def _host_doubts(verdict: Verdict, host: HostThread, *, shaped: bool) -> list[str]:
    """Sentences for what makes the bottleneck of a trace without GPU ops doubtful."""
    if verdict.bottleneck not in ("math", "memory-bandwidth"):
        return []
    known = host.math_ns + host.memory_ns
    unknown = host.compute_ns - known
    if abs(host.math_ns - host.memory_ns) > unknown:
        return []
    how = "" if shaped else " (record_shapes=True)"
    return [
        f"Recorded shapes tell math from memory for only {share(known, host.compute_ns)} of the "
        f"compute operators' time: the limit could be the other{how}."
    ]
