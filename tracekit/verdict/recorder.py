"""What the recorder left out of a trace, or added to it; the verdict says this before any regime.

A profiler drops kernels, misses ends, starts late, and slows the host down. The question `health`
finds where (queries/facts, the files whose rows go into `recorder_finding`); each rule here says
how much of a verdict a finding leaves, and what to record instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import words
from tracekit.evidence.model import Evidence, Finding, Window, forbids_verdicts
from tracekit.replay.model import Causal
from tracekit.text import duration
from tracekit.thresholds import Thresholds
from tracekit.verdict.confidence import LEVELS, MOST_REASONS
from tracekit.verdict.model import Analysis, Verdict
from tracekit.verdict.once import named_window
from tracekit.verdict.regime import OVERHEAD, UNKNOWN, Bound, bound_of, steady_busy_ns
from tracekit.verdict.windows import is_few

# In ascending order; `none` belongs to an unknown regime.
_LEVELS = ("none", *reversed(LEVELS))


class RuleInput(Struct, frozen=True):
    """The input of the rules."""

    verdict: Verdict
    evidence: Evidence
    findings: Mapping[str, Finding]
    """By code."""
    thresholds: Thresholds


class Omission(Struct, frozen=True):
    """The effect of a finding on a verdict."""

    code: str
    sentence: str
    leaves: str
    """The highest confidence that it leaves; `none`: the regime is unknown."""


# Returns the highest confidence that a finding leaves; None: the finding does not matter.
Rule = Callable[[RuleInput, Finding], "str | None"]


def bound_of_verdict(analysis: Analysis, thresholds: Thresholds) -> Bound:
    """What bounds the window of a verdict, without the effects of the recorder."""
    judged = analysis.judged
    found = Evidence(
        window=judged.window, gpu=judged.gpu, idle=judged.idle, causal=analysis.causal,
        health=analysis.trace.health,
    )  # fmt: skip
    return bound_of(without_recorder(found), thresholds)


def without_recorder(evidence: Evidence) -> Evidence:
    """The evidence without effects of the recorder: the first collective's wait for late ranks is
    not communication, and gaps in replays cost nothing."""
    findings, gpu, causal = _by_code(evidence), evidence.gpu, evidence.causal
    if evidence.host is not None and "truncated" in findings:
        # The last wait that was read need not be the last one.
        evidence = replace(evidence, host=replace(evidence.host, last_wait_ns=None))
    skew, gaps = findings.get("arrival_skew"), findings.get("recorder_gaps")
    if skew and gpu and (skew.time_ns or 0) <= gpu.exposed_comm_ns:
        left_ns = gpu.exposed_comm_ns - (skew.time_ns or 0)
        evidence = replace(evidence, gpu=replace(gpu, exposed_comm_ns=left_ns))
    if gaps and causal and "latency" in causal.gains.removed:
        gains = causal.gains.less("latency", _share(gaps, evidence))
        evidence = replace(evidence, causal=replace(causal, gains=gains))
    return evidence


def without_queued(causal: Causal, window: Window, health: Sequence[Finding]) -> Causal:
    """What replays show of the window without the time in which something that was not recorded
    held the device up."""
    ns = next((each.time_ns or 0 for each in health if each.code == "queued_before"), 0)
    if not ns or window.kind != "gpu_active" or ns >= causal.gains.window_ns:
        return causal
    gains = causal.gains
    share = ns / gains.window_ns
    # The call that waited is one of these; removing the call would not save its wait.
    waiting = max(("copy", "sync"), key=lambda cause: gains.removed.get(cause, 0.0))
    if waiting in gains.removed:
        gains = gains.less(waiting, share)
    unknown = max(0.0, gains.unknown - share)
    gains = replace(gains, one_offs_ns=gains.one_offs_ns + ns, unknown=unknown)
    return replace(causal, gains=gains.without(ns))


def with_omission(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> Verdict:
    """The verdict with the recorder's omission as its first reason, and with a confidence that
    fits."""
    case = RuleInput(verdict, evidence, _by_code(evidence), thresholds)
    found = []
    for codes, rule in RULES:
        omissions = (
            Omission(each.code, _sentence(each), leaves)
            for each in (case.findings[code] for code in codes if code in case.findings)
            if (leaves := rule(case, each))
        )
        found += [*omissions][:1]
    found += [each for each in [_costly(case)] if each]
    if not found:
        return verdict
    level = min((each.leaves for each in found), key=_LEVELS.index)
    if level == "none":
        found = [each for each in found if each.leaves == level]
    sentences = [each.sentence for each in found]
    advice = [words("record")[each.code] for each in found]
    if level == "none":
        # The remaining reasons and prices are only about the work that happened to be recorded.
        rest = [] if forbids_verdicts(evidence.health) else verdict.why[:1]
        why = [*sentences, *rest][:MOST_REASONS]
        unknown = replace(verdict, regime=UNKNOWN, bottleneck=None, confidence="none", margin=None)
        return replace(
            unknown, headline=sentences[0], why=why, savings=[], try_next=advice, doubts=sentences
        )
    # What recording cost stands beside the window's length; the rest comes before the regime.
    costs = ("recorder_cost", "profiler_dilation")
    first = [each.sentence for each in found if each.code not in costs][:1]
    lowering = [
        each.sentence
        for each in found
        if each.leaves != LEVELS[0] or words("doubt").get(each.code) in verdict.doubts
    ]
    doubts = [*lowering, *verdict.doubts]
    if is_few(evidence.ops, evidence.repetition, thresholds):
        # How long they take without the profiler matters less than how few they are.
        doubts = [*verdict.doubts, *lowering]
    return replace(
        verdict,
        headline=" ".join([*first, verdict.headline]),
        doubts=doubts,
        confidence=min(verdict.confidence, level, key=_LEVELS.index),
        why=[*sentences, *verdict.why][:MOST_REASONS],
        try_next=[*advice, *verdict.try_next],
    )


def _by_code(evidence: Evidence) -> dict[str, Finding]:
    return {each.code: each for each in evidence.health}


def _share(finding: Finding, evidence: Evidence) -> float:
    """The finding's time as a fraction of the GPU-active span, which it concerns; a step has its
    part of it."""
    windows = [*(each.window for each in evidence.windows), evidence.window]
    spans = [each.span_ns for each in windows if each.kind in ("gpu_active", "host_active")]
    whole_ns = spans[0] if spans else evidence.window.span_ns
    return (finding.time_ns or 0) / whole_ns if whole_ns else 0.0


def _sentence(finding: Finding) -> str:
    return f"{finding.message[0].upper()}{finding.message[1:]}."


def _cut(case: RuleInput, finding: Finding) -> str:
    """The file is cut off. GPU events are written last: if there are none, they may be the missing
    part, and are if anything tells of a GPU."""
    evidence = case.evidence
    if evidence.gpu is not None:
        # What is missing could only make the GPU busier.
        return "low" if case.verdict.regime == OVERHEAD else "medium"
    return "none" if evidence.host is not None and evidence.host.device_evidence else "low"


def _nothing(case: RuleInput, finding: Finding) -> str:
    """The recording has a start, a capture, an end or a sample in place of the work."""
    return "none"


def _unread(case: RuleInput, finding: Finding) -> str | None:
    """Events of a form that is not analysed, in a trace where nothing else is, or where they are
    most of the host's."""
    if "unread_device" in case.findings:
        # That says more.
        return None
    if case.evidence.gpu is None and case.evidence.host is None:
        return "none"
    return "none" if finding.severity == "error" and case.verdict.regime == OVERHEAD else None


def _lost(case: RuleInput, finding: Finding) -> str | None:
    """Kernels of graph replays, of a session's first or last launches, or of others are missing.
    If most are, nobody knows what the run did. A step without its last kernels is
    judged if it is the only one.
    """
    if finding.code == "lost_kernels" and "thinned_file" in case.findings:
        # That says more.
        return None
    if finding.severity == "error":
        return "none"
    if finding.code in ("dropped_at_start", "lost_kernels"):
        return "low"
    repetition = case.evidence.repetition
    if finding.code == "dropped_at_end" and (repetition is None or repetition.steps != 1):
        return None
    return "low" if _share(finding, case.evidence) >= case.thresholds.lost_share else None


def _misdated(case: RuleInput, finding: Finding) -> str | None:
    """Most of the device's times are not on the host's clock: nobody knows what waits for what."""
    return "none" if finding.severity == "error" else None


def _negative(case: RuleInput, finding: Finding) -> str | None:
    """Work whose length is not known counts as none."""
    return "low" if finding.count >= case.thresholds.lost_share * case.evidence.ops else None


def _unended(case: RuleInput, finding: Finding) -> str | None:
    """Python frames without an end: the time that they cover counts as Python's."""
    return "low" if case.verdict.bottleneck == "python" else None


def _skewed(case: RuleInput, finding: Finding) -> str | None:
    """The first collective waits for ranks that record later. It is a one-off; if it takes most of
    the window, hardly anything is left to judge."""
    if not finding.time_ns or finding.time_ns > case.evidence.window.span_ns:
        return None
    share = _share(finding, case.evidence)
    if share < case.thresholds.lost_share:
        return None
    return "low" if share >= case.thresholds.unseen_share else "medium"


def _queued(case: RuleInput, finding: Finding) -> str | None:
    """Something that was not recorded held the device up, and the host waited for it."""
    if case.evidence.window.kind != "gpu_active":
        return None
    # If it takes most of the window, hardly anything is left to judge.
    return "low" if _share(finding, case.evidence) > case.thresholds.unseen_share else "medium"


def _started_late(case: RuleInput, finding: Finding) -> str | None:
    """Something that was not recorded held the device up before the window begins."""
    return "high" if case.evidence.window.kind == "gpu_active" else None


def _gaps(case: RuleInput, finding: Finding) -> str | None:
    """Equal gaps between the kernels of replays, which may be the recorder's."""
    if case.verdict.regime == UNKNOWN:
        return None
    rests = case.verdict.regime == OVERHEAD or case.verdict.bottleneck == "latency"
    return "low" if rests else "medium"


def _costly(case: RuleInput) -> Omission | None:
    """The recorder's own cost, as measured; or as estimated from its events, if it could be all
    that the device waits for."""
    measured = case.findings.get("profiler_dilation")
    if case.verdict.margin is None:
        return None
    gains = case.evidence.gains
    if case.verdict.regime != OVERHEAD:
        finding = measured or case.findings.get("recorder_cost")
        if finding is None or gains is None or case.evidence.gpu is None:
            return None
        # If recording makes a device-bound window longer, the device waits for a recorded host. As
        # recorded, the device would bound it, too, if the host could not give back as much.
        is_longer = (gains.recorder_ns or 0) >= case.thresholds.small_gain * gains.recorded_ns
        device = gains.device * gains.window_ns / gains.recorded_ns if is_longer else 0.0
        if not is_longer or _waited(case.evidence, case.verdict.margin) < device:
            return None
        return Omission(finding.code, _sentence(finding), "low")
    if measured is not None and gains is not None and gains.recorder_ns:
        return Omission(measured.code, _sentence(measured), "high")
    estimated = case.findings.get("recorder_cost")
    if estimated is None:
        return None
    if _share(estimated, case.evidence) >= _waited(case.evidence, case.verdict.margin):
        return Omission(estimated.code, _sentence(estimated), "low")
    told = _often_costlier(case)
    return Omission(estimated.code, told, "medium") if told else None


def _often_costlier(case: RuleInput) -> str:
    """The sentence if recording, at what it often costs beyond the estimate, may leave a window in
    which the device is busy most of the time, and nothing else is doubtful."""
    gains, gpu = case.evidence.gains, case.evidence.gpu
    is_sure = case.verdict.confidence == LEVELS[0]
    if not is_sure or gains is None or gpu is None or not gains.recorder_ns:
        return ""
    often, busy_ns = case.thresholds.recorder_often, steady_busy_ns(gpu, gains)
    left_ns = gains.recorded_ns - often * gains.recorder_ns
    if 2 * busy_ns < left_ns or 2 * busy_ns >= gains.window_ns:
        return ""
    return (
        f"Recording made {named_window(case.evidence.window)} at least "
        f"{duration(gains.recorder_ns)} longer, and often costs {often:g} times this least: "
        "without it, the GPU may be busy most of the time."
    )


def _waited(evidence: Evidence, margin: float) -> float:
    """The part of the window that a faster host could save before the device bounds it."""
    idle, gains, span_ns = evidence.idle, evidence.gains, evidence.window.span_ns
    if idle is None or gains is None or not span_ns:
        return abs(margin)
    once_ns = gains.one_offs_ns - gains.device_one_offs_ns
    return max(0, idle.waits_for_host_ns - once_ns) / span_ns


# Codes of findings with their rule; the first finding that matters is reported.
RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("truncated",), _cut),
    (("starts_before_launch",), _misdated),
    (("negative_duration",), _negative),
    (("begin_end_events", "no_time", "no_category"), _unread),
    (("unread_device",), _nothing),
    (("merged_ranks",), _nothing),
    (("thinned_file", "no_work_recorded", "captured_only", "launches_alone"), _nothing),
    (("graph_without_kernels", "dropped_at_start", "dropped_at_end", "lost_kernels"), _lost),
    (("unended_calls",), _unended),
    (("arrival_skew",), _skewed),
    (("queued_before",), _queued),
    (("started_late",), _started_late),
    (("recorder_gaps",), _gaps),
)
