"""Waits that no call marks: slices that repeatedly end just after the awaited op."""

import pytest

from tests.kit.traces import Together, gpu_op, launch, operator, slice_event

KERNEL_US = 50_000.0


def spinning(ranges, lag_us=20.0, works_us=0.0):
    """Ranges that launch a kernel, work, and then spin until it is done, without a call that says
    so."""
    events = []
    for i in range(ranges):
        begin = i * 60_000.0
        events += [
            slice_event("user_annotation", f"turn {i}", begin, 110 + KERNEL_US + lag_us),
            operator("aten::mm", begin + 10, 90),
            launch(begin + 20, 10, i + 1),
            gpu_op(begin + 110, KERNEL_US, i + 1),
            operator("aten::sort", begin + 100, works_us),
        ]
    return events


TRACES = Together()


@pytest.fixture
def saved(loaded):
    def ask(trace, change):
        found = loaded.whatif(change, trace=trace, window="trace")
        return 1 - found.predicted_ns / found.window_ns

    return ask


@TRACES.of(*spinning(4))
def test_a_host_that_spins_on_the_device_gains_nothing_from_a_faster_host(trace, saved):
    # In each 60 ms, the device works for 50, and the host works for 10 between the ranges.
    assert saved(trace, "host*0.5") == pytest.approx(0.065, abs=0.001)
    assert saved(trace, "device*0.5") == pytest.approx(0.435, abs=0.001)


BY_CHANCE = [
    # Twice is too few to count as a wait.
    spinning(2),
    # A slice that continues long after the kernel's end works.
    spinning(4, lag_us=5_000.0),
    # So does one that covers little of the kernel.
    spinning(4, works_us=40_000.0),
]


@pytest.mark.parametrize(("trace", "events"), [(TRACES.events(each), each) for each in BY_CHANCE])
def test_slices_that_end_so_by_chance_are_work(trace, events, saved):
    kernels = [each for each in events if each["cat"] == "kernel"]
    span_us = max(each["ts"] + each["dur"] for each in events)
    # At twice the speed, the host runs ahead: only the kernels remain.
    left = (len(kernels) * KERNEL_US + 100) / span_us
    assert saved(trace, "host*0.5") == pytest.approx(1 - left, abs=0.001)


MESSAGES = [
    event
    for at in (20_000.0 * i for i in range(4))
    for event in (
        operator("aten::mm", at, 9_000),
        slice_event("python_function", "app.py(7): result", at + 9_000, 11_000),
        slice_event("user_annotation", "gloo:recv", at + 9_100, 10_880) | {"tid": 7},
    )
]


@pytest.mark.parametrize(
    ("trace", "gain"), [(TRACES.events(MESSAGES), 0.225), (TRACES.events(MESSAGES[:6]), 0.5)]
)
def test_a_future_that_returns_after_a_message_is_a_wait(trace, gain, saved):
    assert saved(trace, "host*0.5") == pytest.approx(gain, abs=0.01)
