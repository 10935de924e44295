"""A vendor's spellings are one file of queries/names: its traces are judged like CUDA's."""

import gzip
import json

import pytest

import tracekit
from tests.conftest import OWN_TRACES
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


@pytest.mark.sampled(7, of=7)
@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    "name", sorted(path.name for path in OWN_TRACES.glob("simulated-*.json.gz"))
)
def test_a_trace_of_another_vendor_is_judged_like_the_same_trace_of_cuda(
    vendor, name, tmp_path, shared_trace, shared_verdict
):
    with gzip.open(OWN_TRACES / name) as file:
        trace = json.load(file)
    spelled = VENDORS[vendor]
    for event in trace["traceEvents"]:
        event |= {key: spelled.get(event.get(key), event.get(key)) for key in ("cat", "name")}
    (tmp_path / "t.json").write_text(json.dumps(trace))
    with tracekit.load(tmp_path / "t.json") as other:
        calls = "SELECT call, count(*) FROM runtime_calls WHERE trace_id = {} GROUP BY 1 ORDER BY 1"
        gpu, trace = shared_trace(name)
        assert other.fetch(calls.format(1)) == gpu.fetch(calls.format(trace))
        ours, theirs = other.verdict(), shared_verdict(name)
        assert repr(ours.verdict) == in_words_of(spelled["GPU"], repr(theirs.verdict))
        assert ours.gpu == theirs.gpu
        assert ours.idle == theirs.idle
