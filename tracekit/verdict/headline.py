"""The first sentence of a verdict: what holds the run up, as one would tell a colleague."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.causes import words
from tracekit.text import duration, percent, share
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN
from tracekit.verdict.steady import (
    ends_beyond,
    excess_in,
    is_single_pass,
    named_window,
    one_off_name,
)

if TYPE_CHECKING:
    from tracekit.evidence.model import Evidence, Period
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import Verdict
    from tracekit.verdict.regime import Bound


def headline(
    verdict: Verdict, evidence: Evidence, bound: Bound | None, thresholds: Thresholds
) -> str:
    """The sentence; where windows disagree or the two sides take turns, it says so."""
    if verdict.regime == UNKNOWN or verdict.bottleneck is None:
        reason = verdict.why[-1].partition(": ")[0].partition("; ")[0]
        return f"The trace does not tell what holds this run up: {lowered(reason)}"
    if evidence.gpu is None or bound is None:
        if evidence.host is not None and evidence.host.launches:
            does = words("host_does")[verdict.bottleneck]
            return f"The host holds this run up: {does}, though the GPU's work was not recorded"
        return _of_cpu(verdict)
    if bound.takes_turns:
        said = _turns(evidence, bound)
    elif verdict.regime == OVERHEAD:
        said = f"The host holds this run up: {words('host_does')[verdict.bottleneck]}"
    else:
        said = words("device_does")[verdict.bottleneck]
    if once := _once(evidence):
        said = f"{once}{lowered(said)}"
    other = differing_window(evidence, verdict.regime, thresholds)
    return said if other is None else f"{said}. {_differs(evidence, other, thresholds)}"


def differing_window(evidence: Evidence, regime: str, thresholds: Thresholds) -> Period | None:
    """The window with a different regime from the judged one: the GPU-active span if a marked step
    is judged; the whole trace if the span of a single pass is judged and the host works before it.
    """
    window = evidence.window
    other = {"step": "gpu_active", "gpu_active": "trace"}.get(window.kind)
    for each in evidence.windows:
        if each.window.kind != other or each.regime in (regime, UNKNOWN):
            continue
        lead_ns = window.start_ns - each.window.start_ns
        is_led = lead_ns >= thresholds.small_gain * each.window.span_ns
        if other == "gpu_active" or (is_led and is_single_pass(evidence.repetition, thresholds)):
            return each
    return None


def lowered(sentence: str) -> str:
    """As it reads inside another sentence."""
    plain = sentence.rstrip(".")
    return plain if plain[:2].isupper() else plain[:1].lower() + plain[1:]


def _of_cpu(verdict: Verdict) -> str:
    bottleneck = str(verdict.bottleneck)
    if verdict.regime == COMPUTE:
        does = words("cpu_does")
        return does.get(bottleneck, does["math"])
    return f"Most of the time is overhead: {words('cpu_loses').get(bottleneck, bottleneck)}"


def _once(evidence: Evidence) -> str:
    """The start of the sentence where most of the window happened once: the rest is judged."""
    gains, window = evidence.gains, evidence.window
    if gains is None or 2 * gains.one_offs_ns <= window.span_ns:
        return ""
    inside = [(excess_in(window, [each]), one_off_name(each)) for each in evidence.one_offs]
    ns, name = max(inside, default=(0, ""))
    led = f", led by {name} of {duration(ns)}" if ns else ""
    return (
        f"{share(gains.one_offs_ns, window.span_ns)} of {named_window(window)} happened once{led}. "
        f"In the other {duration(gains.window_ns)}, "
    )


def _turns(evidence: Evidence, bound: Bound) -> str:
    gpu, idle, gains = evidence.gpu, evidence.idle, evidence.gains
    assert gpu is not None and idle is not None and gains is not None
    span = evidence.window.span_ns
    turns = words("takes_turns")
    causes = [*filter(None, turns), "dispatch", "launch"]
    why = max(causes, key=lambda cause: gains.removed.get(cause, 0.0))
    if evidence.advised in turns:
        why = str(evidence.advised)
    late = max(0, gpu.idle_ns - idle.unlinked_ns)
    most = min(gpu.busy_ns, late) / span if span else 0.0
    return (
        f"Host and GPU take turns ({share(late, span)} and {share(gpu.busy_ns, span)} of the "
        f"time): {turns.get(why, turns[''])}. Overlapping them would save at most "
        f"{percent(most)}"
    )


def _differs(evidence: Evidence, other: Period, thresholds: Thresholds) -> str:
    """Why another window has a different regime from the judged one."""
    window, span = evidence.window, other.window
    by = f", by {other.bottleneck}" if other.bottleneck else ""
    if span.kind == "trace":
        lead = duration(window.start_ns - span.start_ns)
        return f"With the {lead} before the first GPU op, the run would be {other.regime}{by}"
    named = ends_beyond(window, span, ("its first GPU op", "its last one"), thresholds)
    left_out = f": it leaves out {named}" if named and len(evidence.steps) == 1 else ""
    return f"The GPU-active span alone would be {other.regime}{by}{left_out}"
