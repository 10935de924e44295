"""Host threads as arrays: stretches of work, and the instants on them that matter.

Instants of all threads lie on one axis, thread after thread; `Host.key` says where. A thread
works through its stretches at the rates that a replay gives them; where it is blocked, it does no
work.
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
    """Stretches of host time, thread after thread, without gap or overlap."""

    origin_ns: int
    span_ns: int
    threads: list[tuple[int, int]]
    borders: Ints
    """Where each stretch begins, and at last where the axis ends."""
    cause: NDArray[np.int8]
    event: Numbers
    """The innermost slice; -1: none was recorded."""
    blocked: Flags

    def __len__(self) -> int:
        return len(self.cause)

    @property
    def at(self) -> Ints:
        """Where each stretch begins."""
        return self.borders[:-1]

    def key(self, thread: Numbers, time_ns: Ints) -> Ints:
        """The keys of instants (ns on the trace's clock)."""
        return self.begin_of(thread) + np.clip(time_ns - self.origin_ns, 0, self.span_ns - 1)

    def begin_of(self, thread: Numbers) -> Ints:
        """Where threads begin on it."""
        return thread.astype(np.int64, copy=False) * self.span_ns

    def thread_of(self, key: Ints) -> Ints:
        return key // self.span_ns

    def time_of(self, key: Ints) -> Ints:
        """Instants as nanoseconds since the trace's start."""
        return key % self.span_ns

    def stretch_of(self, key: Ints) -> Ints:
        """Which stretch an instant lies in; at the border of two, the later."""
        return np.searchsorted(self.at, key, "right") - 1

    def numbers(self, pid: Ints, tid: Ints) -> Ints:
        """The numbers of threads; -1 for one without stretches."""
        number = {thread: i for i, thread in enumerate(self.threads)}
        # Most often a row is of the same thread as the one before.
        first = np.flatnonzero(np.append(True, (np.diff(pid) != 0) | (np.diff(tid) != 0)))
        first = first[: len(pid)]
        known = [
            number.get(thread, -1)
            for thread in zip(pid[first].tolist(), tid[first].tolist(), strict=True)
        ]
        return np.repeat(np.array(known, np.int64), np.diff(np.append(first, len(pid))))

    def cut(self, keys: Ints) -> Host:
        """The same, with a border at each of these instants."""
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
        """Which stretches begin in one of these intervals (instants of one thread each)."""
        depth = np.zeros(len(self) + 1, np.int32)
        np.add.at(depth, np.searchsorted(self.at, begin), 1)
        np.add.at(depth, np.searchsorted(self.at, end), -1)
        return np.cumsum(depth[:-1], out=depth[:-1]) > 0

    def blocking(self, start: Ints, end: Ints) -> Host:
        """The same, blocked from each `start` to its `end` (instants of one thread)."""
        host = self.cut(np.concatenate([start, end]))
        return replace(host, blocked=host.blocked | host.within(start, end))

    def totals(self, causes: int) -> Ints:
        """The work of all threads by cause, in ns."""
        ns = np.where(self.blocked, 0, np.diff(self.borders))
        # The axis has an instant more for each thread than its time has nanoseconds.
        if len(self):
            last = self.stretch_of(self.span_ns * np.arange(1, len(self.threads) + 1) - 1)
            ns[last] -= ~self.blocked[last]
        return sums(self.cause, ns, causes)

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """The work measured between two instants of a thread each, in ns."""
        points = distinct(np.concatenate([since, until]))
        work = self.work_at(points, self.stretch_of(points))
        return work[np.searchsorted(points, until)] - work[np.searchsorted(points, since)]

    def work_at(self, points: Ints, stretch: Numbers, rates: Rates | None = None) -> Ints:
        """The work done until each instant, in ns: comparable within a thread. As measured, or at
        these rates.

        `points` are in order; `stretch` is `stretch_of(points)`.
        """
        parts = None if rates is None else rates.parts
        return work_at(self.borders, self.blocked, parts, points, stretch)

    def worked(self, ns: Ints, which: Which, rates: Rates | None = None) -> Ints:
        """What `ns` of stretches come to: nothing where the thread is blocked."""
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
    """From the rows of queries/replay/host_work.sql, many at a time, of one trace that starts at
    `trace_start_ns`, and its threads in their order; what lies outside `origin_ns` to `end_ns` is
    left out.

    Raises:
        TracekitError: when that span, times the threads, is beyond 64 bits.
    """
    span_ns = end_ns - origin_ns + 1
    if span_ns * max(1, len(threads)) > 1 << 62:
        raise TracekitError("its time spans centuries: durations are absurd")
    borders, causes, events = [], [np.zeros(0, np.int8)], [np.zeros(0, np.int32)]
    number = -1
    for each in rows:
        start: Ints = each["start_ns"]
        # Every thread's stretches cover the trace: the first begins with it.
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
