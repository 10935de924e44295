"""Events without a category: distinguished by name and arguments, or reported."""

import gzip
import json

import pytest

import tracekit
from tests.conftest import trace_file
from tests.kit.traces import Together, gpu_op, launch, operator, slice_event, step


def without_category(event):
    return {key: value for key, value in event.items() if key != "cat"}


KINDS = {
    "aten::add": "cpu_op",
    "c10d::allreduce_": "cpu_op",
    "AddmmBackward0": "cpu_op",
    "autograd::engine::evaluate_function: AddmmBackward0": "cpu_op",
    "Optimizer.step#SGD.step": "cpu_op",
    "ProfilerStep#3": "annotation",
    "gloo:all_reduce": "annotation",
    "rpc_async#forward(worker0 -> worker1)": "annotation",
    "cudaLaunchKernel": "runtime",
    "hipMemcpyAsync": "runtime",
    "cuLaunchKernelEx": "driver",
    "torch/nn/modules/module.py(1501): _call_impl": "python",
    "nn.Module: Linear_0": "python",
    "Memcpy HtoD (Pageable -> Device)": "memcpy",
    "Memset (Device)": "memset",
    "void at::native::vectorized_elementwise_kernel<4>(int)": "kernel",
    "custom": "other",
    "cumsum": "other",
    "my train step": "other",
}


TRACES = Together()
NAMED = TRACES.events([
    without_category(slice_event("", name, 10 * i, 5)) for i, name in enumerate(KINDS)
])  # fmt: skip
EMPTY = TRACES.events([slice_event("", "aten::add", 0, 5)])
KERNEL = TRACES.events([
    without_category(event)
    for event in (
        step(1, 0, 100), operator("aten::mm", 0, 50), launch(10, 5, 1),
        gpu_op(20, 60, 1, name="my_kernel"),
        slice_event("", "my range", 0, 90, args={"stream": 7}),
    )
])  # fmt: skip


def count_without(loaded, trace):
    return [
        row["count"] for row in loaded.ask("health", trace=trace) if row["code"] == "no_category"
    ]


def test_a_name_tells_the_kind(loaded):
    rows = loaded.fetch(f"SELECT name, kind FROM slices WHERE trace_id = {NAMED}")[1]
    assert dict(rows) == KINDS
    assert count_without(loaded, NAMED) == [list(KINDS.values()).count("other")]


def test_an_empty_category_is_none(loaded):
    of = f"WHERE trace_id = {EMPTY}"
    assert loaded.fetch(f"SELECT kind FROM slices {of}")[1] == [("cpu_op",)]
    assert loaded.fetch(f"SELECT category FROM event {of}")[1] == [("",)]


def test_what_has_a_device_a_stream_and_a_correlation_is_a_kernel(loaded):
    (partition,) = loaded.ask("partition", trace=KERNEL)[:1]
    assert (partition["kernels"], partition["linked"], partition["busy_ns"]) == (1, 1, 60_000)
    assert count_without(loaded, KERNEL) == [1]


@pytest.mark.sampled(2, of=2)
@pytest.mark.parametrize("name", ["simulated-overhead-bound", "simulated-compute-bound"])
def test_the_verdict_is_the_same_without_categories(tmp_path, name, shared_verdict):
    path = trace_file(f"{name}.json.gz")
    whole = json.loads(gzip.decompress(path.read_bytes()))
    whole["traceEvents"] = [without_category(event) for event in whole["traceEvents"]]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(whole))
    with tracekit.load(bare) as told:
        ours, theirs = told.verdict(), shared_verdict(path.name)
    assert ours.gpu == theirs.gpu
    assert (ours.verdict.regime, ours.verdict.bottleneck) == (
        theirs.verdict.regime,
        theirs.verdict.bottleneck,
    )


def test_metadata_and_marks_need_no_category(shared_ask):
    # Only the events that every profiler writes without a category are without one.
    health = shared_ask("no-categories.json.gz", "health")
    assert "no_category" not in [row["code"] for row in health]
