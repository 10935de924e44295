"""The verdict on a trace without GPU ops: compares compute operators with everything else."""

from __future__ import annotations

from tracekit.causes import cause_of
from tracekit.text import duration, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import COMPUTE, NEXT, OVERHEAD, UNKNOWN
from tracekit.verdict.model import Facts, HostThread, Saving, Verdict


def judge_host(facts: Facts, host: HostThread, thresholds: Thresholds) -> Verdict:
    """The verdict on the trace's busiest thread."""
    span = facts.window.span_ns
    times = {
        "compute": host.compute_ns,
        "dispatch": host.dispatch_ns,
        "view": host.view_ns,
        "python": host.python_ns,
        "input": host.input_ns,
        "compilation": host.compilation_ns,
        "runtime": host.runtime_ns,
        "untraced": host.untraced_ns,
    }
    fractions = {name: ns / span if span else 0.0 for name, ns in times.items()}
    overheads = {name: ns for name, ns in times.items() if name != "compute"}
    explained_ns = sum(times.values()) - host.untraced_ns
    why = [
        f"The trace has no GPU ops. On its busiest thread, compute operators took "
        f"{share(host.compute_ns, span)} of {facts.window.name} "
        f"({duration(host.compute_ns)} of {duration(span)})."
    ]
    if not span or explained_ns < thresholds.recorded_share * span:
        why.append(
            f"{host.operators:,} operators and the other recorded slices cover only "
            f"{share(explained_ns, span)} of it: the trace does not show what the host did."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [])
    if host.launches:
        why.append(
            f"{host.launches:,} calls launched work on a device, but none of that work was "
            "recorded: the trace cannot tell whether the device or the host is the bottleneck."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [])
    overhead = sum(overheads.values())
    margin = (host.compute_ns - overhead) / span
    worst = max(overheads, key=lambda name: overheads[name])
    ranked: dict[str, int] = {}
    for name, ns in overheads.items():
        ranked[cause_of(name)] = ranked.get(cause_of(name), 0) + ns
    savings = [
        Saving(name, ns) for name, ns in sorted(ranked.items(), key=lambda item: -item[1]) if ns > 0
    ]
    why.append(
        f"{share(overhead, span)} is overhead, "
        f"the largest part of it {worst} ({share(overheads[worst], span)})."
    )
    if margin < 0:
        bottleneck = max(ranked, key=lambda name: ranked[name])
        return Verdict(
            OVERHEAD, bottleneck, "high", fractions, why, savings, margin, [NEXT[bottleneck]]
        )
    why.append("The trace does not tell which operators are limited by memory.")
    return Verdict(COMPUTE, "math", "high", fractions, why, savings, margin, [NEXT["math"]])
