"""Types of arrays, and what is done to arrays everywhere in the replay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Numbers of things, in as few bytes as hold them all.
Numbers = NDArray[Any]
# Which parts: their indices, or a slice of them.
Which = Numbers | slice
# A time before all others.
NEVER = -(1 << 62)


def distinct(values: Ints) -> Ints:
    """The different values, in order (NumPy's unique hashes: slower for many)."""
    ordered = np.sort(values)
    found: Ints = ordered[np.append(True, np.diff(ordered) > 0)[: len(ordered)]]
    return found


def narrow(ids: Numbers) -> Numbers:
    """Numbers that only name things, in as few bytes as hold them."""
    fits = not len(ids) or (ids.min() >= -(1 << 31) and ids.max() < 1 << 31)
    return ids.astype(np.int32 if fits else np.int64, copy=False)


def sums(group: Numbers, ns: Ints, groups: int) -> Ints:
    """The sum of `ns` of each group, as integers."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, ns)
    return total
