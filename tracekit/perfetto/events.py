"""Events of Chrome's trace format, which Perfetto and chrome://tracing draw.

Trace Event Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from tracekit.trace.added import PID

CATEGORY = "tracekit"
# Viewers sort processes by this number: these come before all others.
_SORT_INDEX = -100
_FIRST_FLOW = 1 << 40
# At most this many processes have different numbers of threads.
_PROCESSES = 100_000


@dataclass
class Process:
    """The tracks of one process, as they are added.

    Instants are ns on the clock of the trace; the file has microseconds with all digits.
    """

    name: str
    pid: int = PID
    ahead_ns: int = 0
    """Added to every instant."""
    pids: dict[int, int] | None = None
    """The numbers of the trace's processes in the file; None: its own."""
    arrows: int = 0
    """Where the numbers of its arrows begin."""
    events: list[bytes] = field(default_factory=list)
    _tracks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._metadata("process_name", 0, name=self.name)
        self._metadata("process_sort_index", 0, sort_index=_SORT_INDEX)

    def slice(
        self, track: str, name: str, start_ns: int, dur_ns: int, **args: Any
    ) -> tuple[int, int]:
        """A stretch of a track; returns the track's pid and tid."""
        tid = self._track(track)
        begin_ns = start_ns + self.ahead_ns
        # Viewers drop a slice that seems to begin before the one in front of it ends.
        shown_ns = as_read(begin_ns + dur_ns) - as_read(begin_ns)
        self._add("X", name, tid, start_ns, dur=_Us(shown_ns), args=args)
        return self.pid, tid

    def counter(self, name: str, at_ns: int, **values: float) -> None:
        """The value of a counter from here on."""
        self._add("C", name, 0, at_ns, args=values)

    def arrow(
        self, number: int, begin: tuple[int, int, int], end: tuple[int, int, int], name: str
    ) -> None:
        """An arrow between two slices, each given by pid, tid and an instant inside it."""
        flow = _FIRST_FLOW + self.arrows + number
        for phase, (pid, tid, at_ns), more in (("s", begin, {}), ("f", end, {"bp": "e"})):
            shown = pid if self.pids is None else self.pids[pid]
            self._add(phase, name, tid, at_ns, pid=shown, id=flow, **more)

    def _track(self, track: str) -> int:
        if track not in self._tracks:
            # Perfetto may tell threads apart by this number alone.
            self._tracks[track] = tid = self.pid + (len(self._tracks) + 1) * _PROCESSES
            self._metadata("thread_name", tid, name=track)
            self._metadata("thread_sort_index", tid, sort_index=tid)
        return self._tracks[track]

    def _metadata(self, what: str, tid: int, **args: Any) -> None:
        fields = {"ph": "M", "cat": CATEGORY, "name": what, "pid": self.pid, "tid": tid}
        self.events.append(_text(fields | {"args": args}))

    def _add(self, phase: str, name: str, tid: int, at_ns: int, **more: Any) -> None:
        fields = {"ph": phase, "cat": CATEGORY, "name": name, "pid": self.pid, "tid": tid}
        self.events.append(_text(fields | {"ts": _Us(at_ns + self.ahead_ns)} | more))


class Level:
    """Counters that are known for intervals, in order of time, and are 0 between them."""

    def __init__(self, process: Process, unit: str) -> None:
        self._process = process
        self._unit = unit
        self._ends: dict[str, int] = {}

    def add(self, name: str, start_ns: int, end_ns: int, value: float) -> None:
        if self._ends.get(name, start_ns) != start_ns:
            self._process.counter(name, self._ends[name], **{self._unit: 0})
        self._process.counter(name, start_ns, **{self._unit: value})
        self._ends[name] = end_ns

    def end(self) -> None:
        for name, end_ns in self._ends.items():
            self._process.counter(name, end_ns, **{self._unit: 0})


def as_read(at_ns: int) -> int:
    """An instant as viewers read it: Perfetto takes microseconds as doubles, which lose the last
    digits of instants that count from 1970."""
    read = at_ns / 1000
    if read.is_integer():
        return int(read) * 1000
    part, whole = math.modf(read * 1000)
    return int(whole) + int(2 * part)


@dataclass(frozen=True)
class _Us:
    """Microseconds with all digits, of which a double cannot hold all."""

    ns: int

    def __str__(self) -> str:
        whole, part = divmod(abs(self.ns), 1000)
        return f"{'-' if self.ns < 0 else ''}{whole}.{part:03d}"


def _text(fields: dict[str, Any]) -> bytes:
    members = (
        f'"{key}":{each if isinstance(each, _Us) else _json(each)}' for key, each in fields.items()
    )
    return ("{" + ",".join(members) + "}").encode()


def _json(value: Any) -> str:
    # Perfetto does not read the two escapes of a character beyond the first 65,536:
    # https://github.com/google/perfetto/blob/main/src/trace_processor/importers/json/json_parser.h
    return json.dumps(value, ensure_ascii=False)
