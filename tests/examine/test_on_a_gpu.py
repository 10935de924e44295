"""Verdicts on captures from an H100, which say how long a step takes without the profiler."""

import pytest

import tracekit
from tests.conftest import GPU_TRACES
from tracekit.causes import OF_DEVICE, OF_HOST

# The device's busy time as recorded, over the step without the profiler: from here on, the device
# bounds the step. Replays show that a host can set the pace of one in which it is busy for 81 %.
BUSY = 0.85
# From this dilation on, leaving the recorder out of a replay gives the measured step.
DILATED = 1.3


@pytest.fixture(scope="module")
def analyses():
    with tracekit.load([*GPU_TRACES.glob("*.json.gz")]) as run:
        found = run.verdicts()
    assert len(found) > 30
    return found


def test_the_regime_is_that_of_the_step_without_the_profiler(analyses):
    for each in analyses:
        facts = each.trace.capture
        steps_ns = facts["active_steps"] * facts["unprofiled_step_ns"]
        is_busy = each.gpu.busy_ns >= BUSY * steps_ns
        regime = "compute-bound" if is_busy else "overhead-bound"
        assert each.verdict.regime == regime, each.trace.path
        causes = {*OF_DEVICE} - {"sync"} if is_busy else OF_HOST
        assert each.verdict.bottleneck in causes, each.trace.path


def test_savings_count_in_the_step_without_the_profiler(analyses):
    for each in analyses:
        facts, gains = each.trace.capture, each.judged.gains
        plain_ns = facts["unprofiled_step_ns"]
        if facts["profiled_step_ns"] < DILATED * plain_ns:
            continue
        assert gains.window_ns == pytest.approx(plain_ns, rel=0.01)
        # A graph frees the host: it saves at most the time in which the device idles.
        saved = [a.saves_ns for a in each.advice if a.remedy == "cuda-graph"]
        assert max(saved, default=0) <= plain_ns - each.judged.gpu.busy_ns, each.trace.path
