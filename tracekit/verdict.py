"""Judgement: from the answers of queries to a regime, a bottleneck, and sentences.

A run is overhead-bound when the GPU's idle time for which the host was late outweighs the work the
GPU did, compute-bound when it does not. A trace without GPU ops is judged on its busiest thread:
operators that compute against everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit import thresholds as limit
from tracekit.analysis import Facts, Finding, Gpu, Host, Idle, Saving, Verdict
from tracekit.text import duration, share

OVERHEAD, COMPUTE, UNKNOWN = "overhead-bound", "compute-bound", "unknown"

# What the host was about (queries/idle/idle_causes.sql) -> the bottleneck it amounts to.
_HOST_BOTTLENECK = {
    "launch": "launch",
    "runtime": "launch",
    "dispatch": "dispatch",
    "view": "dispatch",
    "python": "python",
    "untraced": "python",
    "sync": "sync",
    "copy": "copy",
    "input": "input",
    "allocation": "allocation",
    "compilation": "compilation",
    "launch_latency": "latency",
}

_MATH = ("gemm", "attention", "convolution")

_NEXT = {
    "launch": "Launch less: capture the step as a CUDA graph "
    "(torch.compile(mode='reduce-overhead')), or fuse kernels.",
    "dispatch": "Dispatch less: torch.compile the model, or use fused and foreach operators.",
    "python": "Keep Python out of the loop: torch.compile, or move per-step logic out of it.",
    "sync": "Remove synchronisation from the loop: .item(), .cpu(), print of a tensor, "
    "torch.cuda.synchronize().",
    "copy": "Copy from pinned memory with non_blocking=True, on a stream of its own.",
    "input": "Load ahead: more DataLoader workers, a larger prefetch_factor, pinned memory.",
    "allocation": "Let the caching allocator settle: warm up before measuring, keep sizes stable, "
    "or set expandable_segments:True.",
    "compilation": "Compile before measuring: warm up with every shape that occurs.",
    "communication": "Overlap communication with compute: larger buckets, an earlier start, "
    "or a different sharding.",
    "memory-bandwidth": "Move fewer bytes: fuse neighbouring elementwise kernels, "
    "or use a smaller dtype.",
    "math": "Do less arithmetic, or do it in a faster dtype; faster kernels pay here.",
    "latency": "Look at the longest gaps: `tracekit query idle_gaps`.",
}


def judge(facts: Facts, health: list[Finding], step_regimes: Sequence[str] = ()) -> Verdict:
    """The verdict on a window; `step_regimes` are those of the trace's steps, to compare with."""
    if facts.gpu is not None and facts.idle is not None:
        verdict = _judge_gpu(facts, facts.gpu, facts.idle)
    elif facts.host is not None:
        verdict = _judge_host(facts, facts.host)
    else:
        reason = "The trace has neither GPU ops nor operators: there is nothing to judge."
        verdict = Verdict(UNKNOWN, None, "none", {}, [reason], [], None, [])
    differing = [regime for regime in step_regimes if regime != verdict.regime]
    if differing and facts.window.kind != "step":
        counts = ", ".join(f"{differing.count(each)} {each}" for each in dict.fromkeys(differing))
        verdict.why.append(
            f"Of its {len(step_regimes)} profiler steps, from start to end on the host, {counts}."
        )
    return _doubted(verdict, facts, health)


def judge_briefly(facts: Facts) -> tuple[str, str | None]:
    """Regime and bottleneck of a window."""
    verdict = judge(facts, [])
    return verdict.regime, verdict.bottleneck


# -- a device --------------------------------------------------------------------------------------


def _judge_gpu(facts: Facts, gpu: Gpu, idle: Idle) -> Verdict:
    span = facts.window.span_ns
    latency = idle.causes.get("launch_latency", 0)
    # A device waits for the host, too, while the call that launches its next op is still under way
    # (nothing else was queued), and when it has run dry.
    host = idle.host_late_ns - latency + idle.device_in_launch_ns + idle.after_last_op_ns
    margin = (gpu.busy_ns - host) / span if span else 0.0
    unexplained = idle.unlinked_ns + latency
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
    savings = _savings(gpu, idle)
    why = [_busy_sentence(facts, gpu)]
    if not span:
        return Verdict(UNKNOWN, None, "none", fractions, why, savings, None, [])
    if unexplained >= limit.UNEXPLAINED_SHARE * span and unexplained > abs(gpu.busy_ns - host):
        why.append(
            f"{share(unexplained, span)} of the {facts.window.name} is idle time that the trace "
            f"does not explain ({duration(idle.unlinked_ns)} ended by ops without a launch, "
            f"{duration(latency)} between a launch's return and its op): it could turn the verdict "
            "either way."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, savings, margin, [_NEXT["latency"]])
    if margin < 0:
        bottleneck = _host_bottleneck(idle)
        why += _overhead_sentences(facts, idle, host)
        regime = OVERHEAD
    else:
        bottleneck = _device_bottleneck(facts, gpu)
        why += _compute_sentences(facts, gpu, idle, bottleneck)
        regime = COMPUTE
    if facts.launch is not None:
        why.append(_launch_sentence(facts))
    return Verdict(regime, bottleneck, "high", fractions, why, savings, margin, [_NEXT[bottleneck]])


def _host_bottleneck(idle: Idle) -> str:
    total = {"launch": idle.device_in_launch_ns}
    for cause, ns in idle.causes.items():
        name = _HOST_BOTTLENECK[cause]
        total[name] = total.get(name, 0) + ns
    # Launch latency is the device's share of being late: named only where nothing else is.
    return max((name for name in total if name != "latency"), key=lambda name: total[name])


def _device_bottleneck(facts: Facts, gpu: Gpu) -> str:
    exposed = {"communication": gpu.exposed_comm_ns, "copy": gpu.exposed_memcpy_ns}
    worst = max(exposed, key=lambda name: exposed[name])
    if exposed[worst] >= limit.EXPOSED_SHARE * facts.window.span_ns:
        return worst
    if gpu.kernels and gpu.compute_ns < limit.SHORT_KERNEL_NS * gpu.kernels:
        return "latency"
    math_ns, other_ns = _math_and_other(facts)
    return "math" if math_ns >= other_ns else "memory-bandwidth"


def _math_and_other(facts: Facts) -> tuple[int, int]:
    """Kernel time in classes whose kernels usually are limited by arithmetic, and in the others."""
    classes = {k: ns for k, ns in facts.kernel_class_ns.items() if k != "communication"}
    math_ns = sum(ns for name, ns in classes.items() if name in _MATH)
    return math_ns, sum(classes.values()) - math_ns


def _savings(gpu: Gpu, idle: Idle) -> list[Saving]:
    exposed: dict[str, int] = {
        "communication": gpu.exposed_comm_ns,
        "copy": gpu.exposed_memcpy_ns,
        "launch": idle.device_in_launch_ns,
    }
    for cause, ns in idle.causes.items():
        name = _HOST_BOTTLENECK[cause]
        exposed[name] = exposed.get(name, 0) + ns
    ranked = sorted(exposed.items(), key=lambda item: -item[1])
    return [Saving(name, ns) for name, ns in ranked if ns > 0]


def _busy_sentence(facts: Facts, gpu: Gpu) -> str:
    span = facts.window.span_ns
    return (
        f"The GPU was busy for {share(gpu.busy_ns, span)} of the {facts.window.name} "
        f"({duration(gpu.busy_ns)} of {duration(span)})."
    )


def _overhead_sentences(facts: Facts, idle: Idle, host: int) -> list[str]:
    span = facts.window.span_ns
    named = sorted(idle.causes.items(), key=lambda item: -item[1])[:3]
    causes = ", ".join(f"{cause} {share(ns, span)}" for cause, ns in named)
    sentences = [
        f"For {share(host, span)} of it the GPU had nothing to do because the host had not "
        "launched the next op yet: that outweighs the GPU's work."
    ]
    if causes:
        sentences.append(
            "While it waited, the launching thread was busy with (share of the "
            f"{facts.window.name}): {causes}."
        )
    if idle.causes.get("untraced", 0) > 0.05 * span:
        sentences.append(
            "`untraced` is time between recorded slices: Python, or native code not recorded."
        )
    return sentences


def _compute_sentences(facts: Facts, gpu: Gpu, idle: Idle, bottleneck: str) -> list[str]:
    span = facts.window.span_ns
    sentences = [
        f"The host was late for {share(idle.host_late_ns, span)} of it: "
        "a faster host would gain at most that."
    ]
    if bottleneck in ("communication", "copy"):
        exposed = {
            "communication": (gpu.exposed_comm_ns, "communication that no compute covers"),
            "copy": (gpu.exposed_memcpy_ns, "copies and fills that no kernel covers"),
        }
        for ns, what in sorted(exposed.values(), reverse=True):
            if ns >= limit.EXPOSED_SHARE / 2 * span:
                sentences.append(f"{share(ns, span)} ({duration(ns)}) is {what}.")
    elif bottleneck == "latency":
        mean = gpu.compute_ns // max(1, gpu.kernels)
        sentences.append(
            f"Its {gpu.kernels:,} kernels take {duration(mean)} on average: too short to fill it."
        )
    else:
        math_ns, other_ns = _math_and_other(facts)
        sentences.append(
            f"{share(math_ns, math_ns + other_ns)} of summed kernel time is in matrix products, "
            "attention and convolution, going by kernel names; rooflines were not computed."
        )
    return sentences


def _launch_sentence(facts: Facts) -> str:
    launch = facts.launch
    assert launch is not None
    delay = launch.delay_p50_ns
    meaning = (
        "near the device's floor of 4 to 8 us: the device is waiting when work arrives"
        if delay <= 2 * limit.LAUNCH_FLOOR_NS
        else "well above the device's floor of 4 to 8 us: work queues up before it runs"
    )
    return f"{launch.count:,} launches, median launch delay {duration(delay)}: {meaning}."


# -- the host alone --------------------------------------------------------------------------------


def _judge_host(facts: Facts, host: Host) -> Verdict:
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
    operators_ns = host.compute_ns + host.dispatch_ns + host.view_ns
    why = [
        f"The trace has no GPU ops; on its busiest thread, operators that compute took "
        f"{share(host.compute_ns, span)} of {facts.window.name} "
        f"({duration(host.compute_ns)} of {duration(span)})."
    ]
    if not span or operators_ns < limit.OPERATOR_SHARE * span:
        why.append(
            f"{host.operators:,} operators cover {share(operators_ns, span)} of it: "
            "what the host did is not in the trace."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [])
    if host.launches:
        why.append(
            f"{host.launches:,} calls launched work on a device, and none of it was recorded: "
            "whether the device or the host was the slower one the trace does not tell."
        )
        return Verdict(UNKNOWN, None, "none", fractions, why, [], None, [])
    overhead = sum(overheads.values())
    margin = (host.compute_ns - overhead) / span
    worst = max(overheads, key=lambda name: overheads[name])
    ranked: dict[str, int] = {}
    for name, ns in overheads.items():
        ranked[_HOST_BOTTLENECK[name]] = ranked.get(_HOST_BOTTLENECK[name], 0) + ns
    savings = [
        Saving(name, ns) for name, ns in sorted(ranked.items(), key=lambda item: -item[1]) if ns > 0
    ]
    why.append(
        f"{share(overhead, span)} is overhead, "
        f"most of it {worst} ({share(overheads[worst], span)})."
    )
    if margin < 0:
        bottleneck = max(ranked, key=lambda name: ranked[name])
        return Verdict(
            OVERHEAD, bottleneck, "high", fractions, why, savings, margin, [_NEXT[bottleneck]]
        )
    why.append("Which of its operators are limited by memory the trace does not tell.")
    return Verdict(COMPUTE, "math", "high", fractions, why, savings, margin, [_NEXT["math"]])


# -- confidence ------------------------------------------------------------------------------------


def _doubted(verdict: Verdict, facts: Facts, health: list[Finding]) -> Verdict:
    """The verdict with its confidence lowered by what makes it doubtful, said in sentences."""
    if verdict.regime == UNKNOWN or verdict.margin is None:
        return verdict
    doubts = []
    plain = abs(verdict.margin) >= limit.PLAIN_MARGIN
    if abs(verdict.margin) < limit.CLOSE_MARGIN:
        doubts.append("The two sides are within 10 % of the window: a close call.")
    ops = facts.gpu.gpu_ops if facts.gpu else facts.host.operators if facts.host else 0
    if ops < limit.FEW_OPS:
        doubts.append(f"Only {ops} ops were recorded: too few to speak for a run.")
    serious = {
        "truncated": "The trace is cut off, and what is missing could change the verdict.",
        "rejected_events": "Parts of the trace could not be read.",
        "unlinked_gpu_ops": "Some GPU ops have no launch in the trace.",
        "starts_before_launch": "Device and host clocks differ.",
        "profiler_dilation": "The profiler slowed the host: unprofiled, the overhead is smaller.",
    }
    for finding in health:
        if finding.code == "profiler_dilation" and verdict.regime == COMPUTE:
            continue
        if finding.code in serious:
            doubts.append(serious[finding.code])
    if verdict.bottleneck == "python" and any(each.code == "no_stacks" for each in health):
        advice = "Record Python stacks (with_stack=True) to see which lines the time goes to."
        verdict = replace(verdict, try_next=[*verdict.try_next, advice])
    levels = ("high", "medium", "low")
    level = min(2, len(doubts) + (0 if plain else 1))
    if ops < limit.FEW_OPS:
        level = 2
    return replace(verdict, confidence=levels[level], why=verdict.why + doubts)
