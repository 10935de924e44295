"""Figures of a trace's page about kernels, memory, communication, counters and health."""

import pytest

from tests.kit import traces
from tests.kit.traces import Together, device, launched, operator, slice_event, step
from tracekit.reporters.html.sections.communication import bandwidth, collectives, communication
from tracekit.reporters.html.sections.memory import copies, holders, memory
from tracekit.reporters.html.sections.work import counters, kernels, roofline
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.trace import health, missing, trace_view

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MESSAGE = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000,
    "Group size": 4,
}  # fmt: skip


def allocation(ts, change, allocated, reserved=0, address=1):
    args = {
        "Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": change,
        "Total Allocated": allocated, "Total Reserved": reserved,
    }  # fmt: skip
    return slice_event("cpu_instant_event", "[memory]", ts, 0) | {"ph": "i", "s": "t", "args": args}


def product(start, correlation, op_us, dur_us, name="gemm_a"):
    call = operator("aten::mm", start, 20, [[512, 512], [512, 512]], ["c10::BFloat16"] * 2)
    return launched([call], start + 5, op_us, dur_us, correlation, name=name)


def overlapped():
    """A collective of 40 us, of which a product covers 10."""
    comm = launched([], 2, 20, 40, 1, name=ALLREDUCE, stream=9)
    comm[-1]["args"] |= MESSAGE
    return [*comm, *product(10, 2, 50, 30)]


RUNS = Together()
PRODUCTS = [
    step(1, 0, 100), *product(0, 1, 30, 40),
    step(2, 100, 100), *product(100, 2, 130, 10), *product(140, 3, 170, 20, name="gemm_b"),
]  # fmt: skip
STEPS, UNLINKED = RUNS.events(PRODUCTS), RUNS.events([*PRODUCTS, traces.gpu_op(195, 5)])
ONE = RUNS.events(product(0, 1, 30, 10), **device("NVIDIA A100-SXM4-80GB"))
WITHOUT_SHAPES = RUNS.events(launched([operator("aten::mm", 0, 20)], 5, 30, 10, 1))
BARE = RUNS.events(launched([], 5, 30, 10, 1))
OVERLAPPED = RUNS.events(overlapped())
MEMORY = RUNS.events(
    [
        *product(0, 1, 30, 40),
        allocation(2, 100, 100, 1000, address=1), allocation(3, 900, 1000, 2000, address=2),
        allocation(4, -900, 100, 2000, address=2), allocation(90, 50, 150, 2000, address=3),
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """What the figures of a trace's page ask."""
    with RUNS.load(tmp_path_factory.mktemp("work")) as run:
        yield lambda trace: Subject(run, trace)


def test_kernels_are_listed_for_the_trace_and_for_each_step(subject):
    found = kernels(subject(STEPS))
    rows = [(r["step"], r["name"], r["count"], r["total_ns"]) for r in found.rows.to_dicts()]
    assert rows == [
        (None, "gemm_a", 2, 50_000), (None, "gemm_b", 1, 20_000),
        ("ProfilerStep#1", "gemm_a", 1, 40_000),
        ("ProfilerStep#2", "gemm_b", 1, 20_000), ("ProfilerStep#2", "gemm_a", 1, 10_000),
    ]  # fmt: skip
    assert found.says.startswith("Of all kernel time, 71.4 % is in gemm_a, which ran 2 times")
    assert found.control == {"step": "own"}


def test_the_tables_kernels_are_those_of_top_kernels(shared_ask):
    same = ("name", "class", "count", "total_ns", "mean_ns", "max_ns", "share_of_kernel_time")
    for name in ("a100-nccl.json.gz", "v100-dlrm-rank0.json.gz"):
        found = [row for row in shared_ask(name, "step_kernels") if row["step"] is None]
        expected = shared_ask(name, "top_kernels")
        assert [[row[c] for c in same] for row in found] == [
            [row[c] for c in same] for row in expected
        ]


def test_a_roofline_has_a_dot_for_each_operator_and_the_devices_roofs(subject):
    found = roofline(subject(ONE))
    [row] = found.rows.to_dicts()
    assert (row["operator"], row["kernel"], row["calls"]) == ("aten::mm", "gemm_a", 1)
    assert (row["peak_tflop_per_s"], row["memory_gb_per_s"]) == (312, 2039)
    assert row["tflop_per_s"] == pytest.approx(2 * 512**3 / 10_000 / 1e3)
    assert found.says.startswith("aten::mm takes most: 10 us, at ")
    assert found.chart is not None


def test_a_roofline_without_shapes_or_peaks_says_what_is_missing(subject):
    found = roofline(subject(WITHOUT_SHAPES))
    assert found.chart is None
    assert "no input shapes were recorded (record_shapes=True)" in found.says
    assert "peaks of its device are not known" in found.says


def test_collectives_over_time_add_up_to_the_partition(subject):
    given = subject(OVERLAPPED)
    found = communication(given)
    assert found.rows["communication_ns"].sum() == 40_000
    assert found.rows["overlapped_ns"].sum() == 10_000
    [part] = given.database.ask("partition", kind="gpu_active", trace=OVERLAPPED)
    assert found.rows["exposed_ns"].sum() == part["exposed_comm_ns"] == 30_000
    assert found.says == (
        "Collectives ran for 40 us of the GPU-active span. No compute covers 30 us of it (75.0 %)."
    )


def test_bins_of_memory_keep_the_peak(subject):
    given = subject(MEMORY)
    found = memory(given)
    assert found.rows["max_allocated_bytes"].max() == 1000
    assert found.says.startswith("At most 1 kB were allocated, of 2 kB reserved then")
    two = given.rows("memory_bins", bins=2).to_dicts()
    bounds = [(r["min_allocated_bytes"], r["max_allocated_bytes"]) for r in two]
    assert bounds == [(100, 1000), (100, 150)]
    holder = holders(given).rows.row(0, named=True)
    assert (holder["operator"], holder["live_bytes"]) == ("aten::mm", 1000)
    assert found.chart is not None


def test_missing_data_has_no_figure_and_health_says_how_to_record_it(subject):
    given = subject(BARE)
    absent = (communication, collectives, bandwidth, memory, holders, copies, counters)
    assert [make(given) for make in absent] == [None] * len(absent)
    assert [text.split(":")[0] for text in health(given).rows["found"]] == [
        "no Python stacks were recorded",
        "no profiler steps are marked",
    ]
    assert "profile_memory=True" in " ".join(missing(given).rows["lacks"])


def test_a_finding_names_the_figures_that_it_touches(subject):
    given = subject(UNLINKED)
    parts = {part.name: part.figures for part in trace_view(given).parts}
    [concerned] = [
        row["figures_that_it_concerns"]
        for row in parts["health"][0].rows.to_dicts()
        if "no launch in the trace" in row["found"]
    ]
    assert "Kernels by GPU time" in concerned
    for figure in given.figures:
        if "no launch in the trace" in " ".join(figure.doubts):
            assert figure.title in concerned
    assert "One finding makes numbers doubtful." in parts["health"][0].says
