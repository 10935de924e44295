"""Finds waits of host threads of which no call tells, from times: for another thread, a lock,
another rank, or a device.
"""

from __future__ import annotations

import numpy as np

from tracekit.causes import CAUSES
from tracekit.replay.graph import EdgeKind
from tracekit.replay.graph.arrays import Flags, Ints, Numbers
from tracekit.replay.graph.recording import Recording
from tracekit.replay.graph.waits import Known, Waits


def waits_in_silence(recorded: Recording) -> Waits:
    """The stretches without a waiting call in which the trace's threads may wait."""
    given = recorded.handovers
    known = Known.HANDOVER
    return Waits.concatenate(
        [
            # A thread that gets work is blocked until then, and its giver until that work is done.
            Waits.make(EdgeKind.HANDOVER, known, given.idle_from, given.begin, instant=given.given),
            Waits.make(
                EdgeKind.HANDOVER, known, given.still_from, given.returned, instant=given.end
            ),
            _idling(recorded),
            _unrecorded(recorded),
            _answers(recorded),
            *_spins(recorded),
        ]
    )


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
    return Waits.make(
        EdgeKind.HANDOVER, Known.THREAD_WAIT, start[chosen], end[chosen], instant=instant
    )


def _unrecorded(recorded: Recording) -> Waits:
    """Stretches in which a launching thread's work is unknown: the trace does not explain when it
    continues."""
    rows = recorded.database.arrays("unrecorded_work", trace=recorded.trace_id)
    thread, start, end = recorded.host.slices(rows)
    start, end = start[thread >= 0], end[thread >= 0]
    return Waits.make(EdgeKind.HANDOVER, Known.UNRECORDED, start, end, instant=start)


def _answers(recorded: Recording) -> Waits:
    """Waits for other ranks or workers. They take the same time at any speed of the host.

    The network or the other side takes the time, which the graph does not contain.
    """
    host = recorded.host
    chosen = np.flatnonzero(host.cause == CAUSES.index("communication"))
    start, end = host.at[chosen], host.borders[chosen + 1]
    end = np.minimum(end, host.start_of(host.thread_of(start) + 1) - 1)
    return Waits.make(
        EdgeKind.HANDOVER, Known.REMOTE_CALL, start, end, own_cause=CAUSES.index("communication"),
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
    released = end - recorded.device.ended(op) <= np.minimum(
        thresholds.spin_ns, thresholds.spin_share * rows["dur_ns"]
    )
    # The op that the thread launched last explains more: a loop of its own may ask for that op, or
    # for a value that it writes before it ends.
    own = _launched_last(recorded, thread, begin)
    near_ns = np.minimum(thresholds.poll_ns, thresholds.spin_share * rows["dur_ns"])
    asked = (np.abs(end - recorded.device.ended(own)) <= near_ns) & (
        recorded.device.began(own) < end
    )
    op = np.where(asked, own, op)
    ended = recorded.device.ended(op)
    spins = (op >= 0) & (asked | released) & (ended > begin)
    is_message = np.ma.filled(rows["is_message"], False).astype(np.bool_)
    pending = late | (ended > begin) | (recorded.device.ended(own) > begin) | is_message
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
    known = np.where(asked, Known.POLLING, Known.SILENCE)
    of_others = np.setdiff1d(again(is_message), of_device)
    return [
        Waits.make(
            EdgeKind.SYNC, known[of_device], first[of_device], last[of_device],
            op=op[of_device], own_cause=CAUSES.index("sync"),
            lag_ns=np.maximum(end - ended, 0)[of_device],
        ),
        Waits.make(
            EdgeKind.HANDOVER, Known.MESSAGE, first[of_others], last[of_others],
            instant=first[of_others], own_cause=CAUSES.index("communication"),
            lag_ns=(last - first)[of_others],
        ),
    ]  # fmt: skip


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
