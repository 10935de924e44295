"""Iteration with one item prepared in advance by a thread."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def prefetched(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The same items; a thread makes the next item while the caller uses the current one.

    The thread ends with the block. It must not be left to the garbage collector, which may run
    while the locks are held that ending a thread takes.
    """
    with ThreadPoolExecutor(1) as thread:

        def made() -> Iterator[T]:
            following = thread.submit(next, items, None)
            while (item := following.result()) is not None:
                following = thread.submit(next, items, None)
                yield item

        yield made()
