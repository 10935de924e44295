"""Ops that wait for ops of other streams: recorded, certain of graphs, or inferred from times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracekit.replay.graph.arrays import NEVER, Ints, begins, distinct
from tracekit.replay.graph.recording import Recording


def stream_waits(recorded: Recording) -> tuple[Ints, Ints]:
    """Ops that wait for an op of another stream, and the ops that they wait for.

    The waits come from the trace's own records, from the order of graphs among a stream's other
    work, or are inferred from calls and times.
    """
    rows = recorded.database.arrays("stream_waits", trace=recorded.trace_id)
    pairs = [
        _recorded_waits(recorded, rows),
        _graph_waits(recorded),
        *_inferred_waits(recorded, rows),
    ]
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


def _graph_waits(recorded: Recording) -> tuple[Ints, Ints]:
    """The waits between a graph whose kernels run on streams of their own and the other work of the
    stream that it was launched to: the graph begins after the last op there, and the next op begins
    after the whole graph."""
    device = recorded.device
    op = np.flatnonzero(device.linked)
    if not (device.launched_to != device.queue).any():
        return op[:0], op[:0]
    # The launches to each stream, in order: each one's last op, and its first op of each stream.
    op = op[np.lexsort((device.start[op], device.call[op], device.launched_to[op]))]
    stream = device.launched_to[op]
    is_new = begins(stream, device.launch_id[op])
    launch = np.cumsum(is_new) - 1
    by_end = np.lexsort((device.end[op], launch))
    last = op[by_end[np.append(np.diff(launch) > 0, True)]]
    by_queue = np.lexsort((device.start[op], device.queue[op], launch))
    first = by_queue[begins(launch[by_queue], device.queue[op[by_queue]])]
    first = first[launch[first] > 0]
    earlier = launch[first] - 1
    target, source = op[first], last[earlier]
    good = (
        (stream[first] == stream[is_new][earlier])
        & (device.queue[target] != device.queue[source])
        & (device.end[source] <= device.start[target] + recorded.thresholds.clock_tick_ns)
        & (device.start[source] < device.start[target])
    )
    return target[good], source[good]


def _inferred_waits(recorded: Recording, rows: dict[str, Ints]) -> Iterator[tuple[Ints, Ints]]:
    """The waits inferred from calls that make streams wait, and from late starts.

    An op launched right after such a call waits for the op that its thread launched right before
    the call, if that is on another stream. An op that starts late waits for the op that ended last
    before its start. That op has to be on another stream and launched before such a call, which
    itself comes after the previous launch on the late op's stream; within a CUDA graph, it has to
    belong to the same graph launch. Where no such call was recorded, an op explains a late one that
    starts as soon as it ends: the one that was launched right before it, else one launched earlier.
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
    else:
        target, source = _launched_in_turn(recorded, key)
        # No such call was recorded. An op that was ready, and starts as soon as the op of another
        # stream that was launched right before it ends, waits for it.
        gap_ns = device.start[target] - device.end[source]
        wait_ns = recorded.thresholds.wait_ns
        follows = late[target] & ~device.is_graph[target] & (gap_ns <= wait_ns)
        target, source = _late(recorded, target[follows], source[follows], ready)
        yield target, source
        others = late & ~device.is_graph
        others[target] = False
        op = np.flatnonzero(others)
        source = _ended_before(recorded, op, device.call[op])
        source[device.start[op] - device.end[source] > wait_ns] = -1
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
    """Such ops with a call in between that makes a stream wait."""
    second, first = _launched_in_turn(recorded, key)
    index = np.searchsorted(calls, key[second]) - 1
    waits = (index >= 0) & (calls[index] >= key[first])
    return second[waits], first[waits]


def _launched_in_turn(recorded: Recording, key: Ints) -> tuple[Ints, Ints]:
    """Ops of different streams that a thread launched one after the other, of which the second one
    starts after the first one has ended."""
    device = recorded.device
    op = np.flatnonzero(device.linked)
    op = op[np.argsort(key[op], kind="stable")]
    first, second = op[:-1], op[1:]
    good = (
        (device.thread[first] == device.thread[second])
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
