"""What parts of a run take of their measured time: few rates among many parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Numbers of things, in as few bytes as hold them all.
Numbers = NDArray[Any]
# Which parts: places, or a slice of them.
Which = Numbers | slice


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
