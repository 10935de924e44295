"""The first sentence of a verdict, as an engineer would tell a colleague."""

from __future__ import annotations

from msgspec.structs import replace

from tracekit.causes import UNKNOWN_LIMIT, UNRECORDED, words
from tracekit.evidence.model import Evidence
from tracekit.text import duration, lowered, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Basis, Case
from tracekit.verdict.model import Verdict
from tracekit.verdict.once import (
    also_once,
    cold_recording,
    excess_in,
    is_headline_wait,
    mostly_once,
    waits_for_rank,
    without_rank_wait,
)
from tracekit.verdict.regime import (
    COMPUTE,
    OVERHEAD,
    UNKNOWN,
    bound_of,
    guessed_ns,
    is_close,
    is_partly_once,
    limits_alike,
    steady_busy_ns,
    unrecorded_ns,
)
from tracekit.verdict.windows import differing_window, differs, other_steps, outside

_NAMED = 3
# The minimum share of these waits for naming an activity.
_MEANWHILE = 0.25


def headline(case: Case) -> str:
    """The sentence. It mentions a small margin, windows that disagree, and sides that take
    turns."""
    verdict, evidence = case.verdict, case.evidence
    if verdict.regime == UNKNOWN:
        # The step that found the regime unknown has already said why.
        return f"{verdict.headline}{_repeating(evidence)}"
    period = case.period
    if period.gpu is None and period.host is not None and period.host.launches:
        return f"{cold_recording(evidence)}{_of_host(case)}. {beside_unrecorded(case)}"
    if case.bound is not None and (waits := waits_for_rank(case)):
        sentence = _beside_rank_wait(case, waits)
    else:
        sentence = _said(case)
    other = differing_window(case)
    also, is_open = "", other is None or other.window.kind != "trace"
    if once := mostly_once(evidence):
        sentence = f"{once}{lowered(sentence)}"
    elif is_open:
        also = also_once(case)
    if is_open and (also := also or outside(case)):
        sentence = f"{sentence}. {also}"
    if steps := other_steps(case):
        sentence = f"{sentence}. {steps}"
    elif other is not None:
        sentence = f"{sentence}. {differs(case, other)}"
    return f"{cold_recording(evidence)}{sentence}"


def beside_unrecorded(case: Case) -> str:
    """A sentence on the host's last wait for an unrecorded device, if only that shows which side
    holds the run up."""
    waited_ns = (case.period.host and case.period.host.last_wait_ns) or 0
    return (
        f"The GPU's work was not recorded, but the host's last wait for it takes only "
        f"{duration(waited_ns)} of {duration(case.period.window.span_ns)}"
    )


def _beside_rank_wait(case: Case, waits: str) -> str:
    """What holds the run up besides waits for another rank."""
    verdict, rest = case.verdict, without_rank_wait(case.evidence)
    bound = bound_of(rest.period, case.thresholds)
    is_same = bound.regime == verdict.regime and verdict.bottleneck != "communication"
    left = verdict.bottleneck if is_same else bound.bottleneck
    if left is None:
        return waits
    verdict = replace(verdict, regime=bound.regime, bottleneck=left, margin=bound.margin)
    other_work = _said(Case(rest, case.thresholds, bound, verdict=verdict))
    if is_same and not is_headline_wait(case):
        return f"{other_work}. {waits}"
    return f"{waits}; apart from that, {lowered(other_work)}"


def _said(case: Case) -> str:
    bound = case.bound
    if bound is not None and bound.takes_turns:
        return _turns(case)
    if bound is not None and bound.is_even:
        return (
            "Host and GPU are about even: without the profiler, halving the host's work would gain "
            f"{percent(bound.host)}, halving the GPU's {percent(bound.device)}"
        )
    return _nearly_busy(case) or _one_side(case)


def _repeating(evidence: Evidence) -> str:
    """A sentence on the time in a unit of what the device's work repeats."""
    part = evidence.repeating
    if part is None or part.gpu is None:
        return ""
    gpu, span_ns = part.gpu, part.window.span_ns
    parts = {
        "communication that nothing covers": gpu.exposed_comm_ns,
        "copies that nothing covers": gpu.exposed_memcpy_ns,
        "compute": gpu.compute_ns,
        "idle": gpu.idle_ns,
    }
    most = sorted(parts.items(), key=lambda item: -item[1])[:_NAMED]
    named = ", ".join(f"{share(ns, span_ns)} {name}" for name, ns in most if ns)
    return f". Its work repeats, {part.window.name} of {duration(span_ns)} in the median: {named}"


def _nearly_busy(case: Case) -> str:
    """The sentence if the host may be the slower side only because of recording, while the device
    is busy most of the time."""
    gpu, gains, flip = case.period.gpu, case.period.gains, case.evidence.flip
    if gpu is None or gains is None or case.verdict.regime != OVERHEAD:
        return ""
    if not gains.recorder_ns:
        return ""
    busy_ns = min(steady_busy_ns(gpu, gains), gains.window_ns)
    slower = gains.recorded_ns / gains.window_ns
    if 2 * busy_ns < gains.window_ns or flip is None or slower < flip:
        return ""
    return (
        "The host holds this run up while it is recorded; without the profiler, the GPU is busy "
        f"for about {share(busy_ns, gains.window_ns)} of {duration(gains.window_ns)}: the host can "
        f"give back at most {duration(gains.window_ns - busy_ns)}"
    )


def _one_side(case: Case) -> str:
    """The side that holds the run up; also the other one, if the margin is small and it gains."""
    verdict, bound, thresholds = case.verdict, case.bound, case.thresholds
    is_hosts = verdict.regime == OVERHEAD
    if bound is None:
        does, other = _of_cpu(verdict), "the work" if is_hosts else "overhead"
    elif is_hosts:
        does, other = _of_host(case), "the GPU"
    else:
        does, other = _of_device(case), "the host"
    # A host with hardly any gain does not hold up a busy device.
    is_far = bound is not None and not is_hosts and bound.host < thresholds.small_gain
    if is_far or not is_close(verdict.margin, thresholds):
        return does
    what, colon, why = does.partition(":")
    return f"{what}, with {other} close behind{colon}{why}"


def _of_host(case: Case) -> str:
    return f"The host holds this run up: {_host_does(case)}"


def _host_does(case: Case) -> str:
    """The host's activity while the device waits. A single launch, operator or call that takes most
    of that time is named, since the others may be quick; the device may work during a part of it.
    """
    bottleneck, evidence = str(case.verdict.bottleneck), case.evidence
    host, one = words("host_does"), words("longest_does").get(bottleneck)
    does = host[bottleneck]
    period, links = evidence.period, evidence.links
    gains = period.gains
    if _explains(bottleneck, evidence) and evidence.advised_remedy in host:
        return host[evidence.advised_remedy]
    ns = period.host.unrecorded_ns if period.host else 0
    if gains is not None:
        ns = round(gains.removed.get(bottleneck, 0.0) * gains.window_ns)
    if bottleneck == UNRECORDED:
        activities = recorded_meanwhile(evidence)
        if period.idle is not None:
            once = [one_off for one_off in evidence.one_offs if one_off.cause == UNRECORDED]
            waited_ns = unrecorded_ns(period.idle)
            # The device may have worked through a part of the one-offs.
            ns = min(waited_ns, max(ns, waited_ns - excess_in(period.window, once)))
        return f"{does} for {duration(ns)}{f', in {activities}' if activities else ''}"
    longest = next((link for link in links if link["cause"] == bottleneck), None)
    least_ns = case.thresholds.small_gain * period.window.span_ns
    # If removing a cause gains nothing, no part of it explains the verdict.
    if one and longest and ns and longest["dur_ns"] >= max(ns / 2, least_ns):
        taken = duration(longest["dur_ns"])
        recorded = ", as recorded" if gains is not None and gains.recorder_ns else ""
        return f"{one}, {longest['name']}, takes {taken} of its own{recorded}"
    is_guess = _is_guess(case)
    if is_guess and bottleneck == "python":
        has_operators = gains is not None and gains.work_ns.get("dispatch")
        return host["guessed-python" if has_operators else "guessed-calls"]
    is_of_calls = is_guess and bottleneck in ("dispatch", "launch")
    if is_of_calls and _is_less_recorded(bottleneck, evidence):
        return f"{does}; where nothing was recorded, the GPU waits at least as long"
    return does


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


def _is_less_recorded(bottleneck: str, evidence: Evidence) -> bool:
    """Whether a device waits less for the recorded bottleneck than during time without records."""
    idle, gains = evidence.period.idle, evidence.period.gains
    if idle is None or gains is None:
        return False
    gained = max(gains.removed.get(each, 0.0) for each in ("python", UNRECORDED))
    is_more = gained > gains.removed.get(bottleneck, 0.0)
    return is_more and unrecorded_ns(idle) >= idle.causes.get(bottleneck, 0)


def recorded_meanwhile(evidence: Evidence) -> str:
    """Names recorded on other threads, or around, during waits without a recorded call, with their
    shares of these waits; names that show a thread's activity come first."""
    open_ = ("untraced", "python", "dispatch")
    left, named = 1.0, []
    for each in sorted(evidence.meanwhile, key=lambda row: row["activity"] in open_):
        # Names whose shares exceed the whole are open at the same time.
        if each["share"] >= _MEANWHILE and each["share"] <= left:
            left -= each["share"]
            # A frame's name without its file, and a colon.
            name = each["name"].rpartition(": ")[2]
            part = "" if each["share"] >= 1 else f" ({percent(each['share'])} of that)"
            named.append(f"{name}{part}")
    return " and ".join(named[:2])


def hole_sentences(evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """Where a part of the window lies in which nothing was recorded while the device waited, if
    most of such time recurs there."""
    if not evidence.holes:
        return []
    first, count = evidence.holes[0], sum(row["holes"] for row in evidence.holes)
    least_ns = thresholds.small_gain * evidence.period.window.span_ns
    is_few = first["holes"] < thresholds.fewest_alike or first["idle_ns"] < least_ns
    if is_few or 2 * first["share"] < 1:
        return []
    many = f"All {count}" if first["holes"] == count else f"{first['holes']} of {count}"
    shortest, longest = duration(first["shortest_ns"]), duration(first["longest_ns"])
    length = longest if shortest == longest else f"{shortest} to {longest}"
    after = f", most of them after {first['last_name']}" if first["last_name"] else ""
    return [
        f"{many} stretches of a millisecond or more in which nothing was recorded while the "
        f"{evidence.device_word} waited end with {first['next_name']}{after}: {length} each."
    ]


def _of_device(case: Case) -> str:
    """What holds a device-bound run up. If several causes gain about the same, all are named,
    unless only the host keeps the first from gaining more; if the trace does not show the kernels'
    limit, the kernels with most time."""
    evidence, thresholds = case.evidence, case.thresholds
    bottleneck, gains, flip = str(case.verdict.bottleneck), case.period.gains, evidence.flip
    assert gains is not None
    kinds, device = kinds_of(case), words("device_does")
    does = device[kinds.get(bottleneck, bottleneck)]
    if bottleneck == "latency" and _explains(bottleneck, evidence):
        does = device.get(str(evidence.advised_remedy), does)
    if bottleneck == UNKNOWN_LIMIT:
        open_ = "the trace does not show whether math or memory is the limit"
        return f"{does}: {evidence.dominant}; {open_}" if evidence.dominant else f"{does}; {open_}"
    (*others, last), is_capped = limits_alike(bottleneck, gains, thresholds)
    is_open = not is_close(case.verdict.margin, thresholds)
    if not others and is_capped and is_open and flip is not None:
        return f"{does}; the host comes next, once the GPU is {flip:.2g} times faster"
    if not others:
        return does
    limits = words("device_limits")
    named = [limits[kinds.get(each, each)] for each in (*others, last)]
    if len(named) > _NAMED:
        return f"The GPU holds this run up, and no single cause leads: {', '.join(named)}"
    return f"The GPU holds this run up: {', '.join(named[:-1])} and {named[-1]} limit it alike"


def kinds_of(basis: Basis) -> dict[str, str]:
    """Variants of bottlenecks in words.csv: if a device hardly waits for itself, its kernels are
    too small."""
    idle = basis.period.idle
    assert idle is not None
    least_ns = basis.thresholds.doubtful_share * basis.period.window.span_ns
    has_gaps = idle.device_ns >= least_ns
    return {} if has_gaps else {"latency": "small"}


def _of_cpu(verdict: Verdict) -> str:
    bottleneck = str(verdict.bottleneck)
    if verdict.regime == COMPUTE:
        does = words("cpu_does")
        return does.get(bottleneck, does["math"])
    return f"Most of the time is overhead: {words('cpu_loses').get(bottleneck, bottleneck)}"


def _turns(case: Case) -> str:
    evidence, period = case.evidence, case.period
    gpu, idle, gains = period.gpu, period.idle, period.gains
    assert gpu is not None and idle is not None and gains is not None
    # Prices refer to the same length.
    span, busy_ns = gains.window_ns, steady_busy_ns(gpu, gains)
    turns = words("takes_turns")
    causes = [*filter(None, turns), "dispatch", "launch"]
    why = max(causes, key=lambda cause: gains.removed.get(cause, 0.0))
    if evidence.advised in turns:
        why = str(evidence.advised)
    late = max(0, span - busy_ns - idle.unlinked_ns)
    most = min(busy_ns, late) / span if span else 0.0
    time = "time"
    if is_partly_once(period, case.thresholds) and not mostly_once(evidence):
        time = f"other {duration(span)}"
    unrecorded = " without the profiler" if gains.recorder_ns else ""
    return (
        f"Host and GPU take turns ({share(late, span)} and {share(busy_ns, span)} of the "
        f"{time}{unrecorded}): {turns.get(why, turns[''])}. Overlapping them alone would save at "
        f"most {percent(most)}"
    )
