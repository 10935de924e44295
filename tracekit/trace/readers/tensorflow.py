"""The timeline of TensorFlow 1 (`timeline.Timeline(...).generate_chrome_trace_format()`): a process
for each device's operators, and for each stream.

https://github.com/tensorflow/tensorflow: tensorflow/python/client/timeline.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.other.chrome import Lanes, args_of, lanes_of, trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "tensorflow timeline"
ENDINGS = (".json",)

_SIGNS = re.compile(rb'"name":\s*"/[^"]*\b(?:device:)?[cg]pu:[^"]* Compute"', re.IGNORECASE)
_GPU = re.compile(r"(?i)\bgpu:(\d+)(?:/(stream:(\w+)|memcpy))? Compute$")
# A lane of all streams repeats what the streams show.
_EVERY = "all"
_COPY = re.compile(r"(?i)memcpy([HDP])to([HDP])")


def sniff(opened: OpenedFile) -> bool:
    """Whether the processes are TensorFlow's devices."""
    return _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    file = _Timeline(lanes_of(opened))
    members: dict[str, Any] = {}
    yield from texts(map(file.converted, trace_events(opened, members)))
    yield members | {"profiler": {"name": "tensorflow"}}


class _Timeline:
    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        found = (_GPU.search(name) for name in lanes.processes.values())
        streams = [each[3] for each in found if each is not None and each[2]]
        self._has_streams = bool(streams)
        self._has_each = any(stream not in (None, _EVERY) for stream in streams)

    def converted(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with Kineto's category. Without streams, a GPU's operators are its work; with
        them, they are what the host ran to launch it."""
        process, _ = self._lanes.of(event)
        gpu = _GPU.search(process)
        if event.get("ph") != "X":
            return event
        args = args_of(event)
        if gpu is None or (self._has_streams and not gpu[2]):
            return event | {"cat": "cpu_op" if process.endswith("Compute") else "tensors"}
        if gpu[3] == _EVERY and self._has_each:
            return event | {"cat": "gpu_user_annotation"}
        stream = int(gpu[3]) if gpu[3] and gpu[3].isdecimal() else event.get("pid")
        args |= {"device": int(gpu[1]), "stream": stream}
        name = str(args.get("kernel") or event.get("name", ""))
        copy = _COPY.search(name)
        if copy or gpu[2] == "memcpy":
            shown = f"Memcpy {copy[1].upper()}to{copy[2].upper()}" if copy else name
            return event | {"cat": "gpu_memcpy", "name": shown}
        return event | {"cat": "kernel"}
