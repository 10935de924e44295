"""Questions about copies, on small traces and against counts over the recorded events."""

from collections import Counter

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import frame, gpu_op, launch, operator, recorded


def copied(start_us, dur_us, correlation, name, **args):
    event = gpu_op(start_us, dur_us, correlation, category="gpu_memcpy", name=name)
    event["args"] |= args
    return event


def test_copies_tell_their_memory_their_caller_and_whether_they_block(tmp_path):
    events = [
        frame("train.py(7): step", 0, 100),
        operator("aten::copy_", 10, 40),
        launch(12, 30, 1, "cudaMemcpyAsync"),
        copied(20, 10, 1, "Memcpy HtoD (Pageable -> Device)", bytes=5_000),
        operator("aten::copy_", 60, 10),
        launch(62, 2, 2, "cudaMemcpyAsync"),
        copied(70, 20, 2, "Memcpy DtoH (Device -> Pinned)", bytes=4_000),
        copied(95, 5, 9, "Memcpy DtoD (Device -> Device)"),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["copy_kind"]: row for row in run.ask("copies")}
    pageable, pinned, inner = rows["HtoD"], rows["DtoH"], rows["DtoD"]
    assert (pageable["host_memory"], pageable["blocking_count"]) == ("pageable", 1)
    assert (pageable["cpu_op"], pageable["python_line"]) == ("aten::copy_", "train.py(7): step")
    assert (pageable["host_ns"], pageable["bytes_per_s"]) == (30_000, 5e8)
    assert (pinned["host_memory"], pinned["blocking_count"]) == ("pinned", 0)
    assert (pinned["total_ns"], pinned["bytes"], pinned["host_ns"]) == (20_000, 4_000, 2_000)
    assert (inner["host_memory"], inner["bytes"], inner["cpu_op"]) == (None, None, None)


@pytest.mark.sampled(2, of=3)
@pytest.mark.parametrize("name", ["pair-rank0", "b200-vllm-eager", "a100-diff-control"])
def test_copies_by_memory_are_those_of_the_recorded_events(name, shared_database):
    count, size, total = Counter(), Counter(), Counter()
    for event in recorded(trace_file(f"{name}.json.gz")):
        if event.get("cat") == "gpu_memcpy":
            words = event["name"].split()
            side = [word.strip("()").lower() for word in words[2:] if word != "->"]
            host = [word for word in side if word in ("pageable", "pinned")]
            key = words[1], host[0] if host else None
            count[key] += 1
            size[key] += event["args"]["bytes"]
            total[key] += event["end"] - event["begin"]
    found = Counter(), Counter(), Counter()
    for row in shared_database(f"{name}.json.gz").ask("copies", top=10_000):
        for each, column in zip(found, ("count", "bytes", "total_ns"), strict=True):
            each[row["copy_kind"], row["host_memory"]] += row[column]
    assert found == (count, size, total)


def test_bandwidth_over_time_is_that_of_the_copies_in_progress(tmp_path):
    events = [
        copied(0, 10, 1, "Memcpy HtoD (Pinned -> Device)", bytes=10_000),
        copied(5, 10, 2, "Memcpy HtoD (Pinned -> Device)", bytes=30_000),
        copied(5, 5, 3, "Memcpy DtoH (Device -> Pinned)", bytes=5_000),
        copied(40, 5, 4, "Memcpy DtoH (Device -> Pinned)"),
    ]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("copy_bandwidth")
    assert [(r["at_ns"], r["copy_kind"], r["copies"], r["bytes_per_s"]) for r in rows] == [
        (0, "HtoD", 1, 1e9),
        (5_000, "DtoH", 1, 1e9),
        (5_000, "HtoD", 2, 4e9),
        (10_000, "DtoH", 0, 0),
        (10_000, "HtoD", 1, 3e9),
        (15_000, "HtoD", 0, 0),
    ]


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize("name", ["pair-rank0", "b200-vllm-eager", "a100-diff-control"])
def test_bandwidth_over_time_adds_up_to_the_bytes_copied(name, shared_database):
    rows = shared_database(f"{name}.json.gz").ask("copy_bandwidth")
    moved, last = Counter(), {}
    for row in rows:
        lane = row["device_id"], row["copy_kind"]
        if lane in last:
            before = last[lane]
            moved[row["copy_kind"]] += (
                before["bytes_per_s"] * (row["at_ns"] - before["at_ns"]) / 1e9
            )
        last[lane] = row
    copied_bytes = Counter()
    for event in recorded(trace_file(f"{name}.json.gz")):
        if event.get("cat") == "gpu_memcpy" and event["end"] > event["begin"]:
            copied_bytes[event["name"].split()[1]] += event["args"]["bytes"]
    del moved["memset"]
    assert moved == pytest.approx(copied_bytes)
