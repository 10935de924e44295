"""Arrays of a replay: their types, operations on them, and the rates that scale them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracekit.causes import CAUSES
from tracekit.native.replay import Parts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Ids or indices, in the narrowest integer type.
Numbers = NDArray[Any]
# A selection of parts: indices or a slice.
Which = Numbers | slice
# A time before every other time.
NEVER = -(1 << 62)
# With at most this many distinct factors, parts with the same factor share a kind.
_FEW = 16


def begins(*columns: Numbers) -> Flags:
    """Which rows begin a run: they differ from the row before in one of these columns."""
    first = np.ones(len(columns[0]), np.bool_)
    first[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    return first


def distinct(values: Ints) -> Ints:
    """The distinct values, sorted (np.unique hashes, which is slower for many values)."""
    ordered = np.sort(values)
    result: Ints = ordered[begins(ordered)]
    return result


def compact_ids(ids: Numbers) -> Numbers:
    """The ids in 32 bits if all fit, else in 64 bits."""
    fits = not len(ids) or (ids.min() >= -(1 << 31) and ids.max() < 1 << 31)
    return ids.astype(np.int32 if fits else np.int64, copy=False)


class Columns(Struct, frozen=True):
    """Rows of one kind; each field of a subclass is a column."""

    def take(self, which: Numbers | Flags) -> Self:
        """The selected rows."""
        return type(self)(*(getattr(self, name)[which] for name in self.__struct_fields__))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts."""
        if not parts:
            return cls(*(np.zeros(0, np.int64) for _ in cls.__struct_fields__))
        columns = ([getattr(part, name) for part in parts] for name in cls.__struct_fields__)
        return cls(*(np.concatenate(column) for column in columns))


def sums(group: Numbers, ns: Ints, groups: int) -> Ints:
    """The sum of `ns` in each group, in exact integers."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, ns)
    return total


class Rates(Struct):
    """The rates of parts that each have a cause. All rates start at 1.

    Parts of one `kind` share a rate and a cause: scaling a cause changes the kinds, not the parts.
    """

    kind: Numbers
    cause: Ints
    """The cause of each kind."""
    is_apart: Flags
    """The kinds that `scale_apart` scales separately from others with their cause."""
    rate: Floats
    """The rate of each kind: the factor by which its measured time is multiplied."""

    @staticmethod
    def of(cause: NDArray[np.int8], apart: Flags | None = None) -> Rates:
        """Rates of parts with these causes, some of which are scaled separately."""
        many = len(CAUSES)
        kind = cause if apart is None else cause + np.int8(many) * apart
        is_apart = np.arange(2 * many) >= many
        return Rates(kind, np.tile(np.arange(many), 2), is_apart, np.ones(2 * many))

    @property
    def parts(self) -> Parts:
        """The rates in the native library's form."""
        return Parts(self.kind, None if self.all_one else self.rate)

    @property
    def all_one(self) -> bool:
        return bool((self.rate == 1).all())

    def scale(self, factor: float, where: Flags | Ints | None = None) -> None:
        """Scales the parts selected by `where`, or all parts."""
        if where is None:
            self.rate = self.rate * factor
            return
        chosen, before = self.kind[where], len(self.rate)
        kinds = np.flatnonzero(np.bincount(chosen, minlength=before))
        self._add(kinds, factor)
        self.kind = self.kind.astype(np.min_scalar_type(len(self.rate)))
        number = np.arange(before, dtype=self.kind.dtype)
        number[kinds] = before + np.arange(len(kinds))
        self.kind[where] = number[chosen]

    def scale_apart(self, factor: float, *, apart: bool) -> None:
        """Scales the separately scaled parts, or all others."""
        self.rate = np.where(self.is_apart == apart, self.rate * factor, self.rate)

    def scale_each(self, factors: Floats, which: Ints) -> None:
        """Scales each part in `which` by its own factor."""
        values, number = np.unique(factors, return_inverse=True)
        if len(values) <= _FEW:
            for each, value in enumerate(values.tolist()):
                self.scale(value, which[number == each])
            return
        kinds = self.kind[which]
        self.kind = self.kind.astype(np.int64)
        self.kind[which] = len(self.rate) + np.arange(len(which))
        self._add(kinds, factors)

    def _add(self, kinds: Ints, factors: Floats | float) -> None:
        """Adds copies of these kinds with other rates."""
        self.cause = np.append(self.cause, self.cause[kinds])
        self.is_apart = np.append(self.is_apart, self.is_apart[kinds])
        self.rate = np.append(self.rate, self.rate[kinds] * factors)

    def scale_cause(self, cause: int, factor: float, *, others: bool = False) -> None:
        """Scales the parts with a cause, or all others."""
        self.rate = np.where((self.cause == cause) != others, self.rate * factor, self.rate)

    def times(self, ns: Numbers, which: Which = slice(None)) -> Ints:
        """Scales `ns`: the measured times of the parts `which`, or pieces of those times."""
        if self.all_one:
            return ns.astype(np.int64, copy=False)
        return times(ns, self.rate[self.kind[which]])


def times(ns: Numbers, factor: Floats | float) -> Ints:
    """`ns` scaled and rounded to ns; times with a factor of 1 stay exact, however long."""
    return np.where(np.equal(factor, 1.0), ns, np.rint(ns * factor).astype(np.int64))


def shorter(before_ns: Ints | int, after_ns: Ints | int) -> Floats:
    """The decrease of times, as fractions of the original times."""
    saved = np.subtract(before_ns, after_ns, dtype=np.float64)
    return np.divide(saved, before_ns, out=np.zeros(saved.shape), where=np.not_equal(before_ns, 0))
