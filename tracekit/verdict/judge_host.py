"""The verdict on a host without a recorded device, in sentences.

Compute operators are compared with everything else. Waits for other ranks count on the side of the
work, as a device's collectives do: less overhead would only make them longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.causes import UNRECORDED, cause_of, words
from tracekit.evidence.model import Gpu, HostThread, Idle, Window
from tracekit.text import counted, duration, lowered, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.judge_server import judge_front_end
from tracekit.verdict.model import Saving, Verdict
from tracekit.verdict.next_steps import waits_for_workers
from tracekit.verdict.regime import OVERHEAD, UNKNOWN, weigh

# As queries/host/cpu_time.sql names it.
_METRICS = "metrics of CUPTI"
# Times of a host thread: field names without `_ns`.
_WORK = ("compute", "communication")
_OVERHEADS = (
    "dispatch", "view", "allocation", "python", "input", "compilation", "runtime", "untraced",
)  # fmt: skip


def unknown(
    window: Window,
    why: Sequence[str],
    reason: tuple[str, str],
    shares: dict[str, float],
    next_: Sequence[str],
    savings: Sequence[Saving] = (),
    margin: float | None = None,
) -> Verdict:
    """The verdict that the regime is unknown. The last reason says why: the part in the first
    sentence, and the rest."""
    sentence, rest = reason
    headline = f"The trace does not tell what holds this run up: {lowered(sentence)}"
    return Verdict(
        headline, UNKNOWN, None, "none", window, shares, [*why, f"{sentence}{rest}."], [*savings],
        margin, [*next_],
    )  # fmt: skip


def times_of(found: Gpu | Idle | HostThread, names: Sequence[str]) -> dict[str, int]:
    """Fields that end in `_ns`, by name without the suffix."""
    return {name: getattr(found, f"{name}_ns") for name in names}


def judge_host(window: Window, host: HostThread, thresholds: Thresholds) -> Verdict:
    """The verdict on the trace's busiest thread."""
    if host.roles:
        return judge_front_end(window, host, thresholds)
    span = window.span_ns
    times = times_of(host, (*_WORK, "waiting", *_OVERHEADS))
    overheads = times_of(host, _OVERHEADS)
    fractions = {name: ns / span if span else 0.0 for name, ns in times.items()}
    explained_ns = sum(times.values()) - host.untraced_ns
    why = [
        f"The trace has no GPU ops. Compute operators took {share(host.compute_ns, span)} of its "
        f"busiest thread ({duration(host.compute_ns)} of {duration(span)})."
    ]
    if not host.operators and host.python_ns:
        why = ["The trace has neither GPU ops nor operators, but Python frames."]
    elif host.launches or host.device_evidence:
        # If there is a device, operators' host time is dispatch.
        taken_ns = host.compute_ns + host.dispatch_ns + host.view_ns
        why = [
            f"The trace has no GPU ops. Dispatching operators took {share(taken_ns, span)} of its "
            f"busiest thread ({duration(taken_ns)} of {duration(span)})."
        ]
    waited_ns = host.last_wait_ns if host.launches else None
    if waited_ns is not None and waited_ns < thresholds.small_gain * span:
        return _judge_late_host(window, host, fractions, why)
    if host.launches:
        reason = (
            f"{counted(host.launches, 'call')} launched work on a device that was not recorded",
            ": the trace cannot tell which side is the bottleneck",
        )
        return unknown(window, why, reason, fractions, [_lost_kernels(host)])
    # Without an operator, the host gave the device nothing to do.
    if host.device_evidence and host.operators:
        if host.device_read_ns:
            why.append(
                f"{duration(host.device_read_ns)} is in operators that read or copy values of the "
                "device, and wait for it: that is no work of the host, whatever its part's name."
            )
        reason = (
            f"This job uses the GPU ({host.device_evidence}), whose work was not recorded",
            ": the trace cannot tell whether the device or the host is the bottleneck",
        )
        return unknown(window, why, reason, fractions, [words("next")["record_device"]])
    if untold := _untold(host, span, explained_ns, thresholds):
        reason, next_ = untold
        return unknown(window, why, reason, fractions, next_)
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
    ranked |= {"python": ranked["python"] - host.unrecorded_ns, UNRECORDED: host.unrecorded_ns}
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
        "", bound.regime, bottleneck, "none", window, fractions, why, savings, bound.margin,
        [words("next")["workers" if is_remote else bottleneck]],
    )  # fmt: skip


def _untold(
    host: HostThread, span: int, explained_ns: int, thresholds: Thresholds
) -> tuple[tuple[str, str], list[str]] | None:
    """Why the records of a run without a device do not tell what holds it up, and what to record
    instead; None: they do."""
    if not span or explained_ns < thresholds.recorded_share * span:
        return (
            f"{counted(host.operators, 'operator')} and the other recorded slices cover only "
            f"{share(explained_ns, span)} of it",
            ": the trace does not show what the host did",
        ), []
    if 2 * host.waiting_ns > span:
        return (
            f"For {share(host.waiting_ns, span)} of it the busiest thread waits for other threads "
            "or processes",
            ": what they do tells what holds it up",
        ), []
    if 2 * host.filling_ns > span:
        return (
            f"{duration(host.filling_ns)} of {duration(span)} fill tensors with random numbers, as "
            "a model's parameters are before it runs",
            ": the trace shows no run",
        ), [words("next")["more_work"]]
    if host.communication_ns > host.remote_ns and explained_ns == host.communication_ns:
        return (
            "Only collectives were recorded on the busiest thread "
            f"({share(host.communication_ns, span)})",
            ": the trace does not show that they hold anyone up",
        ), [words("next")["all_ranks"]]
    return None


def _judge_late_host(
    window: Window, host: HostThread, fractions: dict[str, float], why: list[str]
) -> Verdict:
    """The verdict if the device was not recorded, but had little left to do once the host had
    launched everything. So the host was late, and its operators' time is dispatch."""
    assert host.last_wait_ns is not None
    why.append(
        f"The device was not recorded, but the last of the host's waits for it takes "
        f"{duration(host.last_wait_ns)} of {duration(window.span_ns)}, after {host.launches:,} "
        "launches: it was done almost as soon as they were, so the host is late."
    )
    times = {
        "dispatch": host.compute_ns + host.dispatch_ns + host.view_ns,
        "python": host.python_ns + host.untraced_ns - host.unrecorded_ns,
        UNRECORDED: host.unrecorded_ns,
        "launch": host.runtime_ns,
        "input": host.input_ns,
        "allocation": host.allocation_ns,
        "compilation": host.compilation_ns,
    }
    bottleneck = max(times, key=lambda name: times[name])
    return Verdict(
        "", OVERHEAD, bottleneck, "none", window, fractions, why, [], None, [_lost_kernels(host)]
    )


def _lost_kernels(host: HostThread) -> str:
    """What to do about launches without kernels: GPU recording was on, since the trace has
    launches."""
    return words("next")["metrics" if _METRICS in (host.device_evidence or "") else "lost_kernels"]


def _limit(host: HostThread, thresholds: Thresholds) -> str:
    """The limit of the work; math if too little is known."""
    if host.communication_ns > host.compute_ns:
        return "communication"
    is_known = host.math_ns + host.memory_ns >= thresholds.shaped_work_share * host.compute_ns
    return "memory-bandwidth" if is_known and host.memory_ns > host.math_ns else "math"
