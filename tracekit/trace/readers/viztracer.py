"""VizTracer's traces, alone or with torch.profiler's events in them (`--log_torch`): its calls of
functions (category `fee`) become Python frames.

https://viztracer.readthedocs.io (PyTorch); github.com/gaogaotiantian/viztracer
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.other.chrome import trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "viztracer"
ENDINGS = (".json",)

_SIGNS = re.compile(rb'"cat":\s*"fee"|"viztracer_metadata"')
_CALL = "fee"
_FUNCTION = re.compile(r"(.+) \((.+):(\d+)\)", re.DOTALL)


def sniff(opened: OpenedFile) -> bool:
    """Whether VizTracer recorded calls."""
    return _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    members: dict[str, Any] = {}
    yield from texts(map(_converted, trace_events(opened, members)))
    yield members


def _converted(event: dict[str, Any]) -> dict[str, Any]:
    """A call with the name that torch.profiler gives a frame: file(line): function."""
    if event.get("cat") != _CALL:
        return event
    name = str(event.get("name", ""))
    function = _FUNCTION.fullmatch(name)
    shown = f"{function[2]}({function[3]}): {function[1]}" if function else f"<built-in {name}>"
    return event | {"cat": "python_function", "name": shown}
