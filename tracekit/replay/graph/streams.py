"""Finds ops that wait for other streams, from the trace's records or from its calls and times."""

from __future__ import annotations

import numpy as np

from tracekit.replay.graph.arrays import NEVER, Ints, distinct
from tracekit.replay.graph.recording import Recording


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
            recorded.host.begin_of(device.thread),
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
    """The pairs whose source ended after the op could have started: only these explain a delay."""
    good = source >= 0
    good[good] = recorded.device.end[source[good]] > ready[op[good]]
    return op[good], source[good]


def _ended_before(recorded: Recording, op: Ints, until: Ints) -> Ints:
    """For each op: of the ops on other streams of its device that were launched before `until`, the
    one that ended last before the op's start; -1: none."""
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
