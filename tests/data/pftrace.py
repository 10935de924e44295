"""Writes a trace of PyTorch's profiler (JSON) as a Perfetto trace, by PyTorch's own writer:

    python tests/data/pftrace.py TRACE.json.gz TRACE.pftrace

It needs PyTorch 2.15 for CUDA and NVIDIA's cupti-python, but no GPU. It adds two samples of a GPU's
clock and power, which no JSON trace has.
"""

import gzip
import json
import sys
from decimal import Decimal

import numpy as np
from cupti.cupti import Driver_api_trace_cbid, Runtime_api_trace_cbid
from torch.profiler._cuspy import trace as writer

_OF_DEVICE = {
    "device_id": "device", "stream_id": "stream", "context_id": "context",
    "correlation_id": "correlation", "graph_id": "graph id",
}  # fmt: skip


def main(source: str, target: str) -> None:
    with gzip.open(source) as file:
        trace = json.load(file)
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    slices = [each for each in trace["traceEvents"] if each.get("ph") == "X"]

    def ns(value: object) -> int:
        return int(Decimal(str(value)) * 1000)

    def columns(category: str, **more) -> dict[str, np.ndarray]:
        found = [each for each in slices if each.get("cat") == category]
        start = np.array([base_ns + ns(each["ts"]) for each in found], np.int64)
        of_events = {"start_ns": start, "end_ns": start + [ns(each["dur"]) for each in found]}
        for name, value in more.items():
            of_events[name] = np.array([value(each) for each in found])
        return of_events if found else {}

    def argument(name: str, place: int | None = None):
        def value(event):
            found = event["args"].get(name, 0)
            return found[place] if place is not None and found else found

        return value

    def node(event) -> int:
        own = event["args"].get("graph node id", 0)
        return own and int(event["args"].get("graph id", 0)) << 32 | own & 0xFFFFFFFF

    device = {name: argument(key) for name, key in _OF_DEVICE.items()} | {"graph_node_id": node}
    sizes = {
        f"{name}_{axis}": argument(name, place)
        for name in ("grid", "block") for place, axis in enumerate("xyz")
    }  # fmt: skip
    found = {
        "kernel": columns("kernel", **device, **sizes, name=lambda each: each["name"],
                          registers_per_thread=argument("registers per thread")),
        "gpu_memcpy": columns("gpu_memcpy", **device, bytes=argument("bytes")),
        "gpu_memset": columns("gpu_memset", **device, bytes=argument("bytes")),
    }  # fmt: skip
    for category, known in (
        ("cuda_runtime", Runtime_api_trace_cbid),
        ("cuda_driver", Driver_api_trace_cbid),
    ):
        numbers = {name: cbid for cbid, name in writer._load_cbid_names(known).items()}
        found[category] = columns(
            category,
            process_id=lambda each: each["pid"],
            thread_id=lambda each: each["tid"],
            correlation_id=argument("correlation"),
            cbid=lambda each, numbers=numbers: numbers[each["name"]],
        )
    begin_ns = int(found["kernel"]["start_ns"].min())
    found["environment"] = {
        "start_ns": np.array([begin_ns, begin_ns, begin_ns + 1000, begin_ns + 1000]),
        "environment_kind": np.array([3, 1, 3, 1]), "device_id": np.zeros(4, np.int64),
        "data": np.array([250_500, 1410, 300_000, 1380], np.uint64),
    }  # fmt: skip
    window = {"columns": {name: each for name, each in found.items() if each}}
    writer._window_to_pftrace(trace, window, base_ns, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
