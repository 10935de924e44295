"""Array types and functions that the whole replay uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Ids or indices, in the narrowest integer type that holds them.
Numbers = NDArray[Any]
# A selection of parts: indices or a slice.
Which = Numbers | slice
# A time before every other time.
NEVER = -(1 << 62)


def distinct(values: Ints) -> Ints:
    """The distinct values, in order (np.unique hashes, which is slower for many values)."""
    ordered = np.sort(values)
    found: Ints = ordered[np.append(True, np.diff(ordered) > 0)[: len(ordered)]]
    return found


def narrow(ids: Numbers) -> Numbers:
    """The ids in 32 bits if all fit, else in 64."""
    fits = not len(ids) or (ids.min() >= -(1 << 31) and ids.max() < 1 << 31)
    return ids.astype(np.int32 if fits else np.int64, copy=False)


def sums(group: Numbers, ns: Ints, groups: int) -> Ints:
    """The sum of `ns` in each group, in exact integers."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, ns)
    return total
