"""What reading the same events costs in each format: `python -m tests.bench.formats`.

Writes the slices and GPU ops of a generated trace (tests/bench/generate.py) as each profiler would,
and prints one table: events per second of CPU time, for reading them alone (parsing, start-up
excluded) and for `tracekit load` (start-up and imports included). Formats differ in which arguments
they have, so files of the same events differ in size. All rows come from one run on one machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench.generate import events
from tests.bench.measuring import head, line, measured
from tests.kit import nsys_simulated as nsys
from tests.kit.other_formats import KINDS
from tests.kit.perfetto_written import nanoseconds, pftrace
from tests.kit.protos import messages
from tests.kit.xplane_schema import SCHEMA

_EVENTS = 400_000
_READ = """
import sys, time
from tracekit.trace.other.formats import open_traces
from tracekit.trace.reader import TraceReader
from tracekit.trace.readers import own_readers
own_readers()
began, events = time.process_time(), 0
for stream in open_traces({path!r}, temp_dir={folder!r}):
    with stream:
        reader = TraceReader(stream)
        for _ in reader.pieces():
            pass
        events += reader.events
print(events, time.process_time() - began)
"""
COLUMNS = (
    "format", "MB", "events", "reading, CPU s", "events/CPU s", "load, CPU s", "events/CPU s",
    "load, peak MB",
)  # fmt: skip
_DEVICE = "kernel"


def write_json(path: Path, found: Iterable[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for count, event in enumerate(found):
            file.write(",\n" * bool(count) + json.dumps(event))
        file.write("\n]}\n")


def write_pftrace(path: Path, found: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        file.writelines(pftrace(found))


def write_xplane(path: Path, found: Iterable[dict[str, Any]]) -> None:
    """A plane of the host, and one of the device with a line for each stream."""
    made = messages(SCHEMA)["XPlane"]
    planes = {True: made(id=1, name=b"/device:GPU:0"), False: made(id=2, name=b"/host:CPU")}
    numbers: dict[tuple[bool, str, str], int] = {}
    lines: dict[tuple[bool, int], Any] = {}

    def number(is_device: bool, kind: str, name: str) -> int:
        key = is_device, kind, name
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            getattr(planes[is_device], kind).add(key=numbers[key]).value.name = name.encode()
        return numbers[key]

    for event in found:
        is_device, tid = event["cat"] == _DEVICE, event["tid"]
        if (is_device, tid) not in lines:
            name = f"Stream #{tid}" if is_device else f"thread {tid}"
            lines[is_device, tid] = planes[is_device].lines.add(id=tid, name=name.encode())
        written = lines[is_device, tid].events.add(
            metadata_id=number(is_device, "event_metadata", event["name"]),
            offset_ps=1000 * nanoseconds(event["ts"]), duration_ps=1000 * nanoseconds(event["dur"]),
        )  # fmt: skip
        for key, value in event["args"].items():
            name = "correlation_id" if key == "correlation" else key
            stat = written.stats.add(metadata_id=number(is_device, "stat_metadata", name))
            if isinstance(value, int):
                stat.int64_value = value
            elif isinstance(value, float):
                stat.double_value = value
            else:
                text = value if isinstance(value, str) else json.dumps(value)
                stat.ref_value = number(is_device, "stat_metadata", text)
    with path.open("wb") as file:
        for plane in planes.values():
            text = plane.SerializeToString()
            file.write(b"\n" + _varint(len(text)) + text)


def write_nsys(path: Path, found: Iterable[dict[str, Any]]) -> None:
    """CUDA calls and kernels as CUPTI's records, operators as NVTX ranges."""
    strings = nsys.Strings()
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in found:
        start, args = nanoseconds(event["ts"]), event["args"]
        times = start, start + nanoseconds(event["dur"])
        if event["cat"] == _DEVICE:
            made = nsys.kernel(strings, event["name"], *times, args["correlation"])
            tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(made | {"streamId": args["stream"]})
        elif "correlation" in args:
            made = nsys.call(strings, f"{event['name']}_v7000", *times, args["correlation"])
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(made)
        else:
            text = f"{event['name']}, op_id = 1, sizes = {args.get('Input Dims', [])}"
            tables["NVTX_EVENTS"].append(nsys.nvtx_range(strings, text, *times))
    nsys.write(path, tables, strings)


def write_rocprof(path: Path, found: Iterable[dict[str, Any]]) -> None:
    """CUDA calls as HIP's, kernels as dispatches, operators as markers."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    kernels: dict[str, int] = {}
    markers: list[dict[str, Any]] = []
    for event in found:
        start, args = nanoseconds(event["ts"]), event["args"]
        number = args.get("correlation", 0)
        record = {
            "start_timestamp": start, "end_timestamp": start + nanoseconds(event["dur"]),
            "correlation_id": {"internal": number, "external": 0}, "thread_id": event["tid"],
            "operation": 0,
        }  # fmt: skip
        if event["cat"] == _DEVICE:
            grid = dict(zip("xyz", args["grid"], strict=True))
            block = dict(zip("xyz", args["block"], strict=True))
            dispatch = {
                "agent_id": {"handle": 9}, "queue_id": {"handle": 7}, "workgroup_size": block,
                "kernel_id": kernels.setdefault(event["name"], len(kernels) + 1), "grid_size": grid,
            }  # fmt: skip
            place = {"stream_id": {"handle": args["stream"]}, "dispatch_info": dispatch}
            records["kernel_dispatch"].append(record | {"kind": 2} | place)
        elif number:
            records["hip_api"].append(record | {"kind": 0})
        else:
            number = (1 << 40) + len(markers)
            markers.append({"key": number, "value": event["name"]})
            named = {"kind": 1, "correlation_id": {"internal": number, "external": 0}}
            records["marker_api"].append(record | named)
    tool = {
        "metadata": {"pid": 50, "node": {"hostname": "h"}, "command": ["train"]},
        "agents": [{"id": {"handle": 9}, "type": 2, "name": "gfx942", "logical_node_id": 4}],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": all_} for kind, all_ in KINDS.items()],
            "marker_api": markers,
        },
        "kernel_symbols": [
            {"kernel_id": number, "kernel_name": name, "formatted_kernel_name": name}
            for name, number in kernels.items()
        ],
        "buffer_records": records,
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))


FORMATS: dict[str, Callable[[Path, Iterable[dict[str, Any]]], None]] = {
    "json": write_json,
    "pftrace": write_pftrace,
    "xplane.pb": write_xplane,
    "nsys.sqlite": write_nsys,
    "rocprofv3.json": write_rocprof,
}


def _varint(value: int) -> bytes:
    text = b""
    while value > 127:
        text, value = text + bytes([value & 127 | 128]), value >> 7
    return text + bytes([value])


def _slices(count: int) -> Iterator[dict[str, Any]]:
    """Slices and GPU ops, without arrows: not every format has them."""
    yield from islice((event for event in events() if event["ph"] == "X"), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("formats", nargs="*", choices=[[], *FORMATS])
    parser.add_argument("--events", type=int, default=_EVENTS)
    given = parser.parse_args()
    print(*head(COLUMNS), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        for ending in given.formats or FORMATS:
            path, out = Path(folder) / f"trace.{ending}", Path(folder) / "out.duckdb"
            FORMATS[ending](path, _slices(given.events))
            read = measured("-c", _READ.format(path=str(path), folder=folder))
            load = measured("-m", "tracekit", "load", "--no-verdict", path, "-o", out)
            assert read.said is not None and load.said is not None, "a command failed"
            count, cpu_s = int(read.said.split()[0]), float(read.said.split()[1])
            rates = (f"{count / seconds:,.0f}" for seconds in (cpu_s, load.cpu_s))
            row = [ending, f"{path.stat().st_size / 1e6:,.0f}", f"{count:,}", f"{cpu_s:.2f}"]
            peak = f"{load.peak_mb * 1.048576:,.0f}"
            print(line(*row, next(rates), f"{load.cpu_s:.2f}", next(rates), peak), flush=True)
            path.unlink()
            out.unlink()


if __name__ == "__main__":
    main()
