"""The work on many files or ranks, on the processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Generic, TypeVar

from tracekit.errors import TracekitError

T = TypeVar("T")
R = TypeVar("R")

# Tasks handed to a pool beyond those that run.
_WAITING = 2


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes(Generic[T, R]):
    """A pool of processes; with one worker, this process does the work itself."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise TracekitError("--workers must be at least 1")
        self._workers = workers or cores()

    def each(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, R | Exception]]:
        """The result of the function for each task, as they come, or the error that it raised.

        Raises:
            TracekitError: when the system ended a process.
        """
        rest = iter(tasks)
        if self._workers == 1:
            yield from ((task, _tried(function, task)) for task in rest)
            return
        first = list(islice(rest, 2))
        if len(first) < 2:
            yield from ((task, _tried(function, task)) for task in first)
            return
        # A forked process would share DuckDB's threads and locks.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._workers, mp_context=context) as pool:
            pending: dict[Future[R], T] = {pool.submit(function, task): task for task in first}
            try:
                while pending:
                    for task in islice(rest, self._workers + _WAITING - len(pending)):
                        pending[pool.submit(function, task)] = task
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        found: R | Exception = _outcome(future)
                        yield pending.pop(future), found
            except BrokenProcessPool as error:
                raise TracekitError(
                    "the system ended a worker process, probably for want of memory: run the same "
                    "command again with fewer --workers; what is done is kept"
                ) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _tried(function: Callable[[T], R], task: T) -> R | Exception:
    try:
        return function(task)
    except Exception as error:
        return error


def _outcome(future: Future[R]) -> R | Exception:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Exception) and not isinstance(error, BrokenProcessPool):
        return error
    raise error
