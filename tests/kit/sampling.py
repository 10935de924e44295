"""Samples of test cases: `make test` runs a part of them; `make test-all`, and a run on a GPU,
runs all."""

from __future__ import annotations

import os
from collections.abc import Sized
from typing import TypeVar

IS_ON_GPU = os.environ.get("TRACEKIT_TEST_DEVICE", "cpu") != "cpu"
IS_ALL = IS_ON_GPU or os.environ.get("TRACEKIT_TEST_ALL") == "1"
# Descriptions of the cases that this run leaves out.
LEFT_OUT: set[str] = set()

Sampled = TypeVar("Sampled")


def sample(what: str, everything: Sampled, part: Sampled) -> Sampled:
    """`part`, and a line about it at the end of the run; in `make test-all`, `everything`.

    Args:
        what: a description of the cases.
        everything: all cases, or their number.
        part: the cases, or their number, that fit into the time of every push.
    """
    if IS_ALL:
        return everything
    tried, all_ = (len(n) if isinstance(n, Sized) else n for n in (part, everything))
    LEFT_OUT.add(f"{what}: {tried:,} of {all_:,} tried")
    return part
