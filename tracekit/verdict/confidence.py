"""How sure a verdict is: each doubt lowers the confidence and adds a sentence that names it.

`DOUBTS` are pure functions of the evidence and the verdict: a new doubt is one function there, and
a test of two lines (tests/verdict/test_verdict.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from msgspec.structs import replace

from tracekit.causes import UNRECORDED, words
from tracekit.evidence.model import Evidence
from tracekit.text import duration, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Verdict
from tracekit.verdict.next_steps import waits_for_workers
from tracekit.verdict.once import excess_in
from tracekit.verdict.regime import (
    COMPUTE,
    OVERHEAD,
    REGIMES,
    UNKNOWN,
    bound_of,
    gains_nothing,
    guessed_ns,
    is_close,
    side_by_time,
    steady_busy_ns,
)
from tracekit.verdict.windows import (
    differing_window,
    is_few,
    is_single_pass,
    is_unrepeated,
    other_steps,
)

# From the surest down; each doubt lowers it by one.
LEVELS = ("high", "medium", "low")
# A verdict has at most the first number of sentences. The second is how many of them are reasons,
# even if there are many doubts.
MOST_REASONS, _FEWEST = 6, 4
RECORD_OPERATORS = "Record operators ({no_operators}) to see what the host does between its calls."

Doubt = Callable[[Verdict, Evidence, Thresholds], "str | None"]


def with_doubts(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> Verdict:
    """The verdict with its confidence lowered by each doubt, and a sentence for each."""
    margin = verdict.margin
    if verdict.regime == UNKNOWN or margin is None:
        return replace(verdict, why=verdict.why[:MOST_REASONS])
    found = (doubt(verdict, evidence, thresholds) for doubt in DOUBTS)
    # A screen may have room for one. First comes that ops are too few, then what could turn the
    # verdict.
    first = _repeats_little(verdict, evidence, thresholds)
    is_first = is_few(evidence.ops, evidence.repetition, thresholds)
    turning = _turning(verdict, evidence, thresholds)
    doubts = sorted(
        (each for each in found if each),
        key=lambda each: (not (is_first and each == first), each not in turning),
    )
    # They come last: the caveats mention them as well.
    for finding in evidence.health:
        if finding.code == "profiler_dilation" and verdict.regime == COMPUTE:
            continue
        if finding.code == "unlinked_gpu_ops" and not _hides_host(evidence, thresholds):
            continue
        if finding.code in words("doubt"):
            doubts.append(words("doubt")[finding.code])
    is_guess = verdict.bottleneck in ("python", UNRECORDED)
    if is_guess and evidence.gains and not evidence.gains.work_ns.get("dispatch"):
        verdict = replace(verdict, try_next=[*verdict.try_next, RECORD_OPERATORS])
    elif is_guess and any(each.code == "no_stacks" for each in evidence.health):
        advice = "Record Python stacks ({no_stacks}) to see which lines the time goes to."
        verdict = replace(verdict, try_next=[*verdict.try_next, advice])
    plain = abs(margin) >= thresholds.plain_margin
    level = min(len(LEVELS) - 1, len(doubts) + (0 if plain else 1))
    if _is_low_at_once(verdict, evidence, thresholds):
        level = len(LEVELS) - 1
    if level == 0 and (alone := _stands_alone(evidence, thresholds)):
        level = 1
        doubts.append(alone)
    reasons = verdict.why[: max(_FEWEST, MOST_REASONS - len(doubts))]
    why = [*reasons, *doubts][:MOST_REASONS]
    return replace(verdict, confidence=LEVELS[level], why=why, doubts=doubts)


def _stands_alone(evidence: Evidence, thresholds: Thresholds) -> str | None:
    """The sentence on a single pass, a single marked step, however often its work repeats, or a run
    without steps that captures graphs again."""
    repetition = evidence.repetition
    if is_single_pass(repetition, thresholds):
        return "A single pass was recorded: no second one shows how much of it is usual."
    if evidence.window.kind != "step" and evidence.advised_remedy == "capture-once":
        return "A longer recording shows whether the run goes on capturing graphs."
    if repetition is None or repetition.steps > 1:
        return None
    # A host without a device is judged over all of its steps.
    of_step = evidence.window.kind == "step" or (evidence.gpu is None and repetition.steps == 1)
    if not of_step:
        return None
    passes = f", with {repetition.passes} passes" if repetition.passes > 1 else ""
    return f"One step is marked{passes}: no second one shows how much of it is usual."


# -- doubts ----------------------------------------------------------------------------------------


def _is_close(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    if not is_close(verdict.margin, thresholds):
        return None
    apart = percent(abs(verdict.margin or 0.0))
    return f"The two sides are {apart} of the window apart: a close call."


def _may_wait_for_ranks(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    gpu, span = evidence.gpu, evidence.window.span_ns
    if gpu is None or gpu.exposed_comm_ns < thresholds.rank_share * span or not span:
        return None
    return (
        f"{share(gpu.exposed_comm_ns, span)} is exposed communication, which may be waiting "
        "for other ranks or for a slow link: only their traces tell."
    )


def _is_unrecorded(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    """Short stretches in which nothing was recorded count as Python's; that is a guess."""
    if verdict.bottleneck == UNRECORDED:
        return "Where nothing was recorded, the host may have worked or waited: nobody knows."
    if verdict.bottleneck != "python" or verdict.regime != OVERHEAD:
        return None
    if evidence.host is not None:
        times = (evidence.host.untraced_ns, evidence.host.python_ns)
    elif evidence.idle is not None:
        times = (evidence.idle.causes.get("untraced", 0), evidence.idle.causes.get("python", 0))
    if not (guessed := guessed_ns(*times, thresholds)):
        return None
    saved = evidence.gains.removed.get("python") if evidence.gains else None
    if evidence.gains and saved:
        # The rest was in longer stretches.
        guessed = min(guessed, round(saved * evidence.gains.window_ns))
    return f"For {duration(guessed)} of it nothing was recorded on the thread: Python is a guess."


def _repeats_little(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    ops, nothing = evidence.ops, is_unrepeated(evidence.repetition)
    if is_few(ops, evidence.repetition, thresholds):
        if not ops:
            return "No op was recorded that would represent a run."
        recorded = f"{ops} {'op was' if ops == 1 else 'ops were'} recorded"
        also = " and nothing repeats" if nothing else ""
        return f"Only {recorded}{also}: too few to represent a run."
    if not nothing:
        return None
    return (
        "Nothing repeats: most kernels ran once or twice, so the trace does not show a steady "
        "state."
    )


def _has_two_states(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    """Passes of two lengths, far apart: the run changed while it was recorded. Passes are the
    host's: where it runs ahead of a busy device, they last as long as its queue lets them. Several
    passes in each marked step are parts of it."""
    launch, repetition = evidence.launch, evidence.repetition
    if verdict.regime == COMPUTE and launch is not None and launch.queue_depth_p50 > 1:
        return None
    found = sorted((repetition and repetition.pass_lengths) or [])
    if repetition is not None and 1 < repetition.steps <= len(found) / 2:
        return None
    apart = [after / max(1, before) for before, after in pairwise(found)]
    if not apart or max(apart) < thresholds.one_range_ratio:
        return None
    at = apart.index(max(apart)) + 1
    if min(at, len(found) - at) < 2:
        return None
    states = (
        f"{len(part)} take {' to '.join(dict.fromkeys((duration(part[0]), duration(part[-1]))))}"
        for part in (found[:at], found[at:])
    )
    return f"The passes are not alike: {', '.join(states)}."


def _is_uneven(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    """A step in which the same work took the device far less time than in the judged one."""
    gpu, span = evidence.gpu, evidence.window.span_ns
    if gpu is None or evidence.window.kind != "step":
        return None
    for step in evidence.steps:
        less_ns = gpu.compute_ns - step.gpu.compute_ns if step.gpu else 0
        is_alike = step.gpu is not None and step.gpu.gpu_ops == gpu.gpu_ops
        if is_alike and less_ns >= (1 - 1 / thresholds.cold_step_ratio) * span:
            return (
                f"{step.window.name} computes {duration(less_ns)} less in as many GPU ops: its "
                "input was smaller, or another program used the GPU meanwhile."
            )
    return None


def _is_mostly_once(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    gains = evidence.gains
    if gains is None or excess_in(evidence.window, evidence.one_offs) <= gains.window_ns:
        return None
    repetition = evidence.repetition
    has_steps = repetition and repetition.steps >= thresholds.fewest_alike
    start = "" if has_steps else ": this is more a start than a steady run"
    return f"One-off events take longer than what is left to judge{start}."


def _waits_unexplained(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    gains = evidence.gains
    if gains is None or gains.unknown < thresholds.doubtful_share:
        return None
    return (
        "Without waits that the trace does not explain, the window would be "
        f"{percent(gains.unknown)} shorter."
    )


def _overlaps_streams(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    if evidence.gpu is None or evidence.gains is None:
        return None
    bound = bound_of(evidence, thresholds)
    # A recorder's estimated cost may be longer than the time in which the device idles.
    is_beyond = steady_busy_ns(evidence.gpu, evidence.gains) > evidence.gains.window_ns
    if not bound.is_capped or is_beyond:
        return None
    return (
        f"The device is idle for only {percent(bound.host)} of the window: the host gains more "
        "only if streams run side by side without slowing each other."
    )


def _differs_by_time(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    if evidence.gpu is None or evidence.idle is None or evidence.gains is None:
        return None
    side, gains = side_by_time(evidence.gpu, evidence.idle, evidence.gains), evidence.gains
    is_nil = gains_nothing(side, gains.host, gains.device, thresholds)
    if REGIMES[side] == verdict.regime or is_nil:
        return None
    return (
        "By time alone (device busy time against time waiting for the host), the run would be "
        f"{REGIMES[side]}."
    )


def _has_other_clock(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    shift_ns = evidence.causal.clock_shift_ns if evidence.causal else 0
    if shift_ns < -thresholds.wait_ns:
        return (
            f"For the replay, {duration(-shift_ns)} were taken from the device's times: calls "
            "returned before the ops that they wait for ended."
        )
    if shift_ns > 0:
        return (
            f"For the replay, {duration(shift_ns)} were added to the device's times: the smallest "
            "shift with which no op starts before its launch."
        )
    return None


def _limit_is_open(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    """On a host without a device: shapes do not show whether math or memory limits the work."""
    host = evidence.host
    if evidence.gpu is not None or host is None:
        return None
    if verdict.bottleneck not in ("math", "memory-bandwidth"):
        return None
    known = host.math_ns + host.memory_ns
    if abs(host.math_ns - host.memory_ns) > host.compute_ns - known:
        return None
    how = "" if evidence.shaped else " ({no_shapes})"
    part = f"only {share(known, host.compute_ns)}" if known else "none"
    return (
        f"Recorded shapes tell math from memory for {part} of the compute operators' time: the "
        f"limit could be the other{how}."
    )


def _may_hide_work(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str | None:
    """A call to another worker need not block its thread: unrecorded work may go on."""
    host = evidence.host
    if verdict.bottleneck != "communication" or host is None or not waits_for_workers(host):
        return None
    return (
        f"Nothing else was recorded in the {duration(host.remote_ns)} of calls of other workers: "
        "such a call need not block its thread, and other work may hide beside it."
    )


# The first one is on the first screen.
DOUBTS: tuple[Doubt, ...] = (
    _may_wait_for_ranks,
    _is_close,
    _has_two_states,
    _is_uneven,
    _repeats_little,
    _is_mostly_once,
    _waits_unexplained,
    _overlaps_streams,
    _differs_by_time,
    _has_other_clock,
    _limit_is_open,
    _is_unrecorded,
    _may_hide_work,
)


def _turning(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> list[str | None]:
    """The doubts that could turn the verdict."""
    given, gpu = (verdict, evidence, thresholds), evidence.gpu
    found = [_is_close(*given), _repeats_little(*given), _is_mostly_once(*given)]
    if gpu is not None and _is_beyond_margin(gpu.exposed_comm_ns, verdict, evidence):
        found.append(_may_wait_for_ranks(*given))
    gains = evidence.gains
    if gains is not None and gains.unknown > abs(verdict.margin or 0.0):
        found.append(_waits_unexplained(*given))
    return found


def _is_beyond_margin(ns: int, verdict: Verdict, evidence: Evidence) -> bool:
    """Whether a part of the window exceeds the difference between the sides."""
    return ns > abs(verdict.margin or 0.0) * evidence.window.span_ns


def _hides_host(evidence: Evidence, thresholds: Thresholds) -> bool:
    """Whether the device waits long, in the judged window, for ops of unknown launch: the host may
    have been late."""
    idle, span_ns = evidence.idle, evidence.window.span_ns
    return idle is not None and idle.unlinked_ns >= thresholds.doubtful_share * span_ns


def _is_low_at_once(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> bool:
    """Whether one fact alone makes the confidence low."""
    gpu, given = evidence.gpu, (verdict, evidence, thresholds)
    if (
        is_few(evidence.ops, evidence.repetition, thresholds)
        or is_unrepeated(evidence.repetition)
        or _is_mostly_once(*given)
        or differing_window(evidence, verdict.regime, thresholds)
        or other_steps(evidence, verdict.regime, verdict.bottleneck, thresholds)
    ):
        return True
    if gpu is None:
        return False
    # The replay does not know which host work most GPU ops wait for.
    is_most = gpu.linked < (1 - thresholds.unlinked_majority) * gpu.gpu_ops
    if is_most and _hides_host(evidence, thresholds):
        return True
    if _may_wait_for_ranks(*given) and _is_beyond_margin(gpu.exposed_comm_ns, verdict, evidence):
        return True
    return evidence.gains is not None and bound_of(evidence, thresholds).takes_turns
