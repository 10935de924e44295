"""Finds what calls of host threads wait for: synchronizations, room in full queues, loaders.

A call waits until the awaited event has happened. It usually takes a short time to return. Any
longer time after the event is the call's own work: the thread is no longer blocked, and the work
has the call's cause.
"""

from __future__ import annotations

import numpy as np

from tracekit.causes import CAUSES, UNKNOWN_LIMIT
from tracekit.replay.graph import EdgeKind
from tracekit.replay.graph.arrays import NEVER, Flags, Ints, Numbers, begins
from tracekit.replay.graph.recording import Recording
from tracekit.replay.graph.waits import Known, Waits


def waits_in_calls(recorded: Recording, submitted: Ints) -> Waits:
    """The calls in which the trace's threads may wait.

    Args:
        submitted: the instant in each launch call from which its op could start.
    """
    full = _full_queues(recorded)
    return Waits.concatenate(
        [
            _sync_calls(recorded),
            _blocking_copies(recorded, submitted),
            full,
            _held_launches(recorded, full),
            _fetches(recorded),
        ]
    )


def _calls(
    recorded: Recording,
    kind: EdgeKind | Ints,
    known: Known | Ints,
    op: Numbers,
    thread: Numbers,
    begin: Ints,
    end: Ints,
    released: Ints,
    *,
    own: Ints | int,
    cause: Ints | int,
    waited: Flags | bool = True,
    else_lag: Ints | int = 0,
) -> Waits:
    """Calls from `begin` to `end` that wait for `op`, which releases them at `released`.

    They wait until their end if that follows within `wait_ns`; otherwise the rest is their own
    work, part of `own`. A call that did not wait but may in a changed run consists of its own work,
    and would return `else_lag` after its release.
    """
    host = recorded.host
    late = end - released > recorded.thresholds.wait_ns
    until = np.where(waited & late, released, end)
    worked = np.minimum(own, end - begin) - (end - until)
    return Waits.make(
        kind,
        np.where(waited, known, Known.NO_WAIT),
        host.key(thread, host.origin_ns + begin),
        host.key(thread, host.origin_ns + until),
        own_ns=np.where(waited, np.maximum(worked, 0), end - begin),
        own_cause=cause,
        op=op,
        lag_ns=np.where(waited, until - released, else_lag),
    )


def _sync_calls(recorded: Recording) -> Waits:
    """Calls that wait for the device, and allocator calls whose times show that they did."""
    rows = recorded.calls
    origin = recorded.host.origin_ns
    thread = recorded.host.numbers(rows["pid"], rows["tid"])
    begin, end = rows["start_ns"] - origin, rows["start_ns"] - origin + rows["dur_ns"]
    scope = rows["scope"].astype(str)
    stream = np.ma.filled(rows["stream"], -1).astype(np.int64)
    op, pending = recorded.streams.before(
        rows["until_ns"] - origin, end + recorded.thresholds.wait_ns, stream
    )
    ended = recorded.device.ended(op)
    # A call may also wait for an op whose launch is not in the trace.
    unlinked = _ended_last(recorded, end, stream)
    better = (scope != "maybe") & (end - ended > recorded.thresholds.wait_ns)
    op = np.where(
        better & (recorded.device.ended(unlinked) > begin) & (unlinked >= 0), unlinked, op
    )
    ended = recorded.device.ended(op)
    since = np.append(recorded.device.call, NEVER)[op]
    lost = recorded.follows_lost(thread, since, begin) & (scope != "maybe")
    lost &= end - ended > recorded.thresholds.wait_ns
    # Such a call waited if it ended right after the op and no other op was pending.
    maybe = scope == "maybe"
    allocates = rows["cause"] == CAUSES.index("allocation")
    limit_ns = np.where(allocates, recorded.thresholds.return_ns, recorded.thresholds.wait_ns)
    follows = (end - ended <= limit_ns) & (ended <= end + recorded.thresholds.clock_tick_ns)
    proved = (ended > begin) & ~pending & follows
    waits = (op >= 0) & (thread >= 0) & (~maybe | proved) & (begin < end) & ~lost
    short = waits & (ended <= begin)
    own = int(np.median((end - begin)[short])) if short.any() else recorded.thresholds.kernel_gap_ns
    chosen = np.flatnonzero(waits)
    begin, end, ended = begin[chosen], end[chosen], ended[chosen]
    allocating = maybe[chosen] & allocates[chosen]
    own_ns = np.minimum(end - begin, np.where(allocating, np.maximum(end - ended, 0), own))
    known = np.where(maybe[chosen], Known.TIMES, Known.NAMED_CALL)
    for_ops = _calls(
        recorded, EdgeKind.SYNC, known, op[chosen], thread[chosen], begin, end, ended,
        own=own_ns, cause=rows["cause"][chosen], waited=ended > begin,
        else_lag=np.minimum(own_ns, recorded.thresholds.wait_ns),
    )  # fmt: skip
    first, last = (each[lost] for each in recorded.host.slices(rows)[1:])
    # Work of the device, of which only this is known.
    for_lost = Waits.make(
        EdgeKind.SYNC, Known.LOST_GRAPH, first, last, instant=first, lag_ns=last - first,
        own_cause=CAUSES.index(UNKNOWN_LIMIT),
    )  # fmt: skip
    return Waits.concatenate([for_ops, for_lost])


def _ended_last(recorded: Recording, end: Ints, stream: Ints) -> Ints:
    """For each instant, the op without a launch that ended right before it (-1: none), on `stream`
    unless that is -1."""
    device, thresholds = recorded.device, recorded.thresholds
    op = np.flatnonzero(~device.linked)
    op = np.append(op[np.argsort(device.end[op], kind="stable")], -1)
    index = np.searchsorted(device.end[op[:-1]], end + thresholds.clock_tick_ns, "right") - 1
    ops = op[index]
    on_stream = (stream < 0) | (stream == np.append(device.stream, -1)[ops])
    return np.where(on_stream & (end - recorded.device.ended(ops) <= thresholds.wait_ns), ops, -1)


def _blocking_copies(recorded: Recording, submitted: Ints) -> Waits:
    """Copy calls that return when their own op has ended."""
    device = recorded.device
    op = np.flatnonzero(device.is_blocking)
    # A call with several such ops waits for the one that ends last.
    op = op[np.lexsort((device.end[op], device.launch_id[op]))]
    op = op[np.append(np.diff(device.launch_id[op]) != 0, True)[: len(op)]]
    return _calls(
        recorded, EdgeKind.SYNC, Known.BLOCKING_COPY, op, device.thread[op], submitted[op], 
        device.call_end[op], device.end[op], own=0, cause=CAUSES.index("copy"),
    )  # fmt: skip


def _full_queues(recorded: Recording) -> Waits:
    """Launch calls that found their stream's queue full, and calls that could find it full in a
    changed run."""
    device, thresholds = recorded.device, recorded.thresholds
    waits: list[Waits] = []
    for launched in recorded.streams.by_launch:
        op = launched[~device.is_blocking[launched]]
        op = op[begins(device.launch_id[op])]
        if not len(op):
            continue
        starts = np.sort(device.start[op])
        # The queue's depth when each call returns, including the call's own launch. A full queue
        # has nearly the same depth each time; while a call waits for room, it is one deeper. It may
        # have been deeper before: some launches take less of it.
        returned = device.call_end[op] + thresholds.full_early_ns
        room = np.searchsorted(starts, returned, "right") - 1
        depth = np.arange(len(op)) - room
        call_ns = device.call_end[op] - device.call[op]
        deep = depth >= thresholds.queue_depth
        long = deep & (call_ns >= thresholds.one_range_ratio * recorded.usual.call_ns)
        if not long.any():
            continue
        limit = int(np.bincount(depth[long]).argmax())
        away = np.abs(depth - limit)
        blocked = away <= np.where(long, thresholds.full_spread * limit, thresholds.full_slack)
        if (blocked & long).sum() < max(
            thresholds.full_calls, thresholds.full_share * int(long.sum())
        ):
            continue
        # The op whose start made room is the last one that started before the call returned, or,
        # where a device clears its queue early or its clock is late, right after.
        release = np.where(blocked, room, np.arange(len(op)) - limit)
        chosen = np.flatnonzero(
            (release >= 0)
            & (release < np.arange(len(op)))
            & (starts[np.maximum(release, 0)] <= returned)
        )
        by_start = op[np.argsort(device.start[op], kind="stable")]
        target, is_blocked = op[chosen], blocked[chosen]
        begin, end = device.call[target], device.call_end[target]
        starts_late = starts[release[chosen]] > end
        source = by_start[np.maximum(release[chosen] - starts_late, 0)]
        by_end = starts_late & (device.end[source] <= end)
        roomy = np.where(by_end, device.end[source], device.start[source])
        usual = int(np.median((end - roomy)[is_blocked]))
        # A call that begins when the queue has room does not wait.
        is_blocked &= roomy > begin
        kind = np.where(by_end, EdgeKind.SYNC, EdgeKind.QUEUE)
        waits.append(
            _calls(
                recorded, kind, Known.FULL_QUEUE, source, device.thread[target], begin, end, roomy,
                own=recorded.usual.call_ns, cause=CAUSES.index("launch"),
                waited=is_blocked, else_lag=np.minimum(end - roomy, usual),
            )
        )  # fmt: skip
    return Waits.concatenate(waits)


def _held_launches(recorded: Recording, full: Waits) -> Waits:
    """Other launch calls that return when an op ends that ran during nearly all of the call: the op
    delayed them, like a copy of parameters."""
    device, host, thresholds = recorded.device, recorded.host, recorded.thresholds
    op = np.flatnonzero(device.linked & ~device.is_blocking)
    op = op[np.unique(device.launch_id[op], return_index=True)[1]]
    op = op[device.call_end[op] - device.call[op] >= thresholds.stall_ns]
    begin, end = device.call[op], device.call_end[op]
    order = np.append(np.argsort(device.end, kind="stable"), -1)
    ends = device.end[order[:-1]]
    source = order[np.searchsorted(ends, end + thresholds.clock_tick_ns, "right") - 1]
    ended, length = recorded.device.ended(source), end - begin
    ran_from = np.maximum(device.start[source], begin)
    held = (
        (source >= 0)
        & (end - ended <= thresholds.spin_ns)
        & (ended - ran_from >= thresholds.own_share * length)
        & (~device.linked[source] | (device.call[source] < begin))
        & ~np.isin(host.key(device.thread[op], host.origin_ns + begin), full.start)
    )
    op, begin, end, source, ended = (each[held] for each in (op, begin, end, source, ended))
    return _calls(
        recorded, EdgeKind.SYNC, Known.HELD_LAUNCH, source, device.thread[op], begin, end, ended,
        own=recorded.usual.call_ns, cause=CAUSES.index("launch"),
    )  # fmt: skip


def _fetches(recorded: Recording) -> Waits:
    """Fetches that found no loaded batch.

    The loader works while the thread does other things. In a replay, it takes as long from one
    batch to the next as in the trace. If most fetches find no batch, the loader never rests: the
    time from one late batch to the next stays the same, however soon the batches between were
    taken. The first fetch then waits like the others, unless it takes far longer because workers
    start.
    """
    rows = recorded.database.arrays("input_waits", trace=recorded.trace_id)
    thread, start, end = recorded.host.slices(rows)
    long = (rows["dur_ns"] > recorded.thresholds.prefetched_ns) & (thread >= 0)
    follows = np.append(False, thread[1:] == thread[:-1])[: len(thread)]
    chosen = np.flatnonzero(long & follows)
    since = end[chosen - 1]
    if 2 * len(chosen) > len(thread):
        last = chosen[:-1]
        since[1:] = np.where(thread[last] == thread[chosen[1:]], end[last], since[1:])
        usual_ns = recorded.thresholds.one_range_ratio * np.median(end[chosen] - since)
        first = np.flatnonzero(long & ~follows & (end - start < usual_ns))
        chosen, since = np.append(first, chosen), np.append(start[first], since)
    ready = rows["dur_ns"][rows["dur_ns"] <= recorded.thresholds.prefetched_ns]
    own = int(np.median(ready)) if len(ready) else 0
    return Waits.make(
        EdgeKind.LOADER,
        Known.LONG_FETCH,
        start[chosen],
        end[chosen],
        own_ns=own,
        own_cause=CAUSES.index("input"),
        instant=since,
        lag_ns=end[chosen] - since,
    )
