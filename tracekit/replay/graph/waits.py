"""Finds what host threads and GPU ops wait for; unmarked.py finds waits that no call marks.

Host threads wait for synchronizations, room in full queues, loaders and other threads. A call waits
until the awaited event has happened. It usually takes a short time to return. Any longer time after
the event is the call's own work: the thread is no longer blocked, and the work has the call's
cause.

Ops wait for other streams: the trace records that, or its calls and times show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tracekit.replay.graph.arrays import NEVER, Columns, Ints, distinct
from tracekit.replay.graph.edges import EdgeKind
from tracekit.replay.graph.recording import Recording
from tracekit.thresholds import Thresholds


@dataclass(frozen=True)
class Waits(Columns):
    """Stretches in which a thread may stand still: it is blocked from `start` to `end`.

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
    def make(kind: EdgeKind, start: Ints, end: Ints, **given: Ints | int) -> Waits:
        n = len(start)
        names = {"own_ns": 0, "own_cause": 0, "op": -1, "instant": -1, "lag_ns": 0} | given
        columns = {
            name: np.broadcast_to(value, n).astype(np.int64) for name, value in names.items()
        }
        return Waits(start, end, kind=np.full(n, kind, np.int64), **columns)

    @staticmethod
    def all(parts: Iterable[Waits]) -> Waits:
        return Waits.concatenate([Waits.make(EdgeKind.SYNC, _NONE, _NONE), *parts])


_NONE = np.zeros(0, np.int64)


def waits_of(recorded: Recording, submitted: Ints) -> Waits:
    """The stretches in which the trace's threads may stand still, by their calls.

    Args:
        submitted: the instant in each launch call from which its op could start.
    """
    return Waits.all(
        [
            _sync_calls(recorded),
            _blocking_copies(recorded, submitted),
            _full_queues(recorded),
            _fetches(recorded),
            *_handovers(recorded),
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
    op, pending = recorded.launched.before(
        rows["until_ns"] - origin, end + recorded.thresholds.wait_ns, stream
    )
    ended = _ends(recorded, op)
    # A call may also wait for an op whose launch is not in the trace.
    unlinked = _ended_last(recorded, end, stream)
    better = (scope != "maybe") & (end - ended > recorded.thresholds.wait_ns)
    op = np.where(better & (_ends(recorded, unlinked) > begin) & (unlinked >= 0), unlinked, op)
    ended = _ends(recorded, op)
    # Such a call waited if it ended right after the op and no other op was pending.
    maybe = scope == "maybe"
    allocates = rows["cause"] == recorded.causes.index("allocation")
    known = np.where(allocates, recorded.thresholds.return_ns, recorded.thresholds.wait_ns)
    follows = (end - ended <= known) & (ended <= end + recorded.thresholds.clock_tick_ns)
    proved = (ended > begin) & ~pending & follows
    waits = (op >= 0) & (thread >= 0) & (~maybe | proved) & (begin < end)
    short = waits & (ended <= begin)
    own = int(np.median((end - begin)[short])) if short.any() else recorded.thresholds.kernel_gap_ns
    chosen = np.flatnonzero(waits)
    begin, end, ended = begin[chosen], end[chosen], ended[chosen]
    length, rest = end - begin, end - ended
    at_once = rest >= length
    blocked_until = np.where(at_once, end, _blocked_until(ended, end, recorded.thresholds))
    worked = end - blocked_until
    allocating = maybe[chosen] & allocates[chosen]
    usual = np.minimum(length, np.where(allocating, np.maximum(rest, 0), own))
    return Waits.make(
        EdgeKind.SYNC,
        recorded.host.key(thread[chosen], begin + origin),
        recorded.host.key(thread[chosen], blocked_until + origin),
        own_ns=np.where(at_once, length, np.maximum(usual - worked, 0)),
        own_cause=rows["cause"][chosen],
        op=op[chosen],
        lag_ns=np.where(at_once, np.minimum(usual, recorded.thresholds.wait_ns), rest - worked),
    )


def _ends(recorded: Recording, op: Ints) -> Ints:
    """When ops end; -1 for op -1 (none)."""
    found: Ints = np.append(recorded.device.end, -1)[op]
    return found


def _ended_last(recorded: Recording, end: Ints, stream: Ints) -> Ints:
    """For each instant, the op without a launch that ended right before it (-1: none), on `stream`
    unless that is -1."""
    device, thresholds = recorded.device, recorded.thresholds
    op = np.flatnonzero(~device.linked)
    op = np.append(op[np.argsort(device.end[op], kind="stable")], -1)
    index = np.searchsorted(device.end[op[:-1]], end + thresholds.clock_tick_ns, "right") - 1
    found = op[index]
    told = (stream < 0) | (stream == np.append(device.stream, -1)[found])
    return np.where(told & (end - _ends(recorded, found) <= thresholds.wait_ns), found, -1)


def _blocked_until(ended: Ints, end: Ints, thresholds: Thresholds) -> Ints:
    """The instant until which calls that end at `end` wait for an event at `ended`: their own end
    if it follows within `wait_ns`, else `ended`; the rest is their own work."""
    return np.where(end - ended > thresholds.wait_ns, ended, end)


def _blocking_copies(recorded: Recording, submitted: Ints) -> Waits:
    """Copy calls that return when their own op has ended."""
    device = recorded.device
    op = np.flatnonzero(device.is_blocking)
    # A call with several such ops waits for the one that ends last.
    op = op[np.lexsort((device.end[op], device.launch_id[op]))]
    op = op[np.append(np.diff(device.launch_id[op]) != 0, True)[: len(op)]]
    origin, ended = recorded.host.origin_ns, device.end[op]
    blocked_until = _blocked_until(ended, device.call_end[op], recorded.thresholds)
    return Waits.make(
        EdgeKind.SYNC,
        recorded.host.key(device.thread[op], origin + submitted[op]),
        recorded.host.key(device.thread[op], origin + blocked_until),
        own_cause=recorded.causes.index("copy"),
        op=op,
        lag_ns=blocked_until - ended,
    )


def _full_queues(recorded: Recording) -> Waits:
    """Launch calls that found their stream's queue full, and calls that could find it full in a
    changed run."""
    device, thresholds = recorded.device, recorded.thresholds
    found: list[Waits] = []
    for launched in recorded.launched.by_launch:
        op = launched[~device.is_blocking[launched]]
        op = op[np.append(True, np.diff(device.launch_id[op]) != 0)[: len(op)]]
        if not len(op):
            continue
        starts = np.sort(device.start[op])
        length = device.call_end[op] - device.call[op]
        # The queue's depth when each call returns, including the call's own launch. A full queue
        # has the same depth each time; while a call waits for room, it is one deeper.
        room = np.searchsorted(starts, device.call_end[op], "right") - 1
        depth = np.arange(len(op)) - room
        limit = int(depth.max())
        blocked = depth >= limit - thresholds.full_slack
        deep = int((depth >= thresholds.queue_depth).sum())
        if blocked.sum() < max(thresholds.full_calls, thresholds.full_share * deep, 1) or not deep:
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
        blocked_until = np.where(is_blocked, _blocked_until(roomy, end, thresholds), end)
        worked, lag = end - blocked_until, blocked_until - roomy
        own = np.minimum(recorded.usual.call_ns, length[chosen])
        origin = recorded.host.origin_ns
        found.append(
            Waits.make(
                EdgeKind.QUEUE,
                recorded.host.key(device.thread[target], origin + begin),
                recorded.host.key(device.thread[target], origin + blocked_until),
                own_ns=np.where(is_blocked, np.maximum(own - worked, 0), length[chosen]),
                own_cause=recorded.causes.index("launch"),
                op=source,
                lag_ns=np.where(is_blocked, lag, np.minimum(lag, usual)),
            )
        )
    return Waits.all(found)


def _fetches(recorded: Recording) -> Waits:
    """Fetches that found no batch loaded.

    The loader works while the thread does other things. In a replay, it takes as long from one
    batch to the next as it did in the trace.
    """
    rows = recorded.database.arrays("input_waits", trace=recorded.trace_id)
    thread = recorded.host.numbers(rows["pid"], rows["tid"])
    start = recorded.host.key(thread, rows["start_ns"])
    end = recorded.host.key(thread, rows["start_ns"] + rows["dur_ns"])
    long = rows["dur_ns"] > recorded.thresholds.prefetched_ns
    follows = np.append(False, thread[1:] == thread[:-1])[: len(thread)]
    chosen = np.flatnonzero(long & follows & (thread >= 0))
    ready = rows["dur_ns"][~long]
    own = int(np.median(ready)) if len(ready) else 0
    return Waits.make(
        EdgeKind.LOADER,
        start[chosen],
        end[chosen],
        own_ns=own,
        own_cause=recorded.causes.index("input"),
        instant=end[chosen - 1],
        lag_ns=end[chosen] - end[chosen - 1],
    )


def _handovers(recorded: Recording) -> list[Waits]:
    """Threads that work while another one stands still in one slice and waits for them."""
    given = recorded.handovers
    # The worker is blocked until it gets work, and the giver until that work is done.
    return [
        Waits.make(EdgeKind.HANDOVER, given.idle_from, given.begin, instant=given.given),
        Waits.make(EdgeKind.HANDOVER, given.still_from, given.returned, instant=given.end),
    ]


def stream_waits(recorded: Recording) -> tuple[Ints, Ints]:
    """Ops that wait for an op of another stream, and the ops that they wait for.

    The waits come from the trace's own records, or are inferred from its calls and times.
    """
    rows = recorded.database.arrays("stream_waits", trace=recorded.trace_id)
    pairs = [_told_waits(recorded, rows), _seen_waits(recorded, rows)]
    return _distinct_pairs(pairs, len(recorded.device.start))


def _told_waits(recorded: Recording, rows: dict[str, Ints]) -> tuple[Ints, Ints]:
    """The waits in the trace's own records (cuda_sync): ops that wait, and what they wait for."""
    device, origin = recorded.device, recorded.host.origin_ns
    told = ~np.ma.getmaskarray(rows["until_ns"])
    call = rows["start_ns"][told] - origin
    until = np.ma.getdata(rows["until_ns"])[told] - origin
    stream = np.ma.filled(rows["stream"], -1)[told]
    other = np.ma.filled(rows["wait_on_stream"], -1)[told]
    source, _ = recorded.launched.before(until, np.full(len(until), -NEVER), other)
    target = np.full(len(call), -1, np.int64)
    # The first op launched on each stream from the call on.
    linked = np.flatnonzero(device.linked)
    linked = linked[np.lexsort((linked, device.call[linked], device.stream[linked]))]
    of_stream = device.stream[linked]
    for number in np.unique(stream):
        first, stop = np.searchsorted(of_stream, [number, number + 1])
        mine, asked = linked[first:stop], np.flatnonzero(stream == number)
        index = np.searchsorted(device.call[mine], call[asked], "left")
        found = index < len(mine)
        target[asked[found]] = mine[index[found]]
    good = (target >= 0) & (source >= 0) & (other >= 0)
    return target[good], source[good]


def _seen_waits(recorded: Recording, rows: dict[str, Ints]) -> tuple[Ints, Ints]:
    """The waits inferred from calls that make streams wait, and from late starts.

    An op launched right after such a call waits for the op that its thread launched right before
    the call, if that is on another stream. An op that starts late waits for the op that ended last
    before its start. That op has to be on another stream and launched before such a call, which
    itself comes after the previous launch on the late op's stream; within a CUDA graph, it has to
    belong to the same graph launch.
    """
    device, order, ready = recorded.device, recorded.order, recorded.ready
    late = device.linked & (device.start > ready + recorded.usual.gap_ns)
    calls = np.sort(
        recorded.host.key(recorded.host.numbers(rows["pid"], rows["tid"]), rows["start_ns"])
    )
    key = recorded.host.key(device.thread, recorded.host.origin_ns + device.call)
    pairs = [_neighbours(recorded, calls, key)]
    if len(calls):
        same = ~order.is_first & (np.roll(device.thread, 1) == device.thread)
        since = np.where(
            same,
            np.roll(key, 1),
            recorded.host.start_of(device.thread),
        )
        index = np.searchsorted(calls, key) - 1
        waits = late & (index >= 0) & (calls[index] >= since) & ~device.is_graph
        op = np.flatnonzero(waits)
        pairs.append(
            _late(
                recorded,
                op,
                _ended_before(recorded, op, recorded.host.time_of(calls[index[op]])),
                ready,
            )
        )
    op = np.flatnonzero(late & device.is_graph)
    source = _ended_before(recorded, op, device.call_end[op] + 1)
    other = (source >= 0) & (device.launch_id[source] != device.launch_id[op])
    pairs.append(_late(recorded, op, np.where(other, -1, source), ready))
    return _distinct_pairs(pairs, len(device.start))


def _neighbours(recorded: Recording, calls: Ints, key: Ints) -> tuple[Ints, Ints]:
    """Ops of different streams that a thread launched one after the other, with only a call in
    between that makes a stream wait."""
    device = recorded.device
    op = np.flatnonzero(device.linked)
    op = op[np.argsort(key[op], kind="stable")]
    first, second = op[:-1], op[1:]
    if not len(calls):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
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
    """The pairs whose source ended after the op could have started: only they explain a delay."""
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
    for queue in recorded.launched.by_start if len(op) else []:
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


def _distinct_pairs(pairs: list[tuple[Ints, Ints]], ops: int) -> tuple[Ints, Ints]:
    """The distinct pairs of ops, in order; ops are numbers below `ops`."""
    both = distinct(np.concatenate([target * ops + source for target, source in pairs]))
    target, source = np.divmod(both, max(1, ops))
    return target, source
