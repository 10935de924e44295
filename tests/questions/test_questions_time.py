"""Questions about device time, on small traces whose answers are known."""

from tests.kit import traces
from tests.kit.traces import frame, gpu_op, launch, launched, operator, slice_event, step


def test_class_overlap_and_kernel_classes_split_the_active_span(tmp_path):
    events = [
        gpu_op(0, 10, name="sgemm"),
        gpu_op(5, 10, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=8),
        gpu_op(20, 5, category="gpu_memcpy", name="Memcpy HtoD"),
    ]
    with traces.load(tmp_path, events) as run:
        overlap = {tuple(r["classes"]): r for r in run.ask("class_overlap")}
        classes = {r["class"]: r for r in run.ask("kernel_classes")}
    assert {key: row["covered_ns"] for key, row in overlap.items()} == {
        ("gemm",): 5_000,
        ("communication", "gemm"): 5_000,
        ("communication",): 5_000,
        ("memcpy",): 5_000,
        (): 5_000,
    }
    assert overlap["communication", "gemm"]["overlap"] == "compute + communication"
    assert sum(row["share_of_active"] for row in overlap.values()) == 1
    assert (classes["gemm"]["alone_ns"], classes["gemm"]["overlapped_ns"]) == (5_000, 5_000)
    assert classes["gemm"]["share_of_kernel_time"] == 0.5


def test_kernels_of_one_class_that_overlap_are_covered_once(tmp_path):
    events = [gpu_op(0, 10, name="sgemm"), gpu_op(5, 10, name="dgemm", stream=8)]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("kernel_classes")
        (summed,) = run.ask("kernel_time")
    assert (summed["class"], summed["count"], summed["total_ns"]) == ("gemm", 2, 20_000)
    assert (row["total_ns"], row["covered_ns"], row["alone_ns"]) == (20_000, 15_000, 15_000)


def test_percentiles_of_top_kernels_are_measured_values(tmp_path):
    events = [gpu_op(10 * i, i + 1, name="k") for i in range(8)]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("top_kernels")
    assert (row["count"], row["total_ns"], row["mean_ns"]) == (8, 36_000, 4_500)
    assert (row["p50_ns"], row["p99_ns"], row["max_ns"]) == (5_000, 8_000, 8_000)


def test_an_outlier_is_far_from_runs_of_its_own_shape(tmp_path):
    small = [gpu_op(100 * i, 10 + i % 3, i, name="k") for i in range(9)]
    large = [gpu_op(5000 + 100 * i, 50, 20 + i, name="k") for i in range(9)]
    for event in large:
        event["args"] |= {"grid": [64, 1, 1], "block": [128, 1, 1]}
    slow = gpu_op(10_000, 50, 99, name="k")
    with traces.load(tmp_path, [*small, *large, slow]) as run:
        (row,) = run.ask("kernel_outliers")
    assert (row["start_ns"], row["dur_ns"]) == (10_000_000, 50_000)
    assert (row["usual_ns"], row["excess_ns"], row["runs"]) == (11_000, 39_000, 10)


def test_sequences_follow_the_order_of_launches_under_an_operator(tmp_path):
    events = []
    for i in range(2):
        at = 100 * i
        inner = operator("aten::addmm", at + 1, 20)
        events += [operator("aten::linear", at, 30), inner]
        events += [launch(at + 2, 1, 10 * i + 1), gpu_op(at + 50, 4, 10 * i + 1, name="gemm")]
        events += [launch(at + 25, 1, 10 * i + 2), gpu_op(at + 55, 2, 10 * i + 2, name="bias")]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("kernel_sequences")
        inner_rows = run.ask("kernel_sequences", operator="addmm", shortest=1)
    assert (row["operator"], row["kernels"], row["count"]) == ("aten::linear", ["gemm", "bias"], 2)
    assert (row["total_ns"], row["per_call_ns"]) == (12_000, 6_000)
    assert [r["kernels"] for r in inner_rows] == [["gemm"]]


def test_an_annotation_has_the_gpu_time_that_its_thread_launched(tmp_path):
    other = launch(12, 1, 2) | {"tid": 7}
    events = [
        slice_event("user_annotation", "forward", 10, 20),
        slice_event("user_annotation", "forward", 12, 5),
        *launched([], 11, 40, 6, 1),
        other,
        gpu_op(50, 3, 2),
        slice_event("gpu_user_annotation", "forward", 40, 6),
    ]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("annotation_time")
    # The inner slice of the same name counts once; another thread's launches do not count.
    assert (row["count"], row["host_ns"]) == (1, 20_000)
    assert (row["gpu_ops"], row["gpu_ns"], row["device_span_ns"]) == (1, 6_000, 6_000)


def test_modules_have_own_time_inner_time_and_their_backward_pass(tmp_path):
    forward = operator("aten::mm", 12, 5, **{"Sequence number": 7})
    backward = operator(
        "autograd::engine::evaluate_function: MmBackward0", 60, 20, **{"Sequence number": 7}
    )
    events = [
        frame("nn.Module: Net_0", 0, 50),
        frame("nn.Module: Linear_0", 10, 10),
        *launched([forward], 13, 100, 4, 1),
        *launched([], 30, 110, 2, 2),
        *launched([backward | {"tid": 9}], 0, 0, 0, 9)[:1],
        launch(61, 1, 3) | {"tid": 9},
        gpu_op(120, 8, 3),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["module"]: row for row in run.ask("module_time")}
    net, linear = rows["Net_0"], rows["Linear_0"]
    assert (net["gpu_ns"], net["gpu_self_ns"], net["backward_gpu_ns"]) == (6_000, 2_000, 0)
    assert (linear["gpu_ns"], linear["gpu_self_ns"]) == (4_000, 4_000)
    assert linear["backward_gpu_ns"] == 8_000
    assert (net["host_ns"], net["host_self_ns"], net["depth"]) == (50_000, 40_000, 1)
    assert (linear["parent"], linear["depth"], linear["calls"]) == ("Net_0", 2, 1)


def test_python_lines_have_self_time_gpu_time_and_the_idle_time_they_cause(tmp_path):
    events = [
        *launched([], 0, 1, 9, 1),
        frame("train.py(1): step", 10, 80),
        frame("train.py(5): slow", 20, 30),
        *launched([], 60, 70, 5, 2),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["python_line"]: row for row in run.ask("python_time")}
    outer, inner = rows["train.py(1): step"], rows["train.py(5): slow"]
    assert (outer["host_ns"], outer["self_ns"]) == (80_000, 49_000)
    assert (outer["gpu_ops"], outer["gpu_ns"]) == (1, 5_000)
    assert (inner["self_ns"], inner["gpu_idle_ns"]) == (30_000, 30_000)


def test_the_partition_tells_the_rank(tmp_path):
    events = [step(1, 0, 20), *launched([], 0, 2, 5, 1)]
    with traces.load(tmp_path, events, distributedInfo={"rank": 3, "world_size": 8}) as run:
        assert {row["rank"] for row in run.ask("partition")} == {3}
