"""Questions to one rank about waiting for others."""

from collections import defaultdict

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import (
    gpu_op,
    launch,
    launched,
    launches_of,
    operator,
    recorded,
    step,
)


def allreduce(start_us, dur_us, correlation, elements):
    event = gpu_op(start_us, dur_us, correlation, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    event["args"] |= {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": elements,
        "Out msg nelems": elements, "Group size": 2, "Process Group Name": "0",
    }  # fmt: skip
    return event


def test_a_collective_waited_for_what_it_took_beyond_the_shortest_alike(tmp_path):
    events = [
        step(4, 0, 100),
        launch(1, 1, 1),
        allreduce(10, 10, 1, 256),
        launch(2, 1, 2),
        allreduce(30, 35, 2, 256),
        gpu_op(60, 30, 7, stream=9),
        launch(3, 1, 3),
        allreduce(100, 50, 3, 512),
    ]
    with traces.load(tmp_path, events) as run:
        (call,) = run.ask("collective_waits")
        stats = {row["message_bytes"]: row["wait_ns"] for row in run.ask("collective_stats")}
    assert (call["start_ns"], call["dur_ns"], call["step"], call["calls"]) == (30_000, 35_000, 4, 2)
    assert (call["wire_ns"], call["wait_ns"], call["exposed_ns"]) == (10_000, 25_000, 30_000)
    assert stats == {1024: 25_000, 2048: None}


@pytest.mark.parametrize("name", ["a100-nccl"])
def test_waits_are_those_of_the_recorded_events(name, shared_database):
    alike = defaultdict(list)
    for event in recorded(trace_file(f"{name}.json.gz")):
        args = event.get("args", {})
        if event.get("cat") == "kernel" and "Collective name" in args:
            size = max(args["In msg nelems"], args["Out msg nelems"])
            key = args["Collective name"], size, args["dtype"], event["name"]
            alike[key].append(event["end"] - event["begin"])
    waits = sorted((d - min(each) for each in alike.values() for d in each), reverse=True)
    rows = shared_database(f"{name}.json.gz").ask("collective_waits", top=10_000)
    assert [row["wait_ns"] for row in rows] == [wait for wait in waits if wait > 0]
    assert len(rows) == 14


def test_an_operators_kernels_wait_from_its_start(tmp_path):
    events = []
    for i in range(3):
        at = 100 * i
        outer = operator("aten::linear", at, 40)
        events += launched(
            [outer, operator("aten::mm", at + 5, 20)], at + 10, at + 50 + i, 8, i + 1
        )
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("operator_kernels")
        none = run.ask("operator_kernels", operator="linear")
    assert (row["cpu_op"], row["class"], row["count"], row["gpu_ns"]) == (
        "aten::mm", "gemm", 3, 24_000,
    )  # fmt: skip
    assert (row["delay_p50_ns"], row["delay_max_ns"]) == (46_000, 47_000)
    assert (row["before_call_p50_ns"], row["launch_delay_p50_ns"]) == (5_000, 41_000)
    assert row["queue_wait_p50_ns"] == 40_000
    assert none == []


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize("name", ["v100-dlrm-rank0", "h100-bert-small", "b200-vllm-eager"])
def test_delays_are_those_of_the_recorded_events(name, shared_database):
    events = recorded(trace_file(f"{name}.json.gz"))
    operators = [e for e in events if e["cat"] == "cpu_op"]
    delays = defaultdict(list)
    for op, call in launches_of(events):
        around = [
            e for e in operators
            if e["tid"] == call["tid"] and e["begin"] <= call["begin"] < e["end"]
        ]  # fmt: skip
        if around:
            inner = min(around, key=lambda e: (e["end"] - e["begin"], -e["begin"]))
            delays[inner["name"], op["name"]].append(op["begin"] - inner["begin"])
    rows = shared_database(f"{name}.json.gz").ask("operator_kernels", top=10_000)
    assert {(r["cpu_op"], r["name"]): (r["count"], r["delay_max_ns"]) for r in rows} == {
        key: (len(each), max(each)) for key, each in delays.items()
    }
