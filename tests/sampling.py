"""What `make test` tries a part of, and `make test-all` the whole."""

from __future__ import annotations

import os
from collections.abc import Sized
from typing import TypeVar

IS_ALL = os.environ.get("TRACEKIT_TEST_ALL") == "1"
# What this run leaves out, in words.
LEFT_OUT: set[str] = set()

Sampled = TypeVar("Sampled")


def sample(what: str, everything: Sampled, part: Sampled) -> Sampled:
    """`part`, and a line about it at the run's end; `everything` in `make test-all`.

    Args:
        what: the cases, in words.
        everything: how many, or themselves.
        part: as many as fit into the time of every push.
    """
    if IS_ALL:
        return everything
    tried, all_ = (len(n) if isinstance(n, Sized) else n for n in (part, everything))
    LEFT_OUT.add(f"{what}: {tried:,} of {all_:,} tried")
    return part
