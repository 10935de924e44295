"""Chrome traces of other profilers: their events, and the names of processes and threads.

The Trace Event Format: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from tracekit.trace.budget import OBJECT_BYTES
from tracekit.trace.other.converted import OpenedFile
from tracekit.trace.other.json_walk import JsonError, JsonWalk

# Times in microseconds since 1970 have more digits than a float.
_IDS = ("pid", "tid")
_EXACT = json.JSONDecoder(parse_float=Decimal)


class Lanes(Struct):
    """The names of a trace's processes, by number, and of their threads."""

    processes: dict[object, str] = field(default_factory=dict)
    threads: dict[tuple[object, object], str] = field(default_factory=dict)

    def of(self, event: dict[str, Any]) -> tuple[str, str]:
        """The names of an event's process and thread; empty without one."""
        pid, tid = event.get("pid"), event.get("tid")
        return self.processes.get(pid, ""), self.threads.get((pid, tid), "")


def lanes_of(opened: OpenedFile, notice: Callable[[dict[str, Any]], object] = bool) -> Lanes:
    """The names of the file's lanes. They may follow the events, so this reads the whole file, and
    shows each event to `notice`."""
    lanes = Lanes()
    for event in trace_events(opened, {}):
        notice(event)
        kind = event.get("name")
        name = args_of(event).get("name") if event.get("ph") == "M" else None
        pid, tid = _number(event.get("pid")), _number(event.get("tid"))
        if not isinstance(name, str) or kind not in ("process_name", "thread_name"):
            continue
        opened.budget.hold(len(name) + 3 * OBJECT_BYTES)
        if kind == "process_name":
            lanes.processes[pid] = name
        else:
            lanes.threads[pid, tid] = name
    opened.rewind()
    return lanes


def args_of(event: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an event; they can be changed."""
    args = event.get("args")
    if not isinstance(args, dict):
        args = event["args"] = {}
    return args


def time_of(value: object) -> Decimal:
    """A time in microseconds; 0 if it is no number."""
    try:
        return Decimal(str(value))
    except ArithmeticError:
        return Decimal(0)


def trace_events(opened: OpenedFile, members: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a Chrome trace: a list, or the `traceEvents` of an object, whose other members
    join `members`. Numbers with a fraction are of type Decimal. A file may hold several objects.

    If the text is damaged, `opened.damage` says so.
    """
    walk = JsonWalk(opened)
    try:
        while not walk.is_at_end():
            if walk.opens_list():
                yield from _events(walk)
                continue
            for key in walk.members():
                if key == "traceEvents":
                    yield from _events(walk)
                else:
                    members.setdefault(key, walk.value(is_kept=True))
    except JsonError as error:
        opened.damage = opened.damage or f"its JSON is damaged: {error}"


def _events(walk: JsonWalk) -> Iterator[dict[str, Any]]:
    for _ in walk.elements():
        event = walk.value(_EXACT)
        if isinstance(event, dict) and event:
            yield event | {key: _number(event[key]) for key in _IDS if key in event}


def _number(value: object) -> object:
    """A process or thread: only numbers and texts can be looked up."""
    return value if isinstance(value, int | str) else str(value)
