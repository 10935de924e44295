"""Windows of a run: the spans whose lengths a replay compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracekit.errors import TracekitError
from tracekit.replay.critical_path import End, Path, Pieces, critical_path, last_of, pieces
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, Numbers, narrow
from tracekit.replay.simulator import Run

if TYPE_CHECKING:
    from tracekit.database.reader import Reader

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Bounds:
    """A window of a run: from the earliest begin of its GPU ops and threads to their latest end."""

    kind: str
    name: str
    ops: slice
    first_keys: Ints
    last_keys: Ints

    def start(self, run: Run) -> int:
        times = (run.op_start(self.ops), run.host_time(self.first_keys))
        return min(int(each.min()) for each in times if len(each))

    def end(self, run: Run) -> int:
        times = (run.op_end(self.ops), run.host_time(self.last_keys))
        return max(int(each.max()) for each in times if len(each))

    def length(self, run: Run) -> int:
        """The window's length in ns."""
        return self.end(run) - self.start(run)

    def path(self, run: Run) -> Path:
        """The critical path through the window: its pieces add up to the length."""
        return critical_path(run, self.start(run), self._last(run))

    def pieces(self, run: Run) -> Iterator[Pieces]:
        """The pieces of that path, from its end to its start, in blocks."""
        return pieces(run, self.start(run), self._last(run))

    def _last(self, run: Run) -> End:
        end = run.op_end(self.ops)
        last = self.ops.start + np.flatnonzero(end == end.max())[:1] if len(end) else _NONE
        return last_of(run, last, self.last_keys)


def gpu_active(graph: Graph, device_id: int) -> Bounds:
    """The window from the start of a device's first op to the end of its last."""
    # Ops are in order of their devices.
    first, stop = np.searchsorted(graph.device.device_id, [device_id, device_id + 1]).tolist()
    return Bounds("gpu_active", "GPU-active span", slice(first, stop), _NONE, _NONE)


def gpu_active_lengths(run: Run) -> dict[int, int]:
    """The length in ns of each device's GPU-active span."""
    if not run.graph.ops:
        return {}
    device, first = np.unique(run.graph.device.device_id, return_index=True)
    every = slice(None)
    start = np.minimum.reduceat(run.op_start(every), first)
    end = np.maximum.reduceat(run.op_end(every), first)
    return dict(zip(device.tolist(), (end - start).tolist(), strict=True))


def whole(graph: Graph) -> Bounds:
    """The window from the first event of the trace to its last."""
    return Bounds("trace", "whole trace", slice(0, graph.ops), graph.first_keys, graph.last_keys)


@dataclass(frozen=True)
class Steps:
    """The profiler's steps, or other ranges that follow each other.

    A step lasts from the completion of the previous one to its own. It is complete when the host
    has left it and the device has finished the work launched in it.
    """

    kinds: list[str]
    names: list[str]
    began_ns: list[int]
    """When the host begins each step, as recorded; name and begin identify a step."""
    lasted_ns: list[int]
    """How long the host takes for each step."""
    begin: Ints
    """The keys at which the host begins each step."""
    end: Ints
    op: Numbers
    """The ops launched in a step."""
    step: Numbers
    """The step of each of these ops."""

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The number of each step, by name and recorded begin."""
        told = zip(self.names, self.began_ns, strict=True)
        return {step: number for number, step in enumerate(told)}

    @property
    def instants(self) -> Ints:
        """The keys of the host whose times the lengths need."""
        return np.append(self.begin[:1], self.end)

    def __len__(self) -> int:
        return len(self.names)

    def completions(self, run: Run) -> Ints:
        """The first step's start, then the time at which each step is complete."""
        times = run.host_time(self.instants)
        np.maximum.at(times, 1 + self.step, run.op_end(self.op))
        return np.maximum.accumulate(times)

    def lengths(self, run: Run) -> Ints:
        return np.diff(self.completions(run))

    def path(self, run: Run, number: int) -> Path:
        start = int(self.completions(run)[number])
        ops = self.op[self.step == number]
        return critical_path(run, start, last_of(run, ops, self.end[[number]]))


def steps_of(database: Reader, trace_id: int, graph: Graph) -> Steps:
    """The steps of a trace, or its outermost ranges if it marks no steps."""
    rows = database.arrays("replay_steps", trace=trace_id)
    host, device = graph.host, graph.device
    if not len(rows["pid"]):
        return Steps([], [], [], [], _NONE, _NONE, _NONE, _NONE)
    thread = host.numbers(rows["pid"], rows["tid"])
    begin_ns, end_ns = rows["start_ns"], rows["start_ns"] + rows["dur_ns"]
    op = np.flatnonzero(device.linked)
    call = device.call[op] + host.origin_ns
    step = np.searchsorted(begin_ns, call, "right") - 1
    inside = (step >= 0) & (call < end_ns[step])
    return Steps(
        [str(each) for each in rows["kind"]],
        [str(each) for each in rows["name"]],
        rows["start_ns"].tolist(),
        rows["dur_ns"].tolist(),
        host.key(thread, begin_ns),
        host.key(thread, end_ns),
        narrow(op[inside]),
        narrow(step[inside]),
    )


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
