"""Host threads as arrays: stretches of work, instants, and handovers of work between threads.

One axis holds the instants of all threads, thread after thread; a position on it is a key
(`Host.key`). A thread works through its stretches at the rates in a replay, except while it is
blocked.

A trace does not record handovers. (Its `fwdbwd` flows link operators, not threads; in real traces
they do not reveal additional threads.) In a backward pass, an autograd thread works while the
thread that called backward stays in one slice, or in none, from the start of that work to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.causes import CAUSES, UNRECORDED
from tracekit.errors import TracekitError
from tracekit.native.replay import work_at
from tracekit.replay.graph.arrays import (
    Columns,
    Flags,
    Ints,
    Numbers,
    Rates,
    Which,
    begins,
    compact_ids,
    distinct,
    sums,
)
from tracekit.thresholds import Thresholds

# Up to this many intervals, marking each one's stretches is faster than counting depths.
_FEW = 16


class Host(Struct, frozen=True):
    """Stretches of host time, thread after thread, without gaps or overlaps."""

    origin_ns: int
    span_ns: int
    threads: list[tuple[int, int]]
    borders: Ints
    """The start of each stretch, and the end of the axis."""
    cause: NDArray[np.int8]
    event: Numbers
    """The innermost slice of each stretch; -1: none was recorded."""
    blocked: Flags

    def __len__(self) -> int:
        return len(self.cause)

    @property
    def at(self) -> Ints:
        """The start of each stretch."""
        return self.borders[:-1]

    def is_of(self, causes: Sequence[str]) -> Flags:
        """Which stretches have one of these causes."""
        flags: Flags = np.logical_or.reduce([self.cause == CAUSES.index(cause) for cause in causes])
        return flags

    def key(self, thread: Numbers, time_ns: Ints) -> Ints:
        """The keys of instants in ns on the trace's clock, clipped to the span."""
        return self.start_of(thread) + np.clip(time_ns - self.origin_ns, 0, self.span_ns - 1)

    def start_of(self, thread: Numbers) -> Ints:
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
        first = np.flatnonzero(begins(pid, tid))
        numbers = [
            number.get(thread, -1)
            for thread in zip(pid[first].tolist(), tid[first].tolist(), strict=True)
        ]
        return np.repeat(np.array(numbers, np.int64), np.diff(np.append(first, len(pid))))

    def slices(self, rows: Mapping[str, Ints]) -> tuple[Ints, Ints, Ints]:
        """The threads of slices (-1: one without stretches), and the keys at which the slices begin
        and end."""
        thread, start_ns = self.numbers(rows["pid"], rows["tid"]), rows["start_ns"]
        return thread, self.key(thread, start_ns), self.key(thread, start_ns + rows["dur_ns"])

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
        """Which stretches begin in one of these intervals (each on one thread)."""
        first, stop = np.searchsorted(self.at, begin), np.searchsorted(self.at, end)
        if len(first) <= _FEW:
            inside = np.zeros(len(self), np.bool_)
            for each in map(slice, first.tolist(), stop.tolist()):
                inside[each] = True
            return inside
        begun, ended = (
            np.bincount(border, minlength=len(self) + 1)[:-1] for border in (first, stop)
        )
        begun -= ended
        return np.cumsum(begun, out=begun) > 0

    def blocking(self, start: Ints, end: Ints) -> Host:
        """A copy in which threads are blocked from each `start` to its `end` (on the same
        thread)."""
        host = self.cut(np.concatenate([start, end]))
        return replace(host, blocked=host.blocked | host.within(start, end))

    def judging_rests(self, unrecorded_ns: int) -> Host:
        """A copy in which the rest of an unrecorded stretch next to a wait counts as Python, if it
        is shorter than `unrecorded_ns` and the thread's code was recorded."""
        python = CAUSES.index("python")
        beside = np.append(self.blocked[1:], False) | np.append(False, self.blocked[:-1])
        rest = (self.cause == CAUSES.index(UNRECORDED)) & beside & ~self.blocked
        rest &= np.diff(self.borders) < unrecorded_ns
        thread = self.thread_of(self.at)
        rest &= np.isin(thread, thread[self.is_of(("python", "dispatch"))])
        return replace(self, cause=np.where(rest, python, self.cause).astype(np.int8))

    def totals(self, thread: int | None = None) -> Ints:
        """The work of one or all threads by cause, in ns."""
        ns = np.where(self.blocked, 0, np.diff(self.borders))
        # Each thread's section of the axis has one instant more than its time has nanoseconds.
        if len(self):
            last = self.stretch_of(self.span_ns * np.arange(1, len(self.threads) + 1) - 1)
            ns[last] -= ~self.blocked[last]
        if thread is not None:
            ns[self.thread_of(self.at) != thread] = 0
        return sums(self.cause, ns, len(CAUSES))

    def work_between(self, since: Ints, until: Ints) -> Ints:
        """The measured work from each `since` to its `until` on the same thread, in ns."""
        points = distinct(np.concatenate([since, until]))
        work = work_at(self.borders, self.blocked, None, points, self.stretch_of(points))
        return work[np.searchsorted(points, until)] - work[np.searchsorted(points, since)]

    def scaled_work(self, ns: Ints, which: Which, rates: Rates | None = None) -> Ints:
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
        rows: the rows of queries/replay/host_work.sql, in blocks.
        threads: (pid, tid) in the order of the rows.
        trace_start_ns: where every thread's first stretch begins.
        origin_ns: everything before it is left out.
        end_ns: everything after it is left out.

    Raises:
        TracekitError: the span from `origin_ns` to `end_ns`, times the number of threads, does not
            fit into 64 bits.
    """
    span_ns = end_ns - origin_ns + 1
    if span_ns * max(1, len(threads)) > 1 << 62:
        raise TracekitError("the events span centuries: durations must be wrong")
    borders, causes, events = [], [np.zeros(0, np.int8)], [np.zeros(0, np.int32)]
    number = -1
    for row in rows:
        start: Ints = row["start_ns"]
        # Every thread's stretches cover the whole trace, so the next thread begins at its start.
        thread = number + np.cumsum(start == trace_start_ns)
        number = int(thread[-1]) if len(thread) else number
        begin = np.clip(start, origin_ns, end_ns)
        inside = np.clip(start + row["dur_ns"], origin_ns, end_ns) > begin
        borders.append((thread * span_ns + (begin - origin_ns))[inside])
        causes.append(row["cause"][inside])
        events.append(compact_ids(np.ma.filled(row["event_id"], -1)[inside]))
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


class Handovers(Columns, frozen=True):
    """Stretches of work that one thread gives to another. Instants are host keys."""

    idle_from: Ints
    """On the worker: the end of its previous work."""
    begin: Ints
    end: Ints
    given: Ints
    """On the giver: the instant at which the worker began."""
    still_from: Ints
    returned: Ints
    """On the giver: the instant at which the worker ended."""


def handovers(host: Host, launching: Numbers, thresholds: Thresholds) -> Handovers:
    """The work that other threads gave to the threads numbered `launching`."""
    # A process's first thread may give work to all its threads, others only to threads that started
    # to work later.
    at = host.at[host.event >= 0]
    owner = host.thread_of(at)
    first = np.flatnonzero(begins(owner))
    thread, begun = owner[first], host.time_of(at[first])
    is_other = np.array([host.threads[each][0] != host.threads[each][1] for each in thread], bool)
    order = thread[np.lexsort((begun, is_other))].tolist()
    workers = set(launching.tolist())
    threads_in_play = set(order[: thresholds.most_givers]) | workers
    of_process: dict[int, list[int]] = {}
    for each in order:
        if each in threads_in_play:
            of_process.setdefault(host.threads[each][0], []).append(each)
    turns = of_process.values()
    given = (_in_process(host, turn, workers, thresholds) for turn in turns)
    return Handovers.concatenate([*chain.from_iterable(given)])


def _in_process(
    host: Host, turn: list[int], workers: set[int], thresholds: Thresholds
) -> Iterator[Handovers]:
    """The handovers between a process's threads; each may get work from earlier ones."""
    is_pair = len(workers.intersection(turn)) <= 2
    for index, worker in enumerate(turn):
        if worker not in workers or not index:
            continue
        begin, end = (host.time_of(run) for run in _runs(host, worker))
        work = end - begin
        best: tuple[float, int, Flags, Ints] | None = None
        for giver in turn[: min(index, thresholds.most_givers)]:
            still, stretch = _stands_still(host, giver, begin, end)
            share = float(work[still].sum() / max(1, work.sum()))
            if share >= thresholds.handed_over_share and (best is None or share > best[0]):
                best = (share, giver, still, stretch)
            if share == 1:
                break
        if best is None and is_pair and host.threads[turn[0]][0] == host.threads[turn[0]][1]:
            # If recording begins or ends during such work, the first thread has no slice there.
            # Where many threads launch, the first may be done.
            still, stretch = _stands_still(host, turn[0], begin, end, is_cut=True)
            if work[still].sum() >= thresholds.handed_over_share * work.sum() > 0:
                best = (1.0, turn[0], still, stretch)
        if best is not None:
            yield _given(host, worker, best[1], begin, end, best[2], best[3])


def _runs(host: Host, thread: int) -> tuple[Ints, Ints]:
    """The starts and ends of a thread's runs: recorded work without a gap."""
    first, last = np.searchsorted(host.at, [thread * host.span_ns, (thread + 1) * host.span_ns])
    works = (host.event[first:last] >= 0).astype(np.int8)
    edge = np.diff(works, prepend=0, append=0)
    begin = host.at[first:last][edge[:-1] > 0]
    stop = np.flatnonzero(edge < 0) - 1
    last_instant = (thread + 1) * host.span_ns - 1
    return begin, np.minimum(host.borders[first + 1 : last + 1][stop], last_instant)


def _stands_still(
    host: Host, giver: int, begin: Ints, end: Ints, is_cut: bool = False
) -> tuple[Flags, Ints]:
    """For each of the worker's runs: whether the giver is in one stretch for at least half of the
    run and until its end, and which stretch that is. `is_cut`: it may be the first or last one."""
    first, last = np.searchsorted(host.at, [giver * host.span_ns, (giver + 1) * host.span_ns])
    stretch = np.clip(host.stretch_of(giver * host.span_ns + end - 1), first, last - 1)
    since = host.at[stretch] % host.span_ns
    until = since + host.borders[stretch + 1] - host.at[stretch]
    common = np.minimum(end, until) - np.maximum(begin, since)
    # The trace does not show what the giver did before its first slice and after its last.
    inner = is_cut | ((stretch > first) & (stretch < last - 1))
    return inner & (until >= end) & (2 * common >= end - begin), stretch


def _given(
    host: Host, worker: int, giver: int, begin: Ints, end: Ints, still: Flags, stretch: Ints
) -> Handovers:
    """The handovers; adjacent runs of the worker in one stretch of the giver are one handover."""
    chosen = np.flatnonzero(still)
    new = begins(stretch[chosen], chosen - np.arange(len(chosen)))
    first, last = chosen[new], chosen[np.append(new[1:], True)[: len(chosen)]]
    before = np.where(first > 0, end[first - 1], 0)
    since = host.at[stretch[first]] % host.span_ns
    own, other = worker * host.span_ns, giver * host.span_ns
    return Handovers(
        idle_from=own + before,
        begin=own + begin[first],
        end=own + end[last],
        given=other + begin[first],
        still_from=other + np.maximum(since, begin[first]),
        returned=other + end[last],
    )
