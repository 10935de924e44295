"""Runs work on many files or ranks in this machine's processes, or as tasks on a Ray cluster.

Both get a bounded number of tasks at a time. Ray schedules tasks by their declared memory and
cores, and retries them when a machine or a process dies.

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
from typing import Protocol, Self, TypeVar

from tracekit.errors import StorageError, TracekitError, is_interrupt, needing, reason_of

T = TypeVar("T")
R = TypeVar("R")

# Number of tasks queued in a pool besides the running ones.
_WAITING = 2
# The time for a worker to remove its files before it ends.
_TO_END_S = 5
# Signals with which schedulers, containers and closed terminals end a process.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Held by a worker while it works on a task.
_WORKING = Lock()
# Held by the thread that ends a worker.
_ENDING = Lock()

# Default memory of a task, enough for a trace of one gigabyte.
TASK_MB = 2_000
_RETRIES = 5
# Tasks submitted to the cluster per core: one runs, and the next one waits.
_TASKS_PER_CORE = 2
_OBJECT_STORE_BYTES = 100 << 20
_WAIT_S = 1.0


class Progress(Protocol):
    """Hears how far work on a lake is."""

    def begin(self, what: str, total: int | None) -> None:
        """Work begins, on `total` files or ranks; None: unknown."""

    def done(self, count: int) -> None:
        """`count` more of them are done."""


class Unheard:
    """Nobody hears."""

    def begin(self, what: str, total: int | None) -> None:
        pass

    def done(self, count: int) -> None:
        pass


def _in_window(
    tasks: Iterable[T], room: Callable[[], int], submit: Callable[[T], Future[R]]
) -> Iterator[tuple[T, R | Exception]]:
    """Tasks with their results or errors, in completion order; at most `room()` are submitted."""
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
    """A pool of processes; with one worker, this process does the work."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise TracekitError("--workers must be at least 1")
        can_tell = hasattr(os, "sched_getaffinity")
        self.count = workers or (len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1)
        """The number of concurrent tasks."""

    def each(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, R | Exception]]:
        """Tasks with their results or errors, in completion order.

        Raises:
            TracekitError: when the system killed a process.
        """
        rest = iter(tasks)
        first = list(islice(rest, 2))
        if self.count == 1 or len(first) < 2:
            yield from ((task, _try(partial(function, task))) for task in chain(first, rest))
            return
        # Not forked: a forked process would share DuckDB's threads and locks.
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
                    "the system killed a worker process, probably for lack of memory: run the same "
                    "command again with fewer --workers; finished work is kept"
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
    """Makes this worker end when its parent process ends, or on a signal."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        _end_worker()

    for number in _SIGNALS:
        signal.signal(number, lambda *_: Thread(target=_end_worker, daemon=True).start())
    # A terminal sends Ctrl-C to all processes: the parent process decides.
    signal.signal(signal.SIGINT, _interrupt)
    Thread(target=watch, daemon=True).start()


def _interrupt(*_: object) -> None:
    if _ENDING.locked():
        raise KeyboardInterrupt


def _end_worker() -> None:
    """Ends this process after interrupting its task, so that the task removes its files."""
    if not _ENDING.acquire(blocking=False):
        return
    if not _WORKING.acquire(blocking=False):
        if hasattr(signal, "pthread_kill"):
            # Unlike other ways, this also interrupts a wait in the main thread.
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
    """While the block runs, makes termination signals act like Ctrl-C: files are removed and
    workers end. Then the process exits with status 128 plus the signal's number, as in shells."""
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

    `address` is `local` for a cluster on only this machine, `auto` for the cluster running here, or
    another cluster's address: HOST:PORT, or ray://HOST:PORT for a Ray client. `on_retry` is called
    with a line about each retried task.

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
        # Read when Ray is imported; otherwise Ray sends usage statistics.
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
        except Exception as error:  # Ray raises plain Exception if a node does not start.
            why = reason_of(error)
            raise TracekitError(f"--ray {address}: cannot be reached: {why}") from error
        self._require_memory(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    @property
    def count(self) -> int:
        # Checked each time, since a cluster may lose machines.
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _require_memory(self, address: str) -> None:
        """Checks the memory, since Ray would wait forever for a machine with enough."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most = max((float(each.get("memory", 0)) for each in alive), default=0)
        if most < self._memory_bytes:
            self._ray.shutdown()
            raise TracekitError(
                f"--ray {address}: a task needs {self._memory_bytes >> 20:,} MB, and no machine in "
                f"the cluster has more than {int(most) >> 20:,} MB: use less (--memory-mb)"
            )

    def each(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, R | Exception]]:
        """Like `Processes.run`."""
        remote = self._ray.remote(_run_counted).options(
            num_cpus=1,
            memory=self._memory_bytes,
            max_retries=_RETRIES,
            retry_exceptions=[StorageError, ConnectionError],
            scheduling_strategy="SPREAD",
        )
        for task, outcome in _in_window(
            tasks,
            lambda: self.count * _TASKS_PER_CORE,
            lambda task: remote.remote(function, task).future(),
        ):
            if isinstance(outcome, Exception):
                cause = getattr(outcome, "cause", None)
                yield task, cause if isinstance(cause, Exception) else outcome
                continue
            result, attempts = outcome
            if attempts > 1 and self._on_retry is not None:
                what = getattr(task, "sources", [task])[0]
                self._on_retry(f"was started {attempts} times: {getattr(what, 'url', what)}")
            yield task, result


def _run_counted(function: Callable[[T], R], task: T) -> tuple[R, int]:
    """Runs a task on a machine of the cluster; returns the result and the number of the attempt."""
    import ray

    attempt = 1
    # Ray does not document a way to get this number.
    with suppress(AttributeError):
        worker = ray.get_runtime_context().worker.core_worker
        attempt += worker.get_current_task_attempt_number()
    return function(task), attempt


# Both run a function on many tasks, several at a time.
Workers = Processes | Cluster
