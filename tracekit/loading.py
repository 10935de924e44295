"""Files -> a database: which files, how much memory, what happens when one of them is bad."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import duckdb

from tracekit.connection import (
    connect,
    is_database,
    leftover_log,
    logs_of,
    spill_directory,
)
from tracekit.database import SPILL_MB, Database, open_database
from tracekit.errors import TracekitError
from tracekit.files import resumable, sole_writer, written_whole
from tracekit.hardware import Peaks, peaks
from tracekit.ingest import (
    Ingest,
    LoadedTrace,
    copy_traces,
    create_tables,
    finish,
    last_trace_id,
    loaded_traces,
    record_peaks,
)
from tracekit.resuming import begin, require_same
from tracekit.sandbox import Config, close_to_the_outside, limit_spilling
from tracekit.sources import ByteStream, open_streams, trace_paths

_LEAST_MEMORY_MB = 400
_MEMORY_MB_PER_THREAD = 200
# DuckDB keeps up to this much free memory instead of asking the system for it again and again. It
# refuses to keep more than the machine has.
_MOST_KEPT_MB = 1_000
# Where no limit is given, it may grow so many times.
_GROWTH = 64
_MOST_THREADS = 1_024
# DuckDB checks the metadata around the events, which takes some 30 times its text at worst.
_METADATA_SHARE = 50
# Blocks of the database file, smaller than DuckDB's own (256 KB), of which much stays empty where
# there is little to store. Where memory is short, they are slower.
_SMALL_BLOCK_BYTES = 64 << 10
_SMALL_TRACES_BYTES = 256 << 20
# Compressed ones grow so many times, about.
_COMPRESSION = 20
# What the process needs beside DuckDB's buffers: the interpreter, DuckDB itself, batches in flight.
_OUTSIDE_DUCKDB_MB = 215
# The same where a database is asked: the answers; a graph is held while DuckDB holds little.
_OUTSIDE_QUERIES_MB = 200


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
        if self.memory_mb is not None and self.memory_mb < _LEAST_MEMORY_MB:
            raise TracekitError(f"loading needs at least {_LEAST_MEMORY_MB} MB of memory")
        if self.threads is not None and self.threads < 1:
            raise TracekitError("loading needs at least one thread")
        if self.threads is not None and self.threads > _MOST_THREADS:
            raise TracekitError(f"loading takes at most {_MOST_THREADS:,} threads")
        if self.spill_mb is not None and self.spill_mb < 0:
            raise TracekitError("queries cannot spill less than 0 MB")
        if self.temp_dir is not None and not Path(self.temp_dir).is_dir():
            raise TracekitError(f"{self.temp_dir}: is no directory for temporary files")

    def settings(self, path: str | Path) -> Config:
        """DuckDB's for a database at `path`, but for the memory limit."""
        threads: Config = {} if self.threads is None else {"threads": self.threads}
        return {"temp_directory": spill_directory(path, self.temp_dir), **threads}


class _Memory:
    """DuckDB's memory limit; where none was asked for, it grows when a trace is too large."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, memory_mb: int | None) -> None:
        self._connection = connection
        usual = max(_LEAST_MEMORY_MB, _MEMORY_MB_PER_THREAD * workers_of(connection))
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


def load(
    traces: str | Path | Iterable[str | Path],
    database: str | Path | None = None,
    *,
    append: bool = False,
    resume: bool = False,
    memory_mb: int | None = None,
    threads: int | None = None,
    temp_dir: str | Path | None = None,
    hardware: str | Path | None = None,
    spill_mb: int | None = None,
    on_bad: Callable[[TracekitError], object] | None = None,
    on_wait: Callable[[], object] | None = None,
    progress: Progress | None = None,
) -> Database:
    """Loads traces into one database, several at a time.

    Each of `traces` is a .json, .json.gz or .json.zst, a tar archive of them (compressed or not),
    a directory, a pattern, a database whose traces are copied, or - for standard input. The result
    is in memory, or in the file `database`, which appears when it is whole and replaces one that
    was there; `append` adds to that one instead. With `resume`, what is loaded is kept beside it
    (`.partial`) when loading is interrupted, and the same call goes on from there; traces that are
    in it already are not loaded again. `Resources` says what `memory_mb`, `threads`, `temp_dir`,
    `hardware` and `spill_mb` mean.

    A bad trace ends it, unless `on_bad` takes the error: then the others are loaded. One load
    writes a file at a time: another waits for it, having called `on_wait`.

    Raises:
        TracekitError: when a trace cannot be read (with `on_bad`, when none of them can), or the
            database cannot be written.
    """
    resources = Resources(memory_mb, threads, temp_dir, hardware, spill_mb)
    devices = peaks(hardware)
    given = [traces] if isinstance(traces, str | Path) else list(traces)
    paths = trace_paths(map(str, given))
    if not paths:
        raise TracekitError("no trace is given")
    metadata_bytes = ((memory_mb or _LEAST_MEMORY_MB) << 20) // _METADATA_SHARE
    job = _Job(
        paths, devices, resume, on_bad is not None, progress, resources.temp_dir, metadata_bytes
    )
    if database is None:
        loaded = _in_memory(job, resources)
    else:
        with sole_writer(database, on_wait):
            _into_file(job, database, append, resources)
        loaded = open_database(database)
    if on_bad is not None:
        for error in job.errors:
            on_bad(error)
    return loaded


def _in_memory(job: _Job, resources: Resources) -> Database:
    first, memory_mb = job.paths[0], resources.memory_mb
    connection = connect(":memory:", resources.settings(uuid.uuid4().hex), first)
    # What is kept in memory has no limit unless one is given.
    memory = _Memory(connection, memory_mb) if memory_mb else None
    job.run(connection, memory, first)
    spill_mb = SPILL_MB if resources.spill_mb is None else resources.spill_mb
    limit_spilling(connection, spill_mb)
    close_to_the_outside(connection)
    return Database(connection, first if len(job.paths) == 1 else f"{len(job.paths)} traces")


def _into_file(job: _Job, database: str | Path, append: bool, resources: Resources) -> None:
    if log := leftover_log(database):
        raise TracekitError(
            f"{database}: {log.name} beside it holds changes that another program made and did not "
            "finish: close that program, or open the database with DuckDB once, or remove the file"
        )
    base = Path(database) if append and Path(database).exists() else None
    if base is not None:
        # Refused before anything is read, should it be no database.
        open_database(base).close()
    with (resumable if job.resume else written_whole)(database, job.paths) as beside:
        if beside.exists():
            require_same(beside, base, job.paths)
        elif job.resume:
            # Of one that somebody removed.
            for log in logs_of(beside):
                log.unlink(missing_ok=True)
            with written_whole(beside) as fresh:
                _begin(job, fresh, base, database, resources)
        elif base is not None:
            shutil.copyfile(base, beside)
        settings = resources.settings(beside) | _block_size(job.paths)
        with connect(beside, settings, database) as connection:
            job.run(connection, _Memory(connection, resources.memory_mb), str(database))


def _begin(
    job: _Job, fresh: Path, base: Path | None, database: str | Path, resources: Resources
) -> None:
    """Makes the database that a load which can be resumed adds to."""
    if base is not None:
        shutil.copyfile(base, fresh)
    settings = resources.settings(fresh) | _block_size(job.paths)
    with connect(fresh, settings, database) as connection:
        begin(connection, base, job.paths)


def _block_size(paths: list[str]) -> Config:
    """DuckDB's setting for a new database of these traces."""
    if not all(Path(path).is_file() for path in paths):
        # Of a pipe, nothing is known.
        return {}
    try:
        total = sum(
            Path(path).stat().st_size * (1 if path.endswith(".json") else _COMPRESSION)
            for path in paths
        )
    except OSError:
        # One has gone meanwhile: whoever reads it says so.
        return {}
    return {"default_block_size": _SMALL_BLOCK_BYTES} if total <= _SMALL_TRACES_BYTES else {}


def open_any(path: str | Path, resources: Resources | None = None) -> Database:
    """A database as it is, anything else loaded as `load` does."""
    resources = resources or Resources()
    if not is_database(path):
        return load(path, **asdict(resources))
    if resources.hardware is not None:
        raise TracekitError(f"{path}: is loaded already; give --hardware when loading its traces")
    memory_mb = resources.memory_mb
    limit_mb = None if memory_mb is None else memory_mb - _OUTSIDE_QUERIES_MB
    return open_database(path, limit_mb, resources.spill_mb)


class _Stopped(Exception):
    """Another file, or the user, has ended the job."""


@dataclass
class _Job:
    """Loads some files through one connection, and keeps the errors of bad ones if it may."""

    paths: list[str]
    devices: list[Peaks]
    resume: bool
    keeps_errors: bool
    progress: Progress | None
    temp_dir: str | Path | None
    metadata_bytes: int
    errors: list[TracekitError] = field(default_factory=list)
    loaded: int = 0
    stopped: bool = False
    cursors: set[duckdb.DuckDBPyConnection] = field(default_factory=set)

    def run(self, connection: duckdb.DuckDBPyConnection, memory: _Memory | None, name: str) -> None:
        try:
            create_tables(connection)
            record_peaks(connection, self.devices)
            self._load_all(connection)
            if not self.loaded:
                raise self._nothing()
            if self.progress:
                self.progress.finishing()
            finish(connection, memory.more if memory else lambda: False)
        except duckdb.OutOfMemoryException as error:
            raise TracekitError(
                f"{name}: cannot be loaded in the memory that was allowed: allow more (memory_mb)"
            ) from error
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise TracekitError(f"{name}: cannot be loaded: {reason}") from error

    def _load_all(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Several files at a time. Their trace_ids follow the order in which they were given."""
        workers = workers_of(connection)
        pending: set[Future[None]] = set()
        with ThreadPoolExecutor(workers) as pool:
            try:
                done = loaded_traces(connection) if self.resume else set()
                trace_id = last_trace_id(connection) + 1
                for source in self._sources(done):
                    if isinstance(source, str):
                        trace_id += self._copy(connection, source, trace_id, done)
                        continue
                    pending.add(pool.submit(self._load_one, connection, trace_id, source))
                    trace_id += 1
                    if len(pending) == workers:
                        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                        self._settle(finished)
                self._settle(pending)
            except BaseException:
                self.stopped = True
                for cursor in list(self.cursors):
                    cursor.interrupt()
                raise

    def _copy(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: str,
        trace_id: int,
        done: set[LoadedTrace],
    ) -> int:
        """Copies the traces of a database; returns how many."""
        try:
            copied = copy_traces(connection, path, trace_id, done)
        except TracekitError as error:
            self._bad(error)
            return 0
        self.loaded += 1
        return copied

    def _sources(self, done: set[LoadedTrace]) -> Iterator[ByteStream | str]:
        """The traces to read, and the paths of databases whose traces are to be copied."""
        for path in self.paths:
            try:
                if is_database(path):
                    yield path
                    continue
                read = self.progress.read if self.progress else int
                for stream in open_streams(path, read, self.temp_dir):
                    if isinstance(stream, TracekitError):
                        self._bad(stream)
                    elif self._is_in(done, stream):
                        stream.close()
                        self.loaded += 1
                    else:
                        yield stream
            except TracekitError as error:
                self._bad(error)

    @staticmethod
    def _is_in(done: set[LoadedTrace], stream: ByteStream) -> bool:
        """Whether this very trace is loaded already: the same path, and the same bytes."""
        size = stream.stored_bytes
        same = {each for each in done if each[:2] == (stream.path, size)}
        return bool(same) and (stream.path, size, stream.stored_sha256()) in same

    def _load_one(
        self, connection: duckdb.DuckDBPyConnection, trace_id: int, stream: ByteStream
    ) -> None:
        with stream, connection.cursor() as cursor:
            self.cursors.add(cursor)
            try:
                ingest = Ingest(cursor, self._watch, self.metadata_bytes)
                ingest.load(stream, trace_id)
            finally:
                self.cursors.discard(cursor)

    def _watch(self, n_events: int) -> None:
        if self.stopped:
            raise _Stopped
        if self.progress:
            self.progress.found(n_events)

    def _settle(self, finished: set[Future[None]]) -> None:
        for future in finished:
            try:
                future.result()
                self.loaded += 1
            except TracekitError as error:
                self._bad(error)

    def _bad(self, error: TracekitError) -> None:
        if not self.keeps_errors:
            raise error
        self.errors.append(error)

    def _nothing(self) -> TracekitError:
        if len(self.errors) == 1:
            return self.errors[0]
        shown = "; ".join(map(str, self.errors[:3])) + ("; ..." if len(self.errors) > 3 else "")
        return TracekitError(f"none of {len(self.errors)} traces could be loaded: {shown}")
