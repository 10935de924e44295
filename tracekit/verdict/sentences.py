"""The first sentence of a verdict, as an engineer would tell a colleague: one clause, with the
number that decided. What else must be known is in notes.py."""

from __future__ import annotations

from tracekit.causes import UNKNOWN_LIMIT, UNRECORDED, words
from tracekit.evidence.model import Evidence, Period
from tracekit.text import most_of_whole, of_whole, percent, share, shortened
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Basis, Case
from tracekit.verdict.once import excess_in, is_headline_wait, mostly_once, waits_for_rank
from tracekit.verdict.regime import (
    COMPUTE,
    OVERHEAD,
    guessed_ns,
    is_partly_once,
    limits_alike,
    steady_busy_ns,
)

# The most causes that one sentence names, and the most letters of a name from the trace.
_NAMED, _NAME = 3, 48
# The idle causes behind bottlenecks whose names differ.
_IDLE = {UNRECORDED: "untraced", "host-function": "host_function"}


def headline(case: Case) -> str:
    """The sentence on the judged window."""
    verdict, evidence, period = case.verdict, case.evidence, case.period
    if verdict.headline:
        # The step that judged it has already said so.
        return verdict.headline
    if period.gpu is None and period.host is not None and period.host.launches:
        return _of_host(case)
    if once := mostly_once(evidence):
        return once
    if case.bound is not None and is_headline_wait(case):
        return waits_for_rank(case)
    return of_window(case)


def of_window(case: Case) -> str:
    """The sentence without what happened once, and without waits for other ranks."""
    bound = case.bound
    if bound is None:
        return _of_cpu(case)
    if bound.takes_turns:
        return _turns(case)
    if bound.is_even:
        return (
            "Host and GPU are about even: without the profiler, halving the host's work would gain "
            f"{percent(bound.host)}, halving the GPU's {percent(bound.device)}"
        )
    if is_nearly_busy(case):
        gains, busy_ns = case.period.gains, _busy_ns(case.period)
        assert gains is not None
        return (
            "The host holds this run up while it is recorded; without the profiler, the GPU would "
            f"be busy for about {share(busy_ns, gains.window_ns)} of the time"
        )
    return _of_host(case) if case.verdict.regime == OVERHEAD else _of_device(case)


def is_nearly_busy(case: Case) -> bool:
    """Whether the host may be the slower side only because of recording, while the device is busy
    most of the time."""
    gains, flip = case.period.gains, case.evidence.flip
    if case.period.gpu is None or gains is None or case.verdict.regime != OVERHEAD:
        return False
    if not gains.recorder_ns or flip is None:
        return False
    slower = gains.recorded_ns / gains.window_ns
    return 2 * _busy_ns(case.period) >= gains.window_ns and slower >= flip


def _busy_ns(period: Period) -> int:
    """The device's busy time in the window without one-offs and the recorder's cost."""
    gpu, gains = period.gpu, period.gains
    assert gpu is not None and gains is not None
    return min(steady_busy_ns(gpu, gains), gains.window_ns)


def row_ns(period: Period, bottleneck: str, thresholds: Thresholds) -> int:
    """The time of a bottleneck in the account of the window (tracekit/verdict/parts.py)."""
    gpu, idle, host = period.gpu, period.idle, period.host
    if gpu is None or idle is None:
        if host is None:
            return 0
        if bottleneck in ("math", "memory-bandwidth"):
            return host.compute_ns
        name = {"launch": "runtime", UNRECORDED: "untraced"}.get(bottleneck, bottleneck)
        ns = int(getattr(host, f"{name}_ns", 0))
        return ns + (host.compute_ns + host.view_ns) * (host.launches > 0) * (name == "dispatch")
    if bottleneck == "communication":
        return gpu.exposed_comm_ns
    if bottleneck == "copy":
        return max(gpu.exposed_memcpy_ns, idle.causes.get("copy", 0))
    if bottleneck == "latency":
        return idle.device_ns
    name = _IDLE.get(bottleneck, bottleneck)
    if bottleneck == "python":
        untraced_ns, python_ns = (idle.causes.get(each, 0) for each in ("untraced", "python"))
        return guessed_ns(untraced_ns, python_ns, thresholds) or python_ns
    return idle.causes.get(name, 0)


def _spent(case: Case) -> str:
    """The bottleneck's part of the window, such as `2.06 of 4.43 ms`; empty: most of it happened
    once, or the account has no such part."""
    period, bottleneck = case.period, str(case.verdict.bottleneck)
    ns = row_ns(period, bottleneck, case.thresholds)
    once = [each for each in case.evidence.one_offs if each.cause == bottleneck]
    gains = period.gains
    gained_ns = gains.removed.get(bottleneck, 0.0) * gains.window_ns if gains else 0.0
    if not ns or 2 * excess_in(period.window, once) > ns or mostly_once(case.evidence):
        return ""
    if 2 * ns < gained_ns:
        # Most of its time is in other rows.
        return ""
    return of_whole(ns, period.window.span_ns)


def _with_spent(case: Case, sentence: str) -> str:
    spent = _spent(case)
    return f"{sentence} ({spent})" if spent else sentence


def _of_host(case: Case) -> str:
    return f"The host holds this run up: {_host_does(case)}"


def _host_does(case: Case) -> str:
    """The host's activity while the device waits. A single launch, operator or call that takes most
    of that time is named, since the others may be quick; the device may work during a part of it.
    """
    bottleneck, evidence = str(case.verdict.bottleneck), case.evidence
    host, one = words("host_does"), words("longest_does").get(bottleneck)
    does = host[bottleneck]
    period, gains = evidence.period, evidence.period.gains
    if _explains(bottleneck, evidence) and evidence.advised_remedy in host:
        return _with_spent(case, host[evidence.advised_remedy])
    ns = round(gains.removed.get(bottleneck, 0.0) * gains.window_ns) if gains else 0
    longest = next((link for link in evidence.links if link["cause"] == bottleneck), None)
    least_ns = case.thresholds.small_gain * period.window.span_ns
    # If removing a cause gains nothing, no part of it explains the verdict.
    if one and longest and ns and longest["dur_ns"] >= max(ns / 2, least_ns):
        of_all = of_whole(longest["dur_ns"], period.window.span_ns)
        return f"{one}, {shortened(longest['name'], _NAME)}, takes {of_all} by itself"
    if bottleneck == "python" and _is_guess(case):
        has_operators = gains is not None and gains.work_ns.get("dispatch")
        does = host["guessed-python" if has_operators else "guessed-calls"]
    return _with_spent(case, does)


def _explains(bottleneck: str, evidence: Evidence) -> bool:
    """Whether the first fix would save most of the bottleneck's time."""
    gains, saved = evidence.period.gains, evidence.advised_share
    most = gains.removed.get(bottleneck, 0.0) if gains is not None else 1.0
    return 2 * saved >= most and (evidence.advised == bottleneck or saved > most)


def _is_guess(case: Case) -> bool:
    """Whether most of Python's time has no records."""
    idle = case.period.idle
    if idle is None:
        return False
    untraced_ns, python_ns = (idle.causes.get(name, 0) for name in ("untraced", "python"))
    return guessed_ns(untraced_ns, python_ns, case.thresholds) > 0


def _of_device(case: Case) -> str:
    """What holds a device-bound run up. If several causes gain about the same, all are named,
    unless only the host keeps the first from gaining more."""
    period, thresholds = case.period, case.thresholds
    bottleneck, gains = str(case.verdict.bottleneck), period.gains
    assert gains is not None
    kinds, device = kinds_of(case), words("device_does")
    kind = kinds.get(bottleneck, bottleneck)
    if bottleneck == "latency" and _explains(bottleneck, case.evidence):
        kind = str(case.evidence.advised_remedy) if case.evidence.advised_remedy in device else kind
    causes = device_limits(case)
    is_once = is_partly_once(period, thresholds)
    if len(causes) > 1:
        named = [words("device_limits")[kinds.get(each, each)] for each in causes]
        limits = f"{', '.join(named[:-1])} and {named[-1]} limit it alike"
        if len(named) > _NAMED:
            limits = "no single cause leads"
        assert period.gpu is not None
        busy = most_of_whole(period.gpu.busy_ns, period.window.span_ns)
        return f"The GPU holds this run up{'' if is_once else f', busy for {busy}'}: {limits}"
    assert period.gpu is not None
    if "{}" not in device[kind]:
        return _with_spent(case, device[kind])
    ns, of_ns = period.gpu.compute_ns, period.window.span_ns
    if is_once:
        ns, of_ns = _busy_ns(period), gains.window_ns
    if kind == "latency":
        ns, of_ns = row_ns(period, kind, thresholds), period.window.span_ns
    return device[kind].format(most_of_whole(ns, of_ns))


def device_limits(case: Case) -> tuple[str, ...]:
    """The causes of the device's side that gain about the same, largest first."""
    bottleneck, gains = str(case.verdict.bottleneck), case.period.gains
    if gains is None or bottleneck == UNKNOWN_LIMIT:
        return (bottleneck,)
    return limits_alike(bottleneck, gains, case.thresholds)[0]


def kinds_of(basis: Basis) -> dict[str, str]:
    """Variants of bottlenecks in words.csv: if a device hardly waits for itself, its kernels are
    too small."""
    idle = basis.period.idle
    assert idle is not None
    least_ns = basis.thresholds.doubtful_share * basis.period.window.span_ns
    has_gaps = idle.device_ns >= least_ns
    return {} if has_gaps else {"latency": "small"}


def _of_cpu(case: Case) -> str:
    bottleneck = str(case.verdict.bottleneck)
    if case.verdict.regime == COMPUTE:
        does = words("cpu_does")
        return _with_spent(case, does.get(bottleneck, does["math"]))
    lost = words("cpu_loses").get(bottleneck, bottleneck)
    is_most = 2 * row_ns(case.period, bottleneck, case.thresholds) > case.period.window.span_ns
    begins = "Most of the time is overhead:" if is_most else "Overhead takes longer than computing:"
    return _with_spent(case, f"{begins} {lost}")


def _turns(case: Case) -> str:
    """How long each side works while the other one waits, and why."""
    evidence, period = case.evidence, case.period
    idle, gains = period.idle, period.gains
    assert idle is not None and gains is not None
    turns = words("takes_turns")
    causes = [*filter(None, turns), "dispatch", "launch"]
    why = max(causes, key=lambda cause: gains.removed.get(cause, 0.0))
    if evidence.advised in turns:
        why = str(evidence.advised)
    late_ns, busy_ns = turns_of(period)
    unrecorded = " without the profiler" if gains.recorder_ns else ""
    late, _, _ = of_whole(late_ns, gains.window_ns).partition(" of ")
    sides = f"{late} and {of_whole(busy_ns, gains.window_ns)}"
    return f"Host and GPU take turns ({sides}{unrecorded}): {turns.get(why, turns[''])}"


def turns_of(period: Period) -> tuple[int, int]:
    """How long the host and the device work in turns, in the window's length of gains."""
    idle, gains, busy_ns = period.idle, period.gains, _busy_ns(period)
    assert idle is not None and gains is not None
    return max(0, gains.window_ns - busy_ns - idle.unlinked_ns), busy_ns
