"""Evidence from the rows of questions."""

import pytest

from tests.kit.analyzed import Answering
from tracekit.evidence.collect import dominant_of

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
    rows = [{"name": name, "class": kind, "total_ns": ns} for name, kind, ns in kernels]
    assert dominant_of(Answering(kernel_classes=rows), 1, rows) == clause
