"""The Chrome trace that JAX and XLA write beside an XPlane: `*.trace.json.gz`,
`perfetto_trace.json.gz`.

It has the same events, at most a million of them, and texts in the place of numbers.
https://docs.jax.dev/en/latest/profiling.html; https://github.com/openxla/xla:
xla/tsl/profiler/convert/trace_events_to_json.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.other import xla
from tracekit.trace.other.chrome import Lanes, args_of, lanes_of, trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "jax (Chrome trace)"
ENDINGS = (".json",)

_SIGNS = re.compile(rb'"name":\s*"/(device|host):')
_FULLER = "the .xplane.pb beside it has all events, and times to the picosecond"
_NUMBERS = ("step_num", "group_id", "run_id")


def sniff(opened: OpenedFile) -> bool:
    """Whether the file's processes are XLA's planes; its events have no categories."""
    return _SIGNS.search(opened.head) is not None and b'"cat"' not in opened.head


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    members: dict[str, Any] = {}
    profiler: dict[str, Any] = {"name": "jax", "fuller": _FULLER}

    def notice(event: dict[str, Any]) -> None:
        if xla.TENSORFLOW.match(str(event.get("name"))):
            profiler["name"] = "tensorflow"

    lanes = lanes_of(opened, notice)
    copies = xla.HostCopies(opened.budget)
    yield from texts(
        _converted(event, lanes, profiler, copies) for event in trace_events(opened, members)
    )
    devices = [
        {"id": pid, "name": device[1]}
        for pid, name in lanes.processes.items()
        if (device := xla.DEVICE.match(name))
    ]
    yield members | {"profiler": profiler, "deviceProperties": devices}


def _converted(
    event: dict[str, Any], lanes: Lanes, profiler: dict[str, Any], copies: xla.HostCopies
) -> dict[str, Any]:
    if event.get("ph") != "X":
        return event
    process, line = lanes.of(event)
    name, args = str(event.get("name", "")), args_of(event)
    for key in _NUMBERS:
        if isinstance(args.get(key), str) and args[key].isdecimal():
            args[key] = int(args[key])
    if str(args.get("correlation_id", "")).isdecimal():
        args["correlation"] = int(args.pop("correlation_id"))
    full = str(args.get("long_name", name))
    if xla.DEVICE.match(process) is None:
        is_tensorflow = profiler["name"] == "tensorflow"
        category, name = xla.on_host(name, full, args, is_tensorflow=is_tensorflow)
    elif (stream := xla.stream_of(line, event.get("tid", 0))) is None:
        category, name = xla.beside_device(line, name)
    else:
        copies.note(full)
        category, name = xla.on_device(name, full, copies)
        args |= {"device": event.get("pid"), "stream": stream}
    return event | {"cat": category, "name": name}
