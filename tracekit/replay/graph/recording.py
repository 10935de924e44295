"""The graph's input: recorded work of host and device, usual delays, and ops that wait for other
streams."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.database import catalog
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.replay.graph.arrays import NEVER, Flags, Ints, distinct, sums
from tracekit.replay.graph.device import Device, Streams, UsualTimes, device_from
from tracekit.replay.graph.host import Handovers, Host, handovers, host_from
from tracekit.thresholds import Thresholds

# The columns of GPU ops; each tuple has its own query.
_OP = ("event_id", "device_id", "stream", "start_ns", "dur_ns")
_LAUNCH = (
    "launch_id", "pid", "tid", "launch_start_ns", "launch_end_ns", "is_graph", "is_blocking",
)  # fmt: skip
_CAPTURED = ("captured_pid", "captured_tid", "captured_ns")
# The approximate number of stretches of host work in a block.
_AT_ONCE = 400_000


class Recording(Struct, frozen=True, dict=True):
    """The host threads and devices of one trace."""

    database: Session
    trace_id: int
    thresholds: Thresholds
    host: Host
    device: Device
    calls: dict[str, NDArray[Any]]
    """The rows of queries/replay/host_waits.sql."""
    computing: Ints
    """In a trace without GPU ops, the thread that computes."""

    @cached_property
    def streams(self) -> Streams:
        return Streams(self.device)

    @cached_property
    def usual(self) -> UsualTimes:
        return self.streams.usual_times(self.thresholds)

    @cached_property
    def handovers(self) -> Handovers:
        """The work that threads give to the ones that launch."""
        launching = np.unique(self.device.thread[self.device.linked])
        return handovers(self.host, launching, self.thresholds)

    @cached_property
    def leading(self) -> Ints:
        """The threads that lead the run: the one that launches most and those that give it work.

        Without launches, it is the thread that computes, or the one with the most recorded work.
        The first of them does not get work from another thread.
        """
        host = self.host
        if not len(host.threads):
            return np.zeros(0, np.int64)
        if self.device.linked.any():
            launches = np.bincount(self.device.thread[self.device.linked])
            threads = [int(launches.argmax())]
        elif len(self.computing):
            threads = self.computing.tolist()
        else:
            recorded = np.where(host.event >= 0, np.diff(host.borders), 0)
            threads = [int(sums(host.thread_of(host.at), recorded, len(host.threads)).argmax())]
        worker = host.thread_of(self.handovers.begin)
        giver = host.thread_of(self.handovers.given)
        while (givers := giver[worker == threads[0]]).size and int(givers[0]) not in threads:
            threads.insert(0, int(givers[0]))
        return np.array(threads, np.int64)

    @cached_property
    def submitted(self) -> Ints:
        """The instant in each launch call from which the op could start.

        The call of a blocking copy first prepares the copy, then waits for it. If the stream was
        busy, most of the call is that wait.
        """
        device, usual = self.device, self.usual
        start = np.clip(device.start - usual.least_latency_ns, device.call, device.call_end)
        queued = device.is_blocking & (self.streams.free > device.call)
        start = np.where(queued, np.minimum(start, device.call + usual.call_ns), start)
        return np.where(device.linked, start, 0)

    def submitted_beside(self, waiting: Ints) -> Ints:
        """The same instants, given the ops that wait for another stream. Other blocking copies that
        start long after their stream was free were being prepared until then.
        """
        device, usual = self.device, self.usual
        late = device.is_blocking & (device.start - self.streams.free > self.thresholds.wait_ns)
        late[waiting] = False
        start = np.clip(device.start - usual.least_latency_ns, device.call, device.call_end)
        return np.where(late & device.linked, start, self.submitted)

    @property
    def ready(self) -> Ints:
        """The earliest start of each op that its launch and its stream allow."""
        return np.maximum(
            self.submitted + self.usual.latency_ns, self.streams.free + self.usual.gap_ns
        )

    @property
    def fresh(self) -> Flags:
        """Which ops start about as soon after their launch as on an idle stream."""
        return self.device.linked & (
            self.device.start - self.submitted <= self.usual.latency_ns + self.usual.gap_ns
        )


def recording_of(database: Session, trace_id: int) -> Recording:
    """Reads a trace's recording.

    Raises:
        TracekitError: when no event has a time or a duration, or the trace's times do not fit
            into 64 bits.
    """
    thresholds = database.thresholds
    spans = database.rows_of_trace("SELECT trace_id, start_ns, end_ns FROM trace_span", trace_id)
    if not spans:
        raise TracekitError("the trace has no events with a time: there is nothing to replay")
    start, end = spans[0]
    ops_spans = database.rows_of_trace(catalog.schema("read_ops_span"), trace_id)
    first, last = ops_spans[0] if ops_spans else (None, None)
    origin = start if first is None else max(start, first - thresholds.around_ns)
    until = end if last is None else min(end, last + thresholds.around_ns)
    segments = sorted(
        database.rows_of_trace(catalog.schema("read_threads"), trace_id), key=itemgetter(2)
    )
    # This query takes the most memory in DuckDB: it runs first, while little else is in memory.
    database.give_back_memory()
    ops = database.arrays(
        "device_limits", ("cause",), trace=trace_id, short_ns=thresholds.launch_floor_ns
    )
    threads = [(pid, tid) for pid, tid, *_ in segments]
    if not threads and first is None:
        raise TracekitError("no event of the trace takes any time: there is nothing to replay")
    host = host_from(_host_work(database, trace_id, segments), threads, start, origin, until)
    computing = np.zeros(0, np.int64)
    if first is None:
        host, computing = _by_cpu_work(database, trace_id, host)
    for columns in (_OP, _LAUNCH, _CAPTURED):
        if columns != _CAPTURED or ops["is_graph"].any():
            ops |= database.arrays("device_work", columns, trace=trace_id)
    calls = database.arrays("host_waits", trace=trace_id)
    device = _on_time(device_from(ops, host, thresholds), calls, host.origin_ns, thresholds)
    return Recording(database, trace_id, thresholds, host, device, calls, computing)


def _by_cpu_work(database: Session, trace_id: int, host: Host) -> tuple[Host, Ints]:
    """The host of a trace without GPU ops, with the computing thread's activity from the query
    cpu_work; and that thread, if any."""
    rows = database.arrays("cpu_work", trace=trace_id)
    thread = host.numbers(rows["pid"], rows["tid"])
    begin = host.key(thread, rows["start_ns"])
    host = host.cut(begin)
    mine = np.flatnonzero(np.isin(host.thread_of(host.at), thread))
    cause = host.cause.copy()
    cause[mine] = rows["cause"][np.searchsorted(begin, host.at[mine], "right") - 1]
    return replace(host, cause=cause), np.unique(thread)


def _on_time(
    device: Device, calls: dict[str, NDArray[Any]], origin_ns: int, thresholds: Thresholds
) -> Device:
    """The device, with its clock set back if calls return before the ops that they wait for end.

    The clock is set back only if most calls return early, and every op stays after its launch.
    """
    if len(device.shift_ns) != 1 or any(device.shift_ns.values()):
        return device
    chosen = np.flatnonzero(~np.isin(calls["scope"].astype(str), ("maybe", "ready")))
    end = (calls["start_ns"] + calls["dur_ns"])[chosen] - origin_ns
    stream = np.ma.filled(calls["stream"], -1).astype(np.int64)[chosen]
    last = Streams(device).before(
        calls["until_ns"][chosen] - origin_ns, np.full(len(chosen), -NEVER), stream
    )[0]
    late = (np.append(device.end, 0)[last] - end)[last >= 0]
    linked = device.linked & ~device.is_blocking
    if len(late) < thresholds.fewest_late or not linked.any():
        return device
    # All late calls except outliers.
    usual = max(0, int(np.quantile(late, thresholds.late_quantile)))
    back = int(late[late <= 2 * usual].max(initial=0))
    back = min(back, int((device.start - device.call)[linked].min()))
    if 2 * int((late > 0).sum()) <= len(late) or back <= thresholds.clock_tick_ns:
        return device
    return replace(device, start=device.start - back, shift_ns={next(iter(device.shift_ns)): -back})


def _host_work(
    database: Session, trace_id: int, segments: list[tuple[int, ...]]
) -> Iterator[dict[str, NDArray[Any]]]:
    """The rows of queries/replay/host_work.sql, in blocks."""
    if not segments:
        return
    first, last = segments[0][2], max(row[3] for row in segments)
    at_once = -(-(last - first + 1) * _AT_ONCE // sum(row[4] for row in segments))
    for begin in range(first, last + 1, at_once):
        yield database.arrays(
            "host_work",
            ("start_ns", "dur_ns", "cause", "event_id"),
            trace=trace_id,
            from_segment=begin,
            to_segment=begin + at_once - 1,
        )


# -- ops that wait for ops of other streams


def stream_waits(recorded: Recording) -> tuple[Ints, Ints]:
    """Ops that wait for an op of another stream, and the ops that they wait for.

    The waits come from the trace's own records, or are inferred from its calls and times.
    """
    rows = recorded.database.arrays("stream_waits", trace=recorded.trace_id)
    pairs = [_recorded_waits(recorded, rows), *_inferred_waits(recorded, rows)]
    ops = len(recorded.device.start)
    # Each pair as one number.
    both = distinct(np.concatenate([target * ops + source for target, source in pairs]))
    target, source = np.divmod(both, max(1, ops))
    return target, source


def _recorded_waits(recorded: Recording, rows: dict[str, Ints]) -> tuple[Ints, Ints]:
    """The waits in the trace's own records (cuda_sync): ops that wait, and what they wait for."""
    device, origin = recorded.device, recorded.host.origin_ns
    has_record = ~np.ma.getmaskarray(rows["until_ns"])
    call = rows["start_ns"][has_record] - origin
    until = np.ma.getdata(rows["until_ns"])[has_record] - origin
    stream = np.ma.filled(rows["stream"], -1)[has_record]
    other = np.ma.filled(rows["wait_on_stream"], -1)[has_record]
    source, _ = recorded.streams.before(until, np.full(len(until), -NEVER), other)
    target = np.full(len(call), -1, np.int64)
    # The first op launched on each stream from the call on.
    linked = np.flatnonzero(device.linked)
    linked = linked[np.lexsort((linked, device.call[linked], device.stream[linked]))]
    of_stream = device.stream[linked]
    for number in np.unique(stream):
        first, stop = np.searchsorted(of_stream, [number, number + 1])
        mine, call_at = linked[first:stop], np.flatnonzero(stream == number)
        index = np.searchsorted(device.call[mine], call[call_at], "left")
        is_valid = index < len(mine)
        target[call_at[is_valid]] = mine[index[is_valid]]
    good = (target >= 0) & (source >= 0) & (other >= 0)
    return target[good], source[good]


def _inferred_waits(recorded: Recording, rows: dict[str, Ints]) -> Iterator[tuple[Ints, Ints]]:
    """The waits inferred from calls that make streams wait, and from late starts.

    An op launched right after such a call waits for the op that its thread launched right before
    the call, if that is on another stream. An op that starts late waits for the op that ended last
    before its start. That op has to be on another stream and launched before such a call, which
    itself comes after the previous launch on the late op's stream; within a CUDA graph, it has to
    belong to the same graph launch.
    """
    device, ready = recorded.device, recorded.ready
    late = device.linked & (device.start > ready + recorded.usual.gap_ns)
    calls = np.sort(
        recorded.host.key(recorded.host.numbers(rows["pid"], rows["tid"]), rows["start_ns"])
    )
    key = recorded.host.key(device.thread, recorded.host.origin_ns + device.call)
    if len(calls):
        yield _neighbors(recorded, calls, key)
        same = ~recorded.streams.is_first & (np.roll(device.thread, 1) == device.thread)
        since = np.where(same, np.roll(key, 1), recorded.host.start_of(device.thread))
        index = np.searchsorted(calls, key) - 1
        waits = late & (index >= 0) & (calls[index] >= since) & ~device.is_graph
        op = np.flatnonzero(waits)
        source = _ended_before(recorded, op, recorded.host.time_of(calls[index[op]]))
        yield _late(recorded, op, source, ready)
    op = np.flatnonzero(late & device.is_graph)
    source = _ended_before(recorded, op, device.call_end[op] + 1)
    other = (source >= 0) & (device.launch_id[source] != device.launch_id[op])
    yield _late(recorded, op, np.where(other, -1, source), ready)
    # For an op without a launch, the calls before it are also unknown: only an op that ran while
    # its stream was idle, and ended right before it, explains the delay.
    free, wait_ns = recorded.streams.free, recorded.thresholds.wait_ns
    op = np.flatnonzero(~device.linked & (free > NEVER) & (device.start > free + wait_ns))
    source = _ended_before(recorded, op, np.full(len(op), -NEVER))
    covers = (device.start[source] <= free[op]) & (device.end[source] >= device.start[op] - wait_ns)
    yield _late(recorded, op, np.where(covers, source, -1), ready)


def _neighbors(recorded: Recording, calls: Ints, key: Ints) -> tuple[Ints, Ints]:
    """Ops of different streams that a thread launched one after the other, with only a call in
    between that makes a stream wait."""
    device = recorded.device
    op = np.flatnonzero(device.linked)
    op = op[np.argsort(key[op], kind="stable")]
    first, second = op[:-1], op[1:]
    index = np.searchsorted(calls, key[second]) - 1
    waits = (index >= 0) & (calls[index] >= key[first])
    good = (
        waits
        & (device.thread[first] == device.thread[second])
        & (device.queue[first] != device.queue[second])
        & (device.device_id[first] == device.device_id[second])
        & (device.end[first] <= device.start[second] + recorded.thresholds.clock_tick_ns)
        & (device.start[first] < device.start[second])
    )
    return second[good], first[good]


def _late(recorded: Recording, op: Ints, source: Ints, ready: Ints) -> tuple[Ints, Ints]:
    """The pairs whose source ended after the op could have started, since only these explain a
    delay."""
    good = source >= 0
    good[good] = recorded.device.end[source[good]] > ready[op[good]]
    return op[good], source[good]


def _ended_before(recorded: Recording, op: Ints, until: Ints) -> Ints:
    """For each op, the last one to end before its start among the ops on other streams of its
    device that were launched before `until`; -1: none."""
    device = recorded.device
    best = np.full(len(op), -1, np.int64)
    best_end = np.full(len(op), NEVER)
    linked, end = device.linked, device.end
    for queue in recorded.streams.by_start if len(op) else []:
        mine = queue[np.argsort(end[queue], kind="stable")]
        latest = device.start[op] + recorded.thresholds.clock_tick_ns
        index = np.searchsorted(end[mine], latest, "right") - 1
        candidate = mine[np.maximum(index, 0)]
        good = (
            (index >= 0)
            & (device.queue[op] != device.queue[queue[0]])
            & (device.device_id[op] == device.device_id[candidate])
            & (end[candidate] > best_end)
            & (device.start[candidate] < device.start[op])
            & (~linked[candidate] | (device.call[candidate] < until))
        )
        best = np.where(good, candidate, best)
        best_end = np.where(good, end[candidate], best_end)
    return best
