"""The recorder's cost to the host: launches, dispatch and Python take longer while recorded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from tracekit.causes import CAUSES
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints
from tracekit.replay.simulator import Scale

# The causes with one event per small piece of work.
_RECORDED = [CAUSES.index(name) for name in ("launch", "dispatch", "python")]
# The smallest factor on the host's work to try, and the number of bisections.
_LEAST, _TRIES = 0.1, 12
# Windows with a smaller difference count as equally long.
_CLOSE = 0.99


class RecorderCost(Struct, frozen=True):
    """The recorder's cost to the host."""

    dilation: float | None = None
    """The factor by which recording made the window longer, as `capture` measured it; at
    least 1."""
    pace: float = 1.0
    """The factor on the host's recorded work that removes the recorder's cost; 1: the cost is
    unknown or small."""

    def unrecorded(self, recorded_ns: Ints, replayed_ns: Ints) -> Ints:
        """The lengths of windows in the unrecorded run, from the recorded ones without one-offs:
        measured or else replayed at this pace. Gains are fractions of the replayed length; prices
        and lengths are in ns of this one."""
        if self.pace == 1 or self.dilation is None:
            return replayed_ns
        return (recorded_ns / self.dilation).astype(np.int64)

    def removed_from(self, scale: Scale) -> Scale:
        """A copy of the scale with the host's speed without the recorder."""
        scale = scale.copy()
        if self.pace != 1:
            for rates in (scale.host, scale.fixed):
                for cause in _RECORDED:
                    rates.scale_cause(cause, self.pace)
        return scale


def fitted(
    dilation: float, recorded_ns: int, pace: float, length: Callable[[RecorderCost], int]
) -> RecorderCost:
    """The measured cost: without it, the window is as long as the step without the profiler.

    If the window waits for the device, many factors on the host's work give the same length; then
    the estimate, `pace`, decides. If no factor gives that length, for example because the recorder
    slowed the device, the work shrinks like the step. `length` is the window's length without the
    cost.
    """
    aim_ns = recorded_ns / dilation
    low, high = _LEAST, 1.0
    estimate = RecorderCost(dilation, pace)
    if _CLOSE * aim_ns <= length(estimate) <= aim_ns:
        return estimate
    if dilation == 1:
        return RecorderCost(dilation)
    if length(RecorderCost(dilation, low)) > aim_ns:
        return RecorderCost(dilation, min(pace, max(_LEAST, 1 / dilation)))
    for _ in range(_TRIES):
        middle = (low + high) / 2
        is_longer = length(RecorderCost(dilation, middle)) > aim_ns
        low, high = (low, middle) if is_longer else (middle, high)
    return RecorderCost(dilation, high)


def estimated(cost_ns: int, graph: Graph) -> RecorderCost:
    """The cost estimated from the events on the thread that launches most. Since estimates are
    rough, at most half of that thread's work counts as the recorder's."""
    launching = graph.device.thread[graph.device.linked]
    main = int(np.bincount(launching).argmax()) if len(launching) else None
    recorded_ns = int(graph.host.totals(main)[_RECORDED].sum())
    return RecorderCost(pace=1 - min(0.5, cost_ns / recorded_ns) if recorded_ns else 1.0)
