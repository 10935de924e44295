"""What a verdict says of kernels whose limit, math or memory, the trace does not tell."""

from __future__ import annotations

from tracekit.causes import UNKNOWN_LIMIT
from tracekit.replay.gains import Gains
from tracekit.text import share
from tracekit.thresholds import Thresholds
from tracekit.verdict.regime import OVERHEAD


def unknown_limits_ns(cause: str, gains: Gains) -> int | None:
    """What removing math or memory saves at most, if it limits all such kernels, too."""
    if cause not in gains.removed_at_most:
        return None
    return round(gains.removed_at_most[cause] * gains.window_ns)


def limit_sentences(gains: Gains, regime: str, thresholds: Thresholds) -> list[str]:
    """A sentence that prices math and memory as ranges, if the device bounds the window and the
    doubt matters (tracekit/replay/gains.py, `removed_at_most`)."""
    doubtful = gains.removed.get(UNKNOWN_LIMIT, 0.0)
    if regime == OVERHEAD or doubtful < thresholds.named_gain:
        return []
    ranges = [
        f"{name} {_range(gains.removed.get(name, 0.0), most)}"
        for name, most in gains.removed_at_most.items()
    ]
    return [
        f"The trace does not show whether math or memory limits kernels worth "
        f"{share(doubtful, 1)}: removing {', '.join(ranges)}."
    ]


def _range(least: float, most: float) -> str:
    low, high = sorted((max(least, 0.0), max(most, 0.0)))
    return f"{share(low, 1)} to {share(high, 1)}"
