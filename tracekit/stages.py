"""What long work is at, such as "replaying", for whoever shows it to the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str | None], object]

# The stages that run now, the innermost last; threads may be at several.
_running: list[str] = []
_listeners: list[Listener] = []


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Work that is called `name` runs in the block."""
    _running.append(name)
    _tell()
    try:
        yield
    finally:
        _running.remove(name)
        _tell()


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """While the block runs, `listener` alone is called with each stage, and with None where work
    is done and results may be printed."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        listener(None)


def _tell() -> None:
    if _listeners:
        _listeners[-1](_running[-1] if _running else None)
