"""Questions about annotated ranges, on small traces and against counts over the recorded events."""

import re
from collections import Counter

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
    slice_event,
    step,
)


def marked(name, start_us, dur_us, **more):
    return slice_event("user_annotation", name, start_us, dur_us, **more)


def test_a_kernel_belongs_to_the_ranges_in_which_its_thread_launched_it(tmp_path):
    allreduce = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "stream": 8}
    events = [
        marked("step", 0, 50),
        marked("forward", 10, 20),
        marked("forward", 12, 5),
        *launched([], 13, 60, 10, 1),
        *launched([], 40, 75, 10, 2),
        *launched([], 41, 80, 20, 3, **allreduce),
        launch(14, 1, 4) | {"tid": 7},
        gpu_op(120, 5, 4),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {(r["annotation"], r["class"]): r for r in run.ask("annotation_kernels")}
        only = run.ask("annotation_kernels", annotation="forw")
    counted = {key: (r["count"], r["gpu_ns"], r["exposed_ns"]) for key, r in rows.items()}
    assert counted == {
        ("step", "gemm"): (2, 20_000, 20_000),
        ("step", "communication"): (1, 20_000, 15_000),
        ("forward", "gemm"): (1, 10_000, 10_000),
    }
    assert [r["innermost_ns"] for r in rows.values()] == [20_000, 10_000, 10_000]
    assert rows["step", "gemm"]["share_of_annotation"] == 0.5
    assert [r["annotation"] for r in only] == ["forward"]


@pytest.mark.parametrize("name", ["v100-dlrm-rank0", "b200-vllm-eager", "a100-nccl"])
def test_kernels_by_annotation_are_those_of_the_recorded_events(name, shared_database):
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
    rows = shared_database(f"{name}.json.gz").ask("annotation_kernels", top=100_000)
    assert {(r["annotation"], r["name"]): r["count"] for r in rows} == count
    assert {(r["annotation"], r["name"]): r["gpu_ns"] for r in rows} == total


def test_a_step_is_split_between_forward_backward_and_optimizer(tmp_path):
    def autograds(event):
        return event | {"tid": 9}

    numbered = {"Sequence number": 3}
    node = "autograd::engine::evaluate_function: MmBackward0"
    events = [
        step(1, 0, 100),
        *launched([operator("aten::mm", 10, 10, **numbered)], 12, 110, 4, 1),
        # Recomputation by autograd is part of the backward pass.
        autograds(operator(node, 30, 20, **numbered)),
        autograds(operator("aten::mm", 32, 5, **numbered)),
        *map(autograds, launched([], 33, 120, 8, 2)[:1]),
        gpu_op(120, 8, 2),
        # A closure's forward pass inside the optimizer is not the optimizer's work.
        marked("Optimizer.step#SGD.step", 60, 30),
        *launched([operator("aten::mm", 61, 5, **numbered)], 62, 130, 2, 3),
        *launched([operator("aten::add_", 70, 5)], 71, 140, 1, 4),
        marked("Optimizer.zero_grad#SGD.zero_grad", 92, 3),
        *launched([operator("aten::sum", 96, 3)], 97, 150, 5, 5),
        gpu_op(160, 3, 99),
    ]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("step_phases")
    assert {(r["step"], r["phase"]): (r["host_ns"], r["gpu_ns"]) for r in rows} == {
        ("ProfilerStep#1", "forward"): (15_000, 6_000),
        ("ProfilerStep#1", "backward"): (20_000, 8_000),
        ("ProfilerStep#1", "optimizer"): (30_000, 1_000),
        ("ProfilerStep#1", "zero_grad"): (3_000, 0),
        ("ProfilerStep#1", "other"): (None, 5_000),
        (None, "unlinked"): (None, 3_000),
    }
    assert sum(r["share_of_gpu_time"] for r in rows if r["step"]) == pytest.approx(1)


@pytest.mark.parametrize("name", ["v100-dlrm-rank0", "pair-rank0"])
def test_phases_are_those_of_the_recorded_events(name, shared_database):
    """The phase comes from the outermost slice around each launch that shows one."""

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
    for row in shared_database(f"{name}.json.gz").ask("step_phases"):
        found[row["phase"]] += row["gpu_ns"]
    del found["zero_grad"], found["unlinked"]
    assert found == total
    assert total["backward"] > 0
    assert total["optimizer"] > 0


SERVED = [
    ("execute_context_1(888_788544)_generation_0(0)", "prefill", (1, 0), (888, 0)),
    ("execute_context_2(70_4)_generation_3(5_9)", "mixed", (2, 3), (70, 5)),
    ("execute_32_context_0(sq0sk0)_generation_32(sq64sk9)", "decode", (0, 32), (0, 64)),
    ("execute_new_1_cached_31", "mixed", (1, 31), (None, None)),
    ("execute_new_0_cached_8", "decode", (0, 8), (0, None)),
    ("step[DECODE bs=32]", "decode", (0, 32), (0, 32)),
    ("step[EXTEND bs=2 toks=512]", "prefill", (2, 0), (512, 0)),
    ("step[EXTEND bs=2]", "prefill", (2, 0), (None, 0)),
    ("step[MIXED bs=4]", "mixed", (None, None), (None, None)),
    ("step[TARGET_VERIFY bs=4]", "decode", (0, 4), (0, None)),
]


def test_a_servers_step_is_prefill_or_decode_by_its_name(tmp_path):
    events = []
    for i, (name, *_) in enumerate(SERVED):
        at = 100 * i
        events += [marked(name, at, 20), *launched([], at + 5, at + 30, 9, i + 1)]
        events += [marked("decode", at + 30, 5)]
    with traces.load(tmp_path, events) as run:
        rows = {row["name"]: row for row in run.ask("inference_steps")}
    assert rows.keys() == {name for name, *_ in SERVED}
    for name, phase, requests, tokens in SERVED:
        row = rows[name]
        assert (row["phase"], row["host_ns"], row["gpu_ns"]) == (phase, 20_000, 9_000)
        assert (row["prefill_requests"], row["decode_requests"]) == requests
        assert (row["prefill_tokens"], row["decode_tokens"]) == tokens
        known = None if None in tokens else 9_000 / sum(tokens)
        assert row["gpu_time_per_token"] == known


@pytest.mark.parametrize(
    "name", ["b200-vllm-eager", "mi300x-vllm-decode", "mi300x-sglang-graph-decode"]
)
def test_a_servers_step_has_the_gpu_time_that_it_launched(name, shared_database):
    events = recorded(trace_file(f"{name}.json.gz"))
    (row,) = shared_database(f"{name}.json.gz").ask("inference_steps")
    (mark,) = [
        e for e in events if e["cat"] == "user_annotation" and e["name"] == row["name"]
    ]  # fmt: skip
    inside = [
        op["end"] - op["begin"] for op, call in launches_of(events)
        if call["tid"] == mark["tid"] and mark["begin"] <= call["begin"] < mark["end"]
    ]  # fmt: skip
    assert (row["gpu_ops"], row["gpu_ns"]) == (len(inside), sum(inside))
    assert row["gpu_ns"] > 0
