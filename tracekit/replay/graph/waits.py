"""Stretches in which host threads wait, and the table `host_wait` that tells them.

`calls.py` finds those in calls that wait, `silences.py` those of which no call tells.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph import EdgeKind
from tracekit.replay.graph.arrays import Columns, Ints, Numbers
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.host import Host


class Known(IntEnum):
    """How a wait is known. The names, in words, are the values of `host_wait.known_from`."""

    NO_WAIT = 0
    """It is none, but may be one in a changed run."""
    NAMED_CALL = 1
    """The call waits by its definition."""
    TIMES = 2
    """The call waits only sometimes, and returned right after the op ended."""
    BLOCKING_COPY = 3
    """The call returns when its copy is done."""
    FULL_QUEUE = 4
    """Long launch calls of the stream are mostly at the depth of this one."""
    HELD_LAUNCH = 5
    """The launch call returned when another op ended, which ran during nearly all of it."""
    LOST_GRAPH = 6
    """The thread had launched a graph whose kernels were not recorded."""
    LONG_FETCH = 7
    """The fetch from a loader with workers found no batch."""
    HANDOVER = 8
    """The thread is idle until another gives it work, or stands still until that work is done."""
    THREAD_WAIT = 9
    """A frame of Python's library waits for a lock, a queue or a timer."""
    REMOTE_CALL = 10
    """The call waits for other ranks or workers."""
    UNRECORDED = 11
    """Nothing tells what the thread did."""
    SILENCE = 12
    """Stretches without records at this place mostly end with an op."""
    POLLING = 13
    """They mostly end about when the op ends that the thread launched last."""
    MESSAGE = 14
    """They mostly end with another thread's collective or message."""


# What a thread waits for, unless it is an op of the device.
_WAITS_FOR = {
    Known.LONG_FETCH: "loader",
    Known.HANDOVER: "other thread",
    Known.THREAD_WAIT: "lock or timer",
    Known.REMOTE_CALL: "other rank",
    Known.UNRECORDED: "unknown",
    Known.MESSAGE: "other rank",
}
# The trace does not tell when what these wait for has happened.
_UNSEEN = (
    Known.LOST_GRAPH, Known.LONG_FETCH, Known.THREAD_WAIT, Known.REMOTE_CALL, Known.UNRECORDED,
    Known.MESSAGE,
)  # fmt: skip


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
    known: Ints
    """How each is known (`Known`)."""

    @staticmethod
    def make(
        kind: EdgeKind | Ints, known: Known | Ints, start: Ints, end: Ints, **given: Numbers | int
    ) -> Waits:
        n = len(start)
        names = {"own_ns": 0, "own_cause": 0, "op": -1, "instant": -1, "lag_ns": 0} | given
        columns = {
            name: np.broadcast_to(value, n).astype(np.int64) for name, value in names.items()
        }
        kinds, how = (np.broadcast_to(each, n).astype(np.int64) for each in (kind, known))
        return Waits(start, end, kind=kinds, known=how, **columns)

    def rows(self, host: Host, device: Device) -> dict[str, NDArray[Any]]:
        """The columns of the table `host_wait` (queries/schema/tables.sql), but for `trace_id`."""
        waited = self.take((self.known != Known.NO_WAIT) & (self.end > self.start))
        thread, by_op = host.thread_of(waited.start), waited.op >= 0
        event = host.event[host.stretch_of(waited.start)]
        began, ended = (np.append(each, 0)[waited.op] for each in (device.start, device.end))
        released = np.where(waited.kind == EdgeKind.QUEUE, began, ended)
        released = np.where(by_op, released, host.time_of(waited.instant))
        waits_for = np.array([_WAITS_FOR.get(each, "device op") for each in Known], object)
        words = np.array([each.name.lower().replace("_", " ") for each in Known], object)
        ids = np.array(host.threads, np.int64).reshape(-1, 2)[thread]
        return {
            "event_id": np.ma.array(event.astype(np.int64), mask=event < 0),
            "pid": ids[:, 0],
            "tid": ids[:, 1],
            "start_ns": host.origin_ns + host.time_of(waited.start),
            "end_ns": host.origin_ns + host.time_of(waited.end),
            "waits_for": waits_for[waited.known],
            "awaited_id": np.ma.array(np.append(device.op_id, -1)[waited.op], mask=~by_op),
            "released_ns": np.ma.array(
                host.origin_ns + released, mask=~by_op & np.isin(waited.known, _UNSEEN)
            ),
            "known_from": words[waited.known],
        }
