"""Runs queries so that Ctrl-C or a time limit stops them at once.

Python handles signals only between its own instructions, so never while the main thread is inside
DuckDB. Queries therefore run in other threads, and the caller waits. A new thread for each would
take a tenth of a small trace's analysis: allocators do not give one thread the memory of another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from tracekit.errors import TracekitError

T = TypeVar("T")

# The maximum wait for interrupted work.
_PATIENCE_S = 1.0
_left_running = threading.Event()


class _Worker:
    """A thread that runs one piece of work after another. It never keeps the process alive."""

    def __init__(self) -> None:
        self._waiting = SimpleQueue[Callable[[], object]]()
        threading.Thread(target=self._run, name="tracekit-query", daemon=True).start()

    def submit(self, work: Callable[[], object]) -> None:
        self._waiting.put(work)

    def _run(self) -> None:
        while True:
            self._waiting.get()()


# Workers without work. A forked process has none of its parent's threads.
_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def interruptible(
    work: Callable[[], T], interrupt: Callable[[], object], timeout_s: float | None = None
) -> T:
    """Runs `work` in another thread and returns its result or raises its exception.

    On Ctrl-C or a timeout it calls `interrupt`, which must stop `work`.

    Raises:
        TracekitError: when `work` takes longer than `timeout_s`.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.submit(run)
    try:
        result.exception(timeout_s)
    except BaseException as error:
        interrupt()
        try:
            result.exception(_PATIENCE_S)
        except TimeoutError:
            _left_running.set()
        if isinstance(error, TimeoutError) and timeout_s is not None:
            raise took_longer(timeout_s) from None
        raise
    finally:
        if result.done():
            _idle.append(worker)
    return result.result()


def took_longer(timeout_s: float) -> TracekitError:
    """The error for a query that exceeded its time limit."""
    return TracekitError(f"the query took longer than {timeout_s:g} s: allow more time (--timeout)")


def work_is_left_running() -> bool:
    """Whether some interrupted work did not stop. The process must then end without waiting for it
    or closing its connection."""
    return _left_running.is_set()
