"""Doubts, which lower a verdict's confidence: `DOUBTS` has one row each.

A new doubt needs a function of the case, its row, and a test case in
tests/verdict/cases/doubts.py. The rows for faults in the recording are in
tracekit/verdict/recorder.py.
"""

from __future__ import annotations

from itertools import pairwise

from tracekit.causes import UNRECORDED
from tracekit.database.remedies import find_remedy
from tracekit.evidence.units import is_single_pass, named_units, recorded_units
from tracekit.text import duration, of_whole, percent, share
from tracekit.verdict.case import Case, Doubt
from tracekit.verdict.next_steps import waits_for_workers
from tracekit.verdict.once import excess_in
from tracekit.verdict.recorder import FAULTS
from tracekit.verdict.regime import (
    COMPUTE,
    OVERHEAD,
    REGIMES,
    gains_nothing,
    guessed_ns,
    is_close,
    side_by_time,
    steady_busy_ns,
)
from tracekit.verdict.windows import (
    are_few,
    differing_window,
    differs,
    other_steps,
)

FEW_OPS = "few_ops"


# -- how clear the verdict is
# -------------------------------------------------------------------------------


def _is_not_plain(case: Case) -> str | None:
    margin = abs(case.verdict.margin or 0.0)
    if margin >= case.thresholds.plain_margin:
        return None
    return f"The two sides are only {percent(margin)} of the window apart."


def _is_close(case: Case) -> str | None:
    if not is_close(case.verdict.margin, case.thresholds):
        return None
    apart = percent(abs(case.verdict.margin or 0.0))
    return f"The two sides are {apart} of the window apart: a close call."


def _takes_turns(case: Case) -> str | None:
    is_even = case.bound is not None and case.bound.takes_turns
    return "Host and GPU take turns: neither side is the one to look at." if is_even else None


def _overlaps_streams(case: Case) -> str | None:
    gpu, gains, bound = case.period.gpu, case.period.gains, case.bound
    if gpu is None or gains is None or bound is None:
        return None
    # A recorder's estimated cost may exceed the device's idle time.
    is_beyond = steady_busy_ns(gpu, gains) > gains.window_ns
    if not bound.is_capped or is_beyond:
        return None
    return (
        f"The device idles for only {percent(bound.host)}: the host gains more only if streams do "
        "not slow each other."
    )


def _differs_by_time(case: Case) -> str | None:
    gpu, idle, gains = case.period.gpu, case.period.idle, case.period.gains
    if gpu is None or idle is None or gains is None:
        return None
    side = side_by_time(gpu, idle, gains)
    is_nil = gains_nothing(side, gains.host, gains.device, case.thresholds)
    if REGIMES[side] == case.verdict.regime or is_nil:
        return None
    return f"By the device's busy and waiting time alone, the run would be {REGIMES[side]}."


def _waits_unexplained(case: Case) -> str | None:
    gains = case.period.gains
    if gains is None or gains.unknown < case.thresholds.doubtful_share:
        return None
    return (
        f"{percent(gains.unknown)} of the window depends on waits that the trace does not explain."
    )


def _exceeds_margin(case: Case) -> bool:
    """Whether waits that the trace does not explain exceed the difference between the sides."""
    gains = case.period.gains
    return gains is not None and gains.unknown > abs(case.verdict.margin or 0.0)


def _may_wait_for_ranks(case: Case) -> str | None:
    gpu, span = case.period.gpu, case.period.window.span_ns
    if gpu is None or gpu.exposed_comm_ns < case.thresholds.rank_share * span or not span:
        return None
    return (
        f"Communication ({share(gpu.exposed_comm_ns, span)}) may wait for other ranks: their "
        "traces tell."
    )


def _communicates_beyond_margin(case: Case) -> bool:
    gpu, span_ns = case.period.gpu, case.period.window.span_ns
    return gpu is not None and gpu.exposed_comm_ns > abs(case.verdict.margin or 0.0) * span_ns


# -- how much of the run was recorded --------------------------------------------------------------


def _are_few(case: Case) -> str | None:
    ops, units = case.evidence.ops, case.evidence.units
    if not are_few(ops, units, case.thresholds):
        return None
    if not ops:
        return "No op was recorded that would represent a run."
    recorded = f"{ops} {'op was' if ops == 1 else 'ops were'} recorded"
    also = " and nothing repeats" if is_single_pass(units) else ""
    return f"Only {recorded}{also}: too few to represent a run."


def _stands_alone(case: Case) -> str | None:
    """A single pass, a single marked step, however often its work repeats, or a run without steps
    that captures graphs again."""
    evidence, period, units = case.evidence, case.period, case.evidence.units
    if is_single_pass(units):
        return "A single pass was recorded: nothing shows how usual it is."
    main = next((each for each in units if each.is_main), None)
    if main and main.source != "mark" and all(each.count == 1 for each in units):
        # Marks say that steps are alike; other units of different work do not.
        return f"No second {main.kind} like it was recorded: nothing shows how usual it is."
    is_step = period.window.kind == "step"
    advised = find_remedy(evidence.advised_remedy or "")
    if not is_step and advised and advised.may_end:
        return "A longer recording shows whether the run goes on capturing graphs."
    # A host without a device is judged over all of its steps.
    if recorded_units(units) != 1 or (not is_step and period.gpu is not None):
        return None
    passes = max(each.passes for each in units)
    held = f", with {passes} passes" if passes > 1 else ""
    return f"One step is marked{held}: nothing shows how usual it is."


def _has_two_states(case: Case) -> str | None:
    """Units of the same work with two very different lengths: the run changed while it was
    recorded. If the host runs ahead of a busy device, the queue limits them."""
    evidence, launch = case.evidence, case.evidence.launch
    main = next((each for each in evidence.units if each.is_main), None)
    is_ahead = launch is not None and launch.queue_depth_p50 > 1
    if main is None or (case.verdict.regime == COMPUTE and is_ahead):
        return None
    alike = (s for s in evidence.steps if s.group == main.group and not s.is_cold)
    lengths = sorted(step.window.span_ns for step in alike)
    apart = [after / max(1, before) for before, after in pairwise(lengths)]
    if not apart or max(apart) < case.thresholds.one_range_ratio:
        return None
    at = apart.index(max(apart)) + 1
    if min(at, len(lengths) - at) < 2:
        return None
    states = (
        f"{len(part)} take {' to '.join(dict.fromkeys((duration(part[0]), duration(part[-1]))))}"
        for part in (lengths[:at], lengths[at:])
    )
    return f"The {named_units(main.kind)} are not alike: {', '.join(states)}."


def _is_uneven(case: Case) -> str | None:
    """A step whose same work took the device far less time than the judged step's."""
    gpu, window = case.period.gpu, case.period.window
    if gpu is None or window.kind != "step":
        return None
    least_ns = (1 - 1 / case.thresholds.cold_step_ratio) * window.span_ns
    for step in case.evidence.steps:
        less_ns = gpu.compute_ns - step.gpu.compute_ns if step.gpu else 0
        if step.gpu is not None and step.gpu.gpu_ops == gpu.gpu_ops and less_ns >= least_ns:
            return (
                f"{step.window.name} computes {duration(less_ns)} less in as many GPU ops: its "
                "input was smaller, or another program used the GPU meanwhile."
            )
    return None


def _is_mostly_once(case: Case) -> str | None:
    gains = case.period.gains
    once_ns = excess_in(case.period.window, case.evidence.one_offs)
    if gains is None or once_ns <= gains.window_ns:
        return None
    has_steps = recorded_units(case.evidence.units) >= case.thresholds.fewest_alike
    start = "" if has_steps else ": more a start than a steady run"
    return f"What happened once takes longer than the rest{start}."


def _is_cold_start(case: Case) -> str | None:
    cold = "Launches load the code of their kernels here: a warm run takes less."
    return cold if case.finding("cold_start") else None


def _is_fragment(case: Case) -> str | None:
    """Operators on a host that take little of a trace which is mostly something else."""
    other, window = differing_window(case), case.period.window
    if other is None or window.kind != "host_active":
        return None
    if window.span_ns >= case.thresholds.small_gain * other.window.span_ns:
        return None
    spans = of_whole(window.span_ns, other.window.span_ns)
    return f"The operators take {spans}: too little to judge the run by."


def _windows_differ(case: Case) -> str | None:
    other = differing_window(case)
    return f"{differs(case, other)}." if other is not None else None


def _steps_differ(case: Case) -> str | None:
    steps = other_steps(case)
    return f"{steps}." if steps else None


# -- what the host and the device did --------------------------------------------------------------


def _is_unrecorded(case: Case) -> str | None:
    """Short stretches without records are assumed to be Python."""
    verdict, period = case.verdict, case.period
    if verdict.bottleneck == UNRECORDED:
        return "Where nothing was recorded, the host may have worked or waited: nobody knows."
    if verdict.bottleneck != "python" or verdict.regime != OVERHEAD:
        return None
    if period.host is not None:
        times = (period.host.untraced_ns, period.host.python_ns)
    elif period.idle is not None:
        times = (
            period.idle.causes.get("untraced", 0),
            period.idle.causes.get("python", 0),
        )
    if not (guessed := guessed_ns(*times, case.thresholds)):
        return None
    saved = period.gains.removed.get("python") if period.gains else None
    if period.gains and saved:
        # The rest is in longer stretches.
        guessed = min(guessed, round(saved * period.gains.window_ns))
    return f"For {duration(guessed)} of it nothing was recorded on the thread: Python is a guess."


def _has_other_clock(case: Case) -> str | None:
    shift_ns = case.evidence.clock_shift_ns
    if shift_ns < -case.thresholds.wait_ns:
        return (
            f"The device's clock was set back by {duration(-shift_ns)}: calls returned before the "
            "ops that they wait for, or ops never started sooner than that on an idle device."
        )
    if shift_ns > 0:
        return (
            f"The device's clock was set forward by {duration(shift_ns)}, so that no op starts "
            "before its launch."
        )
    return None


def _limit_is_open(case: Case) -> str | None:
    """Without a device: shapes do not show whether math or memory limits the work."""
    host = case.period.host
    if case.period.gpu is not None or host is None:
        return None
    if case.verdict.bottleneck not in ("math", "memory-bandwidth"):
        return None
    known_ns = host.math_ns + host.memory_ns
    if abs(host.math_ns - host.memory_ns) > host.compute_ns - known_ns:
        return None
    how = "" if case.evidence.shaped else " ({no_shapes})"
    part = f"only {share(known_ns, host.compute_ns)}" if known_ns else "none"
    return f"Shapes tell math from memory for {part} of the operators' time{how}."


def _may_hide_work(case: Case) -> str | None:
    """A call to another worker may not block its thread, so unrecorded work may continue."""
    bottleneck, host = case.verdict.bottleneck, case.period.host
    if bottleneck != "communication" or host is None or not waits_for_workers(host):
        return None
    return f"Other work may hide beside the {duration(host.remote_ns)} of calls to other workers."


# -- findings about the trace's health
# -----------------------------------------------------------------


def _noted(code: str, sentence: str, finding: str = "") -> Doubt:
    """A doubt raised by a finding, by default the one with the doubt's code."""
    return Doubt(code, lambda case: sentence if case.finding(finding or code) else None)


def _slowed_host(case: Case) -> str | None:
    if case.verdict.regime == COMPUTE or not case.finding("profiler_dilation"):
        return None
    return "The profiler slowed the host: without it, the overhead is smaller."


def _disturbed_device(case: Case) -> str | None:
    """An undisturbed device would leave the host even further behind."""
    if case.verdict.regime == OVERHEAD or not case.finding("uneven_kernels"):
        return None
    return (
        "The same product takes very different times: another program used the device, or its "
        "clock changed."
    )


def _unlinked(case: Case) -> str | None:
    """The device waits long in the judged window for ops whose launch is unknown: the host may have
    been late."""
    idle, least_ns = case.period.idle, case.thresholds.doubtful_share
    if idle is None or idle.unlinked_ns < least_ns * case.period.window.span_ns:
        return None
    finding = case.finding("unlinked_gpu_ops")
    return "Some GPU ops have no launch in the trace." if finding else None


def _mostly_unlinked(case: Case) -> str | None:
    """The replay does not know which host work most GPU ops wait for."""
    gpu = case.period.gpu
    is_most = gpu and gpu.linked < (1 - case.thresholds.unlinked_majority) * gpu.gpu_ops
    return "low" if is_most else None


DOUBTS: tuple[Doubt, ...] = (
    # Doubts that do not change the verdict keep this order.
    Doubt(FEW_OPS, _are_few, turns=True, caps="low"),
    Doubt("other_ranks", _may_wait_for_ranks, turns=_communicates_beyond_margin,
          caps=lambda case: "low" if _communicates_beyond_margin(case) else None),
    Doubt("close_call", _is_close, turns=True),
    Doubt("two_states", _has_two_states),
    Doubt("uneven_steps", _is_uneven),
    Doubt("mostly_once", _is_mostly_once, turns=True, caps="low"),
    Doubt("cold_start", _is_cold_start, turns=True, caps="low"),
    Doubt("unexplained_waits", _waits_unexplained, turns=_exceeds_margin),
    Doubt("overlapping_streams", _overlaps_streams),
    Doubt("other_by_time", _differs_by_time),
    Doubt("shifted_clock", _has_other_clock),
    Doubt("open_limit", _limit_is_open),
    Doubt("unrecorded_time", _is_unrecorded),
    Doubt("hidden_work", _may_hide_work),
    _noted("rejected_events", "Parts of the trace could not be read."),
    _noted("shared_file", "Two writers shared the trace's file, and parts of both are missing."),
    _noted("far_gpu_ops", "Some GPU ops have no usable time, so their work is missing."),
    _noted("unseen_graphs", "The trace does not show what its CUDA graphs ran.",
           "graph_without_kernels"),
    _noted("over_peak", "Work would run faster than the device can: its sizes, its times or the "
           "device are not what the trace says."),
    Doubt("disturbed_device", _disturbed_device),
    Doubt("slowed_host", _slowed_host),
    _noted("several_processes", "Several processes launch GPU ops in this file: the verdict is "
           "about the device with the most kernel time."),
    _noted("other_clocks", "Device and host clocks differ.", "starts_before_launch"),
    _noted("too_long_gpu_ops", "Some GPU ops were recorded as longer than their stream allows."),
    Doubt("unlinked_gpu_ops", _unlinked, caps=_mostly_unlinked),
    Doubt("fragment", _is_fragment, caps="none", of_recorder=True),
    Doubt("other_windows", _windows_differ, caps="low"),
    Doubt("other_steps", _steps_differ, caps="low"),
    Doubt("taking_turns", _takes_turns, caps="low", stated=True),
    Doubt("small_margin", _is_not_plain, stated=True),
    Doubt("stands_alone", _stands_alone, if_sure=True),
    *FAULTS,
)  # fmt: skip
