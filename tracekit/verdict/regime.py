"""What bounds a window, and by how much: compares the gains of host and device.

A run is overhead-bound if halving the host's work gains more than halving the device's, and
compute-bound if it gains less (tracekit/replay). If neither gain reaches the threshold
`small_gain`, the accounting decides: whether the device was busy longer than it waited for the
host; but never for a side without any gain if the other side has some. Every regime, margin, side
and flip comes from here.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import LIMITS, OF_DEVICE, OF_HOST, UNKNOWN_LIMIT, UNRECORDED
from tracekit.replay.model import largest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracekit.evidence.model import Gpu, Idle, Period
    from tracekit.replay.model import Gains
    from tracekit.replay.prices import Speed
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import Analysis

OVERHEAD, COMPUTE, UNKNOWN = "overhead-bound", "compute-bound", "unknown"
# The regime in which each side bounds the run.
REGIMES = {"host": OVERHEAD, "device": COMPUTE}
_OF_KERNELS = (*LIMITS, UNKNOWN_LIMIT)
_OF_SIDE = {"host": OF_HOST, "device": OF_DEVICE}
# The causes that match a regime's name. A device that waits for copies, other ranks or the host
# does not compute; and if the sides take turns, the cause may be on the other side.
_FITTING = {OVERHEAD: {*OF_HOST} - {"copy"}, COMPUTE: {*_OF_KERNELS, "latency"}}
# Bisection steps on a log scale for the speed at which the verdict flips: with `fastest` = 64, five
# steps leave a factor of 64 ** (1 / 32), about 1.14.
_TRIES = 5


def bound_by(regime: str, bottleneck: str | None) -> str:
    """A regime with its bottleneck, such as `overhead-bound by python`; without the regime, as in
    `bound by communication`, if its name does not match the bottleneck."""
    if bottleneck is None:
        return regime
    return f"{regime if bottleneck in _FITTING.get(regime, ()) else 'bound'} by {bottleneck}"


def is_close(margin: float | None, thresholds: Thresholds) -> bool:
    """Whether a regime is a close call."""
    return margin is not None and abs(margin) < thresholds.close_margin


def split_bound(regime: str, bottleneck: str | None) -> tuple[str, str]:
    """The regime with its bottleneck in two parts: the regime, and ` by` the bottleneck."""
    bound = bound_by(regime, bottleneck)
    at = len(bound) if bottleneck is None else bound.index(" by ")
    return bound[:at], bound[at:]


class Bound(Struct, frozen=True):
    """The bound of a window."""

    regime: str
    side: str
    """`host` or `device`: the bounding side, or the side that the gains point to if the regime is
    unknown."""
    margin: float
    """The device's gain minus the host's, as a fraction of the window. Positive on the device's
    side, negative on the host's, even if the accounting decides."""
    host: float
    """The gain from halving the host's work, at most the device's idle share."""
    device: float
    """The gain from halving the device's work."""
    by_time: bool = False
    """Whether the accounting decided because neither gain is large enough."""
    is_capped: bool = False
    """Whether only replays say that the host gains far more than the device's idle share."""
    is_even: bool = False
    """Whether neither side gains enough or is always busy once the recorder's cost is left out."""
    takes_turns: bool = False
    """Whether host and device take turns: a faster host gains as much as a faster device."""
    bottleneck: str | None = None
    """The cause on that side whose removal gains most, or on either side if they take turns; None:
    the regime is unknown."""


def weigh(host: float, device: float, by_time: str | None = None, least: float = 0.0) -> Bound:
    """The bound of a window with these gains from halving the host's and the device's work.

    Args:
        by_time: the accounting's side, which decides if neither gain reaches `least`.
    """
    # If a window gets longer, its start moves earlier than its end.
    host, device = max(0.0, host), max(0.0, device)
    decides = by_time is not None and max(host, device) < least
    side = by_time if decides and by_time else "host" if host > device else "device"
    apart = abs(device - host)
    margin = -apart if side == "host" else apart
    return Bound(REGIMES[side], side, margin, host, device, decides)


def bound_of(period: Period, thresholds: Thresholds) -> Bound:
    """The bound of a device's window, and the bottleneck."""
    gpu, idle, gains = period.gpu, period.idle, period.gains
    assert gpu is not None and idle is not None and gains is not None
    busy_ns = steady_busy_ns(gpu, gains)
    host = cap_host_gain(gains.host, gains.window_ns, busy_ns)
    by_time = side_by_time(gpu, idle, gains)
    bound = _weighed(host, gains.device, by_time, thresholds)
    if gains.recorder_ns and by_time == "device":
        is_busy = busy_ns >= thresholds.busy_share * gains.window_ns
        if is_busy and bound.side == "host":
            # The host is close behind a device that is hardly idle.
            bound = weigh(host, gains.device, by_time, inf)
        elif bound.by_time and not is_busy:
            # The sides take turns: the larger gain decides.
            bound = replace(weigh(host, gains.device), by_time=True, is_even=True)
    is_capped = gains.host - host >= thresholds.small_gain
    # If unexplained waits belonged to one side, halving that side would gain half of them.
    is_open = gains.unknown >= thresholds.unknown_share and gains.unknown / 2 > abs(bound.margin)
    if is_open or _is_unexplained(period, bound, thresholds):
        open_ = weigh(host, gains.device)
        return replace(open_, regime=UNKNOWN, is_capped=is_capped)
    turns = min(host, gains.device) >= thresholds.turn_gain
    turns = turns and is_close(bound.margin, thresholds)
    # If they take turns, neither side deserves the focus.
    names = (*OF_HOST, *OF_DEVICE) if turns else _OF_SIDE[bound.side]
    untraced_ns, python_ns = (idle.causes.get(name, 0) for name in ("untraced", "python"))
    is_guess = guessed_ns(untraced_ns, python_ns, thresholds) > 0
    guesses = {UNRECORDED, "python"} if is_guess else {UNRECORDED}
    gains = replace(gains, removed=removed_of(period))
    bottleneck = _bottleneck(names, gains, guesses, thresholds)
    if bottleneck == UNRECORDED:
        # Threads without records cannot hold up a device that does not wait for them.
        awaited = unrecorded_ns(idle) / gains.window_ns
        if by_time == "device" and not turns and awaited < thresholds.named_gain:
            bound = weigh(host, gains.device, by_time, inf)
            names = _OF_SIDE[bound.side]
        most = min(awaited, gains.removed.get(UNRECORDED, 0.0))
        gains = replace(gains, removed=gains.removed | {UNRECORDED: most})
        bottleneck = _bottleneck(names, gains, guesses, thresholds)
    return replace(bound, is_capped=is_capped, takes_turns=turns, bottleneck=bottleneck)


def _weighed(host: float, device: float, by_time: str, thresholds: Thresholds) -> Bound:
    is_nil = gains_nothing(by_time, host, device, thresholds)
    return weigh(host, device, None if is_nil else by_time, thresholds.small_gain)


def gains_nothing(side: str, host: float, device: float, thresholds: Thresholds) -> bool:
    """Whether halving a side gains nothing while halving the other one gains something: then that
    side does not bound the window, however busy it is."""
    gained = device if side == "device" else host
    return bool(gained < thresholds.shown_gain and max(host, device) >= thresholds.named_gain)


def _is_unexplained(period: Period, bound: Bound, thresholds: Thresholds) -> bool:
    """Whether the device waits long without records while replay and accounting disagree: the
    host's path in a sampled trace may be just as incomplete. This is the case if time alone points
    to the host; or if neither side gains in a replay that does not know what most ops wait for, or
    what the device waits for longer than it works."""
    assert period.gpu is not None and period.idle is not None and period.gains is not None
    span_ns = period.gpu.busy_ns + period.gpu.idle_ns
    unlinked_ns = period.idle.unlinked_ns
    is_loose = period.gpu.linked < (1 - thresholds.unlinked_majority) * period.gpu.gpu_ops
    is_loose = is_loose or unlinked_ns > steady_busy_ns(period.gpu, period.gains)
    if bound.by_time and is_loose and unlinked_ns >= thresholds.unknown_share * span_ns:
        return True
    if bound.by_time and bound.side == "host":
        return bool(unrecorded_share(period.gpu, period.idle) >= thresholds.unknown_share)
    if bound.side == side_by_time(period.gpu, period.idle, period.gains) or bound.takes_turns:
        return False
    return bool(
        unexplained_ns(period.gpu, period.idle, thresholds) >= thresholds.unknown_share * span_ns
    )


def unrecorded_share(gpu: Gpu, idle: Idle) -> float:
    """The share of a window in which the device waited for a launch while nothing was recorded on
    the launching thread."""
    return idle.causes.get("untraced", 0) / max(1, gpu.busy_ns + gpu.idle_ns)


def unrecorded_ns(idle: Idle) -> int:
    """The time that the device waited while nothing was recorded on the launching thread, or after
    its last op."""
    return idle.causes.get("untraced", 0) + idle.after_last_op_ns


def unexplained_ns(gpu: Gpu, idle: Idle, thresholds: Thresholds) -> int:
    """Gaps on the device before ops that were launched earlier, or whose launch is unknown, minus
    the time it takes to start each op."""
    gaps_ns = idle.device_ns - idle.device_in_launch_ns + idle.unlinked_ns
    return int(max(0, gaps_ns - gpu.gpu_ops * thresholds.launch_floor_ns))


def cap_host_gain(host: float, window_ns: float, busy_ns: float) -> float:
    """The gain from halving the host's work, but at most the device's idle share.

    A replay runs streams side by side without slowing each other, so a faster host may seem to
    gain more than the time in which the device is idle. `busy_ns` is its busy time in the window.
    """
    return min(host, max(1 - busy_ns / window_ns, 0.0)) if window_ns else host


def removed_of(period: Period) -> dict[str, float]:
    """The gain from removing each cause, largest first. Waiting for a device costs at most its idle
    time, and at most the time that the host may have waited: while the device was busy or waited
    for itself, and in waiting calls."""
    gpu, idle, gains = period.gpu, period.idle, period.gains
    assert gpu is not None and idle is not None and gains is not None
    sync = cap_host_gain(
        gains.removed.get("sync", 0.0), gains.window_ns, steady_busy_ns(gpu, gains)
    )
    calls_ns = sum(idle.causes.get(cause, 0) for cause in ("sync", "copy"))
    waited_ns = gpu.busy_ns + idle.device_ns + idle.unlinked_ns + calls_ns
    removed = gains.removed | {"sync": min(sync, waited_ns / max(1, gains.window_ns))}
    return largest_first(removed)


def steady_busy_ns(gpu: Gpu, gains: Gains) -> int:
    """The device's busy time, without one-offs: at most the window's length without them."""
    return min(max(0, gpu.busy_ns - gains.device_one_offs_ns), gains.recorded_ns)


def side_by_time(gpu: Gpu, idle: Idle, gains: Gains) -> str:
    """The side that bounds a window by time alone: the device's busy time against its time waiting
    for the host, as in queries/time/regime.sql, without one-offs and the recorder's cost."""
    once_ns = gains.one_offs_ns - gains.device_one_offs_ns
    waited_ns = idle.waits_for_host_ns - once_ns - (gains.recorder_ns or 0)
    return "host" if waited_ns > steady_busy_ns(gpu, gains) else "device"


def is_partly_once(period: Period, thresholds: Thresholds) -> bool:
    """Whether one-offs take a large part of the window, so that sentences state shares of the
    rest."""
    gains = period.gains
    return gains is not None and gains.one_offs_ns >= thresholds.small_gain * period.window.span_ns


def is_hardly_once(period: Period, thresholds: Thresholds) -> bool:
    """Whether one-offs take a small but visible part of the window."""
    gains, span_ns = period.gains, period.window.span_ns
    least, most = thresholds.named_gain * span_ns, thresholds.small_gain * span_ns
    return gains is not None and bool(least <= gains.one_offs_ns < most)


def guessed_ns(untraced_ns: int, python_ns: int, thresholds: Thresholds) -> int:
    """The time without records, if that is most of what counts as Python; otherwise 0."""
    is_most = untraced_ns >= thresholds.unrecorded_share * (untraced_ns + python_ns)
    return untraced_ns if is_most else 0


def _bottleneck(
    names: tuple[str, ...], gains: Gains, guesses: set[str], thresholds: Thresholds
) -> str:
    """The cause whose removal gains most. Time without records counts only if no recorded cause
    comes near."""
    removed = {name: gains.removed.get(name, 0.0) for name in names}
    best = max(removed, key=removed.__getitem__)
    recorded = [name for name in names if name not in guesses]
    if best in guesses:
        other = max(recorded, key=removed.__getitem__)
        if removed[other] >= thresholds.near_share * removed[best]:
            best = other
    if removed[best] < thresholds.named_gain:
        # Two chains are equally long, so removing one gains nothing: choose the cause with most
        # time. During most of the time without records, threads wait for work.
        left = [name for name in names if name != UNRECORDED]
        return max(left, key=lambda name: gains.work_ns.get(name, 0))
    kernels = [name for name in _OF_KERNELS if name in names]
    if best not in kernels and sum(removed[name] for name in kernels) > removed[best]:
        # The causes of kernels split the device's own work; it counts if their combined gain is
        # larger.
        best = max(kernels, key=removed.__getitem__)
    if best not in kernels:
        return best
    # If the other side comes next, several causes gain the same: choose the one with most time.
    same = (kernel for kernel in kernels if removed[best] - removed[kernel] < thresholds.shown_gain)
    return max(same, key=lambda name: (gains.work_ns.get(name, 0), name == best))


def limits_alike(
    bottleneck: str, gains: Gains, thresholds: Thresholds
) -> tuple[tuple[str, ...], bool]:
    """The device's leading causes: a device-side bottleneck, and causes whose removal gains nearly
    as much, largest first. Kernels' limit may be any that the trace does not rule out. If the
    bottleneck takes far more time than another cause, only the other side keeps it from gaining
    more: then the other cause is left out, and the second value is true."""
    most = dict(gains.removed)
    if bottleneck in LIMITS:
        most |= gains.removed_at_most
        most.pop(UNKNOWN_LIMIT, None)
    best = most.get(bottleneck, 0.0)
    if bottleneck == UNKNOWN_LIMIT or best < thresholds.named_gain:
        return (bottleneck,), False
    near = [each for each in OF_DEVICE if most.get(each, 0.0) >= thresholds.near_share * best]
    work = {each: gains.work_ns.get(each, 0) for each in near}
    alike = near
    if work.get(bottleneck) == max(work.values(), default=0):
        alike = [each for each in near if work[each] >= thresholds.near_share * work[bottleneck]]
    return tuple(sorted(alike, key=lambda cause: -most[cause])), len(alike) < len(near)


# -- at other speeds -------------------------------------------------------------------------------


def flip_of(
    period: Period,
    thresholds: Thresholds,
    halved_at: Callable[[str, float], tuple[int, float, float]],
) -> float | None:
    """The speedup of the bounding side at which the margin changes its sign; None: not even at
    `fastest`. `halved_at` returns the window's length if a side is faster by a factor, and the
    gains from then halving each side's work."""
    side = bound_of(period, thresholds).side
    assert period.gpu is not None and period.gains is not None
    busy_ns = steady_busy_ns(period.gpu, period.gains)

    def flipped(faster: float) -> bool:
        length, host, device = halved_at(side, faster)
        still_ns = busy_ns / (faster if side == "device" else 1)
        margin = weigh(cap_host_gain(host, length, still_ns), device).margin
        return margin > 0 if side == "host" else margin < 0

    fastest = thresholds.fastest
    if not flipped(fastest):
        return None
    low, high = 0.0, 1.0
    for _ in range(_TRIES):
        middle = (low + high) / 2
        low, high = (low, middle) if flipped(fastest**middle) else (middle, high)
    return float(fastest**high)


def slower_sides(speeds: Sequence[Speed], analysis: Analysis) -> list[str]:
    """The bound of the verdict's window at each combination of speeds: `host`, `device`, or
    `network` if most of a faster device's gain comes from the network. At the recorded speeds, it
    is the verdict's side."""
    verdict_side = {regime: side for side, regime in REGIMES.items()}.get(analysis.verdict.regime)
    busy_ns, exposed_ns, gpu = 0, 0, analysis.judged.gpu
    if gpu and analysis.causal:
        busy_ns = steady_busy_ns(gpu, analysis.causal.gains)
        exposed_ns = min(busy_ns, gpu.exposed_comm_ns)
    sides = []
    for speed in speeds:
        still_ns = (busy_ns - exposed_ns) / speed.device + exposed_ns / speed.network
        side = weigh(
            cap_host_gain(speed.host_gain, speed.window_ns, still_ns), speed.device_gain
        ).side
        if verdict_side and speed.host == speed.device == speed.network == 1:
            side = verdict_side
        is_network = side == "device" and 2 * speed.network_gain > speed.device_gain
        sides.append("network" if is_network else side)
    return sides
