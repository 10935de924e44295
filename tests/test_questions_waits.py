"""What one rank can tell about waiting for others."""

from collections import defaultdict

import pytest

from tests import traces
from tests.conftest import trace_file
from tests.traces import gpu_op, launch, recorded, step


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
