"""A verdict's sentences on windows other than the judged one (steps, the rest of the trace), and on
how much of a run was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median_low

from msgspec.structs import replace

from tracekit.evidence.model import Evidence, Period, Window
from tracekit.evidence.units import UnitGroup, is_single_pass, recorded_units
from tracekit.text import duration, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Basis, Case
from tracekit.verdict.regime import UNKNOWN, bound_by, bound_of, is_close

_NAMED = 3
# The name in queries/views/cpu.sql.
_OF_OPERATORS = "first operator to last"


def differing_window(case: Case) -> Period | None:
    """The window with a different regime from the judged one: the GPU-active span if a marked step
    is judged; the whole trace if the span of a single pass is judged and the host works before it,
    or the span of a host's operators, and more is recorded before or after it. What is outside of
    steps explains why the span differs.
    """
    evidence, thresholds, window = case.evidence, case.thresholds, case.period.window
    if window.kind == "step" and outside(case):
        return None
    outer = {"step": "gpu_active", "gpu_active": "trace", "host_active": "trace"}
    other = outer.get(window.kind)
    for each in evidence.windows:
        if each.window.kind != other or each.regime in (case.verdict.regime, UNKNOWN):
            continue
        lead_ns = window.start_ns - each.window.start_ns
        is_led = lead_ns >= thresholds.small_gain * each.window.span_ns
        is_led = is_led and is_single_pass(evidence.units)
        if window.kind == "host_active":
            is_led = bool(_ends_beyond(each.window, window, _ends(window), thresholds.small_gain))
        if other == "gpu_active" or is_led:
            return each
    return None


def other_steps(case: Case) -> str:
    """A sentence on steps of another kind than the judged one (another regime, or far longer with
    another bottleneck), if they take most of the steps' time, like prompts between a server's
    decoding steps."""
    evidence, verdict, steps = case.evidence, case.verdict, case.evidence.steps
    once = {one_off.name for one_off in evidence.one_offs if one_off.kind == "step"}
    longer_ns = case.thresholds.cold_step_ratio * _steady_ns(case.period)
    others = [
        step
        for step in steps
        if step.regime != UNKNOWN
        and step.window.name not in once
        and step.window != evidence.period.window
        and (
            step.regime != verdict.regime
            or (step.bottleneck != verdict.bottleneck and _steady_ns(step) > longer_ns)
        )
    ]
    if evidence.period.window.kind != "step" or not others:
        return ""
    ns, whole_ns = (sum(_steady_ns(each) for each in some) for some in (others, steps))
    if 2 * ns <= whole_ns:
        return ""
    most = Counter[str]()
    for other in others:
        most[bound_by(other.regime, other.bottleneck)] += _steady_ns(other)
    (bound, _), *_ = most.most_common(1)
    are = "is" if len(others) == 1 else "are"
    taken = f"{share(ns, whole_ns)} of their time"
    return f"{len(others)} of the {len(steps)} steps, {taken}, {are} {bound}"


def _steady_ns(period: Period) -> int:
    """The length of a window without one-offs."""
    return period.window.span_ns - (period.gains.one_offs_ns if period.gains else 0)


def differs(case: Case, other: Period) -> str:
    """Why another window has a different regime than the judged one."""
    evidence, thresholds = case.evidence, case.thresholds
    window, span = evidence.period.window, other.window
    # The same bottleneck would not distinguish them.
    is_same = other.bottleneck == case.verdict.bottleneck
    bound = other.regime if is_same else bound_by(other.regime, other.bottleneck)
    is_device = other.gpu is not None and other.idle is not None and other.gains is not None
    is_barely = is_device and is_close(bound_of(other, thresholds).margin, thresholds)
    barely = ", if only just" if is_barely else ""
    if span.kind == "trace":
        lead = f"{duration(window.start_ns - span.start_ns)} before the first GPU op"
        if window.kind == "host_active":
            lead = _ends_beyond(span, window, _ends(window), thresholds.small_gain)
        return f"Counting the {lead}, the run would be {bound}{barely}"
    names = ("its first GPU op", "its last GPU op")
    named = _ends_beyond(window, span, names, thresholds.named_gain)
    reason = f": it leaves out {named}" if named and len(evidence.steps) == 1 else ""
    if len(evidence.steps) > 1:
        inside = (
            min(step.window.end_ns, span.end_ns) - max(step.window.start_ns, span.start_ns)
            for step in evidence.steps
        )
        left_ns = span.span_ns - sum(max(0, ns) for ns in inside)
        if left_ns >= thresholds.small_gain * span.span_ns:
            reason = f": {share(left_ns, span.span_ns)} of it is in no step"
    return f"The GPU-active span alone would be {bound}{barely}{reason}"


def outside(basis: Basis) -> str:
    """A sentence on the parts of the trace before and after the judged span of its work, if they
    are most of the trace."""
    evidence = basis.evidence
    window, names = _recurring(evidence)
    whole = next((each.window for each in evidence.windows if each.window.kind == "trace"), None)
    if any(finding.code == "started_late" for finding in evidence.health):
        # Another sentence says how late.
        return ""
    if whole is None or not names or 2 * window.span_ns >= whole.span_ns:
        return ""
    ends = _ends_beyond(whole, window, names, basis.thresholds.headline_share)
    return f"Not judged: {ends}, in a trace of {duration(whole.span_ns)}" if ends else ""


def _recurring(evidence: Evidence) -> tuple[Window, tuple[str, str] | None]:
    """The window in which the work recurs (the judged one; of a step, that of all steps), and its
    first and last part in a sentence; None: another kind of window is judged."""
    window = evidence.period.window
    if window.kind != "step":
        return window, _ends(window) if _op(window) else None
    windows = (window, *(step.window for step in evidence.steps))
    steps = sorted(windows, key=lambda step: step.start_ns)
    start_ns, end_ns = steps[0].start_ns, max(step.end_ns for step in steps)
    span = replace(window, start_ns=start_ns, end_ns=end_ns, span_ns=end_ns - start_ns)
    return span, (steps[0].name, steps[-1].name)


def window_sentences(case: Case) -> list[str]:
    """Why the whole trace has a different regime than the window."""
    sentences, regime = [], case.verdict.regime
    window, names = _recurring(case.evidence)
    for other in case.evidence.windows:
        if other.window.kind != "trace" or other.regime == regime or window.kind == "trace":
            continue
        names = names or _ends(window)
        named = _ends_beyond(other.window, window, names, case.thresholds.named_gain)
        also = f": it also has {named}" if named else ""
        bound = bound_by(other.regime, other.bottleneck)
        sentences.append(f"The whole trace is {bound}{also}.")
    return sentences


def _ends_beyond(outer: Window, inner: Window, names: tuple[str, str], least: float) -> str:
    """The parts of a window before and after an inner one that take at least this share of it;
    `names` are the inner window's first and last op."""
    lengths = (inner.start_ns - outer.start_ns, outer.end_ns - inner.end_ns)
    ends = zip(("before", "after"), names, lengths, strict=True)
    least_ns = least * outer.span_ns
    return " and ".join(f"{duration(ns)} {end} {name}" for end, name, ns in ends if ns > least_ns)


def _ends(window: Window) -> tuple[str, str]:
    """The window's first and last event, in a sentence."""
    op = _op(window)
    return (f"the first {op}", f"the last {op}") if op else (window.name, window.name)


def _op(window: Window) -> str:
    """The first and last event of the span of a trace's work. The kind identifies a device's span,
    since its name contains the device's word."""
    if window.kind == "gpu_active":
        return "GPU op"
    return "operator" if window.name == _OF_OPERATORS else ""


def are_few(ops: int, units: Sequence[UnitGroup], thresholds: Thresholds) -> bool:
    """Whether these ops are too few to represent a run, without units that repeat them."""
    is_repeated = ops > 0 and recorded_units(units) >= thresholds.fewest_alike
    least = thresholds.few_once if is_single_pass(units) else thresholds.few_ops
    return bool(ops < least and not is_repeated)


def step_sentences(case: Case) -> list[str]:
    """Sentences on the typical step, the steps that differ from it and how, and the steps' regimes
    if they differ from the verdict's. If a step is judged, it is the typical one."""
    sentences, steps, regime = [], case.evidence.steps, case.verdict.regime
    if len(steps) >= case.thresholds.fewest_alike:
        median_ns = median_low(step.window.span_ns for step in steps)
        typical = next(step for step in steps if step.window.span_ns == median_ns)
        typical = next((step for step in steps if step.window == case.period.window), typical)
        typical_ns = typical.window.span_ns
        is_median = ", the median" if typical_ns == median_ns else ""
        ratio = case.thresholds.cold_step_ratio
        odd = [
            step
            for step in steps
            if not typical_ns / ratio <= step.window.span_ns <= typical_ns * ratio
        ]
        named = "; ".join(_difference(step, typical) for step in odd[:_NAMED])
        rest = f"; and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
        if odd:
            sentences.append(
                f"The typical step is {typical.window.name} ({duration(typical_ns)}{is_median}). "
                f"Steps that differ: {named}{rest}."
            )
    differing = Counter(step.regime for step in steps if step.regime not in (regime, UNKNOWN))
    if differing and len(steps) == 1:
        sentences.append(f"{steps[0].window.name} is {steps[0].regime}.")
    elif differing:
        counts = ", ".join(f"{count} {name}" for name, count in differing.items())
        sentences.append(f"The {len(steps)} steps do not all agree: {counts}.")
    return sentences


def _difference(step: Period, typical: Period) -> str:
    """A step's length, and its part that differs most from the typical step's."""
    is_longer = step.window.span_ns > typical.window.span_ns
    sentence = f"{step.window.name} took {duration(step.window.span_ns)}"
    grown = Counter(_parts(step))
    grown.subtract(_parts(typical))
    if not grown:
        return sentence
    name, ns = max(grown.items(), key=lambda item: item[1] if is_longer else -item[1])
    return f"{sentence} ({duration(abs(ns))} {'more' if is_longer else 'less'} {name})"


def _parts(step: Period) -> dict[str, int]:
    if step.gpu is None or step.idle is None:
        return {}
    return {
        "compute": step.gpu.compute_ns,
        "exposed communication": step.gpu.exposed_comm_ns,
        "exposed copies": step.gpu.exposed_memcpy_ns,
        "idle on the device": step.idle.device_ns,
        "idle after the last op": step.idle.after_last_op_ns,
    } | {f"idle by {cause}": ns for cause, ns in step.idle.causes.items()}


def is_hardly_longer(trace: Window, window: Window, thresholds: Thresholds) -> bool:
    """Whether the whole trace is hardly longer than the window, so that both get the same
    verdict."""
    if trace.kind != "trace" or window.kind == "trace":
        return False
    return bool(abs(trace.span_ns - window.span_ns) < thresholds.small_gain * trace.span_ns)
