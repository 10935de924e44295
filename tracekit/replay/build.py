"""From a database to the graph of one trace: which edges there are, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.device import (
    Device,
    Habits,
    Launched,
    Order,
    device_from,
    habits_of,
    order_of,
)
from tracekit.replay.graph import NEVER, Edges, Graph, Kind, finished, joined, root_of
from tracekit.replay.host import Flags, Host, Ints, host_from
from tracekit.replay.threads import handovers
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    from tracekit.database import Database


def build(database: Database, trace_id: int, limits: Thresholds) -> Graph:
    """The graph of a trace.

    Raises:
        TracekitError: when its times are beyond what 64 bits hold.
    """
    causes = database.fetch("SELECT causes()")[1][0][0]
    start, end = database.fetch(
        "SELECT start_ns, end_ns FROM trace_span WHERE trace_id = getvariable('trace')",
        {"trace": trace_id},
    )[1][0]
    host = host_from(database.arrays("host_work", trace=trace_id), start, end)
    rows = database.arrays("device_work", trace=trace_id, short_ns=limits.launch_floor_ns)
    device = device_from(rows, host, limits)
    return _Builder(database, trace_id, limits, causes, host, device).graph()


@dataclass(frozen=True)
class _Waits:
    """Stretches for which a thread may stand still: held between `start` and `end`, done at `end`.

    The join at `end` comes no sooner than the source, and no sooner than the thread's own work plus
    `own_ns`. The source is an op's end (`op`), its start (`is_start`) or an instant of the host.
    """

    start: Ints
    end: Ints
    own_ns: Ints
    own_cause: Ints
    kind: Ints
    op: Ints
    instant: Ints
    lag_ns: Ints

    @staticmethod
    def make(kind: Kind, start: Ints, end: Ints, **given: Ints | int) -> _Waits:
        n = len(start)
        names = {"own_ns": 0, "own_cause": 0, "op": -1, "instant": -1, "lag_ns": 0} | given
        columns = {name: np.broadcast_to(value, n).astype(np.int64) for name, value in names.items()}
        return _Waits(start, end, kind=np.full(n, kind, np.int64), **columns)


class _Builder:
    def __init__(
        self,
        database: Database,
        trace_id: int,
        limits: Thresholds,
        causes: list[str],
        host: Host,
        device: Device,
    ) -> None:
        self.database = database
        self.trace_id = trace_id
        self.limits = limits
        self.causes = causes
        self.host = host
        self.device = device
        self.order: Order = order_of(device)
        self.habits: Habits = habits_of(device, self.order, limits)
        self.launched = Launched(device)
        self.submitted = self._submitted()
        self.waits = self._stream_waits()
        self.limited_by = self._limited_by()

    def graph(self) -> Graph:
        waits = [
            self._sync_calls(),
            self._blocking_copies(),
            self._full_queues(),
            self._fetches(),
            *self._handovers(),
        ]
        every = _Waits(
            *(np.concatenate([getattr(w, name) for w in waits]) for name in _Waits.__dataclass_fields__)
        )
        # Where the source can hold the thread up, it stands still; the last at one instant is the join.
        host = self.host.holding(every.start, every.end)
        joins, join = np.unique(every.end, return_inverse=True)
        ops = len(self.device.start)
        parts = [
            self._thread_edges(host, joins, every, join),
            self._release_edges(host, joins, every, join, ops),
            self._stream_edges(),
            self._launch_edges(host, joins, ops),
            self._wait_edges(),
        ]
        return finished(self.causes, host, self.device, self.habits, joins, joined(parts))

    # -- edges -------------------------------------------------------------------------------------

    def _edges(
        self,
        kind: Kind | Ints,
        source: Ints,
        target: Ints,
        *,
        host_from: Ints | int = 0,
        host_to: Ints | int = 0,
        op: Ints | int = -1,
        op_ns: Ints | int = 0,
        fixed_ns: Ints | int = 0,
        cause: Ints | int | str = "latency",
    ) -> Edges:
        n = len(source)
        number = self.causes.index(cause) if isinstance(cause, str) else cause

        def column(value: Ints | int) -> Ints:
            return np.broadcast_to(value, n).astype(np.int64)

        return Edges(
            column(kind).astype(np.int8), column(source), column(target), column(host_from),
            column(host_to), column(op), column(op_ns), column(fixed_ns),
            column(number).astype(np.int8),
        )  # fmt: skip

    def _thread_edges(self, host: Host, joins: Ints, waits: _Waits, join: Ints) -> Edges:
        """From each join of a thread to the next, over the work between them."""
        node = 1 + len(self.device.start) + np.arange(len(joins))
        source, since = root_of(host, joins, len(self.device.start), joins, "left")
        own_ns = np.full(len(joins), np.iinfo(np.int64).max)
        np.minimum.at(own_ns, join, waits.own_ns)
        cause = np.zeros(len(joins), np.int64)
        cause[join] = waits.own_cause
        return self._edges(
            Kind.HOST, source, node, host_from=since, host_to=joins, fixed_ns=own_ns, cause=cause
        )

    def _release_edges(
        self, host: Host, joins: Ints, waits: _Waits, join: Ints, ops: int
    ) -> Edges:
        """From what was waited for to the join."""
        by_op = waits.op >= 0
        op = waits.op[by_op]
        length = np.where(waits.kind[by_op] == Kind.QUEUE, 0, self.device.ns[op])
        released = self._edges(
            waits.kind[by_op], 1 + op, 1 + ops + join[by_op], op=op, op_ns=length,
            fixed_ns=waits.lag_ns[by_op], cause=waits.own_cause[by_op],
        )  # fmt: skip
        instant = waits.instant[~by_op]
        source, since = root_of(host, joins, ops, instant)
        handed = self._edges(
            waits.kind[~by_op], source, 1 + ops + join[~by_op], host_from=since, host_to=instant,
            fixed_ns=waits.lag_ns[~by_op], cause=waits.own_cause[~by_op],
        )  # fmt: skip
        return joined([released, handed])

    def _stream_edges(self) -> Edges:
        device, order = self.device, self.order
        later = np.flatnonzero(order.before >= 0)
        before = order.before[later]
        gap = device.start[later] - device.end[before]
        overlaps = gap < 0
        # What overlaps and is not just launched began at a point of the other's work.
        fresh = self._is_fresh()[later]
        shared = np.where(overlaps & fresh, 0, np.minimum(device.ns[before], device.start[later] - device.start[before]))
        chain = self._edges(
            Kind.STREAM, 1 + before, 1 + later, op=before, op_ns=shared,
            fixed_ns=np.where(overlaps, 0, self._allowed(Kind.STREAM, later, gap)),
        )  # fmt: skip
        # Of ops that overlapped, the one that ended last may be another than the one before.
        other = np.flatnonzero(
            (order.last >= 0) & (order.last != order.before) & (order.free <= device.start)
        )
        last = order.last[other]
        rest = self._edges(
            Kind.STREAM, 1 + last, 1 + other, op=last, op_ns=device.ns[last],
            fixed_ns=self._allowed(Kind.STREAM, other, device.start[other] - device.end[last]),
        )  # fmt: skip
        return joined([chain, rest])

    def _launch_edges(self, host: Host, joins: Ints, ops: int) -> Edges:
        op = np.flatnonzero(self.device.linked)
        key = host.key(self.device.thread[op], host.origin_ns + self.submitted[op])
        source, since = root_of(host, joins, ops, key)
        fixed = self._allowed(Kind.LAUNCH, op, self.device.start[op] - self.submitted[op])
        return self._edges(
            Kind.LAUNCH, source, 1 + op, host_from=since, host_to=key, fixed_ns=fixed
        )

    def _wait_edges(self) -> Edges:
        """Where a stream waits for another."""
        target, source = self.waits
        lag = self.device.start[target] - self.device.end[source]
        return self._edges(
            Kind.WAIT, 1 + source, 1 + target, op=source, op_ns=self.device.ns[source],
            fixed_ns=self._allowed(Kind.WAIT, target, lag),
        )  # fmt: skip

    # -- what holds an op up -----------------------------------------------------------------------

    def _submitted(self) -> Ints:
        """The instant in each launch call from which the op could start.

        A copy that blocks is prepared by its call, and then waited for: where the stream had other
        work, for most of it.
        """
        device, habits = self.device, self.habits
        start = np.clip(device.start - habits.least_latency_ns, device.call, device.call_end)
        queued = device.is_blocking & (self.order.free > device.call)
        start = np.where(queued, np.minimum(start, device.call + habits.call_ns), start)
        return np.where(device.linked, start, 0)

    def _ready(self) -> Ints:
        """When its launch and its stream would have let each op start."""
        return np.maximum(
            self.submitted + self.habits.latency_ns, self.order.free + self.habits.gap_ns
        )

    def _is_fresh(self) -> Flags:
        """Ops that start about as soon after their launch as on an idle stream."""
        return self.device.linked & (
            self.device.start - self.submitted <= self.habits.latency_ns + self.habits.gap_ns
        )

    def _limited_by(self) -> Ints:
        """What held each op up, of its launch, its stream and another one: the last to be ready."""
        held = np.full(len(self.device.start), NEVER, np.int64)
        np.maximum.at(held, self.waits[0], self.device.end[self.waits[1]])
        launched = np.where(self.device.linked, self.submitted + self.habits.latency_ns, NEVER)
        gap_ns = self.habits.gap_ns
        latest = np.argmax([launched, self.order.free + gap_ns, held + gap_ns], axis=0)
        return np.array([Kind.LAUNCH, Kind.STREAM, Kind.WAIT])[latest]

    def _allowed(self, kind: Kind, op: Ints, lag: Ints) -> Ints:
        """The part of a lag that is the device's own: what it usually takes, and where this is what
        held the op up, as long as that is no wait for something else."""
        usual_ns = self.habits.latency_ns if kind == Kind.LAUNCH else self.habits.gap_ns
        return np.minimum(
            lag, np.where(self.limited_by[op] == kind, self.limits.wait_ns, usual_ns)
        )

    def _stream_waits(self) -> tuple[Ints, Ints]:
        """Ops that wait for one of another stream, as the trace says, or as its calls and its times
        do; and those they wait for."""
        rows = self.database.arrays("stream_waits", trace=self.trace_id)
        pairs = [np.stack(self._told_waits(rows)), np.stack(self._seen_waits(rows))]
        target, source = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return target, source

    def _told_waits(self, rows: dict[str, Ints]) -> tuple[Ints, Ints]:
        """Ops that wait, and those they wait for, by the trace's own records (cuda_sync)."""
        device = self.device
        pairs: list[tuple[int, int]] = []
        waits = np.flatnonzero(~np.ma.getmaskarray(rows["until_ns"]))
        for i in waits:
            call = rows["start_ns"][i] - self.host.origin_ns
            until = rows["until_ns"][i] - self.host.origin_ns
            mine = np.flatnonzero((device.stream == rows["stream"][i]) & device.linked & (device.call >= call))
            theirs = np.flatnonzero(
                (device.stream == rows["wait_on_stream"][i]) & device.linked & (device.call < until)
            )
            if len(mine) and len(theirs):
                first, last = mine[np.argmin(device.call[mine])], theirs[np.argmax(device.end[theirs])]
                pairs.append((first, last))
        if not pairs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        target, source = np.array(pairs, np.int64).T
        return target, source

    def _seen_waits(self, rows: dict[str, Ints]) -> tuple[Ints, Ints]:
        """Ops before which a call makes streams wait, and what they wait for, as it seems.

        An op launched right after such a call waits for what its thread launched right before it,
        where that is another stream's. One that starts late waits for what ended last before it:
        of another stream, launched before a call since the launch before on its own; in a graph,
        of the same one.
        """
        device, order, ready = self.device, self.order, self._ready()
        late = device.linked & (device.start > ready + self.habits.gap_ns)
        calls = np.sort(
            self.host.key(self.host.numbers(rows["pid"], rows["tid"]), rows["start_ns"])
        )
        key = self.host.key(device.thread, self.host.origin_ns + device.call)
        pairs = [self._neighbours(calls, key)]
        if len(calls):
            same = (order.before >= 0) & (device.thread[order.before] == device.thread)
            since = np.where(same, key[order.before], device.thread * self.host.span_ns)
            place = np.searchsorted(calls, key) - 1
            waits = late & (place >= 0) & (calls[place] >= since) & ~device.is_graph
            op = np.flatnonzero(waits)
            pairs.append(self._late(op, self._ended_before(op, self.host.time_of(calls[place[op]])), ready))
        op = np.flatnonzero(late & device.is_graph)
        source = self._ended_before(op, device.call_end[op] + 1)
        other = (source >= 0) & (device.launch_id[source] != device.launch_id[op])
        pairs.append(self._late(op, np.where(other, -1, source), ready))
        every = np.unique(np.concatenate([np.stack(pair) for pair in pairs], axis=1), axis=1)
        return every[0], every[1]

    def _neighbours(self, calls: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Ops of different streams that a thread launched right after each other, but for a call
        in between that makes a stream wait."""
        device = self.device
        op = np.flatnonzero(device.linked)
        op = op[np.argsort(key[op], kind="stable")]
        first, second = op[:-1], op[1:]
        if not len(calls):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        place = np.searchsorted(calls, key[second]) - 1
        waits = (place >= 0) & (calls[place] >= key[first])
        good = (
            waits
            & (device.thread[first] == device.thread[second])
            & (device.queue[first] != device.queue[second])
            & (device.device_id[first] == device.device_id[second])
            & (device.end[first] <= device.start[second] + self.limits.clock_tick_ns)
            & (device.start[first] < device.start[second])
        )
        return second[good], first[good]

    def _late(self, op: Ints, source: Ints, ready: Ints) -> tuple[Ints, Ints]:
        """Only what ended after an op could have started explains that it did not."""
        good = source >= 0
        good[good] = self.device.end[source[good]] > ready[op[good]]
        return op[good], source[good]

    def _ended_before(self, op: Ints, until: Ints) -> Ints:
        """For each op, the one of another stream of its device that ended last before its start,
        among those launched before `until`; -1: none."""
        device = self.device
        best = np.full(len(op), -1, np.int64)
        best_end = np.full(len(op), np.int64(-1 << 62))
        for number in np.unique(device.queue):
            mine = np.flatnonzero(device.queue == number)
            mine = mine[np.argsort(device.end[mine], kind="stable")]
            latest = device.start[op] + self.limits.clock_tick_ns
            place = np.searchsorted(device.end[mine], latest, "right") - 1
            candidate = mine[np.maximum(place, 0)]
            good = (
                (place >= 0)
                & (device.queue[op] != number)
                & (device.device_id[op] == device.device_id[candidate])
                & (device.end[candidate] > best_end)
                & (device.start[candidate] < device.start[op])
                & (~device.linked[candidate] | (device.call[candidate] < until))
            )
            best = np.where(good, candidate, best)
            best_end = np.where(good, device.end[candidate], best_end)
        return best

    # -- what holds a thread up --------------------------------------------------------------------

    def _sync_calls(self) -> _Waits:
        """Calls that wait for the device, and those of the allocator that turn out to."""
        rows = self.database.arrays("host_waits", trace=self.trace_id)
        origin = self.host.origin_ns
        thread = self.host.numbers(rows["pid"], rows["tid"])
        begin, end = rows["start_ns"] - origin, rows["start_ns"] - origin + rows["dur_ns"]
        scope = rows["scope"].astype(str)
        stream = np.ma.filled(rows["stream"], -1).astype(np.int64)
        op, pending = self.launched.before(rows["until_ns"] - origin, end + self.limits.wait_ns, stream)
        ended = np.where(op >= 0, self.device.end[op], -1) if len(self.device.start) else np.full(len(op), -1)
        # Whether it waits is told by its end following the op's at once, nothing being left to wait for.
        maybe = scope == "maybe"
        allocates = rows["cause"] == self.causes.index("allocation")
        known = np.where(allocates, self.limits.return_ns, self.limits.wait_ns)
        proved = (ended > begin) & ~pending & (end - ended <= known)
        waits = (op >= 0) & (thread >= 0) & (~maybe | proved) & (begin < end)
        short = waits & (ended <= begin)
        own = int(np.median((end - begin)[short])) if short.any() else self.limits.kernel_gap_ns
        chosen = np.flatnonzero(waits)
        length = (end - begin)[chosen]
        rest = np.minimum(end[chosen] - ended[chosen], self.limits.wait_ns)
        allocating = maybe[chosen] & allocates[chosen]
        rest = np.where(allocating, end[chosen] - ended[chosen], rest)
        usual = np.minimum(length, np.where(allocating, rest, own))
        return _Waits.make(
            Kind.SYNC,
            self.host.key(thread[chosen], begin[chosen] + origin),
            self.host.key(thread[chosen], end[chosen] + origin),
            own_ns=np.where(ended[chosen] <= begin[chosen], length, usual),
            own_cause=rows["cause"][chosen],
            op=op[chosen],
            lag_ns=np.where(ended[chosen] <= begin[chosen], np.minimum(usual, rest), rest),
        )

    def _blocking_copies(self) -> _Waits:
        """Calls that return when their own op has ended."""
        device = self.device
        op = np.flatnonzero(device.is_blocking)
        # A call with several such ops waits for the last.
        op = op[np.lexsort((device.end[op], device.launch_id[op]))]
        op = op[np.append(device.launch_id[op][1:] != device.launch_id[op][:-1], True)] if len(op) else op
        origin = self.host.origin_ns
        return _Waits.make(
            Kind.SYNC,
            self.host.key(device.thread[op], origin + self.submitted[op]),
            self.host.key(device.thread[op], origin + device.call_end[op]),
            own_cause=self.causes.index("copy"),
            op=op,
            lag_ns=device.call_end[op] - device.end[op],
        )

    def _full_queues(self) -> _Waits:
        """Launch calls that found their stream's queue full, and those that could have."""
        device, limits = self.device, self.limits
        found: list[_Waits] = []
        for number in np.unique(device.queue[device.linked]):
            op = np.flatnonzero((device.queue == number) & device.linked & ~device.is_blocking)
            op = op[np.argsort(device.call[op], kind="stable")]
            op = op[np.append(True, np.diff(device.launch_id[op]) != 0)[: len(op)]]
            if not len(op):
                continue
            starts = np.sort(device.start[op])
            length = device.call_end[op] - device.call[op]
            # Launches that wait when each call returns: where the queue is full, as many each time.
            room = np.searchsorted(starts, device.call_end[op], "right") - 1
            depth = np.arange(len(op)) - room
            limit = int(depth.max())
            blocked = depth >= limit - 2
            deep = int((depth >= limits.queue_depth).sum())
            if blocked.sum() < max(limits.full_calls, limits.full_share * deep, 1) or not deep:
                continue
            # The op whose start made room is the last to start before the call returned.
            release = np.where(blocked, room, np.arange(len(op)) - limit)
            chosen = np.flatnonzero(
                (release >= 0)
                & (release < np.arange(len(op)))
                & (starts[np.maximum(release, 0)] <= device.call_end[op])
            )
            by_start = op[np.argsort(device.start[op], kind="stable")]
            source = by_start[release[chosen]]
            target, is_blocked = op[chosen], blocked[chosen]
            lag = device.call_end[target] - device.start[source]
            usual = int(np.median(lag[is_blocked]))
            origin = self.host.origin_ns
            end = self.host.key(device.thread[target], origin + device.call_end[target])
            start = self.host.key(device.thread[target], origin + device.call[target])
            own = np.minimum(self.habits.call_ns, length[chosen])
            found.append(
                _Waits.make(
                    Kind.QUEUE,
                    start,
                    end,
                    own_ns=np.where(is_blocked, own, length[chosen]),
                    own_cause=self.causes.index("launch"),
                    op=source,
                    lag_ns=np.where(is_blocked, lag, np.minimum(lag, usual)),
                )
            )
        if not found:
            return _Waits.make(Kind.QUEUE, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return _Waits(
            *(np.concatenate([getattr(w, name) for w in found]) for name in _Waits.__dataclass_fields__)
        )

    def _fetches(self) -> _Waits:
        """Fetches that found nothing loaded yet: the loader works on while the thread does others
        things, and takes from one batch to the next what it took."""
        rows = self.database.arrays("input_waits", trace=self.trace_id)
        thread = self.host.numbers(rows["pid"], rows["tid"])
        start = self.host.key(thread, rows["start_ns"])
        end = self.host.key(thread, rows["start_ns"] + rows["dur_ns"])
        long = rows["dur_ns"] > self.limits.prefetched_ns
        follows = np.append(False, thread[1:] == thread[:-1])[: len(thread)]
        chosen = np.flatnonzero(long & follows & (thread >= 0))
        ready = rows["dur_ns"][~long]
        own = int(np.median(ready)) if len(ready) else 0
        return _Waits.make(
            Kind.LOADER,
            start[chosen],
            end[chosen],
            own_ns=own,
            own_cause=self.causes.index("input"),
            instant=end[chosen - 1],
            lag_ns=end[chosen] - end[chosen - 1],
        )

    def _handovers(self) -> list[_Waits]:
        """Threads that work while another stands still in one slice: it waits for them."""
        launching = np.unique(self.device.thread[self.device.linked])
        given = handovers(self.host, launching, self.limits)
        # The worker is held until it is given work; the giver, until the work is done.
        return [
            _Waits.make(Kind.HANDOVER, given.idle_from, given.begin, instant=given.given),
            _Waits.make(Kind.HANDOVER, given.still_from, given.returned, instant=given.end),
        ]

