"""JAX and XLA: what their profiler writes as `*.xplane.pb`, planes of lines of events.

https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto and, for the names
of planes, lines and stats, xla/tsl/profiler/utils/xplane_schema.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.other.converted import OneProcess, named, slice_of, texts
from tracekit.trace.other.protos import damaged, fields, messages, text
from tracekit.trace.source import ByteStream
from tracekit.trace.unpacking import buffered

# Lines and events stay bytes, decoded one at a time.
_SCHEMA = """
message XPlane {
  int64 id = 1;
  string name = 2;
  repeated bytes lines = 3;
  map<int64, XEventMetadata> event_metadata = 4;
  map<int64, XStatMetadata> stat_metadata = 5;
  repeated XStat stats = 6;
}
message XLine {
  int64 id = 1;
  string name = 2;
  int64 timestamp_ns = 3;
  repeated bytes events = 4;
  string display_name = 11;
}
message XEvent {
  int64 metadata_id = 1;
  int64 offset_ps = 2;
  int64 duration_ps = 3;
  repeated XStat stats = 4;
  int64 num_occurrences = 5;
}
message XStat {
  int64 metadata_id = 1;
  double double_value = 2;
  uint64 uint64_value = 3;
  int64 int64_value = 4;
  string str_value = 5;
  bytes bytes_value = 6;
  uint64 ref_value = 7;
}
message XEventMetadata {
  int64 id = 1;
  string name = 2;
  string display_name = 4;
  repeated XStat stats = 5;
}
message XStatMetadata { int64 id = 1; string name = 2; }
"""
# The host's threads, as XLA's own viewers number them; devices have their plane's number.
_HOST = 701
_DEVICE = re.compile(r"/device:(?!CPU)([A-Z]+):(\d+)(.*)")
# What a device is called, from the most exact stat to the vendor.
_NAMES = ("device_type_string", "device_type", "device_vendor")
_STREAM = re.compile(r"Stream #(\d+)|XLA Ops$")
_CALL = re.compile(r"(cuda|hip)[A-Z]|cu[A-Z]")
_PYTHON = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_COPY = re.compile(r"Memcpy([HDP])2([HDP])")
_BASE, _LOST = "profile_start_time", "picoseconds_lost"


def is_xplane(head: bytes, name: str) -> bool:
    """Whether a file that begins so holds planes."""
    return head[:1] == b"\n" and (name.endswith(".xplane.pb") or b"/host:" in head)


def texts_of(stream: ByteStream, process: OneProcess) -> Iterator[bytes]:
    """The events of the one process that the file holds."""
    process.tail = {"profiler": {"name": "jax", _LOST: 0}, "deviceProperties": []}
    yield from texts(_events(stream, process))


def _events(stream: ByteStream, process: OneProcess) -> Iterator[dict[str, Any]]:
    try:
        planes = fields(buffered(stream), stream.path, 1)
        for plane in map(messages(_SCHEMA)["XPlane"].FromString, planes):
            yield from _Plane(plane, process.tail).events()
    except Exception as error:
        said = damaged("plane", error)
        process.damage = stream.damage or said


class _Plane:
    def __init__(self, plane: Any, tail: dict[str, Any]) -> None:
        self._plane = plane
        self._tail = tail
        self._name = text(plane.name)
        self._known = {
            key: (text(about.display_name) or text(about.name), text(about.name), about.stats)
            for key, about in plane.event_metadata.items()
        }
        self._stats = {key: text(each.name) for key, each in plane.stat_metadata.items()}

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of the plane's lines."""
        lines = self._plane.lines
        own = self._values(self._plane.stats)
        if isinstance(own.get(_BASE), int):
            self._tail["baseTimeNanoseconds"] = own[_BASE]
        device = _DEVICE.match(self._name)
        pid = int(device[2]) if device else _HOST if self._name == "/host:CPU" else None
        if pid is None:
            if own or lines:
                self._tail.setdefault("planes", {})[self._name] = own
            pid = _HOST + 1 + self._plane.id
        if device and lines:
            known = (own[each] for each in _NAMES if own.get(each))
            self._tail["deviceProperties"].append(
                {
                    "id": pid, "name": next(known, device[1]),
                    "numSms": own.get("core_count"), "totalGlobalMem": own.get("memory_size"),
                    "computeMajor": own.get("compute_cap_major"),
                    "computeMinor": own.get("compute_cap_minor"),
                } | own
            )  # fmt: skip
        if not lines:
            return
        yield named("process_name", self._name, pid)
        for line in lines:
            yield from self._line(line, pid, device is not None)

    def _line(self, data: bytes, pid: int, is_device: bool) -> Iterator[dict[str, Any]]:
        line = messages(_SCHEMA)["XLine"].FromString(data)
        name = text(line.display_name) or text(line.name)
        stream = _STREAM.match(name) if is_device else None
        tid = int(stream[1]) if stream and stream[1] else line.id
        yield named("thread_name", name, pid, tid)
        for event in map(messages(_SCHEMA)["XEvent"].FromString, line.events):
            shown, full, stats = self._known.get(event.metadata_id, ("", "", ()))
            start, start_ps = divmod(line.timestamp_ns * 1000 + event.offset_ps, 1000)
            end, end_ps = divmod(start * 1000 + start_ps + event.duration_ps, 1000)
            self._tail["profiler"][_LOST] += bool(start_ps or end_ps)
            args = self._values(stats) | self._values(event.stats)
            if full != shown:
                args["full name"] = full
            if "correlation_id" in args:
                args["correlation"] = args.pop("correlation_id")
            if event.num_occurrences:
                args["occurrences"] = event.num_occurrences
            if stream:
                category, shown = _on_device(shown)
                args |= {"device": pid, "stream": tid}
            else:
                category, shown = _on_host(shown, args) if not is_device else (_RANGE, shown)
            yield slice_of(category, shown, pid, tid, start, end - start, args)

    def _values(self, stats: Any) -> dict[str, Any]:
        """Stats by their names; a reference is the name of another one."""
        found = {}
        for stat in stats:
            for field, value in stat.ListFields():
                if field.name == "ref_value":
                    value = self._stats.get(value, value)
                elif isinstance(value, bytes):
                    value = text(value) if field.name == "str_value" else f"{len(value)} bytes"
                if field.name != "metadata_id":
                    found[self._stats.get(stat.metadata_id, str(stat.metadata_id))] = value
        return found


# The category of modules, steps and scopes, which XLA shows beside a device's work.
_RANGE = "gpu_user_annotation"


def _on_device(name: str) -> tuple[str, str]:
    if copy := _COPY.match(name):
        return "gpu_memcpy", f"Memcpy {copy[1]}to{copy[2]}"
    return ("gpu_memset", "Memset (Device)") if name.startswith("Memset") else ("kernel", name)


def _on_host(name: str, args: dict[str, Any]) -> tuple[str, str]:
    """The category and name of a slice of the host, in Kineto's terms."""
    if frame := _PYTHON.fullmatch(name):
        return "python_function", f"{frame[1]}({frame[2]}): {frame[3]}"
    if _CALL.match(name):
        return ("cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"), name
    if isinstance(args.get("step_num"), int):
        args["range"] = name
        return "user_annotation", f"ProfilerStep#{args['step_num']}"
    return "user_annotation", name
