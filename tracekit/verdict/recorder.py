"""Faults of the recording: data that the recorder left out or added. The verdict reports them
before any regime.

A profiler drops kernels, misses ends, starts late, and slows the host down. The question `health`
finds this (queries/facts, the files whose rows go into `recorder_finding`); each rule here limits
the verdict's confidence for a finding. words.csv says what to `record` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from tracekit.evidence.model import Evidence, Finding, Window
from tracekit.evidence.units import recorded_units
from tracekit.replay.model import Causal
from tracekit.text import duration
from tracekit.verdict.case import Case, Doubt
from tracekit.verdict.model import Analysis
from tracekit.verdict.notes import beside_unrecorded
from tracekit.verdict.once import named_window
from tracekit.verdict.regime import OVERHEAD, UNKNOWN, Bound, bound_of, steady_busy_ns

# Returns the highest confidence with a finding; `none`: the regime is unknown; None: the finding
# does not matter.
Leaves = Callable[[Case, Finding], "str | None"]


def bound_of_verdict(analysis: Analysis) -> Bound:
    """The bound of the verdict's window, without effects of the recorder."""
    evidence = Evidence(period=analysis.judged, health=analysis.trace.health)
    return bound_of(without_recorder(evidence).period, analysis.thresholds)


def without_recorder(evidence: Evidence) -> Evidence:
    """The evidence without effects of the recorder: the first collective's wait for late ranks is
    not communication, and gaps in graph replays do not count."""
    findings = {finding.code: finding for finding in evidence.health}
    period = evidence.period
    if period.host is not None and "truncated" in findings:
        # The last recorded wait may not be the actual last one.
        period = replace(period, host=replace(period.host, last_wait_ns=None))
    skew, gaps = findings.get("arrival_skew"), findings.get("recorder_gaps")
    if skew and period.gpu and (skew.time_ns or 0) <= period.gpu.exposed_comm_ns:
        left_ns = period.gpu.exposed_comm_ns - (skew.time_ns or 0)
        period = replace(period, gpu=replace(period.gpu, exposed_comm_ns=left_ns))
    if gaps and period.gains and "latency" in period.gains.removed:
        gains = period.gains.less("latency", _share(gaps, evidence))
        period = replace(period, gains=gains)
    return replace(evidence, period=period)


def without_queued(causal: Causal, window: Window, health: Sequence[Finding]) -> Causal:
    """The replays' results without the time in which something unrecorded held the device up."""
    ns = next((finding.time_ns or 0 for finding in health if finding.code == "queued_before"), 0)
    if not ns or window.kind != "gpu_active" or ns >= causal.gains.window_ns:
        return causal
    gains = causal.gains
    share = ns / gains.window_ns
    # The waiting call is one of these; removing the call would not save its wait.
    waiting = max(("copy", "sync"), key=lambda cause: gains.removed.get(cause, 0.0))
    if waiting in gains.removed:
        gains = gains.less(waiting, share)
    unknown = max(0.0, gains.unknown - share)
    gains = replace(gains, one_offs_ns=gains.one_offs_ns + ns, unknown=unknown)
    return replace(causal, gains=gains.without(ns))


def _share(finding: Finding, evidence: Evidence) -> float:
    """The finding's time as a fraction of the GPU-active span; a step has its part of it."""
    windows = [*(window.window for window in evidence.windows), evidence.period.window]
    spans = [window.span_ns for window in windows if window.kind in ("gpu_active", "host_active")]
    whole_ns = spans[0] if spans else evidence.period.window.span_ns
    return (finding.time_ns or 0) / whole_ns if whole_ns else 0.0


def _cut(case: Case, finding: Finding) -> str:
    """The file is truncated. GPU events are written last: if there are none, they may be the
    missing part, and certainly are if something else shows a GPU."""
    host = case.period.host
    if case.period.gpu is not None:
        # The missing events could only make the GPU busier.
        return "low" if case.verdict.regime == OVERHEAD else "medium"
    return "none" if host is not None and host.device_evidence else "low"


def _nothing(case: Case, finding: Finding) -> str:
    """The recording contains a start, a capture, an end or a sample instead of the work."""
    return "none"


def _unread(case: Case, finding: Finding) -> str | None:
    """Events of a form that is not analyzed, in a trace where nothing else is, or where they are
    most of the host's."""
    if case.period.gpu is None and case.period.host is None:
        return "none"
    return "none" if finding.severity == "error" and case.verdict.regime == OVERHEAD else None


def _lost(case: Case, finding: Finding) -> str | None:
    """Kernels of graph replays, of a session's first or last launches, or of others are missing.
    If most are, nobody knows what the run did. A step without its last kernels is
    judged if it is the only one.
    """
    if finding.severity == "error":
        return "none"
    if finding.code in ("dropped_at_start", "lost_kernels"):
        return "low"
    if finding.code == "dropped_at_end" and recorded_units(case.evidence.units) != 1:
        return None
    return "low" if _share(finding, case.evidence) >= case.thresholds.lost_share else None


def _misdated(case: Case, finding: Finding) -> str | None:
    """Most of the device's times are not on the host's clock, so waits are unknown."""
    return "none" if finding.severity == "error" else None


def _negative(case: Case, finding: Finding) -> str | None:
    """Work of unknown length counts as 0."""
    return "low" if finding.count >= case.thresholds.lost_share * case.evidence.ops else None


def _unended(case: Case, finding: Finding) -> str | None:
    """Python frames without an end: the time that they cover counts as Python's."""
    return "low" if case.verdict.bottleneck == "python" else None


def _skewed(case: Case, finding: Finding) -> str | None:
    """The first collective waits for ranks that record later. It is a one-off; if it takes most of
    the window, hardly anything is left to judge."""
    if not finding.time_ns or finding.time_ns > case.period.window.span_ns:
        return None
    share = _share(finding, case.evidence)
    if share < case.thresholds.lost_share:
        return None
    return "low" if share >= case.thresholds.unseen_share else "medium"


def _queued(case: Case, finding: Finding) -> str | None:
    """Something that was not recorded held the device up, and the host waited for it."""
    if case.period.window.kind != "gpu_active":
        return None
    # If it takes most of the window, hardly anything is left to judge.
    return "low" if _share(finding, case.evidence) > case.thresholds.unseen_share else "medium"


def _started_late(case: Case, finding: Finding) -> str | None:
    """Something that was not recorded held the device up before the window begins. If that took
    longer than the window, the window is a part of something else."""
    if case.period.window.kind != "gpu_active":
        return None
    return "medium" if _share(finding, case.evidence) > 1 else "high"


def _gaps(case: Case, finding: Finding) -> str | None:
    """Equal gaps between the kernels of replays, which may be the recorder's."""
    if case.verdict.regime == UNKNOWN:
        return None
    rests = case.verdict.regime == OVERHEAD or case.verdict.bottleneck == "latency"
    return "low" if rests else "medium"


def _measured_cost(case: Case, finding: Finding) -> str | None:
    """The recorder's measured cost."""
    gains = case.period.gains
    if case.verdict.regime != OVERHEAD:
        return _turning_cost(case)
    is_counted = case.verdict.margin is not None and gains is not None and gains.recorder_ns
    return "high" if is_counted else None


def _estimated_cost(case: Case, finding: Finding) -> str | None:
    """The recorder's cost estimated from its events, if it could explain all of the device's
    waits."""
    margin = case.verdict.margin
    if case.verdict.regime != OVERHEAD:
        return _turning_cost(case)
    if margin is None or _share(finding, case.evidence) < _waited(case.evidence, margin):
        return None
    return "low"


def _turning_cost(case: Case) -> str | None:
    """If recording makes a device-bound window longer, the device waits for a slowed host. In the
    recorded window, the device is the bound only if the host could not save more."""
    gains, margin = case.period.gains, case.verdict.margin
    if margin is None or gains is None or case.period.gpu is None:
        return None
    if (gains.recorder_ns or 0) < case.thresholds.small_gain * gains.recorded_ns:
        return None
    device = gains.device * gains.window_ns / gains.recorded_ns
    return "low" if _waited(case.evidence, margin) >= device else None


def _often_costlier(case: Case) -> str | None:
    """Without a cost typical for recorders, which exceeds the estimate, the device may be busy for
    most of the window."""
    gains, gpu = case.period.gains, case.period.gpu
    if case.verdict.regime != OVERHEAD or not case.finding("recorder_cost"):
        return None
    if gains is None or gpu is None or not gains.recorder_ns:
        return None
    often, busy_ns = case.thresholds.recorder_often, steady_busy_ns(gpu, gains)
    left_ns = gains.recorded_ns - often * gains.recorder_ns
    if 2 * busy_ns < left_ns or 2 * busy_ns >= gains.window_ns:
        return None
    return (
        f"Recording made {named_window(case.period.window)} at least "
        f"{duration(gains.recorder_ns)} longer, and often costs {often:g} times this least: "
        "without it, the GPU may be busy most of the time."
    )


def _waited(evidence: Evidence, margin: float) -> float:
    """The part of the window that a faster host could save before the device bounds it."""
    period = evidence.period
    idle, gains, span_ns = period.idle, period.gains, period.window.span_ns
    if idle is None or gains is None or not span_ns:
        return abs(margin)
    once_ns = gains.one_offs_ns - gains.device_one_offs_ns
    return max(0, idle.waits_for_host_ns - once_ns) / span_ns


def _lacks_the_device(case: Case) -> str | None:
    """Only the host's last wait for the device shows which side holds the run up."""
    host = case.period.host
    if case.period.gpu is not None or host is None or not host.launches:
        return None
    return beside_unrecorded(case) if case.verdict.regime != UNKNOWN else None


# -- the rows --------------------------------------------------------------------------------------


def _fault(code: str, leaves: Leaves, *unless: str, opens: bool = True) -> Doubt:
    """The doubt because of a finding, unless others say more."""

    def caps(case: Case) -> str | None:
        finding = case.finding(code)
        return leaves(case, finding) if finding else None

    def says(case: Case) -> str | None:
        finding = case.finding(code)
        if finding is None or caps(case) is None:
            return None
        return f"{finding.message[0].upper()}{finding.message[1:]}."

    return Doubt(code, says, caps=caps, unless=unless, of_recorder=True, opens=opens)


def _first_of(codes: tuple[str, ...], leaves: Leaves, *unless: str) -> Iterator[Doubt]:
    """Doubts because of findings, of which only the first relevant one is reported."""
    for number, code in enumerate(codes):
        yield _fault(code, leaves, *unless, *codes[:number])


_UNREAD = ("begin_end_events", "no_time", "no_category")
_EMPTY = ("thinned_file", "no_work_recorded", "captured_only", "launches_alone")
_LOST = ("graph_without_kernels", "dropped_at_start", "dropped_at_end")
# Rows of DOUBTS (tracekit/verdict/doubts.py).
FAULTS: tuple[Doubt, ...] = (
    _fault("truncated", _cut),
    _fault("starts_before_launch", _misdated),
    _fault("negative_duration", _negative),
    _fault("unread_device", _nothing),
    _fault("tree_of_totals", _nothing),
    _fault("only_compilation", _nothing),
    *_first_of(_UNREAD, _unread, "unread_device"),
    _fault("merged_ranks", _nothing),
    *_first_of(_EMPTY, _nothing, "tree_of_totals"),
    *_first_of(_LOST, _lost),
    _fault("lost_kernels", _lost, "thinned_file", *_LOST),
    _fault("unended_calls", _unended),
    _fault("arrival_skew", _skewed),
    _fault("queued_before", _queued),
    _fault("started_late", _started_late),
    _fault("recorder_gaps", _gaps),
    # Reporters show the recorder's cost next to the window's length.
    _fault("profiler_dilation", _measured_cost, opens=False),
    _fault("recorder_cost", _estimated_cost, "profiler_dilation", opens=False),
    # The estimate is a lower bound, and the advice is the same.
    Doubt("recorder_cost", _often_costlier, caps="medium", if_sure=True, of_recorder=True,
          unless=("profiler_dilation", "recorder_cost")),
    Doubt("unrecorded_device", _lacks_the_device, caps="low", stated=True, of_recorder=True),
)  # fmt: skip
