"""Questions about collectives, graphs and counters, on small traces whose answers are known."""

import json

import pytest

import tracekit
from tests.kit import traces
from tests.kit.traces import gpu_op, launch, launched, operator, slice_event, step

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def collective(start_us, dur_us, correlation, *, nelems=1000, n=4, sequence=None, name=ALLREDUCE):
    event = gpu_op(start_us, dur_us, correlation, name=name, stream=9)
    event["args"] |= {
        "Collective name": "allreduce", "In msg nelems": nelems, "Out msg nelems": nelems,
        "Group size": n, "dtype": "Float", "Process Group Name": "0",
        "Process Group Ranks": str(list(range(n))),
    }  # fmt: skip
    if sequence is not None:
        event["args"]["Seq"] = sequence
    return event


def test_overlapped_and_exposed_communication_add_up(tmp_path):
    events = [collective(0, 10, 1), gpu_op(6, 10), gpu_op(20, 5)]
    with traces.load(tmp_path, events) as run:
        row = next(row for row in run.ask("comm_overlap") if row["kind"] == "gpu_active")
        (part,) = (row for row in run.ask("partition") if row["kind"] == "gpu_active")
    assert (row["communication_ns"], row["compute_ns"]) == (10_000, 15_000)
    assert (row["overlapped_ns"], row["exposed_ns"]) == (4_000, 6_000)
    assert row["exposed_ns"] == part["exposed_comm_ns"]
    assert row["share_overlapped"] == 0.4


def test_a_collectives_bandwidth_is_that_of_nccl_tests(tmp_path):
    events = [collective(0, 10, 1), collective(20, 40, 2), gpu_op(5, 10)]
    with traces.load(tmp_path, events, distributedInfo={"rank": 2, "world_size": 4}) as run:
        (row,) = run.ask("collective_stats")
    assert (row["type"], row["algorithm"], row["protocol"]) == ("allreduce", "RING", "LL")
    assert (row["message_bytes"], row["group_size"], row["rank"]) == (4000, 4, 2)
    assert (row["total_ns"], row["exposed_ns"]) == (50_000, 45_000)
    assert row["algorithm_gb_per_s"] == pytest.approx(8000 / 50_000)
    assert row["bus_gb_per_s"] == pytest.approx(8000 / 50_000 * 1.5)
    assert row["best_bus_gb_per_s"] == pytest.approx(0.4 * 1.5)


def test_what_the_launching_operator_tells_counts_too(tmp_path):
    told = {
        "Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 40,
        "Group size": 4, "dtype": "BFloat16",
    }  # fmt: skip
    events = [
        operator("record_param_comms", 0, 10, **told),
        *launched([], 2, 20, 5, 1, name="ncclDevKernel_Generic_4(ncclDevKernelArgs)"),
    ]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("collective_stats")
    assert (row["type"], row["message_bytes"]) == ("allgather", 80)
    assert row["bus_gb_per_s"] == pytest.approx(80 / 5000 * 0.75)


def test_what_the_framework_calls_it_counts_before_the_kernels_name(tmp_path):
    # An all-to-all consists of sends and receives.
    scope = operator("c10d::alltoall_base_", 0, 10, [[300], [200]], ["unsigned char"] * 2)
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"
    with traces.load(tmp_path, launched([scope], 5, 20, 5, 1, name=name)) as run:
        (row,) = run.ask("collective_stats")
    assert (row["type"], row["message_bytes"]) == ("alltoall", 300)
    assert (row["bus_gb_per_s"], row["group_size"]) == (None, None)


def test_traces_of_different_jobs_are_not_matched(tmp_path):
    one = rank_trace(tmp_path, 0, [collective(10, 5, 1)])
    other = rank_trace(tmp_path, 1, [collective(10, 9, 1)], base=3600 * 10**9)
    with tracekit.load([one, other]) as run:
        assert run.ask("collective_skew") == run.ask("stragglers") == []
        assert "one_rank" in [row["code"] for row in run.doubts("stragglers")]


def rank_trace(folder, rank, events, base=0):
    path = folder / f"rank{rank}.json"
    text = {
        "traceEvents": events, "baseTimeNanoseconds": base,
        "distributedInfo": {"rank": rank, "world_size": 2},
    }  # fmt: skip
    path.write_text(json.dumps(text))
    return path


def late_in_turns(folder):
    """The traces of two ranks: rank 1 is late for the first collective, rank 0 for the second; each
    ends on both ranks at once."""
    return [
        rank_trace(folder, rank, [
            step(1, 0, 100), launch(1, 1, 1), collective(*first, 1, sequence=5),
            launch(50, 1, 2), collective(*second, 2, sequence=6),
        ])
        for rank, (first, second) in enumerate([((10, 30), (75, 5)), ((34, 6), (60, 20))])
    ]  # fmt: skip


def test_ranks_wait_for_the_one_that_comes_last(tmp_path):
    with tracekit.load(late_in_turns(tmp_path)) as run:
        skew = {row["place"]: row for row in run.ask("collective_skew")}
        ranks = {row["rank"]: row for row in run.ask("stragglers")}
    assert (skew[5]["late_rank"], skew[5]["wire_ns"], skew[5]["wait_ns"]) == (1, 6_000, 24_000)
    assert (skew[6]["late_rank"], skew[6]["wire_ns"], skew[6]["wait_ns"]) == (0, 5_000, 15_000)
    assert (skew[5]["start_skew_ns"], skew[5]["matched_by"]) == (24_000, "sequence number")
    assert (ranks[0]["waited_ns"], ranks[0]["held_up_ns"], ranks[0]["times_last"]) == (
        24_000, 15_000, 1,
    )  # fmt: skip
    assert (ranks[1]["waited_ns"], ranks[1]["held_up_ns"]) == (15_000, 24_000)


def test_without_sequence_numbers_collectives_match_by_their_place_in_the_step(tmp_path):
    # The recording of rank 0 begins one collective earlier.
    first = rank_trace(tmp_path, 0, [
        launch(1, 1, 9), collective(3, 1, 9),
        step(1, 10, 90), launch(11, 1, 1), collective(20, 30, 1),
    ])  # fmt: skip
    second = rank_trace(tmp_path, 1, [step(1, 10, 90), launch(11, 1, 1), collective(40, 10, 1)])
    with tracekit.load([first, second]) as run:
        (row,) = run.ask("collective_skew")
    assert (row["matched_by"], row["step"], row["place"]) == ("place in step", 1, 1)
    assert (row["wire_ns"], row["wait_ns"], row["late_rank"]) == (10_000, 20_000, 1)


def test_one_rank_alone_has_nothing_to_match(tmp_path):
    with traces.load(tmp_path, [collective(0, 10, 1)], distributedInfo={"rank": 0}) as run:
        assert run.ask("collective_skew") == []
        assert "one_rank" in [row["code"] for row in run.doubts("collective_skew")]


def replay(at_us, correlation, names, slow=1):
    events = [launch(at_us, 2, correlation, "cudaGraphLaunch")]
    for place, name in enumerate(names):
        events.append(gpu_op(at_us + 10 + 10 * place * slow, 5, correlation, name=name))
    return events


def test_replays_of_a_graph_are_compared_with_each_other(tmp_path):
    events = [
        *replay(0, 1, ["a", "b", "c"]),
        *replay(100, 2, ["a", "b", "c"]),
        *replay(200, 3, ["a", "b", "c"], slow=2),
        *replay(300, 4, ["a", "x", "c"]),
        launch(400, 2, 5, "cudaGraphLaunch"),
    ]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("graph_replays")
        kernels = {row["name"]: row for row in run.ask("graph_kernels")}
        codes = [row["code"] for row in run.doubts("graph_replays")]
    assert [row["gpu_ops"] for row in rows] == [3, 3, 3, 3, 0]
    assert [row["is_like_others"] for row in rows] == [True, True, True, False, None]
    assert (rows[0]["busy_ns"], rows[0]["span_ns"], rows[0]["gap_ns"]) == (15_000, 25_000, 10_000)
    assert (rows[0]["first_delay_ns"], rows[2]["slower_than_usual"]) == (10_000, 45 / 25)
    assert "graph_without_kernels" in codes
    assert (kernels["a"]["replays"], kernels["a"]["per_replay_ns"]) == (4, 5_000)
    assert kernels["b"]["replays"] == 3


def test_counters_belong_to_the_launches_in_their_order(tmp_path):
    def counted(at_us, name, value):
        return slice_event("cuda_profiler_range", name, at_us, 5, args={"flops.sum": value})

    events = [
        operator("aten::linear", 0, 40), operator("aten::addmm", 5, 20),
        launch(10, 1, 1), operator("aten::relu", 50, 10), launch(52, 1, 2),
        counted(100, "gemm", 64), counted(110, "relu", 8),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        rows = run.ask("counter_ranges")
    assert [(r["kernel"], r["value"], r["cpu_op"], r["top_level_op"]) for r in rows] == [
        ("gemm", 64, "aten::addmm", "aten::linear"),
        ("relu", 8, "aten::relu", "aten::relu"),
    ]


def test_counters_without_their_launches_name_no_operator(tmp_path):
    event = slice_event("cuda_profiler_range", "gemm", 100, 5, args={"flops.sum": 1})
    events = [operator("aten::mm", 0, 9), launch(1, 1, 1), launch(3, 1, 2), event]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("counter_ranges")
    assert (row["kernel"], row["cpu_op"]) == ("gemm", None)
