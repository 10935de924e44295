"""The regime and the bottleneck of a window with GPU ops.

A run is overhead-bound if halving the host's work gains more than halving the device's, and
compute-bound if it gains less (tracekit/replay). If neither gains the threshold `small_gain`, the
accounting decides: whether the device spent more time busy than waiting for the host.
"""

from __future__ import annotations

from tracekit.causes import OF_DEVICE, OF_HOST
from tracekit.replay.gains import Gains
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import COMPUTE, OVERHEAD, UNKNOWN
from tracekit.verdict.model import Facts, Gpu, Idle


def regime_of(facts: Facts, gains: Gains, thresholds: Thresholds) -> tuple[str, str | None]:
    """The regime and the bottleneck by gains, or by the accounting if neither side gains."""
    gpu, idle, host = facts.gpu, facts.idle, host_gain(facts, gains)
    assert gpu is not None and idle is not None
    # If unexplained waits belonged to one side, halving that side would gain half of them.
    if gains.unknown >= thresholds.unknown_share and gains.unknown / 2 > abs(gains.device - host):
        return UNKNOWN, None
    if max(host, gains.device) < thresholds.small_gain:
        regime = accounted(gpu, idle, gains)
    else:
        regime = OVERHEAD if host > gains.device else COMPUTE
    return regime, _bottleneck(regime, gains, thresholds)


def host_gain(facts: Facts, gains: Gains) -> float:
    """The gain from halving the host's work, but at most the device's idle share.

    A replay runs streams side by side without slowing each other, so a faster host may seem to
    gain more than the time in which the device is idle. A step's gain and its idle time belong to
    different intervals, so a step's gain is left as it is.
    """
    assert facts.gpu is not None
    if facts.window.kind == "step" or not gains.window_ns:
        return gains.host
    idle = 1 - steady_busy_ns(facts.gpu, gains) / gains.window_ns
    return min(gains.host, max(idle, 0.0))


def steady_busy_ns(gpu: Gpu, gains: Gains) -> int:
    """The device's busy time, one-offs aside."""
    return max(0, gpu.busy_ns - gains.device_one_offs_ns)


def accounted(gpu: Gpu, idle: Idle, gains: Gains) -> str:
    """The regime by time alone: the device's busy time against its time waiting for the host,
    one-offs aside."""
    waited_ns = _waited_ns(idle) - (gains.one_offs_ns - gains.device_one_offs_ns)
    return OVERHEAD if waited_ns > steady_busy_ns(gpu, gains) else COMPUTE


def _waited_ns(idle: Idle) -> int:
    # A device also waits for the host while the call that launches its next op is still running
    # (nothing else was queued), and after its last op.
    latency = idle.causes.get("launch_latency", 0)
    return idle.host_late_ns - latency + idle.device_in_launch_ns + idle.after_last_op_ns


def _bottleneck(regime: str, gains: Gains, thresholds: Thresholds) -> str:
    """The cause, on the regime's side, whose removal gains most."""
    names = OF_HOST if regime == OVERHEAD else OF_DEVICE
    best = max(names, key=lambda name: gains.removed.get(name, 0.0))
    if gains.removed.get(best, 0.0) >= thresholds.named_gain:
        return best
    # Two chains are equally long, so removing one gains nothing: take the cause with most time.
    return max(names, key=lambda name: gains.work_ns.get(name, 0))
