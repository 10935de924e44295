"""Host threads as arrays: stretches of work and instants on them.

One axis holds the instants of all threads, thread after thread; a position on it is a key
(`Host.key`). A thread works through its stretches at the rates that a replay gives them. It does no
work while it is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.native.replay import work_at
from tracekit.replay.graph.arrays import Flags, Ints, Numbers, Which, distinct, narrow, sums

if TYPE_CHECKING:
    from tracekit.replay.scaling import Rates


@dataclass(frozen=True)
class Host:
    """Stretches of host time, thread after thread, without gaps or overlaps."""

    origin_ns: int
    span_ns: int
    threads: list[tuple[int, int]]
    borders: Ints
    """The begin of each stretch, and the end of the axis."""
    cause: NDArray[np.int8]
    event: Numbers
    """The innermost slice of each stretch; -1: none was recorded."""
    blocked: Flags

    def __len__(self) -> int:
        return len(self.cause)

    @property
    def at(self) -> Ints:
        """The begin of each stretch."""
        return self.borders[:-1]

    def key(self, thread: Numbers, time_ns: Ints) -> Ints:
        """The keys of instants in ns on the trace's clock, clipped to the span."""
        return self.begin_of(thread) + np.clip(time_ns - self.origin_ns, 0, self.span_ns - 1)

    def begin_of(self, thread: Numbers) -> Ints:
        """The keys at which threads begin."""
        return thread.astype(np.int64, copy=False) * self.span_ns

    def thread_of(self, key: Ints) -> Ints:
        return key // self.span_ns

    def time_of(self, key: Ints) -> Ints:
        """Instants as nanoseconds since the trace's start."""
        return key % self.span_ns

    def stretch_of(self, key: Ints) -> Ints:
        """The stretch that each instant lies in; at a border, the later one."""
        return np.searchsorted(self.at, key, "right") - 1

    def numbers(self, pid: Ints, tid: Ints) -> Ints:
        """The numbers of threads; -1 for a thread without stretches."""
        number = {thread: i for i, thread in enumerate(self.threads)}
        # Most rows have the same thread as the previous row.
        first = np.flatnonzero(np.append(True, (np.diff(pid) != 0) | (np.diff(tid) != 0)))
        first = first[: len(pid)]
        known = [
            number.get(thread, -1)
            for thread in zip(pid[first].tolist(), tid[first].tolist(), strict=True)
        ]
        return np.repeat(np.array(known, np.int64), np.diff(np.append(first, len(pid))))

    def cut(self, keys: Ints) -> Host:
        """A copy with a border at each of these instants."""
        keys = distinct(keys)
        stretch = self.stretch_of(keys)
        new = self.at[stretch] != keys
        if not new.any():
            return self
        keys, stretch = keys[new], stretch[new]
        return replace(
            self,
            borders=np.insert(self.borders, stretch + 1, keys),
            cause=np.insert(self.cause, stretch + 1, self.cause[stretch]),
            event=np.insert(self.event, stretch + 1, self.event[stretch]),
            blocked=np.insert(self.blocked, stretch + 1, self.blocked[stretch]),
        )

    def within(self, begin: Ints, end: Ints) -> Flags:
        """Which stretches begin in one of these intervals (each lies on one thread)."""
        depth = np.zeros(len(self) + 1, np.int32)
        np.add.at(depth, np.searchsorted(self.at, begin), 1)
        np.add.at(depth, np.searchsorted(self.at, end), -1)
        return np.cumsum(depth[:-1], out=depth[:-1]) > 0

    def blocking(self, start: Ints, end: Ints) -> Host:
        """A copy that is blocked from each `start` to its `end` (both on one thread)."""
        host = self.cut(np.concatenate([start, end]))
        return replace(host, blocked=host.blocked | host.within(start, end))

    def totals(self, causes: int) -> Ints:
        """The work of all threads by cause, in ns."""
        ns = np.where(self.blocked, 0, np.diff(self.borders))
        # Each thread's section of the axis has one instant more than its time has nanoseconds.
        if len(self):
            last = self.stretch_of(self.span_ns * np.arange(1, len(self.threads) + 1) - 1)
            ns[last] -= ~self.blocked[last]
        return sums(self.cause, ns, causes)

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """The measured work from each `since` to its `until` on the same thread, in ns."""
        points = distinct(np.concatenate([since, until]))
        work = self.work_at(points, self.stretch_of(points))
        return work[np.searchsorted(points, until)] - work[np.searchsorted(points, since)]

    def work_at(self, points: Ints, stretch: Numbers, rates: Rates | None = None) -> Ints:
        """The work done by each instant, in ns, as measured or at these rates.

        Only differences within a thread are meaningful. `points` have to be in order; `stretch` is
        `stretch_of(points)`.
        """
        parts = None if rates is None else rates.parts
        return work_at(self.borders, self.blocked, parts, points, stretch)

    def worked(self, ns: Ints, which: Which, rates: Rates | None = None) -> Ints:
        """The work in `ns` of the stretches `which`, scaled; 0 where the thread is blocked."""
        scaled = ns if rates is None else rates.times(ns, which)
        worked: Ints = scaled * ~self.blocked[which]
        return worked


def host_from(
    rows: Iterable[dict[str, NDArray[Any]]],
    threads: list[tuple[int, int]],
    trace_start_ns: int,
    origin_ns: int,
    end_ns: int,
) -> Host:
    """The threads of one trace.

    Args:
        rows: of queries/replay/host_work.sql, in blocks.
        threads: (pid, tid) in the order of the rows.
        trace_start_ns: where every thread's first stretch begins.
        origin_ns: what lies before it is left out.
        end_ns: what lies after it is left out.

    Raises:
        TracekitError: the span from `origin_ns` to `end_ns`, times the number of threads, does not
            fit into 64 bits.
    """
    span_ns = end_ns - origin_ns + 1
    if span_ns * max(1, len(threads)) > 1 << 62:
        raise TracekitError("its time spans centuries: durations are absurd")
    borders, causes, events = [], [np.zeros(0, np.int8)], [np.zeros(0, np.int32)]
    number = -1
    for each in rows:
        start: Ints = each["start_ns"]
        # Every thread's stretches cover the whole trace, so a new thread begins at its start.
        thread = number + np.cumsum(start == trace_start_ns)
        number = int(thread[-1]) if len(thread) else number
        begin = np.clip(start, origin_ns, end_ns)
        kept = np.clip(start + each["dur_ns"], origin_ns, end_ns) > begin
        borders.append((thread * span_ns + (begin - origin_ns))[kept])
        causes.append(each["cause"][kept])
        events.append(narrow(np.ma.filled(each["event_id"], -1)[kept]))
    cause = np.concatenate(causes)
    end = np.array([len(threads) * span_ns], np.int64)
    return Host(
        origin_ns,
        span_ns,
        threads,
        np.concatenate([*borders, end]),
        cause,
        np.concatenate(events),
        np.zeros(len(cause), np.bool_),
    )
