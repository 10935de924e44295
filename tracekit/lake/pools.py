"""The work on many files or ranks, on the processes of this machine."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
from _thread import interrupt_main
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection
from threading import Lock, Thread, main_thread
from typing import Generic, TypeVar

from tracekit.errors import TracekitError, is_interrupt

T = TypeVar("T")
R = TypeVar("R")

# Tasks handed to a pool beyond those that run.
_WAITING = 2
# A worker that should end has this long to remove its files.
_TO_END_S = 5
# What schedulers, containers and closed terminals send to end a process.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Held by a worker while it works on a task.
_WORKING = Lock()
# Held by the thread that ends a worker.
_ENDING = Lock()


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
        # Workers end when this process closes its end of the pipe, or dies.
        theirs, ours = context.Pipe(duplex=False)
        with (
            theirs,
            ours,
            ProcessPoolExecutor(self._workers, context, _begin_worker, (theirs,)) as pool,
        ):
            pending: dict[Future[R], T] = {
                pool.submit(_work, function, task): task for task in first
            }
            try:
                while pending:
                    for task in islice(rest, self._workers + _WAITING - len(pending)):
                        pending[pool.submit(_work, function, task)] = task
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        found: R | Exception = _outcome(future)
                        yield pending.pop(future), found
            except BrokenProcessPool as error:
                ours.close()
                raise TracekitError(
                    "the system ended a worker process, probably for want of memory: run the same "
                    "command again with fewer --workers; what is done is kept"
                ) from error
            except BaseException:
                ours.close()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _tried(function: Callable[[T], R], task: T) -> R | Exception:
    try:
        return function(task)
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        return error


def _begin_worker(parent: Connection) -> None:
    """Makes this worker end when the process that started it ends, or a signal asks it to."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        _end_worker()

    for number in _SIGNALS:
        signal.signal(number, lambda *_: Thread(target=_end_worker, daemon=True).start())
    # A terminal sends Ctrl-C to all processes: the one that started this one decides.
    signal.signal(signal.SIGINT, _interrupt)
    Thread(target=watch, daemon=True).start()


def _interrupt(*_: object) -> None:
    if _ENDING.locked():
        raise KeyboardInterrupt


def _end_worker() -> None:
    """Ends this process; a task is interrupted first, so that it removes its files."""
    if not _ENDING.acquire(blocking=False):
        return
    if not _WORKING.acquire(blocking=False):
        if hasattr(signal, "pthread_kill"):
            # Unlike other ways, it also ends a wait of the main thread.
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        else:
            interrupt_main()
        _WORKING.acquire(timeout=_TO_END_S)
    atexit._run_exitfuncs()
    os._exit(1)


def _work(function: Callable[[T], R], task: T) -> R:
    with _WORKING:
        return function(task)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Lets a signal that asks this process to end do what Ctrl-C does while the block runs: files
    are removed and workers end. Then the process exits, with 128 and the signal's number as its
    status, as shells say it."""
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heeded = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    except BaseException as error:
        if came and is_interrupt(error):
            raise SystemExit(128 + came[0]) from error
        raise
    finally:
        for number in heeded:
            signal.signal(number, before[number])


def _outcome(future: Future[R]) -> R | Exception:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Exception) and not isinstance(error, BrokenProcessPool):
        return error
    raise error
