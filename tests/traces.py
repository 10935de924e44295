"""Small traces made by hand, with nothing in them but what a test is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tracekit

HOST, THREAD, DEVICE = 100, 100, 0


def slice_event(category: str, name: str, start_us: float, dur_us: float, **more: Any) -> dict:
    """A complete event on the main host thread."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": HOST, "tid": THREAD,
        "ts": start_us, "dur": dur_us, **more,
    }  # fmt: skip


def launch(
    start_us: float, dur_us: float, correlation: int, name: str = "cudaLaunchKernel"
) -> dict:
    """A runtime call."""
    return slice_event("cuda_runtime", name, start_us, dur_us, args={"correlation": correlation})


def gpu_op(
    start_us: float,
    dur_us: float,
    correlation: int | None = None,
    *,
    category: str = "kernel",
    name: str = "sgemm",
    stream: int = 7,
    device: int = DEVICE,
) -> dict:
    """A kernel, copy or fill."""
    args: dict[str, Any] = {"device": device, "stream": stream}
    if correlation is not None:
        args["correlation"] = correlation
    return {
        "ph": "X", "cat": category, "name": name, "pid": device, "tid": stream,
        "ts": start_us, "dur": dur_us, "args": args,
    }  # fmt: skip


def write(path: Path, events: list[Any], **metadata: Any) -> Path:
    """The events as a trace file."""
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, **metadata}))
    return path


def load(folder: Path, events: list[Any], **metadata: Any) -> tracekit.Database:
    """The events, loaded."""
    return tracekit.load(write(folder / "trace.json", events, **metadata))
