"""How a replay scales measured times: many parts of a run share few rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.native.replay import Parts
from tracekit.replay.graph.arrays import Flags, Floats, Ints, Numbers, Which

if TYPE_CHECKING:
    from tracekit.replay.graph import Graph
    from tracekit.replay.graph.edges import Edges


@dataclass
class Rates:
    """The rates of parts that each have a cause. All rates start at 1.

    Parts of one `kind` share a rate and a cause: scaling a cause changes the kinds, not the parts.
    """

    kind: Numbers
    cause: Ints
    """The cause of each kind."""
    rate: Floats
    """The rate of each kind: the factor by which its measured time is multiplied."""

    @staticmethod
    def of(cause: NDArray[np.int8], causes: int) -> Rates:
        """Rates of parts with these causes, which are numbers below `causes`."""
        return Rates(cause, np.arange(causes), np.ones(causes))

    @property
    def parts(self) -> Parts:
        """The rates in the native library's form."""
        return Parts(self.kind, None if self.all_one else self.rate)

    @property
    def all_one(self) -> bool:
        return bool((self.rate == 1).all())

    def scale(self, factor: float, where: Flags | None = None) -> None:
        """Scales the parts selected by `where`, or all parts."""
        if where is None:
            self.rate = self.rate * factor
            return
        kinds = np.flatnonzero(np.bincount(self.kind[where], minlength=len(self.rate)))
        number = np.arange(len(self.rate))
        number[kinds] = len(self.rate) + np.arange(len(kinds))
        self.cause = np.append(self.cause, self.cause[kinds])
        self.rate = np.append(self.rate, self.rate[kinds] * factor)
        self.kind = self.kind.astype(np.min_scalar_type(len(self.rate)))
        self.kind[where] = number[self.kind[where]]

    def scale_each(self, factors: Floats, which: Ints) -> None:
        """Scales each of the parts `which` by its own factor."""
        kinds = self.kind[which]
        self.kind = self.kind.astype(np.int64)
        self.kind[which] = len(self.rate) + np.arange(len(which))
        self.cause = np.append(self.cause, self.cause[kinds])
        self.rate = np.append(self.rate, self.rate[kinds] * factors)

    def scale_cause(self, cause: int, factor: float) -> None:
        self.rate = np.where(self.cause == cause, self.rate * factor, self.rate)

    def times(self, ns: Numbers, which: Which = slice(None)) -> Ints:
        """Scales `ns`: the measured times of the parts `which`, or pieces of those times."""
        if self.all_one:
            return ns.astype(np.int64, copy=False)
        if np.isin(self.rate, (0, 1)).all():
            kept: Ints = ns * self.rate.astype(np.int64)[self.kind[which]]
            return kept
        return times(ns, self.rate[self.kind[which]])


def times(ns: Numbers, factor: Floats | float) -> Ints:
    """`ns` scaled and rounded to ns; times with a factor of 1 stay exact, however long."""
    return np.where(np.equal(factor, 1.0), ns, np.rint(ns * factor).astype(np.int64))


@dataclass
class Scale:
    """How a replay scales each measured time. All factors start at 1."""

    host: Rates
    """The rates of the stretches of host work."""
    op: Rates
    """The rates of the GPU ops."""
    fixed: Rates
    """The rates of the edges' fixed times."""
    dropped: Flags
    """Edges that the replay ignores."""
    unknown: float = 1.0
    """The factor of the waits that the trace does not explain."""

    @staticmethod
    def of(graph: Graph) -> Scale:
        causes = len(graph.causes)
        return Scale(
            Rates.of(graph.host.cause, causes),
            Rates.of(graph.device.cause, causes),
            Rates.of(graph.edges.fixed_cause, causes),
            np.zeros(len(graph.edges), np.bool_),
        )

    def copy(self) -> Scale:
        """A scale of its own with the same factors."""
        # Rates replace their arrays when they change.
        host, op, fixed = (replace(each) for each in (self.host, self.op, self.fixed))
        return Scale(host, op, fixed, self.dropped.copy(), self.unknown)

    def lengths(self, edges: Edges, which: Which) -> tuple[Ints, Ints, Ints]:
        """The scaled op time and fixed time of the edges `which`, in ns, and the indices among them
        of the edges whose source is an op."""
        op = edges.source[which] - 1
        by_op = np.flatnonzero((op >= 0) & (op < len(self.op.kind)))
        op_part = np.zeros(len(op), np.int64)
        op_part[by_op] = self.op.times(edges.op_ns[which][by_op], op[by_op])
        return op_part, self.fixed.times(edges.fixed_ns[which], which), by_op
