"""Evidence from the rows of questions."""

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.kit import traces
from tests.kit.analyzed import Answering
from tests.kit.traces import gpu_op, launch
from tracekit.evidence.collect import dominant_of, repeating_of

REDUCED = ("ncclDevKernel_AllReduce", "communication", 900)


@pytest.mark.parametrize(
    ("kernels", "clause"),
    [
        (
            [("void merge<float>(int)", "other", 60), ("sgemm", "gemm", 40)],
            "one kernel, merge, takes 60.0 % of kernel time",
        ),
        (
            [REDUCED, ("merge", "other", 60), ("sgemm", "gemm", 40)],
            "one kernel, merge, takes 60.0 % of kernel time without communication",
        ),
        (
            [REDUCED, ("a", "gemm", 40), ("b", "gemm", 30), ("c", "other", 30)],
            "matrix products take 70.0 % of kernel time without communication",
        ),
        (
            [("a", "gemm", 20), ("b", "gemm", 20), ("c", "copy", 35), ("d", "other", 25)],
            "matrix products take the largest share of kernel time, 40.0 %",
        ),
        ([REDUCED, ("a", "other", 40), ("b", "other", 40), ("c", "other", 40)], ""),
    ],
)
def test_what_takes_most_of_the_time_of_compute_kernels(kernels, clause):
    class Kernels(Answering):
        def rows_of_trace(self, query: str, trace_id: int) -> list[tuple[str, int]]:
            times: Counter[str] = Counter()
            for _, kind, ns in kernels:
                times[kind] += ns
            return [*times.items()]

    rows = [{"name": name, "class": kind, "total_ns": ns} for name, kind, ns in kernels]
    assert dominant_of(Kernels(), 1, rows) == clause


def test_what_repeats_is_told_only_where_the_main_device_works(tmp_path):
    events = [
        each for n in range(12) for each in (launch(9 * n, 2, n + 1), gpu_op(9 * n + 3, 5, n + 1))
    ]
    with traces.load(tmp_path, events) as run:
        analysis = run.verdict()
        (group,) = analysis.units
        group = replace(group, kind="pass", is_main=False)
        found = repeating_of(run.session, 1, analysis.judged, [group])
        assert found is not None
        length_ns = group.end_ns - group.start_ns
        assert (found.window.name, found.window.span_ns) == ("12 passes", length_ns)
        elsewhere = replace(group, start_ns=10**9, end_ns=2 * 10**9)
        assert repeating_of(run.session, 1, analysis.judged, [elsewhere]) is None
