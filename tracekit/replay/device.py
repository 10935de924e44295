"""GPU ops as arrays: who launched them, what ran before, and what the device takes for both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.host import NEVER, Flags, Host, Ints
from tracekit.thresholds import Thresholds


@dataclass(frozen=True)
class Device:
    """GPU ops, stream after stream, in order of their starts. Times are ns since the trace's start,
    by the host's clock: `shift_ns` was added to what the trace says."""

    op_id: Ints
    device_id: Ints
    stream: Ints
    queue: Ints
    """The number of the op's (device, stream)."""
    start: Ints
    ns: Ints
    cause: NDArray[np.int8]
    launch_id: Ints
    """-1: not in the trace."""
    thread: Ints
    """The launching thread's number; -1: none."""
    call: Ints
    """The launch call's start."""
    call_end: Ints
    is_graph: Flags
    is_blocking: Flags
    shift_ns: dict[int, int]
    wrong_links: int

    @cached_property
    def queues(self) -> list[Ints]:
        """The ops of each queue, in order of their starts."""
        border = np.flatnonzero(np.diff(self.queue)) + 1
        return np.split(np.arange(len(self.queue)), border) if len(self.queue) else []

    @cached_property
    def launched(self) -> list[Ints]:
        """The linked ops of each queue that has some, in order of their launches."""
        linked = (ops[self.linked[ops]] for ops in self.queues)
        return [ops[np.argsort(self.call[ops], kind="stable")] for ops in linked if len(ops)]

    @cached_property
    def end(self) -> Ints:
        return self.start + self.ns

    @cached_property
    def linked(self) -> Flags:
        return self.thread >= 0


def device_from(rows: dict[str, NDArray[Any]], host: Host, limits: Thresholds) -> Device:
    """From the rows of queries/replay/device_work.sql, of one trace."""

    def filled(name: str) -> Ints:
        return np.ma.filled(rows[name], -1).astype(np.int64)

    linked = filled("launch_id") >= 0
    thread = np.full(len(linked), -1, np.int64)
    if linked.any():
        thread[linked] = host.numbers(filled("pid")[linked], filled("tid")[linked])
    device_id, stream = filled("device_id"), filled("stream")
    start = rows["start_ns"] - host.origin_ns
    call = np.where(linked, filled("launch_start_ns") - host.origin_ns, 0)
    call_end = np.where(linked, filled("launch_end_ns") - host.origin_ns, 0)
    # What starts before its launch: the device's clock is behind by as much, or the link is wrong.
    early = np.where(thread >= 0, call - start, NEVER)
    wrong = early > limits.clock_shift_ns
    thread[wrong] = -1
    early[wrong] = 0
    shifts = {}
    for number in np.unique(device_id):
        mine = device_id == number
        shifts[int(number)] = max(0, int(early[mine].max(initial=0)))
        start = np.where(mine, start + shifts[int(number)], start)
    new = np.append(True, (np.diff(device_id) != 0) | (np.diff(stream) != 0))[: len(start)]
    return Device(
        op_id=rows["event_id"].astype(np.int64),
        device_id=device_id,
        stream=stream,
        queue=np.cumsum(new) - 1,
        start=start,
        ns=rows["dur_ns"].astype(np.int64),
        cause=rows["cause"],
        launch_id=np.where(thread >= 0, filled("launch_id"), -1),
        thread=thread,
        call=call,
        call_end=call_end,
        is_graph=np.ma.filled(rows["is_graph"], False).astype(np.bool_),
        is_blocking=np.ma.filled(rows["is_blocking"], False).astype(np.bool_) & (thread >= 0),
        shift_ns=shifts,
        wrong_links=int(wrong.sum()),
    )


@dataclass(frozen=True)
class Order:
    """What each op finds on its stream."""

    before: Ints
    """The op before it; -1: it is the first."""
    last: Ints
    """Of all before it, the one that ends last; -1: none."""
    free: Ints
    """When that one ends; very early where there is none."""


def order_of(device: Device) -> Order:
    n = len(device.start)
    index = np.arange(n)
    first = np.append(True, np.diff(device.queue) != 0)[:n]
    before = np.where(first, -1, index - 1)
    # One running maximum for all streams: each one's ends lie above those of the streams before.
    wide = int(device.end.max(initial=0)) + 1
    above = device.queue * wide + device.end
    most = np.maximum.accumulate(above) if n else above
    last = np.maximum.accumulate(np.where(above >= most, index, 0)) if n else index
    last = np.where(first, -1, np.append(-1, last[:-1])[:n])
    free = np.where(last >= 0, device.end[last], NEVER) if n else index
    return Order(before, last, free)


@dataclass(frozen=True)
class Habits:
    """What this device takes where nothing else holds an op up: of the ops for which that is so."""

    latency_ns: int
    """From a launch, submitted, to the op's start on an idle stream."""
    least_latency_ns: int
    gap_ns: int
    """Between ops of one stream that were both waiting."""
    call_ns: int
    """A launch call that found room in the queue."""


def habits_of(device: Device, order: Order, limits: Thresholds) -> Habits:
    linked = device.linked & ~device.is_blocking
    idle = linked & (order.free <= device.call)
    after_call = (device.start - device.call_end)[idle]
    after_call = after_call[(after_call > 0) & (after_call <= limits.wait_ns)]
    queued = linked & (order.free > device.call_end + limits.wait_ns)
    gap = (device.start - order.free)[queued]
    gap = gap[(gap >= 0) & (gap <= limits.wait_ns)]
    roomy = linked & (depth_of(device) < limits.queue_depth)
    calls = (device.call_end - device.call)[roomy if roomy.any() else linked]
    return Habits(
        latency_ns=int(np.median(after_call)) if len(after_call) else limits.launch_latency_ns,
        least_latency_ns=int(np.quantile(after_call, 0.1)) if len(after_call) else 0,
        gap_ns=int(np.median(gap)) if len(gap) else limits.kernel_gap_ns,
        call_ns=int(np.median(calls)) if len(calls) else 0,
    )


def depth_of(device: Device) -> Ints:
    """How many launches of its stream had not started when each op's launch began."""
    depth = np.zeros(len(device.start), np.int64)
    for op in device.launched:
        first = np.append(True, np.diff(device.launch_id[op]) != 0)
        launches = np.cumsum(first) - 1
        started = np.searchsorted(np.sort(device.start[op[first]]), device.call[op], "right")
        depth[op] = launches - started
    return depth


class Launched:
    """Which op, of those launched before an instant, ends last: stream by stream."""

    def __init__(self, device: Device) -> None:
        self.streams: list[tuple[int, Ints, Ints, Ints]] = []
        for ops in device.launched:
            end = device.end[ops]
            most = np.maximum.accumulate(end)
            last = np.maximum.accumulate(np.where(end >= most, np.arange(len(ops)), 0))
            self.streams.append((int(device.stream[ops[0]]), device.call[ops], ops[last], most))

    def before(self, until: Ints, not_after: Ints, stream: Ints) -> tuple[Ints, Flags]:
        """For each instant, the op launched before it that ends last, but not after `not_after`
        (-1: none), and whether another one was still to end then.

        `stream`: only this stream of any device, where it is not -1.
        """
        best = np.full(len(until), -1, np.int64)
        best_end = np.full(len(until), NEVER)
        pending = np.zeros(len(until), np.bool_)
        for number, call, op, end in self.streams:
            place = np.searchsorted(call, until, "left") - 1
            wanted = (place >= 0) & ((stream < 0) | (stream == number))
            ends = np.where(wanted, end[place], NEVER)
            late = ends > not_after
            pending |= late & wanted
            better = wanted & ~late & (ends > best_end)
            best = np.where(better, op[place], best)
            best_end = np.where(better, ends, best_end)
        return best, pending
