"""Windows of a run: the spans whose lengths a replay compares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.replay.critical_path import End, Path, Pieces, critical_path, last_of, pieces
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import NEVER, Flags, Ints, Numbers, compact_ids, distinct
from tracekit.replay.simulator import Run

_NONE = np.zeros(0, np.int64)
# The thread number that means all threads.
_EVERY = -1


@dataclass(frozen=True)
class Windows(ABC):
    """Windows of one kind, with their lengths in any replay."""

    names: list[str]
    begin: Ints
    """The keys at which the host begins each window."""
    end: Ints

    def __len__(self) -> int:
        return len(self.names)

    @property
    def instants(self) -> Ints:
        """The host keys whose times the windows need."""
        return np.concatenate([self.begin, self.end])

    @abstractmethod
    def spans(self, run: Run) -> tuple[Ints, Ints]:
        """The start and completion of each window, in ns since the trace's start."""

    @abstractmethod
    def last(self, run: Run, number: int) -> End:
        """The event that ends a window."""

    def lengths(self, run: Run) -> Ints:
        """The windows' lengths in ns."""
        begin, end = self.spans(run)
        return end - begin


@dataclass(frozen=True)
class Extents(Windows):
    """Windows from the earliest start of some GPU ops and threads to their latest end. Each thread
    belongs to every window."""

    first: Ints
    """The first op of each window; the window's ops go up to the next window's first. Empty without
    ops."""

    def spans(self, run: Run) -> tuple[Ints, Ints]:
        begin, end = np.full(len(self), -NEVER), np.full(len(self), NEVER)
        if len(self.first):
            begin = np.minimum.reduceat(run.op_start, self.first)
            end = np.maximum.reduceat(run.op_end, self.first)
        if len(self.begin):
            begin = np.minimum(begin, run.host_time(self.begin).min())
            end = np.maximum(end, run.host_time(self.end).max())
        return begin, end

    def last(self, run: Run, number: int) -> End:
        ops = run.graph.ops
        first, stop = [*self.first.tolist(), ops, ops][number : number + 2]
        return last_of(run, np.arange(first, stop), self.end)


def gpu_active(graph: Graph) -> Extents:
    """The window of each device, in order, from its first op's start to its last op's end."""
    # Ops are in order of their devices.
    first = np.unique(graph.device.device_id, return_index=True)[1]
    return Extents(["GPU-active span"] * len(first), _NONE, _NONE, first)


def whole(graph: Graph) -> Extents:
    """The window from the first event of the trace to its last."""
    first = np.zeros(min(1, graph.ops), np.int64)
    return Extents(["whole trace"], graph.first_keys, graph.last_keys, first)


@dataclass(frozen=True)
class MarkedWindows(Windows):
    """Windows on the host's clock: the profiler's steps, units of work, or ranges.

    A window begins when the host has begun it and the device has finished all earlier launches. It
    is complete when the host has left it and the device has finished all launches so far.
    (queries/facts/windows.sql has the same definition for the recorded times of steps.)
    """

    are_marked: bool
    """Whether the trace marks them; otherwise they are units of work."""
    began_ns: list[int]
    """The host's recorded start of each window."""
    lasted_ns: list[int]
    """The host's time for each window."""
    thread: Ints
    """The thread whose launches count, for each window; `_EVERY`: all threads."""
    launched: dict[int, Numbers]
    """The ops that one thread (or all threads) launched, in order of their launches."""
    first: Ints
    """The index of each window's first op among those."""
    stop: Ints
    """The index of the first op after each window."""
    group: Ints
    """Steps that do the same work have the same; -1: unknown."""
    is_whole: Flags
    """The recording, of the device too, does not cut them off."""
    is_main: Flags
    """The run is judged by these steps."""

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop of short iterations, which stands for steps."""
        return len(self) == 1 and not self.are_marked

    @cached_property
    def alike(self) -> list[int]:
        """The steps that are compared with each other: all whole marked ones, since what they do
        once is of interest; else those that do the same work as the main ones."""
        if self.are_marked:
            return np.flatnonzero(self.is_whole).tolist()
        return np.flatnonzero(np.isin(self.group, self.group[self.is_main])).tolist()

    def ops(self, number: int) -> Numbers:
        """The ops launched in a window."""
        ops: Numbers = self.launched[int(self.thread[number])]
        return ops[self.first[number] : self.stop[number]]

    def spans(self, run: Run) -> tuple[Ints, Ints]:
        begin, end = run.host_time(self.begin), run.host_time(self.end)
        for thread, ops in self.launched.items():
            mine = self.thread == thread
            first, stop = self.first[mine], self.stop[mine]
            borders = distinct(np.concatenate([first, stop]))
            # The latest end before each border, and before the one after it.
            latest = np.maximum.reduceat(
                np.concatenate([[0], run.op_end[ops], [0]]), np.append(0, borders + 1)
            )
            done = np.maximum.accumulate(latest)
            begin[mine] = np.maximum(begin[mine], done[np.searchsorted(borders, first)])
            end[mine] = np.maximum(end[mine], done[np.searchsorted(borders, stop)])
        return begin, end

    def last(self, run: Run, number: int) -> End:
        return last_of(run, self.ops(number), self.end[[number]])


class ReplayedWindow(Struct, frozen=True):
    """One window, with its length and critical path in any replay."""

    of: Windows
    number: int

    @property
    def name(self) -> str:
        return self.of.names[self.number]

    def span(self, run: Run) -> tuple[int, int]:
        """Its start and completion, in ns since the trace's start."""
        begin, end = (int(span[self.number]) for span in self.of.spans(run))
        return begin, end

    def length(self, run: Run) -> int:
        return int(self.of.lengths(run)[self.number])

    def path(self, run: Run) -> Path:
        """The critical path through the window: its pieces add up to the length."""
        return critical_path(run, self.span(run)[0], self.of.last(run, self.number))

    def on_host(self, times: tuple[int, int]) -> tuple[int, int]:
        """When the host works on the window, which lies on the device at `times`: earlier, if the
        host runs ahead."""
        if not isinstance(self.of, MarkedWindows):
            return times
        began_ns = self.of.began_ns[self.number]
        return began_ns, began_ns + self.of.lasted_ns[self.number]

    def pieces(self, run: Run) -> Iterator[Pieces]:
        """The pieces of that path, from its end to its start, in blocks."""
        return pieces(run, self.span(run)[0], self.of.last(run, self.number))


def steps_of(database: Session, trace_id: int, graph: Graph) -> MarkedWindows:
    """The steps of a trace."""
    return _marked(graph, database.arrays("replay_steps", trace=trace_id))


def ranges_of(database: Session, trace_id: int, graph: Graph, name: str) -> MarkedWindows:
    """The ranges with a name: `NAME@1`, `NAME@2` and so on. Only launches by the range's own thread
    count, since other threads may run ranges with the same name concurrently."""
    rows = database.arrays("ranges_named", trace=trace_id, range=name)
    names = [f"{name}@{number}" for number in range(1, len(rows["pid"]) + 1)]
    are_ranges = {
        "is_marked": np.ones(len(names), np.bool_),
        "group_id": np.full(len(names), -1),
        "is_whole": np.ones(len(names), np.bool_),
        "is_main": np.zeros(len(names), np.bool_),
    }
    return _marked(graph, rows | {"name": names} | are_ranges, of_thread=True)


def _marked(graph: Graph, rows: dict[str, Any], *, of_thread: bool = False) -> MarkedWindows:
    host, device = graph.host, graph.device
    threads = host.numbers(rows["pid"], rows["tid"])
    begin_ns, end_ns = rows["start_ns"], rows["start_ns"] + rows["dur_ns"]
    thread = threads if of_thread else np.full(len(threads), _EVERY, np.int64)
    first, stop = np.zeros(len(threads), np.int64), np.zeros(len(threads), np.int64)
    # Ops without a launch that start before all others belong to earlier work.
    since = device.start[device.linked].min(initial=-NEVER)
    earlier = np.flatnonzero(~device.linked & (device.start < since) & device.linked.any())
    launched = {}
    for each in np.unique(thread).tolist():
        ops = np.flatnonzero(device.linked if each == _EVERY else device.thread == each)
        ops = ops[np.argsort(device.call[ops], kind="stable")]
        call, mine = device.call[ops] + host.origin_ns, thread == each
        before = earlier if each == _EVERY else _NONE
        first[mine] = len(before) + np.searchsorted(call, begin_ns[mine], "left")
        stop[mine] = len(before) + np.searchsorted(call, end_ns[mine], "left")
        launched[each] = compact_ids(np.concatenate([before, ops]))
    return MarkedWindows(
        [str(row) for row in rows["name"]],
        host.key(threads, begin_ns),
        host.key(threads, end_ns),
        bool(rows["is_marked"].any()),
        rows["start_ns"].tolist(),
        rows["dur_ns"].tolist(),
        thread,
        launched,
        first,
        stop,
        rows["group_id"],
        rows["is_whole"],
        rows["is_main"],
    )


def step_named(database: Session, trace_id: int, window: str) -> str:
    """The name of the step that a window means: `decode` is the decode of median length on the
    host, and `decode@2` the second. Other names, and those of ranges, mean themselves."""
    kind, _, number = window.partition("@")
    rows = [
        row
        for row in database.ask("replay_steps", trace=trace_id)
        if not row["is_marked"] and row["name"].rpartition(" ")[0] == kind
    ]
    if not rows or database.ask("ranges_named", trace=trace_id, range=kind):
        return window
    at = int(number) if number.isdecimal() else None
    return str(rows[typical([row["dur_ns"] for row in rows], at)]["name"])


def range_of(database: Session, trace_id: int, window: str) -> tuple[str, int | None] | None:
    """The range name in `window`, and the number: `NAME@2` is the second. None for another kind of
    window: `gpu_active`, `trace` or a step.

    Raises:
        TracekitError: the trace has no window or range of that name.
    """
    rows = database.ask("replay_steps", trace=trace_id)
    steps = dict.fromkeys(row["name"] for row in rows)
    names = ["gpu_active", "trace", *steps]
    if window in names:
        return None
    name, _, number = window.rpartition("@")
    meant: list[tuple[str, int | None]] = [(window, None)]
    if number.isdecimal():
        meant.append((name, int(number)))
    for candidate in meant:
        if database.ask("ranges_named", trace=trace_id, range=candidate[0]):
            return candidate
    raise TracekitError(
        f"there is no window or range named {window!r}; windows: {', '.join(names)}; "
        "`tracekit query annotation_time` lists the ranges"
    )


def typical(lengths: Sequence[int], at: int | None = None) -> int:
    """The index of the range or step of median length, or of the one numbered `at`, from 1.

    Raises:
        TracekitError: there are fewer.
    """
    if at is None:
        return int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    if not 1 <= at <= len(lengths):
        raise TracekitError(f"there is no number {at}: only {len(lengths)} have that name")
    return at - 1
