"""Questions about real traces, against counts over the recorded events."""

import json
import math
import re
from collections import Counter

import pytest

from tests.conftest import trace_file
from tests.kit.traces import launches_of, recorded


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["pair-rank0", "b200-vllm-eager", "a100-diff-control"])
def test_copies_by_memory_are_those_of_the_recorded_events(name, shared_ask):
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
    for row in shared_ask(f"{name}.json.gz", "copies", top=10_000):
        for each, column in zip(found, ("count", "bytes", "total_ns"), strict=True):
            each[row["copy_kind"], row["host_memory"]] += row[column]
    assert found == (count, size, total)


@pytest.mark.parametrize(
    "name", ["a100-transformer-batch512", "h100-bert-small", "b200-vllm-eager", "v100-dlrm-rank0"]
)
def test_occupancy_is_kinetos_estimate(name, shared_ask):
    """Kineto rounds to a percent, and has none for kernels with much dynamic shared memory."""
    file = f"{name}.json.gz"
    estimates = {}
    for event in recorded(trace_file(file)):
        args = event.get("args", {})
        if "blocks per SM" in args:
            key = (event["name"], math.prod(args["grid"]), math.prod(args["block"]),
                   args["registers per thread"], args["shared memory"])  # fmt: skip
            estimates[key] = args["est. achieved occupancy %"]
    rows = shared_ask(file, "kernel_grids", top=10_000)
    keys = ("name", "blocks", "threads", "registers", "block_memory_bytes")
    found = {tuple(row[key] for key in keys): row["occupancy"] for row in rows}
    assert found.keys() == estimates.keys()
    known = {key for key, percent in estimates.items() if percent > 0}
    assert len(known) > len(estimates) / 2
    assert all(abs(100 * found[key] - estimates[key]) <= 0.5 + 1e-6 for key in known)


def test_a_grid_on_amd_is_not_known_to_count_blocks(shared_ask):
    rows = shared_ask("mi300x-ddp-hipfree.json.gz", "kernel_grids")
    assert rows
    assert {row["blocks"] for row in rows} == {row["waves"] for row in rows} == {None}


@pytest.mark.parametrize(("name", "layers"), [("h100-bert-small", 4), ("h100-timesformer", 12)])
def test_layers_are_units_with_their_lengths(name, layers, shared_ask):
    (row,) = (each for each in shared_ask(f"{name}.json.gz", "units") if each["level"] == 2)
    assert (row["kind"], row["count"]) == ("layer", layers)
    times = [r for r in shared_ask(f"{name}.json.gz", "unit_times") if r["level"] == 2]
    assert sum(each["gpu_ns"] > 0 for each in times) == layers
    lengths = sorted(each["dur_ns"] for each in times)
    assert (row["min_ns"], row["max_ns"]) == (lengths[0], lengths[-1])


@pytest.mark.parametrize("name", ["v100-dlrm-rank0", "b200-vllm-eager", "a100-nccl"])
def test_kernels_by_annotation_are_those_of_the_recorded_events(name, shared_ask):
    events = recorded(trace_file(f"{name}.json.gz"))
    ranges = [e for e in events if e["cat"] == "user_annotation"]
    count, total = Counter(), Counter()
    for op, call in launches_of(events):
        around = {
            r["name"] for r in ranges
            if r["tid"] == call["tid"] and r["begin"] <= call["begin"] < r["end"]
        }  # fmt: skip
        for each in around:
            count[each, op["name"]] += 1
            total[each, op["name"]] += op["end"] - op["begin"]
    rows = shared_ask(f"{name}.json.gz", "annotation_kernels", top=100_000)
    assert {(r["annotation"], r["name"]): r["count"] for r in rows} == count
    assert {(r["annotation"], r["name"]): r["gpu_ns"] for r in rows} == total


@pytest.mark.parametrize("name", ["v100-dlrm-rank0", "pair-rank0"])
def test_phases_are_those_of_the_recorded_events(name, shared_ask):
    """The phase is that of the outermost slice around a launch that has one."""

    def phase(event):
        named = event["name"]
        if event["cat"] == "cpu_op":
            if named.startswith("autograd::engine") or named[:-1].endswith("Backward"):
                return "backward"
            return "forward" if "Sequence number" in event.get("args", {}) else None
        if event["cat"] != "user_annotation":
            return None
        if named.startswith("Optimizer.step#"):
            return "optimizer"
        said = [word for word in ("forward", "backward") if re.search(rf"\b{word}\b", named)]
        return said[0] if len(said) == 1 else None

    events = recorded(trace_file(f"{name}.json.gz"))
    marks = [(phase(e), e) for e in events if phase(e)]
    total = Counter()
    for op, call in launches_of(events):
        around = [
            (e["begin"] - e["end"], kind) for kind, e in marks
            if e["tid"] == call["tid"] and e["begin"] <= call["begin"] < e["end"]
        ]  # fmt: skip
        around = [each for each in around if each[1] != "optimizer"] or around
        total[min(around)[1] if around else "other"] += op["end"] - op["begin"]
    found = Counter()
    for row in shared_ask(f"{name}.json.gz", "step_phases"):
        found[row["phase"]] += row["gpu_ns"]
    del found["zero_grad"], found["unlinked"]
    assert found == total
    assert total["backward"] > 0
    assert total["optimizer"] > 0


@pytest.mark.parametrize(
    "name", ["b200-vllm-eager", "mi300x-vllm-decode", "mi300x-sglang-graph-decode"]
)
def test_a_servers_step_has_the_gpu_time_that_it_launched(name, shared_ask):
    events = recorded(trace_file(f"{name}.json.gz"))
    (row,) = (r for r in shared_ask(f"{name}.json.gz", "unit_times") if r["level"] == 1)
    (mark,) = [
        e for e in events if e["cat"] == "user_annotation" and e["name"] == row["name"]
    ]  # fmt: skip
    inside = [
        op["end"] - op["begin"] for op, call in launches_of(events)
        if call["tid"] == mark["tid"] and mark["begin"] <= call["begin"] < mark["end"]
    ]  # fmt: skip
    assert (row["gpu_ops"], row["gpu_ns"]) == (len(inside), sum(inside))
    assert row["gpu_ns"] > 0


def test_graph_replays_do_the_work_that_was_captured(shared_database):
    run = shared_database("a100-vit-recapture.json.gz")
    events = recorded(trace_file("a100-vit-recapture.json.gz"))
    ran = [op for op, call in launches_of(events) if "GraphLaunch" in call["name"]]
    rows = [row for row in run.ask("roofline", top=100) if row["known_from"] != "call"]
    for row in (row for row in rows if row["operator"] == "aten::mm"):
        (m, k), (_, n) = json.loads(row["shapes"])[:2]
        # A replay runs 12 layers.
        assert row["calls"] == 12 * sum("GraphLaunch" in e["name"] for e in events) == 60
        assert row["flops"] == row["calls"] * 2 * m * k * n
    gpu_ns = sum(row["gpu_ns"] for row in rows if "attention" in row["operator"])
    assert gpu_ns == sum(op["end"] - op["begin"] for op in ran if "flash_fwd" in op["name"])
    whole = next(row for row in run.ask("mfu") if row["kind"] == "trace")
    flops = sum(row["flops"] for row in rows)
    assert whole["captured_flops"] == whole["flops"] == flops == 175_630_602_240


@pytest.mark.parametrize("name", ["a100-vit-recapture", "v100-dlrm-rank0"])
def test_each_gpu_op_of_an_operator_counts_once_among_call_paths_and_sequences(name, shared_ask):
    events = recorded(trace_file(f"{name}.json.gz"))
    operators = [e for e in events if e.get("cat") == "cpu_op"]
    inside = [
        op for op, call in launches_of(events)
        if any(
            e["tid"] == call["tid"] and e["begin"] <= call["begin"] < e["end"] for e in operators
        )
    ]  # fmt: skip
    paths = shared_ask(f"{name}.json.gz", "call_tree", top=100_000)
    outermost = [row for row in paths if row["depth"] == 1]
    assert sum(row["gpu_ops"] for row in outermost) == len(inside)
    assert sum(row["gpu_ns"] for row in outermost) == sum(op["end"] - op["begin"] for op in inside)
    sequences = shared_ask(f"{name}.json.gz", "kernel_sequences", shortest=1, top=100_000)
    assert sum(row["length"] * row["count"] for row in sequences) == sum(
        op["cat"] == "kernel" for op in inside
    )
