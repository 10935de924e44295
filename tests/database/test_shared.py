"""Questions about many traces, answered at once, have the answers of each trace alone."""

import numpy as np
import polars as pl
import pytest

import tracekit
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.ranks_simulated import Job
from tests.kit.sampling import sample
from tracekit.database import catalog
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
        names = [
            each.name
            for each in catalog.queries().values()
            if catalog.limits_rows(each) and each.parameters[0].name == "trace"
        ]
        few = ["idle_gaps", "top_cpu_ops", "sync_points"]
        assert {*few} <= {*names}
        limited = {
            name: [run.query(name, trace=trace, top=3) for trace in run.trace_ids()]
            for name in sample("questions about each of several traces", names, few)
        }
        arrays = [run.arrays("device_work", trace=each) for each in run.trace_ids()]
        with run.sharing():
            assert [run.ask("partition", trace=each) for each in run.trace_ids()] == rows
            first = [run.ask("top_kernels", trace=each, top=2) for each in run.trace_ids()]
            assert first == kernels
            for name, expected_rows in limited.items():
                shared = [run.query(name, trace=each, top=3) for each in run.trace_ids()]
                assert list(map(pl.DataFrame.equals, shared, expected_rows)) == [True, True], name
            for trace, expected in zip(run.trace_ids(), arrays, strict=True):
                found = run.arrays("device_work", trace=trace)
                assert found.keys() == expected.keys()
                for name, column in found.items():
                    assert np.ma.allequal(column, expected[name]), name


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("partition", {"trace": 1}, True),
        ("partition", {"trace": 1, "kind": "step"}, True),
        ("partition", {}, False),
        ("top_kernels", {"trace": 1}, False),
        ("top_kernels", {"trace": 1, "top": 3}, True),
        ("memory_peak", {"trace": 1}, True),
        ("flame_graph", {"trace": 1, "from_ns": 5}, False),
        ("event_sites", {"trace": 1, "events": "4"}, False),
    ],
)
def test_a_question_about_a_part_of_a_trace_is_asked_about_each_trace(name, given, expected):
    assert is_about_each(catalog.query(name), given) == expected


def test_a_window_that_a_trace_lacks_is_an_error(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1))
    with tracekit.load(tmp_path) as run, pytest.raises(TracekitError, match="no window"):
        examine_all(run, window="ProfilerStep#99")
