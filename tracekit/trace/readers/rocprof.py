"""rocprofv3's JSON (`--output-format json`): a process, its calls and its devices.

https://rocm.docs.amd.com/projects/rocprofiler-sdk: using rocprofv3, output formats
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.trace.other.converted import OpenedFile, named, slice_of, texts
from tracekit.trace.other.json_walk import JsonError, JsonWalk

NAME = "rocprofv3"
ENDINGS = (".json",)

# The start of the file's text.
_BEGINS = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
_GPU = 2
# Kineto's categories for the same records on ROCm.
CATEGORIES = {
    "hip_api": "cuda_runtime",
    "hip_runtime_api": "cuda_runtime",
    "hip_compiler_api": "cuda_runtime",
    "hsa_api": "cuda_driver",
    "marker_api": "user_annotation",
    "rccl_api": "user_annotation",
}
_COPIES = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD",
           "HOST_TO_HOST": "HtoH"}  # fmt: skip
# Members that are copied to the trace's metadata.
_METADATA = ("metadata", "agents", "counters", "summary", "code_objects", "host_functions")


def sniff(opened: OpenedFile) -> bool:
    """Whether the file is rocprofv3's JSON."""
    return _BEGINS.match(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    members: dict[str, Any] = {}
    yield from texts(_until_damage(opened, members))
    yield members


def _until_damage(opened: OpenedFile, members: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        yield from _Tool(JsonWalk(opened), members).events()
    except JsonError as error:
        opened.damage = opened.damage or f"its JSON is damaged: {error}"
    except (AttributeError, LookupError, TypeError, ValueError):
        opened.damage = opened.damage or "a record does not have rocprofv3's form"


def copy_name(operation: str) -> str:
    """Kineto's name for a copy."""
    direction = operation.upper().removeprefix("MEMORY_COPY_")
    return f"Memcpy {_COPIES.get(direction, direction)}"


def device_of(agent: Mapping[str, Any], number: object) -> dict[str, Any]:
    """A GPU in the form of Kineto's `deviceProperties`."""
    return {
        "id": number,
        "name": agent.get("product_name") or agent.get("name"),
        "numSms": agent.get("cu_count"),
        "warpSize": agent.get("wave_front_size"),
        "gcnArchName": agent.get("name"),
    }


class _Tool:
    """Members before the records hold names; they are kept until the records come."""

    def __init__(self, walk: JsonWalk, members: dict[str, Any]) -> None:
        self._walk = walk
        self._members = members
        self._left_out: dict[str, int] = {}
        self._known: dict[str, Any] = {}
        self._symbols: dict[object, dict[str, Any]] = {}

    def events(self) -> Iterator[dict[str, Any]]:
        for key in self._walk.members():
            if key != "rocprofiler-sdk-tool":
                self._members[key] = self._walk.value(is_kept=True)
                continue
            for _ in self._walk.elements():
                yield from self._process_events()
        self._members["profiler"] = {"left_out": self._left_out}

    def _process_events(self) -> Iterator[dict[str, Any]]:
        for key in self._walk.members():
            if key == "kernel_symbols":
                for _ in self._walk.elements():
                    symbol = self._walk.value(is_kept=True)
                    self._symbols[symbol.get("kernel_id")] = symbol
            elif key == "buffer_records":
                yield from self._names()
                for kind, record in self._walk.lists():
                    yield from self._event(kind, record)
            elif key == "callback_records":
                for kind, _ in self._walk.lists():
                    self._left_out[kind] = self._left_out.get(kind, 0) + 1
            else:
                self._known[key] = self._walk.value(is_kept=True)

    def _names(self) -> Iterator[dict[str, Any]]:
        """Reads the names of the process, its devices and its operations."""
        agents = self._known.get("agents") or []
        self._devices = {
            _handle(agent.get("id")): agent for agent in agents if agent.get("type") == _GPU
        }
        about = self._known.get("metadata") or {}
        self._pid = about.get("pid", 0)
        strings = self._known.get("strings") or {}
        self._operations = [
            (kind.get("kind"), kind.get("operations"))
            for kind in strings.get("buffer_records") or []
        ]
        self._markers = {each["key"]: each["value"] for each in strings.get("marker_api") or []}
        self._members |= {
            "deviceProperties": [
                device_of(agent, handle) for handle, agent in self._devices.items()
            ],
            "host_name": (about.get("node") or {}).get("hostname"),
            "rocprofv3": {key: self._known[key] for key in _METADATA if key in self._known},
        }
        command = " ".join(map(str, about.get("command") or []))
        yield named("process_name", command or "rocprofv3", self._pid)
        for handle, agent in self._devices.items():
            yield named("process_labels", f"GPU {agent.get('logical_node_id')}", handle)

    def _event(self, kind: str, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        start, end = record.get("start_timestamp"), record.get("end_timestamp")
        if not isinstance(start, int) or not isinstance(end, int):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        correlation = record.pop("correlation_id", None) or {}
        args: dict[str, Any] = {"correlation": correlation.get("internal")}
        if correlation.get("external"):
            args["External id"] = correlation["external"]
        category, name = CATEGORIES.get(kind, kind), self._operation(record)
        thread = record.get("thread_id", 0)
        event = slice_of(category, name, self._pid, thread, start, end - start, args)
        if kind == "kernel_dispatch":
            self._dispatched(event, record, args)
        elif kind == "memory_copy":
            ends = [_handle(record.get(f"{end}_agent_id")) for end in ("dst", "src")]
            device = next((each for each in ends if each in self._devices), ends[0])
            event |= {"cat": "gpu_memcpy", "name": copy_name(event["name"]), "pid": device}
            event["tid"] = _handle(record.get("stream_id")) or 0
            args |= {"device": device, "stream": event["tid"], "bytes": record.get("bytes")}
        elif kind == "marker_api":
            event["name"] = self._markers.get(args["correlation"], event["name"])
        elsewhere = ("start_timestamp", "end_timestamp", "size", "dispatch_info")
        args |= {key: value for key, value in record.items() if key not in elsewhere}
        yield event

    def _operation(self, record: Mapping[str, Any]) -> str:
        kind, operation = record.get("kind"), record.get("operation")
        if isinstance(kind, str):
            return str(operation)
        try:
            name, operations = self._operations[int(kind or 0)]
            return str(operations[int(operation or 0)] if operations else name)
        except (IndexError, TypeError, ValueError):
            return f"operation {operation}"

    def _dispatched(
        self, event: dict[str, Any], record: dict[str, Any], args: dict[str, Any]
    ) -> None:
        info = record.get("dispatch_info") or {}
        symbol = self._symbols.get(info.get("kernel_id"), {})
        event["cat"] = "kernel"
        event["name"] = symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or "kernel"
        event["pid"] = _handle(info.get("agent_id"))
        event["tid"] = _handle(record.get("stream_id")) or _handle(info.get("queue_id")) or 0
        block, items = (
            [(info.get(f"{of}_size") or {}).get(axis, 1) for axis in "xyz"]
            for of in ("workgroup", "grid")
        )
        args |= {
            "device": event["pid"],
            "stream": event["tid"],
            "grid": [-(-total // max(1, size)) for total, size in zip(items, block, strict=True)],
            "block": block,
            "registers per thread": symbol.get("arch_vgpr_count"),
            "shared memory": info.get("group_segment_size"),
            "queue": _handle(info.get("queue_id")),
            "kernel": symbol.get("kernel_name"),
        }
        args |= {key: info.get(key) for key in ("dispatch_id", "kernel_id", "private_segment_size")}


def _handle(value: object) -> Any:
    return value.get("handle") if isinstance(value, dict) else value
