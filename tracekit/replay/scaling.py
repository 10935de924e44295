"""What parts of a run take of their measured time: few rates among many parts."""

from __future__ import annotations

from dataclasses import dataclass
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
    """Rates of parts that each have a cause; to begin with, all are 1.

    Parts of one `kind` have one rate and one cause, so that scaling a cause touches no part.
    """

    kind: Numbers
    cause: Ints
    """Of each kind."""
    rate: Floats
    """Of each kind."""

    @staticmethod
    def of(cause: NDArray[np.int8], causes: int) -> Rates:
        """Parts with these causes, of so many there are."""
        return Rates(cause, np.arange(causes), np.ones(causes))

    @property
    def parts(self) -> Parts:
        """The same, as the native library takes them."""
        return Parts(self.kind, None if self.all_one else self.rate)

    @property
    def all_one(self) -> bool:
        return bool((self.rate == 1).all())

    def scale(self, factor: float, where: Flags | None = None) -> None:
        """Scales all parts, or some."""
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
        """Scales each of some parts by its own factor."""
        kinds = self.kind[which]
        self.kind = self.kind.astype(np.int64)
        self.kind[which] = len(self.rate) + np.arange(len(which))
        self.cause = np.append(self.cause, self.cause[kinds])
        self.rate = np.append(self.rate, self.rate[kinds] * factors)

    def scale_cause(self, cause: int, factor: float) -> None:
        self.rate = np.where(self.cause == cause, self.rate * factor, self.rate)

    def times(self, ns: Numbers, which: Which = slice(None)) -> Ints:
        """What parts take that were measured to take `ns`, or pieces of them."""
        if self.all_one:
            return ns.astype(np.int64, copy=False)
        if np.isin(self.rate, (0, 1)).all():
            kept: Ints = ns * self.rate.astype(np.int64)[self.kind[which]]
            return kept
        return times(ns, self.rate[self.kind[which]])


def times(ns: Numbers, factor: Floats | float) -> Ints:
    """`ns` scaled, to the nanosecond; what is not scaled stays exact, however long."""
    return np.where(np.equal(factor, 1.0), ns, np.rint(ns * factor).astype(np.int64))


@dataclass
class Scale:
    """What everything takes of its measured time; to begin with, all of it."""

    host: Rates
    """Of each stretch of host work."""
    op: Rates
    """Of each GPU op."""
    fixed: Rates
    """Of each edge's fixed time."""
    dropped: Flags
    """Edges that hold no more."""
    unknown: float = 1.0
    """Of waits that the trace does not explain."""

    @staticmethod
    def of(graph: Graph) -> Scale:
        causes = len(graph.causes)
        return Scale(
            Rates.of(graph.host.cause, causes),
            Rates.of(graph.device.cause, causes),
            Rates.of(graph.edges.fixed_cause, causes),
            np.zeros(len(graph.edges), np.bool_),
        )

    def lengths(self, edges: Edges, which: Which) -> tuple[Ints, Ints, Ints]:
        """What the work of GPU ops and fixed times add to the lengths of edges; and which of these
        edges come from an op."""
        op = edges.source[which] - 1
        by_op = np.flatnonzero((op >= 0) & (op < len(self.op.kind)))
        op_part = np.zeros(len(op), np.int64)
        op_part[by_op] = self.op.times(edges.op_ns[which][by_op], op[by_op])
        return op_part, self.fixed.times(edges.fixed_ns[which], which), by_op
