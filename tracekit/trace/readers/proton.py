"""Triton's Proton (`data="trace"`): scopes and kernels, each with its stack of scopes.

Since Triton 3.8, kernels are on a thread per stream, and flows lead to them from the threads of the
host. Before, a file has one object per stream, with kernels alone.
https://github.com/triton-lang/triton: third_party/proton/csrc/lib/Data/TraceData.cpp
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tracekit.trace.budget import OBJECT_BYTES
from tracekit.trace.other.chrome import args_of, lanes_of, time_of, trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "proton"
ENDINGS = (".chrome_trace",)

_SIGNS = re.compile(rb'"call_stack":\s*\[\s*"ROOT"')
_STREAM = re.compile(r"(?:GPU (\d+) )?(?:GPU )?Stream (\d+)")
_LAUNCH, _SCOPE, _KERNEL = "launch->kernel", "scope", "kernel"
# A nanosecond before a scope's end, in microseconds.
_LEAST = Decimal("0.001")
_Place = tuple[object, Decimal]
# The process of its only host, and of the device: the files do not name a device.
_HOST, _DEVICE = 1, 0


def sniff(opened: OpenedFile) -> bool:
    """Whether the events have Proton's stacks."""
    return _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    file = _Scopes(opened)
    members: dict[str, Any] = {}
    events = trace_events(opened, members)
    yield from texts(each for event in events for each in file.converted(event))
    yield members


class _Scopes:
    """The ends of scopes, the start of each launch's kernel, and the launch of each kernel."""

    def __init__(self, opened: OpenedFile) -> None:
        self._lanes = lanes_of(opened)
        self._ends: dict[_Place, Decimal] = {}
        self._starts: dict[object, Decimal] = {}
        self._launches: dict[_Place, object] = {}
        for event in trace_events(opened, {}):
            place, phase = _place(event), event.get("ph")
            is_end = event.get("name") == _LAUNCH and phase == "f"
            if is_end or event.get("cat") == _SCOPE:
                opened.budget.hold(6 * OBJECT_BYTES)
            if is_end:
                self._launches[place] = event.get("id")
                self._starts[event.get("id")] = place[1]
            elif event.get("cat") == _SCOPE:
                self._ends[place] = place[1] + time_of(event.get("dur"))
        opened.rewind()

    def converted(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Kineto's events for one of Proton's."""
        args = args_of(event) if event.get("ph") == "X" else {}
        stream = _STREAM.search(self._lanes.of(event)[1])
        if event.get("name") == _LAUNCH and event.get("ph") == "s":
            yield self._call(event)
        if event.get("cat") == _KERNEL and "call_stack" in args:
            args["device"] = int(stream[1] or 0) if stream else _DEVICE
            args["stream"] = int(stream[2]) if stream else event.get("tid")
            if (launch := self._launches.get(_place(event))) is not None:
                args["correlation"] = launch
            yield event | {"pid": _DEVICE}
        elif event.get("cat") == _SCOPE:
            yield event | {"cat": "user_annotation", "pid": _HOST}
        else:
            yield event | {"pid": _DEVICE if stream else _HOST}

    def _call(self, flow: dict[str, Any]) -> dict[str, Any]:
        """The call at a flow's start. Proton does not record when in its scope it was made: at the
        latest when its kernel started, or when the scope ended."""
        start = _place(flow)[1]
        end = self._ends.get(_place(flow), start) - _LEAST
        latest = max(start, min(end, self._starts.get(flow.get("id"), start)))
        return {
            "ph": "X", "cat": "cuda_runtime", "name": _LAUNCH, "pid": _HOST,
            "tid": flow.get("tid"), "ts": latest, "dur": 0,
            "args": {"correlation": flow.get("id")},
        }  # fmt: skip


def _place(event: dict[str, Any]) -> _Place:
    return event.get("tid"), time_of(event.get("ts"))
