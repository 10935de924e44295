"""Finds waits of host threads that no call marks, by their times."""

from __future__ import annotations

import numpy as np

from tracekit.replay.graph.arrays import NEVER, Flags, Ints
from tracekit.replay.graph.edges import EdgeKind
from tracekit.replay.graph.recording import Recording
from tracekit.replay.graph.waits import Waits


def unmarked_waits(recorded: Recording) -> Waits:
    """The stretches in which the trace's threads stand still although no call says so."""
    return Waits.all(
        [_idling(recorded), _unrecorded(recorded), _answers(recorded), *_spins(recorded)]
    )


def _idling(recorded: Recording) -> Waits:
    """Where threads other than the leading ones only wait: for a lock, a queue or a timer. A trace
    does not record what wakes them. In a replay, they go on when the leading thread has reached the
    point at which they went on in the trace.
    """
    rows = recorded.database.arrays("thread_waits", trace=recorded.trace_id)
    thread = recorded.host.numbers(rows["pid"], rows["tid"])
    launching = np.unique(recorded.device.thread[recorded.device.linked])
    chosen = np.isin(thread, launching) & ~np.isin(thread, recorded.leading)
    start = recorded.host.key(thread[chosen], rows["start_ns"][chosen])
    end = recorded.host.key(thread[chosen], (rows["start_ns"] + rows["dur_ns"])[chosen])
    leader = recorded.leading[:1] * recorded.host.span_ns
    instant = recorded.host.time_of(end) + (leader if len(leader) else 0)
    return Waits.make(EdgeKind.HANDOVER, start, end, instant=instant)


def _unrecorded(recorded: Recording) -> Waits:
    """Where it is unknown what a launching thread did: nothing in the trace explains when it goes
    on."""
    host = recorded.host
    rows = recorded.database.arrays("unrecorded_work", trace=recorded.trace_id)
    thread = host.numbers(rows["pid"], rows["tid"])
    start, end = (
        host.key(thread, at)[thread >= 0]
        for at in (rows["start_ns"], rows["start_ns"] + rows["dur_ns"])
    )
    return Waits.make(EdgeKind.HANDOVER, start, end, instant=start)


def _answers(recorded: Recording) -> Waits:
    """Where a thread waits for other ranks or workers: that takes the same at any speed of the
    host.

    The network or the other side takes the time; no edge leads there.
    """
    host = recorded.host
    chosen = np.flatnonzero(host.cause == recorded.causes.index("communication"))
    start, end = host.at[chosen], host.borders[chosen + 1]
    end = np.minimum(end, host.start_of(host.thread_of(start) + 1) - 1)
    return Waits.make(
        EdgeKind.HANDOVER, start, end, own_cause=recorded.causes.index("communication"),
        instant=start, lag_ns=end - start,
    )  # fmt: skip


def _spins(recorded: Recording) -> list[Waits]:
    """Where a thread spins until the device, or a collective or message on another thread, is done.

    A slice without work of its own that ends right after the last op launched before it, and covers
    most of that op, may do so by chance. If slices of one name do so repeatedly, they wait.
    """
    thresholds, device, host = recorded.thresholds, recorded.device, recorded.host
    rows = recorded.database.arrays("possible_waits", trace=recorded.trace_id)
    thread = host.numbers(rows["pid"], rows["tid"])
    begin = rows["start_ns"] - host.origin_ns
    end = begin + rows["dur_ns"]
    everywhere = np.full(len(begin), -1, np.int64)
    op, late = recorded.launched.before(begin, end + thresholds.clock_tick_ns, everywhere)
    start, ended = np.append(device.start, NEVER)[op], np.append(device.end, NEVER)[op]
    known = np.minimum(thresholds.spin_ns, thresholds.spin_share * rows["dur_ns"])
    covered = 2 * (ended - np.maximum(begin, start)) >= ended - start
    spins = (op >= 0) & ~late & (ended > begin) & (end - ended <= known) & covered
    told = np.ma.filled(rows["is_message"], False).astype(np.bool_)
    pending = late | (ended > begin) | told
    given = np.sort(recorded.handovers.returned)
    first, last = (
        host.key(thread, rows["start_ns"]),
        host.key(thread, rows["start_ns"] + rows["dur_ns"]),
    )
    handed = np.searchsorted(given, first) < np.searchsorted(given, last, "right")
    usable = (thread >= 0) & ~handed
    group = np.unique(np.stack([thread, rows["alike"]]), axis=1, return_inverse=True)[1].ravel()

    def again(found: Flags) -> Ints:
        """The stretches of groups in which most stretches that could wait do wait."""
        count = np.bincount(group, found & usable)[group]
        could = np.bincount(group, pending & usable)[group]
        often = (count >= thresholds.fewest_alike) & (2 * count >= could)
        return np.flatnonzero(often & found & usable)

    of_device = again(spins)
    of_others = np.setdiff1d(again(told), of_device)
    return [
        Waits.make(
            EdgeKind.SYNC, first[of_device], last[of_device], op=op[of_device],
            own_cause=recorded.causes.index("sync"), lag_ns=np.maximum(end - ended, 0)[of_device],
        ),
        Waits.make(
            EdgeKind.HANDOVER, first[of_others], last[of_others], instant=first[of_others],
            own_cause=recorded.causes.index("communication"),
            lag_ns=(last - first)[of_others],
        ),
    ]  # fmt: skip
