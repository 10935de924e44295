"""The work on many files or ranks: on the processes of this machine, or as tasks of a Ray cluster.

Both get a bounded number of tasks at a time. Ray schedules tasks by the memory and cores that
they declare, and runs them again when a machine or a process dies.

https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html
https://docs.ray.io/en/latest/ray-core/patterns/limit-pending-tasks.html
"""

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
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import Connection
from threading import Lock, Thread, main_thread
from typing import Self, TypeVar

from tracekit.errors import StorageError, TracekitError, is_interrupt, needing, reason_of

T = TypeVar("T")
R = TypeVar("R")

# Tasks given to a pool in addition to the running ones.
_WAITING = 2
# How long a worker may take to remove its files before it ends.
_TO_END_S = 5
# Signals by which schedulers, containers and closed terminals end a process.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
# A worker holds this while it works on a task.
_WORKING = Lock()
# The thread that ends a worker holds this.
_ENDING = Lock()

# Memory of a task unless the user says otherwise: enough for a trace of a gigabyte.
TASK_MB = 2_000
_RETRIES = 5
# Tasks given to the cluster per core: one runs, and the next one waits.
_TASKS_PER_CORE = 2
_OBJECT_STORE_BYTES = 100 << 20
_WAIT_S = 1.0


def _in_window(
    tasks: Iterable[T], room: Callable[[], int], submit: Callable[[T], Future[R]]
) -> Iterator[tuple[T, R | Exception]]:
    """Each task with its result or error, as they end; at most `room()` of them are handed over."""
    rest = iter(tasks)
    pending: dict[Future[R], T] = {}
    while True:
        for task in islice(rest, max(0, room() - len(pending))):
            pending[submit(task)] = task
        if not pending:
            return
        for future in wait(pending, _WAIT_S, FIRST_COMPLETED).done:
            yield pending.pop(future), _try(future.result)


class Processes:
    """A pool of processes; with one worker, this process does the work itself."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise TracekitError("--workers must be at least 1")
        can_tell = hasattr(os, "sched_getaffinity")
        self.count = workers or (len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1)
        """How many tasks run at a time."""

    def each(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, R | Exception]]:
        """Each task with its result, or with the error that ended it, in the order in which they
        end.

        Raises:
            TracekitError: when the system ended a process.
        """
        rest = iter(tasks)
        first = list(islice(rest, 2))
        if self.count == 1 or len(first) < 2:
            yield from ((task, _try(partial(function, task))) for task in chain(first, rest))
            return
        # A forked process would share DuckDB's threads and locks.
        context = multiprocessing.get_context("spawn")
        # Workers end when this process closes its end of the pipe, or dies.
        theirs, ours = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(self.count, context, _begin_worker, (theirs,))
        with theirs, ours, pool:
            try:
                yield from _in_window(
                    chain(first, rest),
                    lambda: self.count + _WAITING,
                    lambda task: pool.submit(_work, function, task),
                )
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


def _try(work: Callable[[], R]) -> R | Exception:
    try:
        return work()
    except BrokenProcessPool:
        raise
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
    heeded = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    except BaseException as error:
        if came and is_interrupt(error):
            raise SystemExit(128 + came[0]) from error
        raise
    finally:
        for number, handler in heeded.items():
            signal.signal(number, handler)


class Cluster:
    """A connection to a Ray cluster; as a context manager, it is closed after the block.

    `address` is `local` for a cluster on this machine alone, `auto` for the one that runs here, or
    the address of another: HOST:PORT, or ray://HOST:PORT for a Ray client. `on_retry` is called
    with a line about each task that was run again.

    Raises:
        TracekitError: when Ray is not installed, the cluster cannot be reached, or none of its
            machines has the memory that a task needs.
    """

    def __init__(
        self,
        address: str,
        workers: int | None = None,
        memory_mb: int | None = None,
        on_retry: Callable[[str], object] | None = None,
    ) -> None:
        # Ray reads this at its import, and otherwise sends usage statistics to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":
            # Otherwise, Ray listens on all interfaces on Linux.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        with needing("--ray needs", "ray"):
            import ray
        self._ray = ray
        self._memory_bytes = (memory_mb or TASK_MB) << 20
        self._on_retry = on_retry
        settings = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
        if address == "local":
            settings |= {
                "num_cpus": workers,
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "_node_ip_address": "127.0.0.1",
            }
        try:
            ray.init(address=address, **settings)
        except Exception as error:  # Ray raises Exception itself where a node does not start.
            why = reason_of(error)
            raise TracekitError(f"--ray {address}: cannot be reached: {why}") from error
        self._require_memory(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    @property
    def count(self) -> int:
        # Asked each time: a cluster may lose machines.
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _require_memory(self, address: str) -> None:
        """Ray would wait for ever for a machine with enough memory."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most = max((float(each.get("memory", 0)) for each in alive), default=0)
        if most < self._memory_bytes:
            self._ray.shutdown()
            raise TracekitError(
                f"--ray {address}: a task needs {self._memory_bytes >> 20:,} MB, and no machine of "
                f"the cluster has more than {int(most) >> 20:,} MB: give less (--memory-mb)"
            )

    def each(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, R | Exception]]:
        """As the method of Processes does."""
        remote = self._ray.remote(_run_counted).options(
            num_cpus=1,
            memory=self._memory_bytes,
            max_retries=_RETRIES,
            retry_exceptions=[StorageError, ConnectionError],
            scheduling_strategy="SPREAD",
        )
        for task, found in _in_window(
            tasks,
            lambda: self.count * _TASKS_PER_CORE,
            lambda task: remote.remote(function, task).future(),
        ):
            if isinstance(found, Exception):
                cause = getattr(found, "cause", None)
                yield task, cause if isinstance(cause, Exception) else found
                continue
            result, attempts = found
            if attempts > 1 and self._on_retry is not None:
                what = getattr(task, "sources", [task])[0]
                self._on_retry(f"was begun {attempts} times: {getattr(what, 'url', what)}")
            yield task, result


def _run_counted(function: Callable[[T], R], task: T) -> tuple[R, int]:
    """Runs a task on a machine of the cluster; returns the result, and which attempt this is."""
    import ray

    attempt = 1
    # Ray documents no way to ask for this number.
    with suppress(AttributeError):
        worker = ray.get_runtime_context().worker.core_worker
        attempt += worker.get_current_task_attempt_number()
    return function(task), attempt


# Each runs a function on many tasks, several at a time.
Workers = Processes | Cluster
