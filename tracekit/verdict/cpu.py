"""The verdict on a trace without GPU ops: compares compute operators with everything else.

Waits for other ranks count on the side of the work, as a device's collectives do: less overhead
would only make them longer.
"""

from __future__ import annotations

from tracekit.causes import cause_of
from tracekit.text import duration, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import NEXT
from tracekit.verdict.model import Facts, HostThread, Saving, Verdict
from tracekit.verdict.regime import UNKNOWN, weigh

_RECORD_DEVICE = (
    "Record the GPU, too: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])."
)
_WORK = ("compute", "communication")


def judge_host(facts: Facts, host: HostThread, thresholds: Thresholds) -> Verdict:
    """The verdict on the trace's busiest thread."""
    span = facts.window.span_ns
    times = {
        "compute": host.compute_ns,
        "communication": host.communication_ns,
        "dispatch": host.dispatch_ns,
        "view": host.view_ns,
        "allocation": host.allocation_ns,
        "python": host.python_ns,
        "input": host.input_ns,
        "compilation": host.compilation_ns,
        "runtime": host.runtime_ns,
        "untraced": host.untraced_ns,
    }
    fractions = {name: ns / span if span else 0.0 for name, ns in times.items()}
    overheads = {name: ns for name, ns in times.items() if name not in _WORK}
    explained_ns = sum(times.values()) - host.untraced_ns
    why = [
        f"The trace has no GPU ops. Compute operators took {share(host.compute_ns, span)} of its "
        f"busiest thread ({duration(host.compute_ns)} of {duration(span)})."
    ]
    if host.launches:
        why.append(
            f"{host.launches:,} calls launched work on a device that was not recorded: the trace "
            "cannot tell which side is the bottleneck."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [_RECORD_DEVICE])
    if host.device_evidence:
        why.append(
            f"This is a job with a GPU ({host.device_evidence}), whose work was not recorded: the "
            "trace cannot tell whether the device or the host is the bottleneck."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [_RECORD_DEVICE])
    if not span or explained_ns < thresholds.recorded_share * span:
        why.append(
            f"{host.operators:,} operators and the other recorded slices cover only "
            f"{share(explained_ns, span)} of it: the trace does not show what the host did."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [])
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
    next_ = [NEXT[bottleneck]]
    return Verdict(bound.regime, bottleneck, "high", fractions, why, savings, bound.margin, next_)


def host_doubts(verdict: Verdict, host: HostThread) -> list[str]:
    """Sentences for what makes the bottleneck of a trace without GPU ops doubtful."""
    if verdict.bottleneck not in ("math", "memory-bandwidth"):
        return []
    known = host.math_ns + host.memory_ns
    unknown = host.compute_ns - known
    if abs(host.math_ns - host.memory_ns) > unknown:
        return []
    return [
        f"Recorded shapes tell math from memory for only {share(known, host.compute_ns)} of the "
        "compute operators' time: the limit could be the other (record_shapes=True)."
    ]


def _limit(host: HostThread, thresholds: Thresholds) -> str:
    """What limits the work; math where too little tells."""
    if host.communication_ns > host.compute_ns:
        return "communication"
    is_known = host.math_ns + host.memory_ns >= thresholds.shaped_work_share * host.compute_ns
    return "memory-bandwidth" if is_known and host.memory_ns > host.math_ns else "math"
