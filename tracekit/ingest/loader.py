"""Loads traces, several at a time, and skips or refuses bad ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from msgspec import Struct

from tracekit.database import catalog
from tracekit.database.connection import connect, fetched_database, is_database
from tracekit.database.names import spelled
from tracekit.errors import TracekitError, explained
from tracekit.ingest.derived import Derivation, Judge
from tracekit.ingest.hardware import Peaks, record_peaks
from tracekit.ingest.resources import (
    LEAST_MEMORY_MB,
    LoadProgress,
    Memory,
    Resources,
    block_size,
    workers_of,
)
from tracekit.ingest.writer import (
    Ingest,
    LoadedTrace,
    copy_traces,
    create_tables,
    insert,
    last_trace_id,
    loaded_traces,
)
from tracekit.stages import stage
from tracekit.text import counted, shown
from tracekit.trace.beside import Beside, annotated_nodes
from tracekit.trace.other.formats import open_traces
from tracekit.trace.source import ByteStream

if TYPE_CHECKING:
    from tracekit.database.stored import Vocabulary

# Small traces per transaction: a transaction takes longer than inserting one of them.
_SMALL_TRACES_AT_ONCE = 64
# A trace's metadata may take 1/50 of the memory: DuckDB's check of its JSON takes up to about 30
# times the size of the text.
_METADATA_SHARE = 50
# Nodes of graphs, each with its annotation as JSON.
Nodes = Sequence[tuple[int, str]]
# The number of traces loaded, and the errors of the others with their trace_ids.
_Outcome = tuple[int, list[tuple[int, TracekitError]]]


class _Stopped(Exception):
    """An error in another file, or the user, has stopped the load."""


def _named(paths: Sequence[str]) -> str:
    """A short name for the files."""
    return Path(paths[0]).name if len(paths) == 1 else counted(len(paths), "file")


class LoadRequest(Struct, frozen=True):
    """What to load, and how."""

    paths: list[str]
    devices: list[Peaks]
    resources: Resources
    resume: bool = False
    keeps_errors: bool = False
    """Whether bad files are skipped and their errors collected; otherwise the first one ends the
    load."""
    progress: LoadProgress | None = None
    opened: Iterable[ByteStream] | None = None
    """Open traces to load instead of those at the paths."""
    named: str = ""
    """The name of the traces; empty: their paths."""
    judge: Judge | None = None
    """Judges the traces after loading."""


class Loader:
    """Loads the requested traces through one connection, and collects errors and notes."""

    def __init__(self, request: LoadRequest) -> None:
        self.request = request
        self.paths, self.resources = request.paths, request.resources
        self.vocabulary: Vocabulary | None = None
        """The views and macros that are only created when SQL mentions them."""
        self.bad: list[tuple[int, TracekitError]] = []
        """The errors of bad traces, with their trace_ids."""
        self.beside: list[str] = []
        """Files that were found next to the traces."""
        self.notes: list[str] = []
        """Messages to the user about these files."""
        self.loaded = 0
        # The highest trace_id in the database that these traces are added to.
        self._after = 0
        self._next_id = 1
        self._keeps_errors = request.keeps_errors
        self._is_stopped = False
        self._cursors: set[duckdb.DuckDBPyConnection] = set()

    @property
    def inputs(self) -> list[str | Path]:
        """All files that this loader reads."""
        return [*self.paths, *self.resources.inputs, *self.beside]

    @property
    def errors(self) -> list[TracekitError]:
        """The errors of bad traces, ordered by trace_id."""
        return [error for _, error in sorted(self.bad, key=lambda each: each[0])]

    def run(self, connection: duckdb.DuckDBPyConnection, memory: Memory | None, name: str) -> None:
        with loading(name):
            is_new = create_tables(connection, with_views=self.vocabulary is None)
            record_peaks(connection, self.request.devices)
            self._load(connection)
            with stage("building tables"):
                derivation = Derivation(
                    connection, memory.more if memory else lambda: False, self.vocabulary
                )
                derivation.build(is_new=is_new)
                derivation.complete(self.request.judge)

    def append(
        self, connection: duckdb.DuckDBPyConnection, memory: Memory, name: str, added: Path
    ) -> None:
        """Adds traces to a complete database and keeps its facts. The new traces and their facts
        are first written to a separate database, the file `added`."""
        with loading(name):
            create_tables(connection)
            record_peaks(connection, self.request.devices)
            self._after = last_trace_id(connection)
            settings = self.resources.settings(added) | block_size(self.paths)
            with connect(added, settings, name) as own:
                create_tables(own)
                self._load(own)
                with stage("building tables of the new traces"):
                    own_memory = Memory(own, self.resources.memory_mb)
                    Derivation(own, own_memory.more).build_to_add()
            with stage("building tables"):
                derivation = Derivation(connection, memory.more)
                derivation.add(added)
                derivation.complete(self.request.judge)

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Loads all traces, with the captures and annotations of the graphs that they replay."""
        given = {str(path): [*annotated_nodes(str(path))] for path in self.resources.annotations}
        with stage(f"reading {_named(self.paths)}"):
            before = 0 if self.request.resume else last_trace_id(connection)
            self._load_all(connection, self.paths)
        if not self.loaded:
            raise self._no_trace_error()
        if self.request.opened is None:
            self._load_beside(connection, before, given)
        if self.request.progress:
            self.request.progress.finishing()

    def _load_all(self, connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
        """Loads several files at a time, with trace_ids in the order given."""
        workers = workers_of(connection)
        pending: set[Future[_Outcome]] = set()
        with ThreadPoolExecutor(workers) as pool:
            try:
                done = loaded_traces(connection) if self.request.resume else set()
                self._next_id = max(self._after, last_trace_id(connection)) + 1
                small: list[tuple[int, ByteStream]] = []
                for source in self._sources(paths, done):
                    if isinstance(source, tuple):
                        self._next_id += self._copy(connection, *source, done)
                        continue
                    if source.is_small:
                        small.append((self._next_id, source))
                        if len(small) == _SMALL_TRACES_AT_ONCE:
                            pending.add(pool.submit(self._load_small, connection, small))
                            small = []
                    else:
                        pending.add(pool.submit(self._load_one, connection, self._next_id, source))
                    self._next_id += 1
                    if len(pending) == workers:
                        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                        self._collect(finished)
                if small:
                    pending.add(pool.submit(self._load_small, connection, small))
                self._collect(pending)
            except BaseException:
                self._is_stopped = True
                for cursor in list(self._cursors):
                    cursor.interrupt()
                raise

    def _copy(
        self, connection: duckdb.DuckDBPyConnection, file: str, name: str, done: set[LoadedTrace]
    ) -> int:
        """Copies the traces of a database; returns how many."""
        try:
            copied = copy_traces(connection, file, name, self._next_id, done)
        except TracekitError as error:
            self._reject(error)
            return 0
        self.loaded += 1
        return copied

    def _load_beside(
        self, connection: duckdb.DuckDBPyConnection, before: int, given: Mapping[str, Nodes]
    ) -> None:
        """Loads captures and annotations of the graphs that the traces after `before` replay."""
        beside = Beside(self.resources.within)
        captures = {each for path in self.paths for each in beside.captures(path)} - {*self.paths}
        if not (given or captures or any(map(beside.annotations, self.paths))):
            return
        replaying = spelled(catalog.schema("read_replaying"))
        traces = connection.execute(replaying, [before]).fetchall()
        own = [trace for trace in traces if trace[1] in self.paths]
        for trace_id, trace in own:
            self._annotate(connection, trace_id, given, beside.annotations(trace))
        chosen = sorted(captures & {each for _, path in own for each in beside.captures(path)})
        if chosen:
            kept, self._keeps_errors, known = self._keeps_errors, True, len(self.bad)
            self._load_all(connection, chosen)
            self._keeps_errors = kept
            self.notes += [f"without a capture beside it: {each}" for _, each in self.bad[known:]]
            del self.bad[known:]
        self.beside += chosen
        if self.beside:
            more = f" and {len(self.beside) - 1} more" * (len(self.beside) > 1)
            self.notes.insert(0, f"also read, to describe its graphs: {self.beside[0]}{more}")

    def _annotate(
        self,
        connection: duckdb.DuckDBPyConnection,
        trace_id: int,
        given: Mapping[str, Nodes],
        beside: Iterable[str],
    ) -> None:
        """Writes the annotations of a trace's graphs, from the given files and those next to it."""
        # An interrupted load may have written some of them.
        connection.execute("DELETE FROM graph_annotation WHERE trace_id = ?", [trace_id])
        for path, nodes in given.items():
            insert(connection, "graph_annotation", [(trace_id, *each, path) for each in nodes])
        # Keep one file in memory at a time.
        for path in beside:
            if path in given:
                continue
            try:
                rows = [(trace_id, *each, path) for each in annotated_nodes(path)]
            except TracekitError as error:
                self.notes.append(f"without annotations beside it: {error}")
                continue
            insert(connection, "graph_annotation", rows)
            self.beside.append(path)

    def _sources(
        self, paths: Iterable[str], done: set[LoadedTrace]
    ) -> Iterator[ByteStream | tuple[str, str]]:
        """The traces to read, and the files and names of databases to copy traces from."""
        if self.request.opened is not None:
            yield from self.request.opened
            return
        for path in paths:
            try:
                copy = fetched_database(path, self.resources.temp_dir)
                if copy is not None:
                    with copy:
                        yield copy.name, shown(path)
                    continue
                if is_database(path):
                    yield path, path
                    continue
                read = self.request.progress.read if self.request.progress else int
                for stream in open_traces(path, read, self.resources.temp_dir):
                    if isinstance(stream, TracekitError):
                        self._reject(stream)
                    elif self._is_in(done, stream):
                        stream.close()
                        self.loaded += 1
                    else:
                        stream.path = self.request.named or stream.path
                        yield stream
            except TracekitError as error:
                self._reject(error)

    @staticmethod
    def _is_in(done: set[LoadedTrace], stream: ByteStream) -> bool:
        """Whether this trace is already loaded, with the same path and the same bytes."""
        size = stream.stored_bytes
        same = {each for each in done if each[:2] == (stream.path, size)}
        return bool(same) and (stream.path, size, stream.hashed().sha256.hexdigest()) in same

    def _load_one(
        self, connection: duckdb.DuckDBPyConnection, trace_id: int, stream: ByteStream
    ) -> _Outcome:
        with stream, self._ingest(connection) as ingest:
            try:
                ingest.load(stream, trace_id)
            except TracekitError as error:
                return 0, [(trace_id, error)]
        return 1, []

    def _load_small(
        self, connection: duckdb.DuckDBPyConnection, traces: list[tuple[int, ByteStream]]
    ) -> _Outcome:
        with ExitStack() as opened, self._ingest(connection) as ingest:
            for _, stream in traces:
                opened.enter_context(stream)
            errors = ingest.load_small(traces)
        return len(traces) - len(errors), errors

    @contextmanager
    def _ingest(self, connection: duckdb.DuckDBPyConnection) -> Iterator[Ingest]:
        with connection.cursor() as cursor:
            self._cursors.add(cursor)
            try:
                allowed = ((self.resources.memory_mb or LEAST_MEMORY_MB) << 20) // _METADATA_SHARE
                yield Ingest(cursor, self._watch, allowed)
            finally:
                self._cursors.discard(cursor)

    def _watch(self, n_events: int) -> None:
        if self._is_stopped:
            raise _Stopped
        if self.request.progress:
            self.request.progress.found(n_events)

    def _collect(self, finished: set[Future[_Outcome]]) -> None:
        for future in finished:
            loaded, errors = future.result()
            self.loaded += loaded
            for trace_id, error in errors:
                self._reject(error, trace_id)

    def _reject(self, error: TracekitError, trace_id: int | None = None) -> None:
        if not self._keeps_errors:
            raise error
        self.bad.append((self._next_id if trace_id is None else trace_id, error))

    def _no_trace_error(self) -> TracekitError:
        if len(self.errors) == 1:
            return self.errors[0]
        shown = "; ".join(map(str, self.errors[:3])) + ("; ..." if len(self.errors) > 3 else "")
        return TracekitError(f"none of {len(self.errors)} traces could be loaded: {shown}")


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Turns DuckDB's errors into messages for people."""
    with explained(f"{name}: cannot be loaded", duckdb.Error):
        try:
            yield
        except duckdb.OutOfMemoryException as error:
            raise TracekitError(
                f"{name}: cannot be loaded in the allowed memory: allow more (memory_mb)"
            ) from error
