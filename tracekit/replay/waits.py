"""What holds host threads up: calls that wait for a device, full queues, loaders, other threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from tracekit.replay.graph import Kind
from tracekit.replay.rates import Ints
from tracekit.replay.recording import Recording
from tracekit.replay.threads import handovers


@dataclass(frozen=True)
class Waits:
    """Stretches for which a thread may stand still: held between `start` and `end`, done at `end`.

    The join at `end` comes no sooner than the source, and no sooner than the thread's own work plus
    `own_ns`. The source is the end of the op `op` (of kind QUEUE: its start), or an instant of the
    host; the join follows it by `lag_ns`.
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
    def make(kind: Kind, start: Ints, end: Ints, **given: Ints | int) -> Waits:
        n = len(start)
        names = {"own_ns": 0, "own_cause": 0, "op": -1, "instant": -1, "lag_ns": 0} | given
        columns = {
            name: np.broadcast_to(value, n).astype(np.int64) for name, value in names.items()
        }
        return Waits(start, end, kind=np.full(n, kind, np.int64), **columns)

    @staticmethod
    def all(parts: Iterable[Waits]) -> Waits:
        found = [Waits.make(Kind.SYNC, _NONE, _NONE), *parts]
        columns = ([getattr(part, each.name) for part in found] for each in fields(Waits))
        return Waits(*(np.concatenate(column) for column in columns))


_NONE = np.zeros(0, np.int64)


def waits_of(recorded: Recording) -> Waits:
    """All stretches for which the trace's threads may stand still."""
    return Waits.all(
        [
            _sync_calls(recorded),
            _blocking_copies(recorded),
            _full_queues(recorded),
            _fetches(recorded),
            *_handovers(recorded),
        ]
    )


def _sync_calls(recorded: Recording) -> Waits:
    """Calls that wait for the device, and those of the allocator that turn out to."""
    rows = recorded.database.arrays("host_waits", trace=recorded.trace_id)
    origin = recorded.host.origin_ns
    thread = recorded.host.numbers(rows["pid"], rows["tid"])
    begin, end = rows["start_ns"] - origin, rows["start_ns"] - origin + rows["dur_ns"]
    scope = rows["scope"].astype(str)
    stream = np.ma.filled(rows["stream"], -1).astype(np.int64)
    op, pending = recorded.launched.before(
        rows["until_ns"] - origin, end + recorded.limits.wait_ns, stream
    )
    ended = np.full(len(op), -1, np.int64)
    ended[op >= 0] = recorded.device.end[op[op >= 0]]
    # It waits where its end follows the op's at once and nothing is left to wait for.
    maybe = scope == "maybe"
    allocates = rows["cause"] == recorded.causes.index("allocation")
    known = np.where(allocates, recorded.limits.return_ns, recorded.limits.wait_ns)
    proved = (ended > begin) & ~pending & (end - ended <= known)
    waits = (op >= 0) & (thread >= 0) & (~maybe | proved) & (begin < end)
    short = waits & (ended <= begin)
    own = int(np.median((end - begin)[short])) if short.any() else recorded.limits.kernel_gap_ns
    chosen = np.flatnonzero(waits)
    length = (end - begin)[chosen]
    rest = np.minimum(end[chosen] - ended[chosen], recorded.limits.wait_ns)
    allocating = maybe[chosen] & allocates[chosen]
    rest = np.where(allocating, end[chosen] - ended[chosen], rest)
    usual = np.minimum(length, np.where(allocating, rest, own))
    return Waits.make(
        Kind.SYNC,
        recorded.host.key(thread[chosen], begin[chosen] + origin),
        recorded.host.key(thread[chosen], end[chosen] + origin),
        own_ns=np.where(ended[chosen] <= begin[chosen], length, usual),
        own_cause=rows["cause"][chosen],
        op=op[chosen],
        lag_ns=np.where(ended[chosen] <= begin[chosen], np.minimum(usual, rest), rest),
    )


def _blocking_copies(recorded: Recording) -> Waits:
    """Calls that return when their own op has ended."""
    device = recorded.device
    op = np.flatnonzero(device.is_blocking)
    # A call with several such ops waits for the last.
    op = op[np.lexsort((device.end[op], device.launch_id[op]))]
    op = op[np.append(np.diff(device.launch_id[op]) != 0, True)[: len(op)]]
    origin = recorded.host.origin_ns
    return Waits.make(
        Kind.SYNC,
        recorded.host.key(device.thread[op], origin + recorded.submitted[op]),
        recorded.host.key(device.thread[op], origin + device.call_end[op]),
        own_cause=recorded.causes.index("copy"),
        op=op,
        lag_ns=device.call_end[op] - device.end[op],
    )


def _full_queues(recorded: Recording) -> Waits:
    """Launch calls that found their stream's queue full, and those that could have."""
    device, limits = recorded.device, recorded.limits
    found: list[Waits] = []
    for launched in recorded.launched.by_launch:
        op = launched[~device.is_blocking[launched]]
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
        origin = recorded.host.origin_ns
        end = recorded.host.key(device.thread[target], origin + device.call_end[target])
        start = recorded.host.key(device.thread[target], origin + device.call[target])
        own = np.minimum(recorded.habits.call_ns, length[chosen])
        found.append(
            Waits.make(
                Kind.QUEUE,
                start,
                end,
                own_ns=np.where(is_blocked, own, length[chosen]),
                own_cause=recorded.causes.index("launch"),
                op=source,
                lag_ns=np.where(is_blocked, lag, np.minimum(lag, usual)),
            )
        )
    return Waits.all(found)


def _fetches(recorded: Recording) -> Waits:
    """Fetches that found nothing loaded yet: the loader works on while the thread does others
    things, and takes from one batch to the next what it took."""
    rows = recorded.database.arrays("input_waits", trace=recorded.trace_id)
    thread = recorded.host.numbers(rows["pid"], rows["tid"])
    start = recorded.host.key(thread, rows["start_ns"])
    end = recorded.host.key(thread, rows["start_ns"] + rows["dur_ns"])
    long = rows["dur_ns"] > recorded.limits.prefetched_ns
    follows = np.append(False, thread[1:] == thread[:-1])[: len(thread)]
    chosen = np.flatnonzero(long & follows & (thread >= 0))
    ready = rows["dur_ns"][~long]
    own = int(np.median(ready)) if len(ready) else 0
    return Waits.make(
        Kind.LOADER,
        start[chosen],
        end[chosen],
        own_ns=own,
        own_cause=recorded.causes.index("input"),
        instant=end[chosen - 1],
        lag_ns=end[chosen] - end[chosen - 1],
    )


def _handovers(recorded: Recording) -> list[Waits]:
    """Threads that work while another stands still in one slice: it waits for them."""
    launching = np.unique(recorded.device.thread[recorded.device.linked])
    given = handovers(recorded.host, launching, recorded.limits)
    # The worker is held until it is given work; the giver, until the work is done.
    return [
        Waits.make(Kind.HANDOVER, given.idle_from, given.begin, instant=given.given),
        Waits.make(Kind.HANDOVER, given.still_from, given.returned, instant=given.end),
    ]
