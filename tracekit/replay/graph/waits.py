"""Finds what host threads wait for: synchronizations, room in full queues, loaders, other threads.

A call waits until the awaited event has happened. It usually takes a short time to return. Any
longer time after the event is the call's own work: the thread is no longer blocked, and the work
has the call's cause.
"""

from __future__ import annotations

import numpy as np

from tracekit.causes import CAUSES, UNKNOWN_LIMIT
from tracekit.replay.graph import EdgeKind
from tracekit.replay.graph.arrays import NEVER, Columns, Flags, Ints, Numbers, begins
from tracekit.replay.graph.recording import Recording


class Waits(Columns, frozen=True):
    """Stretches in which a thread may wait: it is blocked from `start` to `end`.

    The join at `end` comes no earlier than `lag_ns` after the source, and no earlier than `own_ns`
    after the thread's own work. The source is the end of the op `op` (its start for the kind
    QUEUE), or the host's instant `instant`.
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
    def make(kind: EdgeKind, start: Ints, end: Ints, **given: Numbers | int) -> Waits:
        n = len(start)
        names = {"own_ns": 0, "own_cause": 0, "op": -1, "instant": -1, "lag_ns": 0} | given
        columns = {
            name: np.broadcast_to(value, n).astype(np.int64) for name, value in names.items()
        }
        return Waits(start, end, kind=np.full(n, kind, np.int64), **columns)


def _calls(
    recorded: Recording,
    kind: EdgeKind,
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
        host.key(thread, host.origin_ns + begin),
        host.key(thread, host.origin_ns + until),
        own_ns=np.where(waited, np.maximum(worked, 0), end - begin),
        own_cause=cause,
        op=op,
        lag_ns=np.where(waited, until - released, else_lag),
    )


def waits_of(recorded: Recording, submitted: Ints) -> Waits:
    """The stretches in which the trace's threads may wait.

    Args:
        submitted: the instant in each launch call from which its op could start.
    """
    given, full = recorded.handovers, _full_queues(recorded)
    return Waits.concatenate(
        [
            _sync_calls(recorded),
            _blocking_copies(recorded, submitted),
            full,
            _held_launches(recorded, full),
            _fetches(recorded),
            # A thread that gets work is blocked until then, and its giver until that work is done.
            Waits.make(EdgeKind.HANDOVER, given.idle_from, given.begin, instant=given.given),
            Waits.make(EdgeKind.HANDOVER, given.still_from, given.returned, instant=given.end),
            _idling(recorded),
            _unrecorded(recorded),
            _answers(recorded),
            *_spins(recorded),
        ]
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
    ended = _ends(recorded, op)
    # A call may also wait for an op whose launch is not in the trace.
    unlinked = _ended_last(recorded, end, stream)
    better = (scope != "maybe") & (end - ended > recorded.thresholds.wait_ns)
    op = np.where(better & (_ends(recorded, unlinked) > begin) & (unlinked >= 0), unlinked, op)
    ended = _ends(recorded, op)
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
    for_ops = _calls(
        recorded, EdgeKind.SYNC, op[chosen], thread[chosen], begin, end, ended, own=own_ns,
        cause=rows["cause"][chosen], waited=ended > begin,
        else_lag=np.minimum(own_ns, recorded.thresholds.wait_ns),
    )  # fmt: skip
    first, last = (each[lost] for each in recorded.host.slices(rows)[1:])
    # Work of the device, of which only this is known.
    for_lost = Waits.make(
        EdgeKind.SYNC, first, last, instant=first, lag_ns=last - first,
        own_cause=CAUSES.index(UNKNOWN_LIMIT),
    )  # fmt: skip
    return Waits.concatenate([for_ops, for_lost])


def _ends(recorded: Recording, op: Ints) -> Ints:
    """When ops end; -1 for op -1 (none)."""
    ends: Ints = np.append(recorded.device.end, -1)[op]
    return ends


def _ended_last(recorded: Recording, end: Ints, stream: Ints) -> Ints:
    """For each instant, the op without a launch that ended right before it (-1: none), on `stream`
    unless that is -1."""
    device, thresholds = recorded.device, recorded.thresholds
    op = np.flatnonzero(~device.linked)
    op = np.append(op[np.argsort(device.end[op], kind="stable")], -1)
    index = np.searchsorted(device.end[op[:-1]], end + thresholds.clock_tick_ns, "right") - 1
    ops = op[index]
    on_stream = (stream < 0) | (stream == np.append(device.stream, -1)[ops])
    return np.where(on_stream & (end - _ends(recorded, ops) <= thresholds.wait_ns), ops, -1)


def _blocking_copies(recorded: Recording, submitted: Ints) -> Waits:
    """Copy calls that return when their own op has ended."""
    device = recorded.device
    op = np.flatnonzero(device.is_blocking)
    # A call with several such ops waits for the one that ends last.
    op = op[np.lexsort((device.end[op], device.launch_id[op]))]
    op = op[np.append(np.diff(device.launch_id[op]) != 0, True)[: len(op)]]
    return _calls(
        recorded, EdgeKind.SYNC, op, device.thread[op], submitted[op], device.call_end[op],
        device.end[op], own=0, cause=CAUSES.index("copy"),
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
        room = np.searchsorted(starts, device.call_end[op], "right") - 1
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
        # The op whose start made room is the last one that started before the call returned.
        release = np.where(blocked, room, np.arange(len(op)) - limit)
        chosen = np.flatnonzero(
            (release >= 0)
            & (release < np.arange(len(op)))
            & (starts[np.maximum(release, 0)] <= device.call_end[op])
        )
        by_start = op[np.argsort(device.start[op], kind="stable")]
        source = by_start[release[chosen]]
        target, is_blocked = op[chosen], blocked[chosen]
        begin, end = device.call[target], device.call_end[target]
        roomy = device.start[source]
        usual = int(np.median((end - roomy)[is_blocked]))
        # A call that begins when the queue has room does not wait.
        is_blocked &= roomy > begin
        waits.append(
            _calls(
                recorded, EdgeKind.QUEUE, source, device.thread[target], begin, end, roomy,
                own=recorded.usual.call_ns, cause=CAUSES.index("launch"), waited=is_blocked,
                else_lag=np.minimum(end - roomy, usual),
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
    ended, length = _ends(recorded, source), end - begin
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
        recorded, EdgeKind.SYNC, source, device.thread[op], begin, end, ended,
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
        start[chosen],
        end[chosen],
        own_ns=own,
        own_cause=CAUSES.index("input"),
        instant=since,
        lag_ns=end[chosen] - since,
    )


# -- waits without a waiting call, inferred from times


def _idling(recorded: Recording) -> Waits:
    """Waits of non-leading threads for a lock, a queue or a timer. A trace does not record what
    wakes them. In a replay, they continue when the leading thread has reached the point at which
    they continued in the trace.
    """
    rows = recorded.database.arrays("thread_waits", trace=recorded.trace_id)
    thread, start, end = recorded.host.slices(rows)
    launching = np.unique(recorded.device.thread[recorded.device.linked])
    chosen = np.isin(thread, launching) & ~np.isin(thread, recorded.leading)
    leader = recorded.leading[:1] * recorded.host.span_ns
    instant = recorded.host.time_of(end[chosen]) + (leader if len(leader) else 0)
    return Waits.make(EdgeKind.HANDOVER, start[chosen], end[chosen], instant=instant)


def _unrecorded(recorded: Recording) -> Waits:
    """Stretches in which a launching thread's work is unknown: the trace does not explain when it
    continues."""
    rows = recorded.database.arrays("unrecorded_work", trace=recorded.trace_id)
    thread, start, end = recorded.host.slices(rows)
    start, end = start[thread >= 0], end[thread >= 0]
    return Waits.make(EdgeKind.HANDOVER, start, end, instant=start)


def _answers(recorded: Recording) -> Waits:
    """Waits for other ranks or workers. They take the same time at any speed of the host.

    The network or the other side takes the time, which the graph does not contain.
    """
    host = recorded.host
    chosen = np.flatnonzero(host.cause == CAUSES.index("communication"))
    start, end = host.at[chosen], host.borders[chosen + 1]
    end = np.minimum(end, host.start_of(host.thread_of(start) + 1) - 1)
    return Waits.make(
        EdgeKind.HANDOVER, start, end, own_cause=CAUSES.index("communication"),
        instant=start, lag_ns=end - start,
    )  # fmt: skip


def _spins(recorded: Recording) -> list[Waits]:
    """Waits of which no call tells: stretches without any record in which a thread waits for the
    device, for a value that the device writes, or for another thread's collective or message.

    A stretch may end by chance as it would after such a wait. If most stretches at one place that
    could wait end so, they wait.
    """
    thresholds, host = recorded.thresholds, recorded.host
    rows = recorded.database.arrays("possible_waits", trace=recorded.trace_id)
    thread, first, last = host.slices(rows)
    begin = rows["start_ns"] - host.origin_ns
    end = begin + rows["dur_ns"]
    everywhere = np.full(len(begin), -1, np.int64)
    op, late = recorded.streams.before(begin, end + thresholds.clock_tick_ns, everywhere)
    released = end - _ends(recorded, op) <= np.minimum(
        thresholds.spin_ns, thresholds.spin_share * rows["dur_ns"]
    )
    # The op that the thread launched last explains more: a loop of its own may ask for that op, or
    # for a value that it writes before it ends.
    own = _launched_last(recorded, thread, begin)
    near_ns = np.minimum(thresholds.poll_ns, thresholds.spin_share * rows["dur_ns"])
    asked = (np.abs(end - _ends(recorded, own)) <= near_ns) & (_starts(recorded, own) < end)
    op = np.where(asked, own, op)
    ended = _ends(recorded, op)
    spins = (op >= 0) & (asked | released) & (ended > begin)
    is_message = np.ma.filled(rows["is_message"], False).astype(np.bool_)
    pending = late | (ended > begin) | (_ends(recorded, own) > begin) | is_message
    given = np.sort(recorded.handovers.returned)
    handed = np.searchsorted(given, first) < np.searchsorted(given, last, "right")
    usable = (thread >= 0) & ~handed
    group = np.unique(np.stack([thread, rows["alike"]]), axis=1, return_inverse=True)[1].ravel()

    def again(found: Flags) -> Ints:
        """The stretches in groups where most stretches that could wait do wait."""
        count = np.bincount(group, found & usable)[group]
        could = np.bincount(group, pending & usable)[group]
        often = (count >= thresholds.fewest_alike) & (2 * count >= could)
        return np.flatnonzero(often & found & usable)

    of_device = again(spins)
    of_others = np.setdiff1d(again(is_message), of_device)
    return [
        Waits.make(
            EdgeKind.SYNC, first[of_device], last[of_device], op=op[of_device],
            own_cause=CAUSES.index("sync"), lag_ns=np.maximum(end - ended, 0)[of_device],
        ),
        Waits.make(
            EdgeKind.HANDOVER, first[of_others], last[of_others], instant=first[of_others],
            own_cause=CAUSES.index("communication"),
            lag_ns=(last - first)[of_others],
        ),
    ]  # fmt: skip


def _starts(recorded: Recording, op: Ints) -> Ints:
    """When ops start; NEVER for op -1 (none)."""
    starts: Ints = np.append(recorded.device.start, NEVER)[op]
    return starts


def _launched_last(recorded: Recording, thread: Numbers, time: Ints) -> Ints:
    """For each instant, the op of its thread's last launch before it that ends last (-1: none)."""
    device, host = recorded.device, recorded.host
    op = np.flatnonzero(device.linked)
    op = op[np.lexsort((device.end[op], device.call[op], device.thread[op]))]
    key = host.start_of(device.thread[op]) + device.call[op]
    index = np.searchsorted(key, host.start_of(thread) + time, "left") - 1
    found = np.append(op, -1)[index]
    mine = (index >= 0) & (np.append(device.thread, -1)[found] == thread)
    return np.where(mine, found, -1)
