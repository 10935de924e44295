"""The run as a graph: instants of host threads and starts of GPU ops, and what each waits for.

A node is an instant at which something waits for something else: a GPU op starts, a call that
waits for the device returns, a thread takes work over or gets it back. An edge says that its target
comes no sooner than its source plus a length, which consists of host work, device work and a fixed
time. A node is measured where its latest edge puts it, or later: that `unknown` wait has no reason
in the trace, is kept as it is, and reported.

What edges there are (the source of each definition is the CUDA programming guide's chapter on
asynchronous concurrent execution, but for where the trace itself says so):

  host      a thread does one thing after another
  stream    so does a stream; ops that overlap on it start one after the other
  launch    an op starts after its launch was submitted
  wait      a stream waits for an event of another one; kernels of one graph, for each other
  sync      a call that waits for the device returns after the op that it waits for has ended
  queue     a launch finds no room until an earlier op has started
  loader    a fetch returns when other processes have loaded the batch, one after the other
  handover  a thread works on what another gives it, and that one stands still meanwhile

The idea of replaying such a graph is Daydream's (https://www.usenix.org/conference/atc20/presentation/zhu-hongyu).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.replay.graph.arrays import Ints, Numbers
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.edges import Edges
from tracekit.replay.graph.host import Host


@dataclass(frozen=True)
class Graph:
    """The graph of one trace, ready to be swept. Times are ns since the trace's start."""

    causes: list[str]
    host: Host
    device: Device
    edges: Edges
    """Those of a target stand side by side, in order of their kinds; sources before targets."""
    time: Ints
    """When each node was measured."""
    unknown: Ints
    """How much later than its latest edge says."""
    joins: Ints
    """The keys of the host's joins, in order."""
    rejected: int
    """Edges left out because the clock contradicts them."""

    @property
    def ops(self) -> int:
        return len(self.device.start)

    def number(self, cause: str) -> int:
        return self.causes.index(cause)

    def root(self, key: Ints) -> Ints:
        """The node that each instant of the host follows: the last join of the thread at or before
        it, or the start of the trace."""
        return root_of(self.host, self.joins, self.ops, key)

    def since(self, node: Numbers, key: Ints) -> Ints:
        """The instants of such nodes, on the threads of the instants that follow them."""
        return since(self.host, self.joins, self.ops, node, key)


def root_of(host: Host, joins: Ints, ops: int, key: Ints, side: str = "right") -> Ints:
    index = np.searchsorted(joins, key, side) - 1  # type: ignore[call-overload]
    if not len(joins):
        return np.zeros(len(key), np.int64)
    mine = (index >= 0) & (host.thread_of(joins[index]) == host.thread_of(key))
    return np.where(mine, 1 + ops + index, 0)


def since(host: Host, joins: Ints, ops: int, node: Numbers, key: Ints) -> Ints:
    begun = host.begin_of(host.thread_of(key))
    joined = node > ops
    begun[joined] = joins[node[joined] - 1 - ops]
    return begun
