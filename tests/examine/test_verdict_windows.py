"""Verdicts on small traces: the measurements, and the judged window."""

from __future__ import annotations

import pytest

from tests.kit.evidenced import MS
from tests.kit.traces import Together, frame, gpu_op, launch, operator, step

TRACES = Together()


@pytest.mark.thorough
@TRACES.of(
    step(1, 0, 1000),
    *(launch(i, 0.5, i) for i in range(1, 11)),
    *(gpu_op(i * 99, 99, i) for i in range(1, 11)),
    step(2, 1100, 900),
    *(launch(1100 + i * 50, 1, 20 + i) for i in range(1, 11)),
    *(gpu_op(1105 + i * 50, 1, 20 + i) for i in range(1, 11)),
)  # fmt: skip
def test_steps_of_one_trace_may_differ_and_the_verdict_says_so(trace, analyses):
    analysis = analyses[trace]
    assert [step.regime for step in analysis.steps] == ["compute-bound", "overhead-bound"]
    # No call waits for the device, so the host's time between the two limits both gains.
    assert analysis.verdict.regime == "overhead-bound"
    assert any("1 compute-bound" in why for why in analysis.verdict.why)


@TRACES.of(*(
    event
    for number, ops in ((1, 10), (2, 4))
    for event in (
        step(number, number * 1000, 100 * ops),
        *(launch(number * 1000 + 99 * n, 5, 100 * number + n) for n in range(ops)),
        *(gpu_op(number * 1000 + 99 * n + 7, 9, 100 * number + n) for n in range(ops)),
    )
))  # fmt: skip
def test_a_step_that_the_recording_ends_in_is_not_the_typical_one(trace, analyses):
    assert analyses[trace].verdict.window.name == "ProfilerStep#1"


def back_to_back(lead_us):
    """Each call takes 4 of 6 us, each kernel 2 us."""
    events = []
    for i in range(300):
        events += [launch(6 * i, 4, i + 1), gpu_op(6 * i + lead_us, 2, i + 1)]
    return TRACES.events(events)


# Half a microsecond decides whether the call began before or after the gap.
@pytest.mark.parametrize("trace", [back_to_back(lead_us) for lead_us in (3, 3.5, 4, 4.5, 5)])
def test_a_host_that_launches_back_to_back_into_an_idle_gpu_is_the_limit(trace, analyses):
    verdict = analyses[trace].verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "launch")


@TRACES.of(
    *(launch(i, 0.5, i + 1) for i in range(100)),
    *(gpu_op(200 + 10 * i, 8, i + 1) for i in range(100)),
)  # fmt: skip
def test_work_that_was_queued_before_the_gap_is_the_devices_matter(trace, analyses):
    analysis = analyses[trace]
    assert analysis.verdict.regime == "compute-bound"
    assert analysis.idle.device_in_launch_ns == 0
    assert analysis.idle.device_ns == 99 * 2000


@TRACES.of(
    launch(0, 5, 1), gpu_op(10, 5, 1),
    launch(100, 5, 2, "cudaGraphLaunch"),
    *(gpu_op(112 + 50 * i, 40, 2) for i in range(60)),
    launch(4000, 5, 3), gpu_op(4011, 5, 3),
)  # fmt: skip
def test_a_graph_of_many_kernels_is_one_launch_in_the_median_delay(trace, analyses):
    found = analyses[trace].launch
    assert (found.count, found.first_delay_p50_ns, found.launch_call_p50_ns) == (3, 11_000, 5000)
    assert found.delay_p50_ns > 1 * MS


LAYERS = ["norm", "qkv", "attention", "up", "down"] * 4


def passing(passes, steps):
    """Passes through four layers, in each step if there are any."""
    names = ["embed", *LAYERS, "head", "loss"] * passes
    ops = [(100 * n + i, name) for n in range(max(1, steps)) for i, name in enumerate(names)]
    return TRACES.events([
        *(launch(at, 0.5, number) for number, (at, _) in enumerate(ops, 1)),
        *(gpu_op(100 * number, 99, number, name=name) for number, (_, name) in enumerate(ops, 1)),
        *(step(n, 100.0 * n, 90) for n in range(steps)),
    ])  # fmt: skip


PASSES = {(passes, steps): passing(passes, steps) for passes in (1, 3) for steps in (0, 1, 2)}


@pytest.mark.parametrize(("passes", "steps"), PASSES)
def test_a_single_pass_or_step_is_never_judged_with_high_confidence(passes, steps, analyses):
    verdict = analyses[PASSES[passes, steps]].verdict
    assert verdict.regime == "compute-bound"
    is_single = passes == 1 and steps < 2
    assert any("A single pass" in why for why in verdict.why) == is_single
    assert (verdict.confidence != "high") == (is_single or steps == 1)


def without_device(passes):
    names = ["embedding", *LAYERS, "softmax", "nll_loss", "sum"] * passes
    return TRACES.events([
        *(operator(f"aten::{name}", 100.0 * i, 9) for i, name in enumerate(names)),
        frame("train.py(7): train", 0, 100.0 * len(names)),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "confidence"), [(without_device(1), "medium"), (without_device(3), "high")]
)
def test_nor_is_a_single_pass_without_a_device(trace, confidence, analyses):
    verdict = analyses[trace].verdict
    assert (verdict.regime, verdict.confidence) == ("overhead-bound", confidence)


def far_apart(*around, us=5000):
    """Launches of short kernels."""
    launches = [(launch(us * i, 4, i + 1), gpu_op(us * i + 6, 20, i + 1)) for i in range(30)]
    return TRACES.events([*around, *(event for each in launches for event in each)])


@pytest.mark.parametrize(
    ("trace", "regime"),
    [
        (far_apart(), "unknown"),
        (far_apart(frame("train.py(5): main", 0, 150_000)), "overhead-bound"),
    ],
    ids=["calls alone", "Python too"],
)
def test_unrecorded_time_of_the_host_is_neither_overhead_nor_worth_a_fix(trace, regime, analyses):
    verdict = analyses[trace].verdict
    gains = analyses[trace].causal.gains
    assert verdict.regime == regime
    assert (gains.cuda_graph > 0.5) == (gains.host > 0.4) == (regime != "unknown")


@pytest.mark.parametrize(
    ("trace", "cause", "record"),
    [
        (far_apart(us=200), "unrecorded-time", "Record operators (ProfilerActivity.CPU)"),
        (far_apart(operator("aten::mm", 0, 10), us=200), "python", "Record Python stacks"),
    ],
)
def test_time_between_calls_is_python_only_if_operators_were_recorded(
    trace, cause, record, analyses
):
    verdict = analyses[trace].verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", cause)
    assert any(each.startswith(record) for each in verdict.try_next)


def awaited(name):
    """Kernels of 900 us, each awaited in a frame that returns 70 us after it."""
    return TRACES.events([
        event
        for i in range(30)
        for event in (
            launch(1000 * i, 4, i + 1),
            gpu_op(1000 * i + 6, 900, i + 1),
            frame(name, 1000 * i + 10, 970),
        )
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "regime"),
    [
        (awaited("api.py(3154): block_until_ready"), "compute-bound"),
        (awaited("api.py(3154): solve"), "overhead-bound"),
    ],
)
def test_a_frame_in_which_jax_awaits_a_result_is_a_wait_for_the_device(trace, regime, analyses):
    assert analyses[trace].verdict.regime == regime
