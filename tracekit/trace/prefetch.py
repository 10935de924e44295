"""Work that is done before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The same items; a thread makes the next one while the last is in use.

    It ends with the block. The garbage collector may not end it: where that runs, the very locks
    that this takes may be held.
    """
    with ThreadPoolExecutor(1) as thread:
        yield _made(items, thread)


def _made(items: Iterator[T], thread: ThreadPoolExecutor) -> Iterator[T]:
    following = thread.submit(next, items, None)
    while (item := following.result()) is not None:
        following = thread.submit(next, items, None)
        yield item
