"""A vendor's spellings are one file of queries/names: its traces are judged like CUDA's. Events
without a category are told apart by name and arguments, or reported."""

import json

import pytest

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit.traces import Together, document, gpu_op, slice_event
from tracekit.causes import in_words_of

# What the files of queries/names call what CUDA calls otherwise.
VENDORS = {
    "ascend": {
        "kernel": "npu_kernel",
        "cuda_runtime": "npu_runtime",
        "cudaLaunchKernel": "aclrtLaunchKernel",
        "cudaMemcpyAsync": "aclrtMemcpyAsync",
        "cudaMemsetAsync": "aclrtMemsetAsync",
        "cudaStreamSynchronize": "aclrtSynchronizeStream",
        "cudaDeviceSynchronize": "aclrtSynchronizeDevice",
        "cudaEventSynchronize": "aclrtSynchronizeEvent",
        "cudaMalloc": "aclrtMalloc",
        "cudaFree": "aclrtFree",
        "cudaEventRecord": "aclrtRecordEvent",
        "cudaStreamWaitEvent": "aclrtStreamWaitEvent",
        "GPU": "NPU",
    }
}


SIMULATED = sorted(path.name for path in OWN_TRACES.glob("simulated-*.json.gz"))
TRACES = Together()
EMPTY = TRACES.events([slice_event("", "aten::add", 0, 5)])


def changed(name, change, folder):
    """A trace of tests/data, each event changed."""
    trace = document(OWN_TRACES / name)
    trace["traceEvents"] = list(map(change, trace["traceEvents"]))
    (folder / "t.json").write_text(json.dumps(trace))
    return tracekit.load(folder / "t.json")


# `make test` tries one trace of each vendor.
@pytest.mark.sampled(len(SIMULATED))
@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", SIMULATED)
def test_a_trace_of_another_vendor_is_judged_like_the_same_trace_of_cuda(
    vendor, name, tmp_path, shared_trace, shared_verdict
):
    spelled = VENDORS[vendor]

    def respelled(event):
        return event | {key: spelled.get(event.get(key), event.get(key)) for key in ("cat", "name")}

    calls = "SELECT call, count(*) FROM runtime_calls WHERE trace_id = {} GROUP BY 1 ORDER BY 1"
    cuda, trace = shared_trace(name)
    with changed(name, respelled, tmp_path) as other:
        assert other.fetch(calls.format(1)) == cuda.fetch(calls.format(trace))
        ours, theirs = other.verdict(), shared_verdict(name)
        assert repr(ours.verdict) == in_words_of(spelled["GPU"], repr(theirs.verdict))
        assert (ours.gpu, ours.idle) == (theirs.gpu, theirs.idle)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["simulated-overhead-bound", "simulated-compute-bound"])
def test_the_verdict_is_the_same_without_categories(tmp_path, name, shared_verdict):
    def bare(event):
        return {key: value for key, value in event.items() if key != "cat"}

    with changed(f"{name}.json.gz", bare, tmp_path) as told:
        ours, theirs = told.verdict(), shared_verdict(f"{name}.json.gz")
    assert ours.gpu == theirs.gpu
    assert ours.verdict.regime == theirs.verdict.regime
    assert ours.verdict.bottleneck == theirs.verdict.bottleneck


def test_an_empty_category_is_none(loaded):
    of = f"WHERE trace_id = {EMPTY}"
    assert loaded.fetch(f"SELECT kind FROM slices {of}")[1] == [("cpu_op",)]
    assert loaded.fetch(f"SELECT category FROM event {of}")[1] == [("",)]


def test_metadata_and_marks_need_no_category(shared_ask):
    # Only the events that every profiler writes without a category are without one.
    health = shared_ask("no-categories.json.gz", "health")
    assert "no_category" not in [row["code"] for row in health]


ADDS_UP = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3"


@TRACES.of(*(
    gpu_op(10 * place, 5, name=name)
    for place, name in enumerate((ADDS_UP, "volta_sgemm_64x64_nt", "igemm_fwd_nhwc_fp32"))
))  # fmt: skip
def test_a_product_that_adds_up_in_fp32_is_no_fp32_product(trace, loaded):
    plain = "SELECT name FROM gpu_op_name WHERE has(traits, 'plain_fp32') AND name IN ({})"
    names = f"SELECT name FROM kernels WHERE trace_id = {trace}"
    found = {name for (name,) in loaded.fetch(plain.format(names))[1]}
    assert found == {"volta_sgemm_64x64_nt", "igemm_fwd_nhwc_fp32"}
