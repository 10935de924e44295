"""Work in DuckDB that Ctrl-C or a time limit ends at once.

A signal reaches Python between two of its own instructions only: while the main thread is inside
DuckDB, that may be never. So DuckDB works in a thread of its own, and the main thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tracekit.errors import TracekitError

T = TypeVar("T")

# What does not stop within this time after it was interrupted is left behind.
_PATIENCE_S = 1.0
_left_behind = threading.Event()


def interruptible(
    work: Callable[[], T], interrupt: Callable[[], object], timeout_s: float | None = None
) -> T:
    """What `work` returns or raises; `interrupt` has to stop it.

    Raises:
        TracekitError: when it takes longer than `timeout_s`.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="tracekit-query", daemon=True).start()
    try:
        result.exception(timeout_s)
    except BaseException as error:
        interrupt()
        try:
            result.exception(_PATIENCE_S)
        except TimeoutError:
            _left_behind.set()
        if isinstance(error, TimeoutError):
            raise TracekitError(
                f"the query took longer than {timeout_s:g} s: allow it more (--timeout)"
            ) from None
        raise
    return result.result()


def work_is_left_behind() -> bool:
    """Whether some work could not be stopped. The process then has to end without waiting for it:
    what that works on may not be closed."""
    return _left_behind.is_set()
