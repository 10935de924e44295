"""Questions about many traces, answered at once, have the answers of each trace alone."""

import numpy as np
import pytest

import tracekit
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.ranks_simulated import Job
from tracekit.database.shared import is_about_each
from tracekit.errors import TracekitError
from tracekit.examine import examine, examine_all


def test_verdicts_of_several_traces_are_those_of_each(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1, late={1: 2 * MS}))
    with tracekit.load(tmp_path) as run:
        together = examine_all(run)
        alone = [examine(run, each).analysis for each in run.trace_ids()]
        assert [each.as_dict() for each in together] == [each.as_dict() for each in alone]
        rows = [run.ask("partition", trace=each) for each in run.trace_ids()]
        kernels = [run.ask("top_kernels", trace=each, top=2) for each in run.trace_ids()]
        arrays = [run.arrays("device_work", trace=each) for each in run.trace_ids()]
        with run.sharing():
            assert [run.ask("partition", trace=each) for each in run.trace_ids()] == rows
            first = [run.ask("top_kernels", trace=each, top=2) for each in run.trace_ids()]
            assert first == kernels
            for trace, expected in zip(run.trace_ids(), arrays, strict=True):
                found = run.arrays("device_work", trace=trace)
                assert found.keys() == expected.keys()
                for name, column in found.items():
                    assert np.ma.allequal(column, expected[name]), name


def test_a_question_with_a_limit_is_asked_about_each_trace():
    assert is_about_each("partition", {"trace": 1})
    assert is_about_each("partition", {"trace": 1, "kind": "step"})
    assert not is_about_each("partition", {})
    assert not is_about_each("top_kernels", {"trace": 1})
    assert is_about_each("top_kernels", {"trace": 1, "top": 3})
    assert not is_about_each("idle_gaps", {"trace": 1, "top": 3})
    assert not is_about_each("event_sites", {"trace": 1, "events": "4"})


def test_a_window_that_a_trace_lacks_is_an_error(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1))
    with tracekit.load(tmp_path) as run, pytest.raises(TracekitError, match="no window"):
        examine_all(run, window="ProfilerStep#99")
