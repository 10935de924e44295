"""Huawei Ascend's timeline: torch_npu's `trace_view.json`, and msprof's `msprof_*.json`; and the
databases that they write instead, `ascend_pytorch_profiler_*.db` and `msprof_*.db`.

A timeline has a process for Python, one for CANN's calls, and one for each kind of record of a
device. www.hiascend.com (Profiling: trace_view.json) and github.com/Ascend/pytorch
(torch_npu/profiler).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.other import ascend_database
from tracekit.trace.other.ascend import category_of, input_dims, input_types
from tracekit.trace.other.chrome import Lanes, args_of, lanes_of, trace_events
from tracekit.trace.other.converted import OneProcess, OpenedFile, texts

NAME = "torch_npu"
ENDINGS = (".json",)

_SIGNS = re.compile(rb'"Ascend Hardware"|"async_npu"|"Physic Stream Id"|"AscendCL@')
_HOST, _CALLS, _DEVICE = "Python", "CANN", "Ascend Hardware"
_SUMMARY, _TASK = "Overlap Analysis", "Physic Stream Id"
_COLLECTIVES = ("Communication", "HCCL")
# A process's number ends in the number of its device (torch_npu's TraceEventManager).
_DEVICE_MASK = 31
_INPUTS = {"Input Dims": input_dims, "Input type": input_types}


def sniff(opened: OpenedFile) -> bool:
    """Whether the file has records of an Ascend device."""
    if opened.tables is not None:
        return ascend_database.has_events(opened.tables)
    return _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]] | list[OneProcess]:
    """The events of the file's only process."""
    if opened.tables is not None:
        return [ascend_database.process(opened.tables)]
    return _timeline(opened)


def _timeline(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    members: dict[str, Any] = {}
    file = _Ascend(lanes_of(opened))
    yield from texts(map(file.converted, trace_events(opened, members)))
    yield members


class _Ascend:
    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._hosts = [pid for pid, name in lanes.processes.items() if name == _HOST]

    def converted(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with Kineto's categories and arguments."""
        process, thread = self._lanes.of(event)
        is_slice = event.get("ph") == "X"
        if process == _CALLS:
            # Calls are made by Python's threads, which have the same numbers.
            if len(self._hosts) == 1:
                event["pid"] = self._hosts[0]
            if is_slice:
                self._called(event)
        elif is_slice and (process == _DEVICE or _TASK in args_of(event)):
            self._executed(event)
        elif process in _COLLECTIVES and is_slice:
            # A plane's tasks are parts of the group's collectives.
            if thread.startswith("Group"):
                self._placed(event, "npu_kernel")
            else:
                event["cat"] = "npu_task"
        elif process == _SUMMARY and is_slice:
            event["cat"] = "npu_summary"
        elif process == _HOST and is_slice:
            self._given(args_of(event))
        return event

    def _given(self, args: dict[str, Any]) -> None:
        """Tells an operator's inputs as Kineto does."""
        for key, listed in _INPUTS.items():
            if isinstance(text := args.get(key), str):
                args[key] = listed(text)

    def _called(self, event: dict[str, Any]) -> None:
        args = args_of(event)
        is_call = "@" in str(event.get("name"))
        event["cat"] = "npu_runtime" if is_call else "npu_compiler"
        if "connection_id" in args:
            args["correlation"] = args["connection_id"]

    def _executed(self, event: dict[str, Any]) -> None:
        self._placed(event, category_of(args_of(event).get("Task Type")))

    def _placed(self, event: dict[str, Any], category: str) -> None:
        args = args_of(event)
        pid = event.get("pid")
        event["cat"] = category
        args["device"] = pid & _DEVICE_MASK if isinstance(pid, int) else 0
        args["stream"] = event.get("tid")
        if "connection_id" in args:
            args["correlation"] = args["connection_id"]
