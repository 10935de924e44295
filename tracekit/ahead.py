"""Work that is done before it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T], n_items: int = 4) -> Iterator[T]:
    """The same items; a thread makes so many of them before they are asked for."""
    with ThreadPoolExecutor(1) as thread:
        following = deque(thread.submit(next, items, None) for _ in range(n_items))
        while (item := following.popleft().result()) is not None:
            following.append(thread.submit(next, items, None))
            yield item
