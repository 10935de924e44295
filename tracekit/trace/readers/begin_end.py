"""Chrome traces whose slices are pairs of events, for a begin and an end (phases B and E), as
torch.compile writes them (`chromium_events`, in the output of tlparse).

https://github.com/pytorch/pytorch: torch/_dynamo/utils.py (ChromiumEventLogger)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tracekit.trace.budget import OBJECT_BYTES
from tracekit.trace.other.chrome import args_of, time_of, trace_events
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "begin and end events"
ENDINGS = (".json",)

# torch.compile's category of ranges.
_COMPILING = "dynamo_timed"
_PHASE = re.compile(rb'"ph":\s*"([BEX])"')


def sniff(opened: OpenedFile) -> bool:
    """Whether most of the first slices have a begin and an end."""
    phases = [match[1] for match in _PHASE.finditer(opened.head)]
    return 2 * phases.count(b"X") < len(phases)


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's only process."""
    members: dict[str, Any] = {}
    pairs = _Pairs(opened)
    yield from texts(pairs.joined(trace_events(opened, members)))
    yield members | {"profiler": {"left_out": pairs.lone}}


class _Pairs:
    """Open slices, by thread. `lone` counts begins and ends without their other half."""

    def __init__(self, opened: OpenedFile) -> None:
        self._budget = opened.budget
        self._open: defaultdict[tuple[object, object], list[dict[str, Any]]] = defaultdict(list)
        self.lone: dict[str, int] = {}

    def joined(self, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The events, with a slice in the place of each end. An end without a name ends the last
        slice of its thread."""
        for event in events:
            stack = self._open[event.get("pid"), event.get("tid")]
            if event.get("ph") == "B":
                self._budget.hold(10 * OBJECT_BYTES)
                stack.append(event)
            elif event.get("ph") == "E":
                yield from self._ended(event, stack)
            else:
                yield event
        for stack in self._open.values():
            for begin in stack:
                self._leave_out("begin without an end")
                yield begin

    def _ended(self, end: dict[str, Any], stack: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        name = end.get("name")
        names = [each.get("name") for each in stack]
        if not stack or (name is not None and name not in names):
            self._leave_out("end without a begin")
            yield end
            return
        place = len(names) - 1 if name is None else len(names) - 1 - names[::-1].index(name)
        begin = stack.pop(place)
        self._budget.hold(-10 * OBJECT_BYTES)
        dur = time_of(end.get("ts")) - time_of(begin.get("ts"))
        args = args_of(begin) | args_of(end)
        yield _named(begin | {"ph": "X", "dur": dur, "args": args})

    def _leave_out(self, what: str) -> None:
        self.lone[what] = self.lone.get(what, 0) + 1


def _named(event: dict[str, Any]) -> dict[str, Any]:
    """With the category and name that torch.profiler gives the same range of torch.compile."""
    if event.get("cat") != _COMPILING:
        return event
    return event | {"cat": "user_annotation", "name": f"{event.get('name')} ({_COMPILING})"}
