"""The run as a graph whose nodes are instants of host threads and starts of GPU ops.

A node is an instant that may wait for another one: a GPU op starts, a call that waits for the
device returns, a thread takes over work from another or gets it back. An edge says that its target
comes no earlier than its source plus a length: the sum of host work, device work and a fixed time.
A node was measured when its latest edge allows it, or later. The trace does not explain the
difference, the `unknown` wait: a replay keeps it and reports it.

The kinds of edges (defined in the CUDA programming guide's chapter on asynchronous concurrent
execution, unless the trace itself records the dependency):

  host      a thread does one thing after another
  stream    a stream runs one op after another; ops that overlap on it start in order
  launch    an op starts after its launch was submitted
  wait      a stream waits for an event of another stream; kernels of one graph wait for each other
  sync      a call that waits for the device returns after the op that it waits for has ended
  queue     a launch call waits for room in a full queue until an earlier op has started
  loader    a fetch returns when other processes have loaded the batch, one batch after another
  handover  a thread does work that another thread gives it; the giver is blocked meanwhile

Daydream introduced replaying such a graph:
https://www.usenix.org/conference/atc20/presentation/zhu-hongyu
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracekit.causes import CAUSES
from tracekit.replay.graph.arrays import Columns, Ints, Numbers, Rates, compact_ids
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.host import Host


class EdgeKind(IntEnum):
    """The kind of a dependency; the docstring above defines each."""

    HOST = 0
    STREAM = 1
    LAUNCH = 2
    WAIT = 3
    SYNC = 4
    QUEUE = 5
    HANDOVER = 6
    LOADER = 7


class Edges(Columns, frozen=True):
    """Edges as columns. Node 0 is the trace's start; the ops follow, then the host's joins.

    An edge's length is the sum of the host work from the source (a join, or the start of a thread)
    to the key `host_to` (-1: no host work), `op_ns` of the source's work if it is an op, and
    `fixed_ns`.
    """

    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    host_to: Ints
    op_ns: NDArray[Any]
    fixed_ns: NDArray[Any]
    fixed_cause: NDArray[np.int8]

    @staticmethod
    def make(
        kind: Numbers | int,
        source: Numbers,
        target: Numbers,
        *,
        host_to: Numbers | int = -1,
        op_ns: Numbers | int = 0,
        fixed_ns: Numbers | int = 0,
        cause: Numbers | int = 0,
    ) -> Edges:
        """Creates edges; each argument is a column, or one value for all edges."""

        def column(value: Numbers | int, kind: Any = np.int64) -> NDArray[Any]:
            return np.broadcast_to(value, len(source)).astype(kind)

        return Edges(
            column(kind, np.int8), column(source, np.int32), column(target, np.int32),
            column(host_to), compact_ids(column(op_ns)), compact_ids(column(fixed_ns)),
            column(cause, np.int8),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kind)


class Graph(Struct, frozen=True, dict=True):
    """The graph of one trace, ready for replays. Times are ns since the trace's start."""

    host: Host
    device: Device
    edges: Edges
    """In topological order of their targets; edges of one target are adjacent, ordered by kind."""
    time: Ints
    """The measured time of each node."""
    unknown: Ints
    """How much later each node was measured than its latest edge allows."""
    joins: Ints
    """The keys of the host's joins (the nodes on host threads), in order."""
    first_keys: Ints
    last_keys: Ints
    """The keys at which each relevant thread's work begins and ends: the whole trace for threads
    that lead the run, the recorded work for other launching threads. A thread is irrelevant if it
    neither launches nor gives work to a launching thread."""
    rejected: int
    """The number of edges left out because the measured times contradict them."""

    @property
    def ops(self) -> int:
        return len(self.device.start)

    @cached_property
    def host_rates(self) -> Rates:
        """The rates of the stretches of host work. Calls that copy from pageable memory are scaled
        apart: they return shortly before their copy ends, so they last as long as the copy at any
        speed of the host."""
        device, host = self.device, self.host
        is_copy = device.cause == CAUSES.index("copy")
        long = device.call_end - device.start > device.ns // 2
        op = np.flatnonzero(is_copy & device.linked & ~device.is_blocking & long)
        begin = host.key(device.thread[op], host.origin_ns + device.call[op])
        end = host.key(device.thread[op], host.origin_ns + device.call_end[op])
        in_copies = host.within(begin, end) & (host.cause == CAUSES.index("launch"))
        return Rates.of(host.cause, in_copies)

    @cached_property
    def fixed_rates(self) -> Rates:
        """The rates of the edges' fixed times. Host work among them is scaled apart."""
        kind = self.edges.kind
        on_host = (kind == EdgeKind.HOST) | (kind == EdgeKind.LOADER)
        return Rates.of(self.edges.fixed_cause, on_host)

    def root(self, key: Ints, side: Literal["left", "right"] = "right") -> Ints:
        """The node that each host instant follows: the thread's last join at or before it (with the
        side `left`, before it), or the start of the trace."""
        if not len(self.joins):
            return np.zeros(len(key), np.int64)
        index = np.searchsorted(self.joins, key, side) - 1
        mine = (index >= 0) & (self.host.thread_of(self.joins[index]) == self.host.thread_of(key))
        return np.where(mine, 1 + self.ops + index, 0)

    def since(self, node: Numbers, key: Ints) -> Ints:
        """The key of each `node`, on the thread of the instant `key` that follows it."""
        begun = self.host.start_of(self.host.thread_of(key))
        joined = node > self.ops
        begun[joined] = self.joins[node[joined] - 1 - self.ops]
        return begun
