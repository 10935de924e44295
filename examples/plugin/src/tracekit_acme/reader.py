"""Reads the files of Acme's profiler, as the events that torch.profiler would write.

A file is lines of text. The first is `acme-trace 1`; `device NUMBER NAME` describes a device, and
all others are an event each: KIND START_NS DURATION_NS TASK NAME. A task is what a call submits to
the device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

NAME = "acme"
ENDINGS = (".acme",)

_FIRST_LINE = b"acme-trace 1\n"
_AT_ONCE = 1000
# Acme's kinds as categories of events: names/acme.csv says what a category means.
_CATEGORIES = {"op": "cpu_op", "call": "acme_runtime", "task": "acme_task"}


def sniff(opened: Any) -> bool:
    """Whether a file is Acme's, by its first bytes."""
    return bool(opened.head.startswith(_FIRST_LINE))


def read(opened: Any) -> Iterator[bytes | dict[str, Any]]:
    """The events as text, many at a time; then what the file says about devices."""
    devices, events = [], []
    for line in _lines(opened):
        kind, *words = line.split()
        if kind == "device":
            devices.append({"id": int(words[0]), "name": " ".join(words[1:])})
            continue
        events.append(json.dumps(_event(kind, *words)))
        if len(events) == _AT_ONCE:
            yield ",\n".join(events).encode()
            events.clear()
    yield ",\n".join(events).encode()
    yield {"deviceProperties": devices}


def _event(kind: str, start_ns: str, duration_ns: str, task: str, name: str) -> dict[str, Any]:
    on_device = {"device": 0, "stream": 0} if kind == "task" else {}
    return {
        "ph": "X",
        "cat": _CATEGORIES[kind],
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": int(start_ns) / 1000,
        "dur": int(duration_ns) / 1000,
        "args": on_device | ({} if kind == "op" else {"correlation": int(task)}),
    }


def _lines(opened: Any) -> Iterator[str]:
    """The lines after the first; one without its end is cut off, and left out."""
    rest = b""
    while data := opened.read(1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode() for line in lines if line and line + b"\n" != _FIRST_LINE)
