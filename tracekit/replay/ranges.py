"""Annotated ranges as windows: the ranges of a name, from their work's begin to its completion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracekit.errors import TracekitError
from tracekit.replay.critical_path import Path, critical_path, last_of
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, Numbers
from tracekit.replay.simulator import Run

if TYPE_CHECKING:
    from tracekit.database.reader import Reader


@dataclass(frozen=True)
class Ranges:
    """The ranges of one name.

    A range begins when the host has begun it and the device has finished what the thread launched
    before. It is complete when the host has left it and the device has finished the work launched
    in it.
    """

    name: str
    begin: Ints
    """The keys at which the host begins each range."""
    end: Ints
    thread: Ints
    """Each range's thread."""
    op: dict[int, Numbers]
    """The ops that a thread launched, in order of their launches."""
    first: Ints
    """For each range, the place of its first op among those of its thread."""
    stop: Ints
    """And of the first op after it."""

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def instants(self) -> Ints:
        """The keys of the host whose times the lengths need."""
        return np.concatenate([self.begin, self.end])

    def spans(self, run: Run) -> tuple[Ints, Ints]:
        """When each range begins and when it is complete, in ns since the trace's start."""
        begin, end = run.host_time(self.begin), run.host_time(self.end)
        for thread, ops in self.op.items():
            ends = run.op_end(ops)
            before = np.append(0, np.maximum.accumulate(ends))
            for number in np.flatnonzero(self.thread == thread):
                first, stop = self.first[number], self.stop[number]
                begin[number] = max(begin[number], before[first])
                end[number] = max(end[number], ends[first:stop].max(initial=0))
        return np.minimum(begin, end), end

    def lengths(self, run: Run) -> Ints:
        """The ranges' lengths in ns."""
        begin, end = self.spans(run)
        return end - begin

    def path(self, run: Run, number: int) -> Path:
        """The critical path through a range."""
        ops = self.op[int(self.thread[number])][self.first[number] : self.stop[number]]
        begin = int(self.spans(run)[0][number])
        return critical_path(run, begin, last_of(run, ops, self.end[[number]]))


def ranges_of(database: Reader, trace_id: int, graph: Graph, name: str) -> Ranges:
    """The ranges of a name."""
    rows = database.arrays("ranges_named", trace=trace_id, range=name)
    host, device = graph.host, graph.device
    thread = host.numbers(rows["pid"], rows["tid"])
    begin_ns = rows["start_ns"]
    end_ns = begin_ns + rows["dur_ns"]
    first, stop = np.zeros(len(thread), np.int64), np.zeros(len(thread), np.int64)
    launched = {}
    for each in np.unique(thread).tolist():
        ops = np.flatnonzero(device.thread == each)
        ops = ops[np.argsort(device.call[ops], kind="stable")]
        call, mine = device.call[ops] + host.origin_ns, thread == each
        first[mine] = np.searchsorted(call, begin_ns[mine], "left")
        stop[mine] = np.searchsorted(call, end_ns[mine], "left")
        launched[each] = ops
    return Ranges(
        name, host.key(thread, begin_ns), host.key(thread, end_ns), thread, launched, first, stop
    )


def range_of(database: Reader, trace_id: int, window: str) -> tuple[str, int | None] | None:
    """The name of the ranges that `window` means, and which of them: `NAME@2` is the second.

    None if it is another window: `gpu_active`, `trace` or a step.

    Raises:
        TracekitError: the trace has neither a window nor a range of that name.
    """
    rows = database.ask("replay_steps", trace=trace_id)
    steps = dict.fromkeys(row["name"] for row in rows if row["kind"] == "step")
    known = ["gpu_active", "trace", *steps]
    if window in known:
        return None
    name, _, number = window.rpartition("@")
    meant: list[tuple[str, int | None]] = [(window, None)]
    if number.isdecimal():
        meant.append((name, int(number)))
    for each in meant:
        if database.ask("ranges_named", trace=trace_id, range=each[0]):
            return each
    raise TracekitError(
        f"no window or range is named {window!r}; windows: {', '.join(known)}; "
        "`tracekit query annotation_time` lists the ranges"
    )


def typical(lengths: Ints, at: int | None) -> int:
    """The index of the range of median length, or of the one numbered `at`, from 1.

    Raises:
        TracekitError: there are fewer ranges.
    """
    if at is None:
        return int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    if not 1 <= at <= len(lengths):
        raise TracekitError(f"no range has the number {at}: there are {len(lengths)} of that name")
    return at - 1
