"""Host threads as arrays: stretches of work, and the instants on them that matter.

Instants of all threads lie on one axis: `Host.at` gives the place of a time on a thread. A thread
works through its stretches at the rates that a replay gives them; where it is held, waiting for
somebody else, no work is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# A time before all others.
NEVER = -(1 << 62)


@dataclass(frozen=True)
class Host:
    """Stretches of host time, thread after thread, without gap or overlap."""

    origin_ns: int
    span_ns: int
    threads: list[tuple[int, int]]
    at: Ints
    ns: Ints
    cause: NDArray[np.int8]
    event: Ints
    held: Flags

    def key(self, thread: Ints, time_ns: Ints) -> Ints:
        """The places of instants (ns on the trace's clock) on the one axis."""
        return thread * self.span_ns + np.clip(time_ns - self.origin_ns, 0, self.span_ns - 1)

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
        pairs, inverse = np.unique(np.stack([pid, tid]), axis=1, return_inverse=True)
        known = [number.get((int(p), int(t)), -1) for p, t in pairs.T]
        return np.array(known, np.int64)[inverse]

    def cut(self, keys: Ints) -> Host:
        """The same, with a border at each of these instants."""
        keys = np.sort(keys)
        keys = keys[np.append(True, np.diff(keys) > 0)[: len(keys)]]
        keys = keys[self.at[self.stretch_of(keys)] != keys]
        if not len(keys):
            return self
        stretch = self.stretch_of(keys)
        order = np.argsort(np.concatenate([self.at, keys]), kind="stable")
        source = np.concatenate([np.arange(len(self.at)), stretch])[order]
        at = np.concatenate([self.at, keys])[order]
        end = (self.at + self.ns)[source]
        following = np.append(at[1:], at[-1:] + self.ns[-1:])
        return Host(
            self.origin_ns,
            self.span_ns,
            self.threads,
            at,
            np.minimum(end, following) - at,
            self.cause[source],
            self.event[source],
            self.held[source],
        )

    def holding(self, start: Ints, end: Ints) -> Host:
        """The same, held from each `start` to its `end` (instants of one thread)."""
        host = self.cut(np.concatenate([start, end]))
        depth = np.zeros(len(host.at) + 1, np.int64)
        np.add.at(depth, np.searchsorted(host.at, start), 1)
        np.add.at(depth, np.searchsorted(host.at, end), -1)
        held = host.held | (np.cumsum(depth[:-1]) > 0)
        return replace(host, held=held)

    def worked(self, rate: Floats) -> Worked:
        """How threads get on where each stretch takes `rate` of its measured time."""
        rate = np.where(self.held, 0.0, rate)
        return Worked(self, rate, np.cumsum(times(self.ns, rate)))


@dataclass(frozen=True)
class Worked:
    """The work of threads, at some rates."""

    host: Host
    rate: Floats
    done: Ints
    """When each stretch is done, in ns of work from the first one on."""

    def until(self, key: Ints, stretch: Ints | None = None) -> Ints:
        """The work done until each instant, in ns: comparable within a thread.

        `stretch`, where it is known already, is `Host.stretch_of(key)`.
        """
        if not len(self.done):
            return np.zeros(len(key), np.int64)
        host = self.host
        stretch = host.stretch_of(key) if stretch is None else stretch
        left = host.ns[stretch] - (key - host.at[stretch])
        return self.done[stretch] - times(left, self.rate[stretch])


def sums(group: NDArray[Any], ns: Ints, groups: int) -> Ints:
    """The sum of `ns` of each group, as integers."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, ns)
    return total


def times(ns: Ints, factor: Floats | float) -> Ints:
    """`ns` scaled, to the nanosecond; what is not scaled stays exact, however long."""
    return np.where(np.equal(factor, 1.0), ns, np.rint(ns * factor).astype(np.int64))


def host_from(
    rows: dict[str, NDArray[Any]],
    threads: list[tuple[int, int]],
    trace_start_ns: int,
    origin_ns: int,
    end_ns: int,
) -> Host:
    """From the rows of queries/replay/host_work.sql, of one trace that starts at `trace_start_ns`,
    and its threads in their order; what lies outside `origin_ns` to `end_ns` is left out.

    Raises:
        TracekitError: when that span, times the threads, is beyond 64 bits.
    """
    span_ns = end_ns - origin_ns + 1
    if span_ns * max(1, len(threads)) > 1 << 62:
        raise TracekitError("its time spans centuries: durations are absurd")
    start: Ints = rows["start_ns"]
    # Every thread's stretches cover the trace: the first begins with it.
    thread = np.cumsum(start == trace_start_ns) - 1
    begin = np.clip(start, origin_ns, end_ns)
    end = np.clip(start + rows["dur_ns"], origin_ns, end_ns)
    kept = end > begin
    begin, end, thread = begin[kept], end[kept], thread[kept]
    return Host(
        origin_ns,
        span_ns,
        threads,
        thread * span_ns + (begin - origin_ns),
        end - begin,
        rows["cause"][kept],
        np.ma.filled(rows["event_id"], -1)[kept].astype(np.int64, copy=False),
        np.zeros(len(begin), np.bool_),
    )
