"""Verdicts on captures from an H100, which say how long a step takes without the profiler."""

import tracekit
from tests.conftest import GPU_TRACES
from tracekit.causes import OF_DEVICE, OF_HOST

# The device's busy time as recorded, over the step without the profiler: from here on, the device
# bounds the step. Replays show that a host can set the pace of one in which it is busy for 81 %.
BUSY = 0.85


def test_the_regime_is_that_of_the_step_without_the_profiler():
    with tracekit.load([*GPU_TRACES.glob("*.json.gz")]) as run:
        found = run.verdicts()
    assert len(found) == 34
    for each in found:
        facts = each.trace.capture
        steps_ns = facts["active_steps"] * facts["unprofiled_step_ns"]
        is_busy = each.gpu.busy_ns >= BUSY * steps_ns
        regime = "compute-bound" if is_busy else "overhead-bound"
        assert each.verdict.regime == regime, each.trace.path
        causes = {*OF_DEVICE} - {"sync"} if is_busy else OF_HOST
        assert each.verdict.bottleneck in causes, each.trace.path
