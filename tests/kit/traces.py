"""Small traces made by hand, with only the events that a test is about."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.verdict.model import Analysis

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


class Together:
    """Small traces of a module's tests, in one database: a load costs more than its traces. Each is
    of a job of its own: its clock is far from those of the others."""

    def __init__(self) -> None:
        self._made: list[Callable[..., object]] = []

    def add(self, make: Callable[..., object]) -> int:
        """The trace_id of the trace that `make` will write to a path, with metadata."""
        self._made.append(make)
        return len(self._made)

    def events(self, events: list[Any], **metadata: Any) -> int:
        """Adds a trace of these events and returns its future trace_id."""
        return self.add(lambda path, **base: write(path, events, **base | metadata))

    def of(self, *events: Any, **metadata: Any) -> pytest.MarkDecorator:
        """A decorator that passes the trace_id of these events as the test's argument `trace`."""
        return pytest.mark.parametrize("trace", [self.events(list(events), **metadata)], ids=[""])

    def load(self, folder: Path, database: Path | None = None) -> tracekit.Database:
        paths = []
        for n, make in enumerate(self._made, start=1):
            paths.append(folder / f"{n}.json")
            make(paths[-1], baseTimeNanoseconds=n * 10**15)
        return tracekit.load(paths, database, verdicts=False)

    def analyses(self, folder: Path) -> dict[int, Analysis]:
        """The analysis of each trace."""
        with self.load(folder) as run:
            return {each.trace.trace_id: each for each in run.verdicts()}


def operator(
    name: str, start_us: float, dur_us: float, shapes: Any = None, types: Any = None, **more: Any
) -> dict:
    """An operator, with its inputs' shapes and types if given."""
    args: dict[str, Any] = {} if shapes is None else {"Input Dims": shapes, "Input type": types}
    return slice_event("cpu_op", name, start_us, dur_us, args=args | more)


def step(number: int, start_us: float, dur_us: float) -> dict:
    """A profiler step."""
    return slice_event("user_annotation", f"ProfilerStep#{number}", start_us, dur_us)


def frame(name: str, start_us: float, dur_us: float) -> dict:
    """A call of the Python stack."""
    return slice_event("python_function", name, start_us, dur_us)


def launched(
    operators: list[dict], at_us: float, op_us: float, dur_us: float, correlation: int, **more: Any
) -> list[dict]:
    """An operator's launch at `at_us` of a GPU op at `op_us`."""
    return [*operators, launch(at_us, 1, correlation), gpu_op(op_us, dur_us, correlation, **more)]


def device(name: str, number: int = DEVICE) -> dict[str, Any]:
    """A trace's metadata for a device of that name."""
    return {"deviceProperties": [{"id": number, "name": name, "totalGlobalMem": 80_000_000_000}]}


def document(path: Path) -> dict[str, Any]:
    """A compressed trace's JSON."""
    return json.loads(gzip.decompress(path.read_bytes()))


def names(path: Path) -> set[str]:
    """The names of a compressed trace's events."""
    return {event.get("name") for event in document(path)["traceEvents"]}


def recorded(path: Path) -> list[dict[str, Any]]:
    """The complete events of a compressed trace, with their start and end as `begin` and `end` in
    nanoseconds: for counts that do not use tracekit."""
    events = [e for e in document(path)["traceEvents"] if e.get("ph") == "X"]
    for event in events:
        event["begin"] = round(event["ts"] * 1000)
        event["end"] = event["begin"] + round(event["dur"] * 1000)
    return events


GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def launches_of(events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """GPU ops with the first runtime or driver call of the same correlation."""
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls.setdefault(event["args"].get("correlation"), event)
    ops = [event for event in events if event.get("cat") in GPU_CATEGORIES]
    return [(op, calls[c]) for op in ops if (c := op["args"].get("correlation")) in calls]
