"""A run that recording made much longer is not compared without a word."""

import pytest

import tracekit
from tests.kit.traces import frame, operator, step, write
from tracekit.text import duration
from tracekit.verdict.screen import without_once

OPERATORS = 200
VIEW_US, LOOPED_US = 0.4, 0.1
THOUSANDTH = 0.001


def looping(frames):
    """A run with so many calls of a short function between two operators."""
    at, events = 0.0, []
    for _ in range(OPERATORS):
        events.append(operator("aten::view", at, VIEW_US))
        at += 20 * VIEW_US
        events += [
            frame("<built-in method random>", at + each * LOOPED_US, LOOPED_US / 2)
            for each in range(frames)
        ]
        at += frames * LOOPED_US
    return [step(1, 0, at), *events], at


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    paths = []
    for frames in (0, 10, 400):
        events, _ = looping(frames)
        paths.append(write(folder / f"{frames}.json", events, with_stack=1))
    with tracekit.load(paths) as loaded:
        yield loaded


def cost_ns(runs, trace):
    return [row["time_ns"] for row in runs.findings(trace) if row["code"] == "recorder_cost"]


def test_frames_of_short_functions_in_loops_cost_less_than_others(runs):
    view_ns, looped = round(VIEW_US / THOUSANDTH), 400 - 20
    assert cost_ns(runs, 2) == [OPERATORS * round(view_ns * (1 + 10 * 0.6))]
    assert cost_ns(runs, 3) == [OPERATORS * round(view_ns * (1 + 20 * 0.6 + looped * 0.2))]


def test_a_comparison_says_which_run_recording_made_longer(runs):
    dilated = [row["trace_id"] for row in runs.diff(1, 3).doubts if row["code"] == "recorder_cost"]
    assert dilated == [3]


def test_without_a_device_the_screen_says_how_long_the_window_takes_unrecorded(runs):
    (analysis,) = (each for each in runs.verdicts() if each.trace.trace_id == 3)
    (cost,), span_ns = cost_ns(runs, 3), analysis.judged.window.span_ns
    assert 0 < span_ns - analysis.priced_ns <= cost
    length = duration(analysis.priced_ns)
    assert without_once(analysis) == f", at most {length} without the profiler"
