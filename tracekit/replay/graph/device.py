"""GPU ops as arrays: their launches, their order on streams, and the device's usual delays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracekit.replay.graph.arrays import NEVER, Flags, Ints, Numbers, begins, compact_ids
from tracekit.replay.graph.host import Host
from tracekit.thresholds import Thresholds


class Device(Struct, frozen=True, dict=True):
    """GPU ops, stream after stream, in order of their starts.

    Times are ns since the trace's start on the host's clock: `shift_ns` of the op's device was
    added to the times in the trace.
    """

    op_id: Numbers
    device_id: Numbers
    stream: Numbers
    queue: NDArray[np.int32]
    """The op's stream, numbered over all devices."""
    start: Ints
    ns: Ints
    cause: NDArray[np.int8]
    launch_id: Numbers
    """-1: the launch is not in the trace."""
    thread: NDArray[np.int32]
    """The launching thread's number; -1: none."""
    call: Ints
    """The launch call's start."""
    call_end: Ints
    captured_by: NDArray[np.int32]
    """The thread that captured the op, if this trace has its graph's capture; -1: none."""
    captured: Ints
    """The captured launch's start."""
    is_graph: Flags
    is_blocking: Flags
    shift_ns: dict[int, int]
    wrong_links: int

    @property
    def end(self) -> Ints:
        return self.start + self.ns

    def ended(self, op: Ints) -> Ints:
        """When ops end; -1 for op -1 (none)."""
        ends: Ints = np.append(self.end, -1)[op]
        return ends

    def began(self, op: Ints) -> Ints:
        """When ops start; `NEVER` for op -1 (none)."""
        starts: Ints = np.append(self.start, NEVER)[op]
        return starts

    @property
    def linked(self) -> Flags:
        return self.thread >= 0

    @cached_property
    def launched_to(self) -> NDArray[np.int32]:
        """The number of the stream that each op was launched to.

        A graph's kernels may run on streams of their own. Its launch does not record the stream: it
        is that of the op that its thread launched before, or else the kernel's own.
        """
        if not self.is_graph.any():
            return self.queue
        op = np.flatnonzero(self.linked)
        op = op[np.lexsort((self.start[op], self.call[op], self.device_id[op], self.thread[op]))]
        alone = np.where(self.is_graph[op], -1, np.arange(len(op)))
        before = np.maximum.accumulate(alone)
        known = before >= 0
        for same in (self.thread, self.device_id):
            known &= same[op[before]] == same[op]
        queue = self.queue.copy()
        queue[op[known]] = self.queue[op[before[known]]]
        return queue

    def numbers(self, event_id: Ints) -> Ints:
        """The numbers of ops by their event_id; -1: no op has it."""
        at = np.searchsorted(self.op_id, event_id, sorter=self._by_id)
        op = np.append(self._by_id, -1)[at]
        return np.where(np.append(self.op_id, -1)[op] == event_id, op, -1)

    @cached_property
    def _by_id(self) -> Ints:
        return np.argsort(self.op_id, kind="stable")


def device_from(
    rows: dict[str, NDArray[Any]], late_ns: dict[int, int], host: Host, thresholds: Thresholds
) -> Device:
    """One trace's ops, from the rows of queries/replay/device_work.sql and device_limits.sql.

    `late_ns`: how late devices' clocks are. Removes the columns from `rows` as it reads them.
    """

    def filled(name: str) -> Ints:
        return np.ma.filled(rows.pop(name), -1).astype(np.int64, copy=False)

    launch_id = compact_ids(filled("launch_id"))
    linked = launch_id >= 0
    thread = np.full(len(linked), -1, np.int32)
    if linked.any():
        thread[linked] = host.numbers(filled("pid")[linked], filled("tid")[linked])
    captured_by, captured = np.full(len(linked), -1, np.int32), np.zeros(len(linked), np.int64)
    if "captured_ns" in rows:
        captured = filled("captured_ns") - host.origin_ns
        captured_by = host.numbers(filled("captured_pid"), filled("captured_tid")).astype(np.int32)
    device_id, stream = compact_ids(filled("device_id")), compact_ids(filled("stream"))
    start = filled("start_ns") - host.origin_ns
    call = np.where(linked, filled("launch_start_ns") - host.origin_ns, 0)
    call_end = np.where(linked, filled("launch_end_ns") - host.origin_ns, 0)
    # An op starts before its launch if the device's clock is behind or the link is wrong.
    early = np.where(thread >= 0, call - start, NEVER)
    wrong = early > thresholds.clock_shift_ns
    thread[wrong] = -1
    early[wrong] = 0
    numbers, of_device = np.unique(device_id, return_inverse=True)
    shift = np.array([-late_ns.get(number, 0) for number in numbers.tolist()], np.int64)
    np.maximum.at(shift, of_device, early)
    start = start + shift[of_device]
    return Device(
        op_id=compact_ids(filled("event_id")),
        device_id=device_id,
        stream=stream,
        queue=np.cumsum(begins(device_id, stream), dtype=np.int32) - 1,
        start=start,
        ns=filled("dur_ns"),
        cause=rows["cause"],
        launch_id=np.where(thread >= 0, launch_id, -1),
        thread=thread,
        call=call,
        call_end=call_end,
        captured_by=captured_by,
        captured=captured,
        is_graph=np.ma.filled(rows["is_graph"], False).astype(np.bool_),
        is_blocking=np.ma.filled(rows["is_blocking"], False).astype(np.bool_) & (thread >= 0),
        shift_ns=dict(zip(numbers.tolist(), shift.tolist(), strict=True)),
        wrong_links=int(wrong.sum()),
    )


class UsualTimes(Struct, frozen=True):
    """The usual delays of ops and calls without other delays, in ns."""

    latency_ns: int
    """Median time from a submitted launch to the op's start on an idle stream."""
    least_latency_ns: int
    """The quantile `quick_share` of these times."""
    gap_ns: int
    """Median time from an op's end to the start of a queued op."""
    call_ns: int
    """Median length of a launch call that found room in the queue."""


class Streams:
    """The ops of each stream, in order of their starts and in order of their launches."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._end = end = device.end
        n = len(end)
        self.is_first: Flags = begins(device.queue)
        """Which ops are the first of their stream."""
        # One running maximum serves all streams: each stream's ends are moved above the previous
        # one's.
        above = device.queue.astype(np.int64) * (int(end.max(initial=0)) + 1) + end
        before = np.append(np.int32(-1), _latest(above))[:n]
        self.last: NDArray[np.int32] = np.where(self.is_first, -1, before)
        """The stream's earlier op with the latest end; -1: none."""
        self.free: Ints = np.where(self.last >= 0, end[self.last], NEVER)
        """That op's end; NEVER for a stream's first op."""
        border = np.flatnonzero(self.is_first)[1:]
        self.by_start = np.split(np.arange(n, dtype=np.int32), border) if n else []
        """The ops of each stream."""
        ops = np.flatnonzero(device.linked).astype(np.int32)
        ops = ops[np.lexsort((device.call[ops], device.launched_to[ops]))]
        border = np.flatnonzero(begins(device.launched_to[ops]))[1:]
        self.by_launch = np.split(ops, border) if len(ops) else []
        """The linked ops that were launched to each stream, without streams that have none."""
        self._ends_last = [ops[_latest(end[ops])] for ops in self.by_launch]
        self.launched: Ints = np.full(n, NEVER)
        """The start of the last launch to the stream before each op's own; NEVER for the first."""
        for ops in self.by_launch:
            self.launched[ops[1:]] = device.call[ops[:-1]]

    def usual_times(self, thresholds: Thresholds) -> UsualTimes:
        """The usual delays of ops and calls."""
        device, free = self._device, self.free
        linked = device.linked & ~device.is_blocking
        idle = linked & (free <= device.call)
        after_call = (device.start - device.call_end)[idle]
        after_call = after_call[(after_call > 0) & (after_call <= thresholds.wait_ns)]
        queued = linked & (free > device.call_end + thresholds.wait_ns)
        gap = (device.start - free)[queued]
        gap = gap[(gap >= 0) & (gap <= thresholds.wait_ns)]
        roomy = linked & (self.depth() <= thresholds.queue_depth)
        calls = (device.call_end - device.call)[roomy if roomy.any() else linked]
        quick = np.quantile(after_call, thresholds.quick_share) if len(after_call) else 0
        return UsualTimes(
            latency_ns=_median(after_call, thresholds.launch_latency_ns),
            least_latency_ns=int(quick),
            gap_ns=_median(gap, thresholds.kernel_gap_ns),
            call_ns=_median(calls, 0),
        )

    def before(self, until: Ints, not_after: Ints, stream: Ints) -> tuple[Ints, Flags]:
        """For each instant `until`, the op launched before it with the latest end, at most
        `not_after` (-1: none); and whether some stream's last such op ends after `not_after`.

        Only each stream's latest end counts. `stream` selects streams with this number on any
        device; -1 selects all.
        """
        best = np.full(len(until), -1, np.int64)
        best_end = np.full(len(until), NEVER)
        pending = np.zeros(len(until), np.bool_)
        device = self._device
        for ops, last in zip(self.by_launch, self._ends_last, strict=True):
            index = np.searchsorted(device.call[ops], until, "left") - 1
            number = device.stream[np.searchsorted(device.queue, device.launched_to[ops[0]])]
            wanted = (index >= 0) & ((stream < 0) | (stream == number))
            ends = np.where(wanted, self._end[last[index]], NEVER)
            late = ends > not_after
            pending |= late & wanted
            better = wanted & ~late & (ends > best_end)
            best = np.where(better, last[index], best)
            best_end = np.where(better, ends, best_end)
        return best, pending

    def depth(self) -> NDArray[np.int32]:
        """The depth of the stream's queue at the start of each op's launch call: the number of
        launches, including this one, whose ops had not started."""
        device = self._device
        depth = np.zeros(len(device.start), np.int32)
        for op in self.by_launch:
            first = begins(device.launch_id[op])
            launches = np.cumsum(first)
            started = np.searchsorted(np.sort(device.start[op[first]]), device.call[op], "right")
            depth[op] = launches - started
        return depth


def _median(ns: Ints, otherwise: int) -> int:
    return int(np.median(ns)) if len(ns) else otherwise


def _latest(end: Ints) -> NDArray[np.int32]:
    """The index of the latest end up to each; of equal ones, the last."""
    index = np.arange(len(end), dtype=np.int32)
    return np.maximum.accumulate(np.where(end >= np.maximum.accumulate(end), index, 0))
