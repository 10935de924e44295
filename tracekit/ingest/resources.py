"""Limits on the memory, threads and disk that loading uses, and progress callbacks."""

from __future__ import annotations

import sys
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol

import duckdb
from msgspec import Struct

from tracekit.database.connection import spill_directory
from tracekit.database.sandbox import Config
from tracekit.errors import TracekitError

LEAST_MEMORY_MB = 400
_MEMORY_MB_PER_THREAD = 200
# Block sizes of new databases, by the size of their traces' JSON. Each table takes at least one
# block: DuckDB's default (256 KB) stays mostly empty when there is little to store. Small blocks
# compress text less, and are slower when memory is short.
SMALLEST_BLOCK = 16 << 10
_BLOCK_BYTES = {1 << 20: SMALLEST_BLOCK, 256 << 20: 64 << 10}
# Up to this size of JSON, planning takes most of a query's time. All of DuckDB's optimizers except
# these cost more than they save: without the others, an analysis takes 10 % less CPU time.
_MOSTLY_PLANNED_BYTES = 2 << 20
_OPTIMIZERS = ("filter_pushdown", "unused_columns")
# The typical compression ratio of traces.
_COMPRESSION = 20
# DuckDB keeps up to this much freed memory for reuse, and refuses more than the machine has.
_MOST_KEPT_MB = 1_000
# Without a limit from the user, the default limit may grow by up to this factor.
_GROWTH = 64
_MOST_THREADS = 1_024
# A petabyte. DuckDB counts in 64 bits.
_MOST_MB = 1_000_000_000
# Memory that the process needs outside DuckDB's buffers: interpreter, DuckDB, batches in flight.
_OUTSIDE_DUCKDB_MB = 215


class LoadProgress(Protocol):
    """Callbacks that report the progress of loading."""

    def read(self, n_bytes: int) -> object:
        """Called after `n_bytes` more stored bytes were read; negative when a file is reread."""

    def found(self, n_events: int) -> object:
        """Called after `n_events` more events were read."""

    def finishing(self) -> object:
        """Called once all files are read, before the derived tables are built."""


class Resources(Struct, frozen=True):
    """The resources that loading may use.

    `memory_mb` is roughly the memory of the whole process, however large the traces are. The
    default for loading is 200 MB per thread, at least 400; for querying a database it is DuckDB's
    own. `threads` defaults to one per core, or to one if the traces are small and stay in memory.
    Data that does not fit in memory goes to `temp_dir`, by default the system's temporary
    directory; queries may put up to `spill_mb` there, as `open_database` describes. `hardware` is a
    file of device peaks that take precedence over tracekit's own, in the form of
    tracekit/hardware.toml. `annotations` are files with a program's notes on the nodes of its
    graphs (tracekit/trace/beside.py). Annotations next to a trace are always read, unless `within`
    is given and they are outside these folders.

    Raises:
        TracekitError: when a value is out of range, or `temp_dir` is not a directory.
    """

    memory_mb: int | None = None
    threads: int | None = None
    temp_dir: str | Path | None = None
    hardware: str | Path | None = None
    spill_mb: int | None = None
    annotations: tuple[str | Path, ...] = ()
    within: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.memory_mb is not None and self.memory_mb < LEAST_MEMORY_MB:
            raise TracekitError(f"loading needs at least {LEAST_MEMORY_MB} MB of memory")
        if self.threads is not None and self.threads < 1:
            raise TracekitError("loading needs at least one thread")
        if self.threads is not None and self.threads > _MOST_THREADS:
            raise TracekitError(f"loading takes at most {_MOST_THREADS:,} threads")
        if self.spill_mb is not None and self.spill_mb < 0:
            raise TracekitError("queries cannot spill less than 0 MB")
        if max(self.memory_mb or 0, self.spill_mb or 0) > _MOST_MB:
            raise TracekitError(f"memory and spilling are limited to at most {_MOST_MB:,} MB")
        if self.temp_dir is not None and not Path(self.temp_dir).is_dir():
            raise TracekitError(f"{self.temp_dir}: is not a directory for temporary files")

    @property
    def inputs(self) -> list[str | Path]:
        """The files among these settings."""
        return [*([] if self.hardware is None else [self.hardware]), *self.annotations]

    @property
    def folder(self) -> Path:
        """The directory for temporary files."""
        return Path(self.temp_dir or gettempdir())

    def settings(self, path: str | Path) -> Config:
        """DuckDB's settings for a database at `path`, except the memory limit."""
        threads: Config = {} if self.threads is None else {"threads": self.threads}
        return {"temp_directory": spill_directory(path, self.temp_dir), **threads}


class Memory:
    """DuckDB's memory limit. It can grow unless the user gave `memory_mb`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, memory_mb: int | None) -> None:
        self._connection = connection
        usual = max(LEAST_MEMORY_MB, _MEMORY_MB_PER_THREAD * workers_of(connection))
        self._limit_mb = (memory_mb or usual) - _OUTSIDE_DUCKDB_MB
        self._most_mb = self._limit_mb * (1 if memory_mb else _GROWTH)
        self._set()
        kept_mb = min(self._limit_mb * 2 // 3, _MOST_KEPT_MB)
        self._connection.execute(f"SET block_allocator_memory = '{kept_mb}MB'")

    def more(self) -> bool:
        """Doubles the limit; returns False when it may not grow further."""
        self._limit_mb *= 2
        if self._limit_mb > self._most_mb:
            return False
        self._set()
        return True

    def allow(self, limit_mb: int) -> None:
        """Raises the limit to `limit_mb`, unless the user gave a lower one."""
        self._limit_mb = max(self._limit_mb, min(limit_mb, self._most_mb))
        self._set()

    def _set(self) -> None:
        # The connection may be at work in another thread.
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET memory_limit = '{self._limit_mb}MB'")


def limit_process(limit_mb: int) -> None:
    """On Linux, limits the process to this much more memory than it has now, since DuckDB's own
    limit does not count texts. If the machine runs out of memory, this process is killed first."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + limit_mb * 1_000_000
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if most == resource.RLIM_INFINITY or limit < most:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def workers_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of DuckDB's threads: by default one per core that the process may use."""
    row = connection.execute("SELECT current_setting('threads')").fetchone()
    assert row is not None
    return int(row[0])


def json_bytes(paths: list[str]) -> float:
    """The approximate size of these traces' JSON; infinite if unknown, as for a pipe."""
    try:
        return sum(
            Path(path).stat().st_size * (1 if path.endswith(".json") else _COMPRESSION)
            if Path(path).is_file()
            else inf
            for path in paths
        )
    except OSError:
        # A file was just removed: reading it will report that.
        return inf


def block_size(paths: list[str]) -> Config:
    """DuckDB's block size setting for a new database of these traces."""
    total = json_bytes(paths)
    fitting = [block for most, block in _BLOCK_BYTES.items() if total <= most]
    return {"default_block_size": fitting[0]} if fitting else {}


def are_small(paths: list[str]) -> bool:
    """Whether planning dominates the time of queries on these traces."""
    return json_bytes(paths) <= _MOSTLY_PLANNED_BYTES


def plan_briefly(connection: duckdb.DuckDBPyConnection) -> None:
    """Reduces DuckDB's planning effort, which is best for small traces."""
    optimizers = [name for (name,) in connection.execute("FROM duckdb_optimizers()").fetchall()]
    others = ",".join(name for name in optimizers if name not in _OPTIMIZERS)
    connection.execute(f"SET disabled_optimizers = '{others}'")
