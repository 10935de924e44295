"""Questions about copies, on small traces and against counts over the recorded events."""

from collections import Counter

import pytest

from tests import traces
from tests.conftest import trace_file
from tests.traces import frame, gpu_op, launch, operator, recorded


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
