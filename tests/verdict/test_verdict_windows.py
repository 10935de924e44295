"""Verdicts on simulated traces: the measurements, and the judged window."""

from __future__ import annotations

import pytest

from tests.kit import traces
from tests.kit.evidenced import MS


def test_steps_of_one_trace_may_differ_and_the_verdict_says_so(tmp_path):
    busy = [
        traces.slice_event("user_annotation", "ProfilerStep#1", 0, 1000),
        *(traces.launch(i, 0.5, i) for i in range(1, 11)),
        *(traces.gpu_op(i * 99, 99, i) for i in range(1, 11)),
    ]
    slow = [
        traces.slice_event("user_annotation", "ProfilerStep#2", 1100, 900),
        *(traces.launch(1100 + i * 50, 1, 20 + i) for i in range(1, 11)),
        *(traces.gpu_op(1105 + i * 50, 1, 20 + i) for i in range(1, 11)),
    ]
    with traces.load(tmp_path, busy + slow) as database:
        analysis = database.verdict()
    assert [step.regime for step in analysis.steps] == ["compute-bound", "overhead-bound"]
    # No call waits for the device, so the host's time between the two limits both gains.
    assert analysis.verdict.regime == "overhead-bound"
    assert any("1 compute-bound" in why for why in analysis.verdict.why)


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize("lead_us", [3, 3.5, 4, 4.5, 5])
def test_a_host_that_launches_back_to_back_into_an_idle_gpu_is_the_limit(lead_us, tmp_path):
    # Each call takes 4 of 6 us, each kernel 2 us. Half a microsecond decides whether the call began
    # before or after the gap.
    events = []
    for place in range(300):
        events.append(traces.launch(6 * place, 4, place + 1))
        events.append(traces.gpu_op(6 * place + lead_us, 2, place + 1))
    with traces.load(tmp_path, events) as database:
        verdict = database.verdict().verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "launch")


def test_work_that_was_queued_before_the_gap_is_the_devices_matter(tmp_path):
    events = [traces.launch(place, 0.5, place + 1) for place in range(100)]
    events += [traces.gpu_op(200 + 10 * place, 8, place + 1) for place in range(100)]
    with traces.load(tmp_path, events) as database:
        analysis = database.verdict()
    assert analysis.verdict.regime == "compute-bound"
    assert analysis.idle.device_in_launch_ns == 0
    assert analysis.idle.device_ns == 99 * 2000


def test_a_graph_of_many_kernels_is_one_launch_in_the_median_delay(tmp_path):
    events = [
        traces.launch(0, 5, 1),
        traces.gpu_op(10, 5, 1),
        traces.launch(100, 5, 2, "cudaGraphLaunch"),
        *(traces.gpu_op(112 + 50 * place, 40, 2) for place in range(60)),
        traces.launch(4000, 5, 3),
        traces.gpu_op(4011, 5, 3),
    ]
    with traces.load(tmp_path, events) as database:
        launch = database.verdict().launch
    assert (launch.count, launch.first_delay_p50_ns, launch.launch_call_p50_ns) == (3, 11_000, 5000)
    assert launch.delay_p50_ns > 1 * MS


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("passes", [1, 3])
def test_a_single_pass_is_never_judged_with_high_confidence(passes, steps, tmp_path):
    kernels = ["embed", *["layer"] * 10, "head", "loss"] * passes
    events = [traces.launch(place, 0.5, place + 1) for place, _ in enumerate(kernels)]
    events += [
        traces.gpu_op(5 + 100 * place, 99, place + 1, name=name)
        for place, name in enumerate(kernels)
    ]
    events += [traces.step(number, 100.0 * number, 90) for number in range(steps)]
    with traces.load(tmp_path, events) as database:
        verdict = database.verdict().verdict
    assert verdict.regime == "compute-bound"
    is_single = passes == 1 and steps < 2
    assert (verdict.confidence != "high") == is_single
    assert any("A single pass" in why for why in verdict.why) == is_single


@pytest.mark.parametrize("passes", [1, 3])
def test_nor_is_a_single_pass_without_a_device(passes, tmp_path):
    names = ["embedding", *["mm"] * 20, "softmax", "nll_loss", "sum"] * passes
    events = [
        traces.operator(f"aten::{name}", 100.0 * place, 9) for place, name in enumerate(names)
    ]
    events.append(traces.frame("train.py(7): train", 0, 100.0 * len(names)))
    with traces.load(tmp_path, events) as database:
        verdict = database.verdict().verdict
    assert verdict.regime == "overhead-bound"
    assert verdict.confidence == ("high" if passes > 1 else "medium")
