"""What a reader must know beside the first sentence: a sentence each, the most important first."""

from __future__ import annotations

from msgspec.structs import replace

from tracekit.causes import UNRECORDED, words
from tracekit.evidence.model import Evidence
from tracekit.text import duration, lowered, of_whole, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Case
from tracekit.verdict.once import (
    is_headline_wait,
    mostly_once,
    waits_for_rank,
    without_rank_wait,
)
from tracekit.verdict.regime import OVERHEAD, UNKNOWN, bound_of
from tracekit.verdict.sentences import device_limits, is_nearly_busy, of_window, row_ns, turns_of
from tracekit.verdict.windows import outside

_NAMED = 3
# The minimum share of these waits for naming an activity.
_MEANWHILE = 0.25
# Host causes with their own row in the account of a window, in a sentence.
_HOSTS = ("launch", "dispatch", "python", "sync", "input", "allocation", "compilation")


def notes_of(case: Case) -> list[str]:
    """The sentences."""
    evidence = case.evidence
    if case.verdict.regime == UNKNOWN:
        return _repeating(evidence)
    host = case.period.host
    if case.period.gpu is None:
        return [beside_unrecorded(case)] if host is not None and host.launches else []
    notes = _beside_rank_wait(case)
    if mostly_once(evidence) and case.period.gains:
        left = duration(case.period.gains.recorded_ns)
        notes.insert(0, f"In the other {left}, {lowered(of_window(case))}.")
    elif is_nearly_busy(case):
        late_ns, _ = turns_of(case.period)
        notes.append(f"Without the profiler, the host can give back at most {duration(late_ns)}.")
    elif not notes or not is_headline_wait(case):
        notes += _longest(case)
    if case.verdict.bottleneck == UNRECORDED and (activities := recorded_meanwhile(evidence)):
        notes.append(f"Recorded meanwhile: {activities}.")
    return [*notes, *([f"{left_out}."] if (left_out := outside(case)) else [])]


def beside_unrecorded(case: Case) -> str:
    """A sentence on the host's last wait for an unrecorded device, if only that shows which side
    holds the run up."""
    waited_ns = (case.period.host and case.period.host.last_wait_ns) or 0
    return (
        f"The GPU's work was not recorded, but the host's last wait for it takes only "
        f"{of_whole(waited_ns, case.period.window.span_ns)}."
    )


def _beside_rank_wait(case: Case) -> list[str]:
    """What holds the run up besides waits for another rank; or the waits, if that comes first."""
    waits = waits_for_rank(case) if case.bound is not None else ""
    if not waits:
        return []
    if not is_headline_wait(case) or mostly_once(case.evidence):
        return [f"{waits}."]
    verdict, rest = case.verdict, without_rank_wait(case.evidence)
    bound = bound_of(rest.period, case.thresholds)
    is_same = bound.regime == verdict.regime and verdict.bottleneck != "communication"
    left = verdict.bottleneck if is_same else bound.bottleneck
    if left is None:
        return []
    verdict = replace(verdict, regime=bound.regime, bottleneck=left, margin=bound.margin)
    other_work = of_window(Case(rest, case.thresholds, bound, verdict=verdict))
    return [f"Apart from that, {lowered(other_work)}."]


def _longest(case: Case) -> list[str]:
    """A part of the window that is longer than the bottleneck's, on its side: why another one
    comes first."""
    gpu, idle, bottleneck = case.period.gpu, case.period.idle, str(case.verdict.bottleneck)
    if gpu is None or idle is None or (case.bound is not None and case.bound.takes_turns):
        return []
    named_ns = row_ns(case.period, bottleneck, case.thresholds)
    least_ns = named_ns + case.thresholds.small_gain * case.period.window.span_ns
    if case.verdict.regime != OVERHEAD:
        if len(device_limits(case)) > 1:
            return []
        is_compute = bottleneck in ("communication", "copy") and gpu.compute_ns > least_ns
        ns = duration(gpu.compute_ns)
        return [
            f"Compute takes longer ({ns}), but no one limit of it gains as much as {bottleneck}."
        ] * is_compute
    if idle.causes.get("untraced", 0) > least_ns and bottleneck not in (UNRECORDED, "python"):
        ns = duration(idle.causes["untraced"])
        return [f"The GPU waits longer ({ns}) while nothing was recorded on the host."]
    rows = {each: row_ns(case.period, each, case.thresholds) for each in _HOSTS}
    longest = max(rows, key=lambda each: rows[each])
    if longest == bottleneck or rows[longest] <= least_ns:
        return []
    waits, ns = words("part")[f"idle: {longest}"], duration(rows[longest])
    return [f"The {waits} take longer ({ns}), but without them the GPU would wait for other work."]


def _repeating(evidence: Evidence) -> list[str]:
    """A sentence on the time in a unit of what the device's work repeats."""
    part = evidence.repeating
    if part is None or part.gpu is None:
        return []
    gpu, span_ns = part.gpu, part.window.span_ns
    parts = {
        "communication that nothing covers": gpu.exposed_comm_ns,
        "copies that nothing covers": gpu.exposed_memcpy_ns,
        "compute": gpu.compute_ns,
        "idle": gpu.idle_ns,
    }
    most = sorted(parts.items(), key=lambda item: -item[1])[:_NAMED]
    named = ", ".join(f"{share(ns, span_ns)} {name}" for name, ns in most if ns)
    return [f"Its work repeats, {part.window.name} of {duration(span_ns)} in the median: {named}."]


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
