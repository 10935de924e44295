"""The graph's input: recorded work of host and device, and usual delays."""

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
from tracekit.replay.graph.arrays import NEVER, Flags, Ints, Numbers, sums
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
    def lost_graphs(self) -> Ints:
        """The keys at which graphs were launched whose kernels are not in the trace, in order."""
        rows = self.database.arrays("lost_graphs", trace=self.trace_id)
        thread = self.host.numbers(rows["pid"], rows["tid"])
        return np.sort(self.host.key(thread, rows["start_ns"])[thread >= 0])

    def follows_lost(self, thread: Numbers, since: Ints, until: Ints) -> Flags:
        """Whether the thread launched a graph that was lost between these instants."""
        graphs, begin = self.lost_graphs, self.host.start_of(thread)
        index = np.searchsorted(graphs, begin + until) - 1
        before = np.append(graphs, -1)[index]
        return (thread >= 0) & (index >= 0) & (before >= begin + np.maximum(since, 0))

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
        return self._submitted(self.device.is_blocking & (self.streams.free > self.device.call))

    def submitted_beside(self, target: Ints, source: Ints) -> Ints:
        """The same instants, given the ops that wait for an op of another stream, and that op.
        Blocking copies that start long after both streams were free were being prepared until then.
        """
        device = self.device
        free = self.streams.free.copy()
        np.maximum.at(free, target, device.end[source])
        is_prompt = device.start - free <= self.thresholds.wait_ns
        queued = (free > device.call) & is_prompt
        queued |= self.follows_lost(device.thread, self.streams.launched, device.call)
        return self._submitted(device.is_blocking & queued)

    def _submitted(self, queued: Flags) -> Ints:
        """`queued` are the ops whose calls waited for the stream."""
        device, usual = self.device, self.usual
        start = np.clip(device.start - usual.least_latency_ns, device.call, device.call_end)
        start = np.where(queued, np.minimum(start, device.call + usual.call_ns), start)
        return np.where(device.linked, start, 0)

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
    late_ns = dict(
        database.rows_of_trace("SELECT trace_id, device_id, late_ns FROM late_clock", trace_id)
    )
    device = device_from(ops, late_ns, host, thresholds)
    device = _on_time(device, calls, host.origin_ns, thresholds)
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
