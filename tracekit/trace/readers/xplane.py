"""Profiles of JAX and XLA (`*.xplane.pb`): planes with lines of events.

https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto and, for the names
of planes, lines and stats, xla/tsl/profiler/utils/xplane_schema.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.other.converted import OpenedFile, named, slice_of, texts
from tracekit.trace.other.protos import damaged, decoded, fields, messages, text
from tracekit.trace.unpacking import buffered

NAME = "jax"
ENDINGS = (".xplane.pb",)

# Lines, events and names stay bytes, decoded one at a time.
_SCHEMA = """
message XPlane {
  int64 id = 1;
  string name = 2;
  repeated bytes lines = 3;
  repeated bytes event_metadata = 4;
  repeated bytes stat_metadata = 5;
  repeated XStat stats = 6;
}
message EventEntry { int64 key = 1; XEventMetadata value = 2; }
message StatEntry { int64 key = 1; XStatMetadata value = 2; }
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
# The host's number in XLA's viewers; devices have their plane's number.
_HOST = 701
_DEVICE = re.compile(r"/device:(?!CPU)([A-Z]+):(\d+)(.*)")
# Sources of a device's name, from the most exact stat to the vendor.
_NAMES = ("device_type_string", "device_type", "device_vendor")
_STREAM = re.compile(r"Stream #(\d+)|XLA Ops$")
_CALL = re.compile(r"(cuda|hip)[A-Z]|cu[A-Z]")
_PYTHON = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_COPY = re.compile(r"Memcpy([HDP])2([HDP])")
# Events of TensorFlow's own runtime, which uses the same profiler.
_TENSORFLOW = re.compile(
    r"(ExecutorState::Process|EagerKernelExecute|EagerLocalExecute|FunctionRun|SessionRun)\b"
)
_BASE, _LOST = "profile_start_time", "picoseconds_lost"


def sniff(opened: OpenedFile) -> bool:
    """Whether the file holds planes."""
    is_named = opened.has_ending(ENDINGS)
    return opened.head[:1] == b"\n" and (is_named or b"/host:" in opened.head)


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the one process that the file holds."""
    members: dict[str, Any] = {"profiler": {_LOST: 0}, "deviceProperties": []}
    yield from texts(_events(opened, members))
    yield members


def _events(opened: OpenedFile, members: dict[str, Any]) -> Iterator[dict[str, Any]]:
    budget = opened.budget
    try:
        for plane in fields(buffered(opened), opened.path, budget, 1):
            yield from _Plane(plane, members, budget).events()
    except Exception as error:
        damage = damaged("plane", error)
        opened.damage = opened.damage or damage


class _Plane:
    def __init__(self, data: bytes, members: dict[str, Any], budget: Budget) -> None:
        self._members, self._budget = members, budget
        self._plane = self._decoded("XPlane", data)
        self._name = text(self._plane.name)
        self._stats: dict[int, str] = {}
        self._held = 0
        for entry in self._plane.stat_metadata:
            found = self._decoded("StatEntry", entry)
            self._stats[found.key] = text(found.value.name)
            self._keep(len(entry), 1)
        # The name of each kind of event, in short and in full, and its stats.
        self._known: dict[int, tuple[str, str, dict[str, Any]]] = {}
        for entry in self._plane.event_metadata:
            found = self._decoded("EventEntry", entry)
            about = found.value
            full, stats = text(about.name), self._values(about.stats)
            self._known[found.key] = text(about.display_name) or full, full, stats
            if _TENSORFLOW.match(full):
                members["profiler"]["name"] = "tensorflow"
            self._keep(len(entry), 3 + len(stats))

    def _decoded(self, message: str, data: bytes) -> Any:
        return decoded(messages(_SCHEMA)[message], data, self._budget)

    def _keep(self, size: int, objects: int) -> None:
        size += objects * OBJECT_BYTES
        self._held += size
        self._budget.hold(size)

    def events(self) -> Iterator[dict[str, Any]]:
        """The events on the plane's lines."""
        lines = self._plane.lines
        stats = self._values(self._plane.stats)
        self._budget.hold(OBJECT_BYTES * (2 + 2 * len(stats)))
        if isinstance(stats.get(_BASE), int):
            self._members["baseTimeNanoseconds"] = stats[_BASE]
        device = _DEVICE.match(self._name)
        pid = int(device[2]) if device else _HOST if self._name == "/host:CPU" else None
        if pid is None:
            if stats or lines:
                self._members.setdefault("planes", {})[self._name] = stats
            pid = _HOST + 1 + self._plane.id
        if device and lines:
            names = (stats[name] for name in _NAMES if stats.get(name))
            self._members["deviceProperties"].append(
                {
                    "id": pid, "name": next(names, device[1]),
                    "numSms": stats.get("core_count"), "totalGlobalMem": stats.get("memory_size"),
                    "computeMajor": stats.get("compute_cap_major"),
                    "computeMinor": stats.get("compute_cap_minor"),
                } | stats
            )  # fmt: skip
        if not lines:
            return
        yield named("process_name", self._name, pid)
        for line in lines:
            yield from self._line(line, pid, device is not None)
        self._budget.hold(-self._held)

    def _line(self, data: bytes, pid: int, is_device: bool) -> Iterator[dict[str, Any]]:
        line = self._decoded("XLine", data)
        name = text(line.display_name) or text(line.name)
        stream = _STREAM.match(name) if is_device else None
        tid = int(stream[1]) if stream and stream[1] else line.id
        yield named("thread_name", name, pid, tid)
        self._budget.spend(len(line.events))
        kind = messages(_SCHEMA)["XEvent"]
        for encoded in line.events:
            event = decoded(kind, encoded, self._budget)
            shown, full, stats = self._known.get(event.metadata_id, ("", "", {}))
            start, start_ps = divmod(line.timestamp_ns * 1000 + event.offset_ps, 1000)
            end, end_ps = divmod(start * 1000 + start_ps + event.duration_ps, 1000)
            self._members["profiler"][_LOST] += bool(start_ps or end_ps)
            args = stats | self._values(event.stats)
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
                if is_device:
                    is_step = name == _STEPS and shown.isdecimal()
                    category, shown = _RANGE, f"{_STEP}{shown}" if is_step else shown
                else:
                    category, shown = _on_host(shown, args)
            yield slice_of(category, shown, pid, tid, start, end - start, args)

    def _values(self, stats: Any) -> dict[str, Any]:
        """Stats by name; a reference becomes the name that it refers to."""
        values = {}
        for stat in stats:
            for field, value in stat.ListFields():
                if field.name == "ref_value":
                    value = self._stats.get(value, value)
                elif isinstance(value, bytes):
                    value = text(value) if field.name == "str_value" else f"{len(value)} bytes"
                if field.name != "metadata_id":
                    values[self._stats.get(stat.metadata_id, str(stat.metadata_id))] = value
        return values


# The category of modules, steps and scopes, which XLA shows next to device work.
_RANGE = "gpu_user_annotation"
# The line on which TensorFlow shows a device's steps, by number, and the name of such a step.
_STEPS = "Steps"
_STEP = "ProfilerStep#"


def _on_device(name: str) -> tuple[str, str]:
    if copy := _COPY.match(name):
        return "gpu_memcpy", f"Memcpy {copy[1]}to{copy[2]}"
    return ("gpu_memset", "Memset (Device)") if name.startswith("Memset") else ("kernel", name)


def _on_host(name: str, args: dict[str, Any]) -> tuple[str, str]:
    """Kineto's category and name for a host slice."""
    if frame := _PYTHON.fullmatch(name):
        return "python_function", f"{frame[1]}({frame[2]}): {frame[3]}"
    if _CALL.match(name):
        return ("cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"), name
    if isinstance(args.get("step_num"), int):
        args["range"] = name
        return "user_annotation", f"{_STEP}{args['step_num']}"
    return "user_annotation", name
