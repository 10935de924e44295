"""A file -> ranks of a lake. One call does all the work for one file, on any machine."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from tracekit.database import catalog
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.examine import examine
from tracekit.files import work_folder
from tracekit.ingest.load import alone
from tracekit.ingest.resources import Resources
from tracekit.ingest.writer import LABEL_BITS, record_verdicts
from tracekit.lake.layout import (
    PARTITION,
    Archive,
    Rank,
    Source,
    archive_path,
    rank_in_name,
    read_manifest,
    stored_tables,
    summaries,
    trace_id_of,
    valid_name,
)
from tracekit.lake.sources import WORK_PREFIX, run_of, stem
from tracekit.lake.storage import Storage, storage
from tracekit.trace.remote import StorageError
from tracekit.trace.source import ByteStream, open_streams
from tracekit.verdict.model import Analysis
from tracekit.verdict.rows import rows_of

# Numbers that are unique in a database: their high bits hold the trace's number.
_HIGH_BITS = {"label_id": LABEL_BITS, "segment": 32, "thread": 24}
_LEAST_QUERY_MB = 2_000


@dataclass(frozen=True)
class Task:
    """What to do with one file."""

    source: Source
    lake: str
    run: str | None
    """The run's name; None: each trace's folder or archive."""
    known: tuple[Rank, ...] = ()
    """What the lake holds of this file."""
    replace: bool = False
    """Whether the file's ranks take the place of others."""
    salt: int = 0
    resources: Resources = field(default_factory=Resources)
    verdicts: bool = True
    """Whether to judge each trace, which takes most of the time for small ones."""


@dataclass(frozen=True)
class Outcome:
    """What became of a trace: `added`, `replaced`, `unchanged` or `failed`."""

    status: str
    source: Source
    run: str | None = None
    name: str | None = None
    events: int = 0
    took_s: float = 0.0
    message: str | None = None


def add(task: Task) -> list[Outcome]:
    """Adds the traces of one file to a lake.

    A trace that cannot be read is an outcome; nothing of it is visible.

    Raises:
        StorageError: when a file system fails, for a source or the lake. Another attempt may
            succeed.
    """
    temp_dir = Path(task.resources.temp_dir or tempfile.gettempdir())
    outcomes: list[Outcome] = []
    try:
        for stream in open_streams(task.source.url, temp_dir=temp_dir, is_read_again=True):
            if isinstance(stream, TracekitError):
                outcomes.append(_failed(task.source, stream))
                continue
            with stream:
                outcomes.append(_add_one(task, stream, temp_dir))
    except StorageError:
        raise
    except TracekitError as error:
        outcomes.append(_failed(task.source, error))
    if any(each.source.member for each in outcomes):
        _note_archive(task, outcomes)
    return outcomes


def _failed(source: Source, error: TracekitError) -> Outcome:
    return Outcome("failed", source, message=str(error))


def _note_archive(task: Task, outcomes: list[Outcome]) -> None:
    """Notes which ranks an archive holds, so that it need not be read again to know."""
    if any(each.status == "failed" for each in outcomes):
        return
    note = Archive(task.source, [(str(each.run), str(each.name)) for each in outcomes])
    storage(task.lake).write(archive_path(task.source.url, task.run), note.as_json())


def _add_one(task: Task, stream: ByteStream, temp_dir: Path) -> Outcome:
    start = time.monotonic()
    member = stream.path.removeprefix(task.source.url).lstrip("/") or None
    source = replace(task.source, member=member)
    lake = storage(task.lake)
    try:
        sha256 = stream.stored_sha256()
        before = next((each for each in task.known if each.source.member == member), None)
        if before and (before.sha256, before.tables) == (sha256, catalog.FORMAT) and not task.salt:
            # The file was written again with the same bytes.
            if _current(lake.read(before.key), before.key) == before:
                lake.write(before.key, replace(before, source=source).as_json())
            return Outcome("unchanged", source, before.run, before.name, before.events)
        with work_folder(temp_dir, WORK_PREFIX) as folder:
            database = folder / "trace.duckdb"
            with alone(stream, database, task.resources) as connection:
                rank = _identity(connection, task, source, sha256)
                kept = _current(lake.read(rank.key), rank.key)
                if not _needs_writing(rank, kept, task):
                    return Outcome("unchanged", source, rank.run, rank.name, rank.events)
                rank = _write_files(connection, rank, stream.path, lake, folder, task)
        took_s = time.monotonic() - start
        status = _publish(lake, rank, task)
        if before and before.key != rank.key:
            # The file's trace now belongs to another rank.
            lake.remove([before.key])
        if before and status == "added":
            status = "replaced"
        return Outcome(status, source, rank.run, rank.name, rank.events, took_s)
    except StorageError:
        raise
    except TracekitError as error:
        return _failed(source, error)


def _publish(lake: Storage, rank: Rank, task: Task) -> str:
    """Writes the manifest of a rank whose files are written, and tells what became of the rank:
    `added`, `replaced`, or `unchanged` where another process has added the same trace meanwhile.
    Then, or when it is refused, its files are removed.

    Of several processes that add to a rank that is not there yet, one succeeds, and the others see
    what it wrote.
    """
    try:
        while True:
            text = lake.read(rank.key)
            kept = _current(text, rank.key)
            if kept is not None and kept.token == rank.token:
                return "added"
            if not _needs_writing(rank, kept, task):
                break
            if text is not None:
                lake.write(rank.key, rank.as_json())
                return "added" if kept is None else "replaced"
            if lake.create(rank.key, rank.as_json()):
                return "added"
    except StorageError:
        # It may have become visible.
        raise
    except TracekitError:
        _remove_files(lake, rank)
        raise
    _remove_files(lake, rank)
    return "unchanged"


def _needs_writing(rank: Rank, kept: Rank | None, task: Task) -> bool:
    """Whether a rank takes the place of the one that is visible there, if any, or is the same.

    Raises:
        TracekitError: when another trace holds the place.
    """
    if kept is None:
        return True
    if kept.sha256 == rank.sha256 and not task.salt:
        return False
    if not task.replace and not _same_file(kept.source, rank.source):
        raise TracekitError(
            f"{_name_of(rank.source)}: run {rank.run!r} holds {rank.name} from "
            f"{_name_of(kept.source)} already: give this one another run (--run), or let it take "
            "that one's place (--replace)"
        )
    return True


def _remove_files(lake: Storage, rank: Rank) -> None:
    # Those of a rank that is not visible do no harm: `clean` removes them later.
    with suppress(StorageError, OSError):
        lake.remove([rank.path(table) for table in rank.files])


def _same_file(a: Source, b: Source) -> bool:
    return (a.url, a.member) == (b.url, b.member)


def _name_of(source: Source) -> str:
    return source.url if source.member is None else f"{source.url}/{source.member}"


def _current(text: bytes | None, path: str) -> Rank | None:
    """The rank of a manifest; None: there is none, or another version wrote it."""
    if text is None:
        return None
    try:
        found = read_manifest(text, path)
    except TracekitError:
        return None
    return found if found.tables == catalog.FORMAT else None


def _identity(
    connection: duckdb.DuckDBPyConnection, task: Task, source: Source, sha256: str
) -> Rank:
    """The run, the rank and the number of the trace, whose files are not written yet."""
    (rank, events) = connection.execute("SELECT rank, events FROM trace").fetchall()[0]
    file_name = (source.member or source.url).rpartition("/")[2]
    if rank is None or rank < 0:
        rank = rank_in_name(file_name)
    name = f"file={valid_name(stem(file_name))}" if rank is None else f"rank={rank}"
    run = valid_name(task.run) if task.run is not None else run_of(source)
    trace_id = trace_id_of(run, name, sha256, task.salt)
    token = uuid.uuid4().hex
    return Rank(run, name, rank, trace_id, token, catalog.FORMAT, sha256, events, source, {})


def _write_files(
    connection: duckdb.DuckDBPyConnection,
    rank: Rank,
    path: str,
    lake: Storage,
    folder: Path,
    task: Task,
) -> Rank:
    """Writes the files of a rank; its manifest makes them visible."""
    query_mb = max(_LEAST_QUERY_MB, task.resources.memory_mb or 0)
    connection.execute(f"SET memory_limit = '{query_mb}MB'")
    files = {}
    for table, local in _export(connection, rank, path, folder, task.verdicts):
        lake.put(local, rank.path(table))
        files[table] = local.stat().st_size
        local.unlink()
    return replace(rank, files=files)


def _export(
    connection: duckdb.DuckDBPyConnection, rank: Rank, path: str, folder: Path, judges: bool
) -> Iterator[tuple[str, Path]]:
    """A Parquet file for each table that has rows, and for each summary."""
    if judges:
        record_verdicts(connection, rows_of(_verdict(connection, rank, path)))
    for table, columns in stored_tables(connection).items():
        moved = ", ".join(
            _lake_column(each, rank.trace_id) for each in columns if each not in PARTITION
        )
        local = folder / f"{table}.parquet"
        if _copy(connection, f"SELECT {moved} FROM {table}", local):
            yield table, local
    for table, sql in summaries().items():
        local = folder / f"{table}.parquet"
        chosen = f"COLUMNS(lambda name: name NOT IN {PARTITION})"
        _copy(connection, f"SELECT {chosen} FROM ({sql})", local)
        yield table, local


def _lake_column(column: str, trace_id: int) -> str:
    """A column's values as they are in the lake, where several traces are together."""
    if column not in _HIGH_BITS:
        return f'"{column}"'
    bits = _HIGH_BITS[column]
    return f"({column} & {(1 << bits) - 1}) + ({trace_id}::BIGINT << {bits}) AS {column}"


def _copy(connection: duckdb.DuckDBPyConnection, sql: str, local: Path) -> int:
    """Writes the rows of a SELECT as Parquet; returns how many."""
    target = str(local).replace("'", "''")
    options = "FORMAT parquet, COMPRESSION zstd"
    return int(connection.execute(f"COPY ({sql}) TO '{target}' ({options})").fetchall()[0][0])


def _verdict(connection: duckdb.DuckDBPyConnection, rank: Rank, path: str) -> Analysis:
    analysis = examine(Session(connection, path), 1).analysis
    trace = replace(analysis.trace, trace_id=rank.trace_id, rank=rank.rank)
    return replace(analysis, trace=trace)
