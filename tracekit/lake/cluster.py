"""The work on many files or ranks, as tasks of a Ray cluster.

Ray schedules the tasks, by the memory and cores that they declare, and runs them again when a
machine or a process dies. This module hands them over, a bounded number at a time, and says what
was run again.

https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html
https://docs.ray.io/en/latest/ray-core/patterns/limit-pending-tasks.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tracekit.errors import TracekitError
from tracekit.lake.storage import StorageError

T = TypeVar("T")
R = TypeVar("R")

# Memory of a task unless the user says otherwise: enough for a trace of a gigabyte.
TASK_MB = 2_000
_RETRIES = 5
# Tasks handed over per core of the cluster: one runs, the other waits beside it.
_TASKS_PER_CORE = 2
_OBJECT_STORE_BYTES = 100 << 20
_WAIT_S = 1.0


class Cluster(Generic[T, R]):
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
        # Read when Ray is imported: it would send what is used to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":
            # Elsewhere than on Windows and macOS, it would listen on all interfaces.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        try:
            import ray
        except ImportError as error:
            raise TracekitError("--ray needs Ray: pip install 'tracekit[ray]'") from error
        self._ray = ray
        self._memory_bytes = (memory_mb or TASK_MB) << 20
        self._on_retry = on_retry
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
        try:
            if address == "local":
                ray.init(
                    address="local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    _node_ip_address="127.0.0.1",
                    **quiet,
                )
            else:
                ray.init(address=address, **quiet)
        except Exception as error:  # Ray raises Exception itself where a node does not start.
            reason = str(error).strip().partition("\n")[0]
            raise TracekitError(f"--ray {address}: cannot be reached: {reason}") from error
        self._require_memory(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._ray.shutdown()

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
        """The result of the function for each task, as they come, or the error that ended it after
        all attempts."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = self._ray
        # Beside the driver: a machine that dies does not take the counts along.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        starts = ray.remote(_Starts).options(num_cpus=0, scheduling_strategy=here).remote()
        remote = ray.remote(_begun).options(
            num_cpus=1,
            memory=self._memory_bytes,
            max_retries=_RETRIES,
            retry_exceptions=[StorageError, ConnectionError],
            scheduling_strategy="SPREAD",
        )
        rest = enumerate(tasks)
        pending: dict[Any, tuple[int, T]] = {}
        while True:
            cores = int(ray.cluster_resources().get("CPU", 1))
            # A cluster may have lost machines since it was given the last tasks.
            room = max(0, max(1, cores * _TASKS_PER_CORE) - len(pending))
            for number, task in islice(rest, room):
                pending[remote.remote(function, task, number, starts)] = (number, task)
            if not pending:
                return
            done, _ = ray.wait(list(pending), num_returns=1, timeout=_WAIT_S)
            for reference in done:
                _, task = pending.pop(reference)
                found, attempts = self._result(reference)
                if attempts > 1 and self._on_retry is not None:
                    self._on_retry(f"was begun {attempts} times: {_shown(task)}")
                yield task, found

    def _result(self, reference: Any) -> tuple[R | Exception, int]:
        exceptions = self._ray.exceptions
        try:
            found, attempts = self._ray.get(reference)
        except exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return cause, 1
        except exceptions.RayError as error:
            return error, 1
        return found, attempts


class _Starts:
    """Counts how often each task was begun. An actor."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}

    def begin(self, number: int) -> int:
        self._begun[number] = self._begun.get(number, 0) + 1
        return self._begun[number]


def _begun(function: Callable[[T], R], task: T, number: int, starts: Any) -> tuple[R, int]:
    """Runs a task on a machine of the cluster; returns the result, and which attempt this is."""
    import ray

    attempts = 1
    # The count is for the log: a task does not depend on it.
    with suppress(ray.exceptions.RayError):
        attempts = ray.get(starts.begin.remote(number), timeout=10)
    return function(task), attempts


def _shown(task: object) -> str:
    source = getattr(task, "source", None)
    return str(getattr(source, "url", task))
