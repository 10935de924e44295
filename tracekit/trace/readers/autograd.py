"""The trace of torch.autograd.profiler before Kineto: operators on the CPU, and on the GPU the time
that each operator's work took. The file is a list; processes have names in the place of numbers.

https://github.com/pytorch/pytorch: torch/autograd/profiler_util.py (export_chrome_trace)
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tracekit.trace.budget import OBJECT_BYTES
from tracekit.trace.other.chrome import args_of, time_of, trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "autograd"
ENDINGS = (".json",)

_SIGN = b'"CUDA functions"'
_HOST, _DEVICE = 1, 0
_CPU, _CUDA = "CPU functions", "CUDA functions"
_Place = tuple[object, Decimal]


def sniff(opened: OpenedFile) -> bool:
    """Whether it has a device's process; without one, the file is read as it is."""
    return _SIGN in opened.head


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    outer, launches = _device_slices(opened)
    members: dict[str, Any] = {}
    events = trace_events(opened, members)
    yield from texts(each for event in events for each in _converted(event, outer, launches))
    yield members


def _device_slices(opened: OpenedFile) -> tuple[set[_Place], dict[_Place, object]]:
    """The device's slices, by thread and start: those that no other one of their thread has inside;
    and the launch of each."""
    slices: list[tuple[object, Decimal, Decimal]] = []
    launches = {}
    for event in trace_events(opened, {}):
        if event.get("pid") != _CUDA:
            continue
        opened.budget.hold(4 * OBJECT_BYTES)
        if event.get("ph") == "f":
            launches[_place(event)] = event.get("id")
        elif event.get("ph") == "X":
            tid, start = _place(event)
            slices.append((tid, start, start + time_of(event.get("dur"))))
    opened.rewind()
    slices.sort(key=lambda each: (str(each[0]), each[1], -each[2]))
    return _outermost(slices), launches


def _place(event: dict[str, Any]) -> _Place:
    return event.get("tid"), time_of(event.get("ts"))


def _outermost(slices: list[tuple[object, Decimal, Decimal]]) -> set[_Place]:
    outer: set[_Place] = set()
    last: tuple[object, Decimal] | None = None
    for tid, start, end in slices:
        if last is None or last[0] != tid or start >= last[1]:
            outer.add((tid, start))
            last = tid, end
    return outer


def _converted(
    event: dict[str, Any], outer: set[_Place], launches: dict[_Place, object]
) -> Iterator[dict[str, Any]]:
    is_slice, place = event.get("ph") == "X", _place(event)
    if event.get("pid") == _CUDA:
        if is_slice:
            args_of(event).update({"device": _DEVICE, "stream": event.get("tid")})
            event["cat"] = "kernel" if place in outer else "gpu_user_annotation"
            if place in launches:
                args_of(event)["correlation"] = launches[place]
        yield event | {"pid": _DEVICE}
    elif event.get("pid") == _CPU:
        if event.get("ph") == "s":
            # The launch itself is not recorded: only its operator is known.
            yield event | {
                "ph": "X", "cat": "cuda_runtime", "name": event.get("cat"), "pid": _HOST, "dur": 0,
                "args": {"correlation": event.get("id")},
            }  # fmt: skip
        yield event | {"pid": _HOST} | ({"cat": "cpu_op"} if is_slice else {})
    else:
        yield event
