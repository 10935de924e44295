"""The launches of a process in the order of the host, and bags of labels in stretches of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

# Compare this many stretches, evenly spread: enough for a median.
_SAMPLED = 128


@dataclass(frozen=True)
class Sequence:
    """Launches in the order in which the host made them; operators in a trace without a device."""

    label: Ints
    """What was launched: numbers from 0."""
    thread: Ints
    start: Ints
    """When the host began each launch, in ns."""
    end: Ints
    """When the call returned."""
    weight: Ints
    """The time of the launched GPU ops in ns; for an operator, its duration."""

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, which: slice | Ints) -> Sequence:
        columns = (self.label, self.thread, self.start, self.end, self.weight)
        return Sequence(*(column[which] for column in columns))

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return int(self.label.max()) + 1 if len(self) else 0

    def renumbered(self) -> Sequence:
        """The same launches, with labels numbered anew so that all numbers are used."""
        label = np.unique(self.label, return_inverse=True)[1].astype(np.int64)
        return Sequence(label, self.thread, self.start, self.end, self.weight)

    def gaps(self) -> Ints:
        """The time before each launch in which the host was in no other launch, in ns."""
        gap = np.zeros(len(self), np.int64)
        gap[1:] = np.maximum(self.start[1:] - np.maximum.accumulate(self.end)[:-1], 0)
        return gap


@dataclass(frozen=True)
class Bags:
    """How often each label occurs in each of some stretches: one row per stretch."""

    counts: Ints
    typical: Ints
    """The median over the stretches."""

    @property
    def similarity(self) -> Floats:
        """What each stretch has in common with a typical one, as a share of the larger."""
        common = np.minimum(self.counts, self.typical).sum(axis=1)
        largest = np.maximum(self.counts.sum(axis=1), self.typical.sum())
        return np.asarray(common / np.maximum(largest, 1))

    def consistency(self, total: Ints, tolerance: float) -> float:
        """In what share of stretches a label occurs as often as in a typical one: the mean over all
        labels that occur twice or more. A label that a typical stretch lacks counts as 0."""
        near = np.abs(self.counts - self.typical) <= tolerance * self.typical
        share = np.where(self.typical > 0, near.mean(axis=0), 0.0)
        often = total >= 2
        return float(share[often].mean()) if often.any() else 0.0


def bags(label: Ints, labels: int, first: Ints, stop: Ints) -> Bags:
    """The bags of the stretches [first, stop), which do not overlap; a sample if there are many."""
    if len(first) > _SAMPLED:
        sample = np.linspace(0, len(first) - 1, _SAMPLED).astype(np.int64)
        first, stop = first[sample], stop[sample]
    lengths = stop - first
    row = np.repeat(np.arange(len(first)), lengths)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    cell = row * labels + label[np.repeat(first, lengths) + within]
    counts = np.bincount(cell, minlength=len(first) * labels).reshape(len(first), labels)
    middle = (len(first) - 1) // 2
    return Bags(counts, np.partition(counts, middle, axis=0)[middle])


def bag(label: Ints, labels: int) -> Ints:
    """How often each label occurs."""
    return np.bincount(label, minlength=labels)


def in_common(one: Ints, other: Ints) -> float:
    """The share that two bags have in common, of the larger."""
    return float(np.minimum(one, other).sum() / max(one.sum(), other.sum(), 1))


def running_sum(values: Ints | Flags) -> Ints:
    """The sum of all values before each index, and of all of them: stretches are differences."""
    return np.append(0, np.cumsum(values, dtype=np.int64))
