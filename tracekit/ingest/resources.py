"""What loading may use of the machine, and who is told how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb

from tracekit.database.connection import spill_directory
from tracekit.database.sandbox import Config
from tracekit.errors import TracekitError

LEAST_MEMORY_MB = 400
# What queries may spill where nothing else is said.
SPILL_MB = 10_000
_MEMORY_MB_PER_THREAD = 200
# DuckDB keeps up to this much free memory instead of asking the system for it again and again. It
# refuses to keep more than the machine has.
_MOST_KEPT_MB = 1_000
# Where no limit is given, it may grow so many times.
_GROWTH = 64
_MOST_THREADS = 1_024
# What the process needs beside DuckDB's buffers: the interpreter, DuckDB itself, batches in flight.
_OUTSIDE_DUCKDB_MB = 215


class Progress(Protocol):
    """Is told how far loading is."""

    def read(self, n_bytes: int) -> object:
        """So many more bytes were read, as stored; fewer, where a file is read again."""

    def found(self, n_events: int) -> object:
        """So many more events were found."""

    def finishing(self) -> object:
        """All is read; what many queries share is being built."""


@dataclass(frozen=True)
class Resources:
    """What loading may use, and what it is to know.

    `memory_mb` is about what the process takes, however large the traces are: to load, 200 a
    thread and at least 400 unless given; to ask a database, what DuckDB finds unless given.
    `threads` is one a core unless given. What does not fit in memory goes to `temp_dir`, the
    system's unless given; queries may put up to `spill_mb` there (what `open_database` says of it
    holds for them). `hardware` is a file of device peaks that are tried before tracekit's own
    (tracekit/hardware.toml shows the form).
    """

    memory_mb: int | None = None
    threads: int | None = None
    temp_dir: str | Path | None = None
    hardware: str | Path | None = None
    spill_mb: int | None = None

    def __post_init__(self) -> None:
        if self.memory_mb is not None and self.memory_mb < LEAST_MEMORY_MB:
            raise TracekitError(f"loading needs at least {LEAST_MEMORY_MB} MB of memory")
        if self.threads is not None and self.threads < 1:
            raise TracekitError("loading needs at least one thread")
        if self.threads is not None and self.threads > _MOST_THREADS:
            raise TracekitError(f"loading takes at most {_MOST_THREADS:,} threads")
        if self.spill_mb is not None and self.spill_mb < 0:
            raise TracekitError("queries cannot spill less than 0 MB")
        if self.temp_dir is not None and not Path(self.temp_dir).is_dir():
            raise TracekitError(f"{self.temp_dir}: is not a directory for temporary files")

    def settings(self, path: str | Path) -> Config:
        """DuckDB's for a database at `path`, but for the memory limit."""
        threads: Config = {} if self.threads is None else {"threads": self.threads}
        return {"temp_directory": spill_directory(path, self.temp_dir), **threads}


class Memory:
    """DuckDB's memory limit; where none was asked for, it grows when a trace is too large."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, memory_mb: int | None) -> None:
        self._connection = connection
        usual = max(LEAST_MEMORY_MB, _MEMORY_MB_PER_THREAD * workers_of(connection))
        self._limit_mb = (memory_mb or usual) - _OUTSIDE_DUCKDB_MB
        self._most_mb = self._limit_mb * (1 if memory_mb else _GROWTH)
        self._set()
        kept_mb = min(self._limit_mb * 2 // 3, _MOST_KEPT_MB)
        self._connection.execute(f"SET block_allocator_memory = '{kept_mb}MB'")

    def more(self) -> bool:
        """Doubles the limit, or returns False."""
        self._limit_mb *= 2
        if self._limit_mb > self._most_mb:
            return False
        self._set()
        return True

    def _set(self) -> None:
        self._connection.execute(f"SET memory_limit = '{self._limit_mb}MB'")


def workers_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The threads that DuckDB runs on: by default, one a core that the process may use."""
    row = connection.execute("SELECT current_setting('threads')").fetchone()
    assert row is not None
    return int(row[0])
