"""Iteration in which a thread prepares the next item."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def prefetched(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The same items; a thread prepares the next one while the caller uses the current one.

    The thread ends with the block. The garbage collector must not end it: it may run while holding
    locks that this needs.
    """
    with ThreadPoolExecutor(1) as thread:

        def made() -> Iterator[T]:
            following = thread.submit(next, items, None)
            while (item := following.result()) is not None:
                following = thread.submit(next, items, None)
                yield item

        yield made()
