"""The current stage of long work, such as "replaying", to show to the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str | None], object]

# The running stages, innermost last; threads may run several at once.
_running: list[str] = []
_listeners: list[Listener] = []


@contextmanager
def stage(name: str) -> Iterator[None]:
    """While the block runs, `name` is the current stage."""
    _running.append(name)
    _tell()
    try:
        yield
    finally:
        _running.remove(name)
        _tell()


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """While the block runs, calls only `listener`: with each new stage, and with None when work is
    done and results may be printed."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        listener(None)


def _tell() -> None:
    if _listeners:
        _listeners[-1](_running[-1] if _running else None)
