"""Questions about the host and about idle time, on small traces whose answers are known."""

import pytest

from tests.kit import traces
from tests.kit.traces import frame, gpu_op, launch, launched, operator, slice_event, step


def test_queue_depth_counts_what_is_launched_and_not_started(tmp_path):
    # Launches at 0, 2 and 4; starts at 10, 20 and 30.
    events = []
    for i in range(3):
        events += launched([], 2 * i, 10 * (i + 1), 5, i + 1)
    with traces.load(tmp_path, events) as run:
        series = [(r["start_ns"], r["end_ns"], r["depth"]) for r in run.ask("queue_depth")]
        (summary,) = run.ask("queue_summary", limit=3)
        (blocked,) = run.ask("full_queue", limit=2)
    assert series == [
        (0, 2_000, 1),
        (2_000, 4_000, 2),
        (4_000, 10_000, 3),
        (10_000, 20_000, 2),
        (20_000, 30_000, 1),
    ]
    assert (summary["span_ns"], summary["max_depth"], summary["full_ns"]) == (30_000, 3, 6_000)
    assert summary["mean_depth"] == pytest.approx((2 + 4 + 18 + 20 + 10) / 30)
    assert (summary["p50_depth"], summary["empty_ns"], summary["share_full"]) == (2, 0, 0.2)
    # The third launch found two in the queue, but took no longer than the others.
    assert (blocked["launches"], blocked["at_limit"], blocked["blocked_ns"]) == (3, 1, 0)


def test_a_graph_is_one_launch_in_the_queue(tmp_path):
    events = [launch(0, 2, 1, "cudaGraphLaunch")]
    events += [gpu_op(10 + 5 * i, 4, 1) for i in range(5)]
    with traces.load(tmp_path, events) as run:
        series = [(r["start_ns"], r["end_ns"], r["depth"]) for r in run.ask("queue_depth")]
        (stats,) = run.ask("launch_stats")
    assert series == [(0, 10_000, 1)]
    assert (stats["queue_depth_max"], stats["gpu_ops"], stats["launches"]) == (1, 5, 1)


def test_a_launch_that_blocks_on_a_full_queue_is_the_devices_time(tmp_path):
    events = [
        launch(0, 2, 1), gpu_op(3, 50, 1),
        launch(5, 2, 2), gpu_op(53, 50, 2),
        launch(10, 40, 3), gpu_op(103, 5, 3),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("full_queue", limit=1)
    assert (row["at_limit"], row["call_ns"], row["blocked_ns"]) == (1, 40_000, 38_000)


def test_launch_outliers_are_slow_late_or_of_short_ops(tmp_path):
    events = [
        launch(0, 60, 1), gpu_op(70, 500, 1),
        launch(100, 2, 2), gpu_op(570, 1, 2),
        launch(110, 2, 3), gpu_op(120, 100, 3, stream=8),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        rows = {row["start_ns"]: row for row in run.ask("launch_outliers")}
    flags = {at: (r["is_slow"], r["is_late"], r["is_short"]) for at, r in rows.items()}
    assert flags == {0: (True, False, False), 100_000: (False, True, True)}


def test_sync_points_tell_waiting_for_work_from_idling(tmp_path):
    events = [
        *launched([], 0, 2, 18, 1),
        frame("train.py(9): log", 4, 60),
        operator("aten::item", 5, 50),
        slice_event("cuda_runtime", "cudaStreamSynchronize", 10, 40),
        *launched([], 80, 90, 5, 2),
    ]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("sync_points")
    assert (row["call"], row["cpu_op"]) == ("cudaStreamSynchronize", "aten::item")
    assert row["python_line"] == "train.py(9): log"
    # Until 20 us the device worked; from 20 to 50 us it was idle while the host was in the call.
    assert (row["host_ns"], row["covered_ns"], row["gpu_idle_ns"]) == (40_000, 10_000, 30_000)


def test_an_operators_dispatch_cost_and_launches_per_call(tmp_path):
    events = []
    for i in range(2):
        at = 100 * i
        events += [operator("aten::linear", at, 50), operator("aten::t", at + 1, 4)]
        events += launched([operator("aten::addmm", at + 10, 20)], at + 15, at + 60, 5, i + 1)
    with traces.load(tmp_path, events) as run:
        rows = {row["name"]: row for row in run.ask("top_cpu_ops")}
    assert rows["aten::linear"]["self_ns"] == 2 * 26_000
    assert rows["aten::linear"]["launches_per_call"] == 0
    assert (rows["aten::addmm"]["launches_per_call"], rows["aten::addmm"]["gpu_ops"]) == (1, 2)
    assert rows["aten::t"]["is_metadata"]


def test_calls_of_the_runtime_are_summed_and_traced_to_their_operators(tmp_path):
    asks = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
    events = [
        operator("aten::sort", 0, 30),
        slice_event("cuda_runtime", asks, 1, 2),
        slice_event("cuda_runtime", asks, 5, 4),
        slice_event("cuda_runtime", "cudaMalloc", 10, 15),
    ]
    with traces.load(tmp_path, events) as run:
        (asked,) = run.ask("occupancy_queries")
        (allocated,) = run.ask("allocator_calls")
        for name, kind in (("occupancy_queries", "query"), ("allocator_calls", "allocation")):
            assert run.ask(name) == run.ask("call_sites", kind=kind)
            assert getattr(run, name)().equals(run.call_sites(kind=kind))
        api = {row["name"]: row for row in run.ask("runtime_api")}
    assert (asked["cpu_op"], asked["count"], asked["host_ns"]) == ("aten::sort", 2, 6_000)
    assert (allocated["call"], allocated["host_ns"]) == ("cudaMalloc", 15_000)
    assert (api[asks]["p50_ns"], api[asks]["max_ns"], api[asks]["activity"]) == (
        4_000, 4_000, "runtime",
    )  # fmt: skip


def test_compiled_code_is_split_into_guards_prologue_and_generated_code(tmp_path):
    events = [
        operator("TorchDynamo Cache Lookup", 0, 5),
        operator("Torch-Compiled Region: 0/0", 5, 50),
        operator("AOTDispatcher Runtime Wrapper Prologue", 6, 4),
        slice_event("user_annotation", "## Call CompiledFxGraph abc ##", 20, 30),
        *launched([], 25, 60, 7, 1),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["part"]: row for row in run.ask("compile_overhead")}
    assert {part: row["total_ns"] for part, row in rows.items()} == {
        "guards": 5_000,
        "wrapper": 50_000,
        "prologue": 4_000,
        "generated": 30_000,
    }
    assert (rows["generated"]["gpu_ops"], rows["generated"]["gpu_ns"]) == (1, 7_000)
    assert rows["wrapper"]["self_ns"] == 16_000


def test_data_loading_is_counted_by_step_with_the_idle_time_it_causes(tmp_path):
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events = [
        step(1, 0, 100),
        *launched([], 1, 2, 8, 1),
        slice_event("user_annotation", name, 10, 40),
        *launched([], 60, 70, 5, 2),
    ]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("data_loading")
    assert (row["step"], row["name"], row["count"]) == (1, name, 1)
    assert (row["host_ns"], row["gpu_idle_ns"]) == (40_000, 40_000)


def test_the_call_tree_sums_operators_by_path(tmp_path):
    events = []
    for i in range(2):
        at = 100 * i
        events += [operator("aten::linear", at, 50), frame("inside.py(1): hook", at + 8, 40)]
        events += launched([operator("aten::addmm", at + 10, 20)], at + 15, at + 60, 5, i + 1)
    with traces.load(tmp_path, events) as run:
        rows = {tuple(row["path"]): row for row in run.ask("call_tree")}
    inner = rows["aten::linear", "aten::addmm"]
    assert set(rows) == {("aten::linear",), ("aten::linear", "aten::addmm")}
    assert (inner["count"], inner["total_ns"], inner["gpu_ns"]) == (2, 40_000, 10_000)
    assert rows[("aten::linear",)]["gpu_ops"] == 2


def test_gaps_say_what_is_recoverable_and_culprits_add_up(tmp_path):
    events = [
        *launched([], 0, 2, 8, 1),
        operator("aten::slow", 10, 50),
        launch(70, 5, 2), gpu_op(80, 10, 2),
        gpu_op(100, 5),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        gaps = {row["start_ns"]: row for row in run.ask("idle_gaps")}
        culprits = {(row["cause"], row["culprit"]): row for row in run.ask("idle_culprits")}
    # The last 5 us of the gap are between the launch's return and the op.
    assert (gaps[10_000]["gap_ns"], gaps[10_000]["recoverable_ns"]) == (70_000, 65_000)
    assert (gaps[90_000]["idle_class"], gaps[90_000]["recoverable_ns"]) == ("unlinked", None)
    assert culprits["dispatch", "aten::slow"]["idle_ns"] == 50_000
    assert sum(row["idle_ns"] for row in culprits.values()) == 70_000


def test_the_waterfall_ends_at_the_windows_length(tmp_path):
    events = [
        step(1, 0, 200),
        *launched([], 1, 3, 8, 1),
        *launched([operator("aten::slow", 12, 50)], 70, 80, 10, 2),
    ]
    with traces.load(tmp_path, events) as run:
        rows = [row for row in run.ask("idle_waterfall") if row["kind"] == "step"]
    assert [row["bar"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["part"] == "compute"
    assert rows[-1]["until_ns"] == 200_000 == sum(row["part_ns"] for row in rows)
