"""Loads files into a database, in memory or in a file that appears only when complete."""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct

from tracekit.database import catalog, stored
from tracekit.database.connection import (
    connect,
    connect_partial,
    is_database,
    leftover_log,
    logs_of,
    require_database,
)
from tracekit.database.sandbox import SPILL_MB, Config, close_to_the_outside, limit_spilling
from tracekit.errors import TracekitError
from tracekit.files import process_folder, sole_writer, written_whole
from tracekit.ingest.hardware import peaks
from tracekit.ingest.loader import Loader, LoadRequest, loading
from tracekit.ingest.resources import (
    SMALLEST_BLOCK,
    Memory,
    Resources,
    are_small,
    block_size,
    json_bytes,
    plan_briefly,
)
from tracekit.ingest.writer import create_tables
from tracekit.text import shown
from tracekit.trace.paths import endings
from tracekit.trace.remote import is_url
from tracekit.trace.source import ByteStream

# Above this size of JSON, a database goes into a file, which DuckDB compresses: in memory, it takes
# three times the JSON.
_MOST_IN_MEMORY = 250_000_000
# The JSON is at least this many times as large as the file, with what DuckDB spills meanwhile.
_STORED = 2
# DuckDB's memory with such a file, unless the user gave a limit: without spilling, it is faster.
_WITH_FILE_MB = 500


class Loaded(Struct, frozen=True):
    """A database for one session, with a read-only connection."""

    connection: duckdb.DuckDBPyConnection
    more_memory: Callable[[], bool] | None
    """Allows queries more memory (`Memory.more`); None: they have no limit."""
    file: Path | None
    """The temporary file that holds it; None: it is in memory."""

    def remove(self) -> None:
        """Removes the file of the closed database. If the process is killed before, a later one
        does (`process_folder`)."""
        if self.file is not None:
            for path in (self.file, *logs_of(self.file)):
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def for_session(loader: Loader) -> Loaded:
    """Loads into memory or, if the traces are large, into a temporary file."""
    first, resources = loader.paths[0], loader.resources
    file = _temporary_file(loader)
    if file is not None:
        settings = block_size(loader.paths) | resources.settings(file)
    else:
        # Sharing little work among threads takes longer than it saves.
        is_small: Config = {"threads": 1} if are_small(loader.paths) else {}
        settings = is_small | resources.settings(uuid.uuid4().hex)
    connection = connect(file or ":memory:", settings, first)
    if are_small(loader.paths):
        plan_briefly(connection)
    # A database in memory counts, too: set a limit for it only if the user gave one.
    limits = file is not None or resources.memory_mb is not None
    memory = Memory(connection, resources.memory_mb) if limits else None
    if file is not None and memory is not None:
        memory.allow(_WITH_FILE_MB)
    if loader.request.judge is None:
        loader.vocabulary = stored.Vocabulary(connection)
    loaded = Loaded(connection, memory.more if memory else None, file)
    try:
        loader.run(connection, memory, first)
    except BaseException as error:
        connection.close()
        loaded.remove()
        if file is not None and os.strerror(errno.ENOSPC) in str(error):
            how = (
                f"{resources.folder} is full: free some space, or name another folder (--temp-dir)"
            )
            raise TracekitError(f"{first}: cannot be loaded: {how}") from error
        raise
    limit_spilling(connection, SPILL_MB if resources.spill_mb is None else resources.spill_mb)
    close_to_the_outside(connection)
    return loaded


def _temporary_file(loader: Loader) -> Path | None:
    """The file for large traces, if there is room for it; None: they go into memory."""
    n_bytes, folder = json_bytes(loader.paths), loader.resources.folder
    if n_bytes <= _MOST_IN_MEMORY or n_bytes > _STORED * shutil.disk_usage(folder).free:
        return None
    return process_folder(folder) / f"{uuid.uuid4().hex}.duckdb"


def load_opened(
    streams: Sequence[ByteStream], database: Path, resources: Resources
) -> tuple[duckdb.DuckDBPyConnection, stored.Vocabulary, dict[int, TracekitError]]:
    """Loads open traces into the new file `database`; returns a writable connection, the views and
    macros that the file lacks, and bad traces' errors by trace_id, counted from 1 in the given
    order.

    Raises:
        TracekitError: when none of the traces can be read.
    """
    paths = [stream.path for stream in streams]
    found = peaks(resources.hardware)
    loader = Loader(LoadRequest(paths, found, resources, keeps_errors=True, opened=streams))
    settings: Config = {"default_block_size": SMALLEST_BLOCK}
    connection = connect(database, resources.settings(database) | settings, paths[0])
    loader.vocabulary = vocabulary = stored.Vocabulary(connection)
    try:
        loader.run(connection, Memory(connection, resources.memory_mb), paths[0])
    except BaseException:
        connection.close()
        raise
    return connection, vocabulary, dict(loader.bad)


def into_file(
    loader: Loader,
    database: str | Path,
    *,
    append: bool,
    on_wait: Callable[[], object] | None = None,
) -> None:
    """Loads into the file `database`, as its only writer.

    If another process is loading into it, this calls `on_wait` and waits.

    Raises:
        TracekitError: when nothing can be loaded, or the file cannot be written.
    """
    with sole_writer(database, on_wait, loader.inputs):
        _into_file(loader, database, append)


def _into_file(loader: Loader, database: str | Path, append: bool) -> None:
    resources, resumes = loader.resources, loader.request.resume
    if log := leftover_log(database):
        raise TracekitError(
            f"{database}: {log.name} next to it holds another program's unfinished changes: close "
            f"that program, open the database with DuckDB once, or remove {log.name}"
        )
    target = Path(database)
    is_other = target.exists() and target.stat().st_size and not is_database(target)
    if not append and (is_other or target.name.endswith((*endings(), ".parquet", ".csv"))):
        raise TracekitError(
            f"{database}: load writes a DuckDB database: choose a name that ends in .duckdb"
        )
    base = target if append and target.exists() else None
    if base is not None:
        # Checked before any trace is read.
        require_database(base)
    with written_whole(database, loader.inputs, resumes=resumes) as beside:
        if beside.exists():
            _require_same(beside, base, loader.paths)
        elif resumes:
            # A partial database that the user removed may have left logs.
            for log in logs_of(beside):
                log.unlink(missing_ok=True)
            with written_whole(beside) as fresh:
                _begin(loader, fresh, base, database)
        elif base is not None:
            shutil.copyfile(base, beside)
        settings = resources.settings(beside) | block_size(loader.paths)
        with connect(beside, settings, database) as connection:
            memory = Memory(connection, resources.memory_mb)
            # For a small base, rebuilding all its facts is faster than copying new rows into it.
            if base is None or resumes or json_bytes(loader.paths) > base.stat().st_size:
                loader.run(connection, memory, str(database))
            else:
                loader.append(
                    connection, memory, str(database), beside.with_name(f"added-{beside.name}")
                )


def _begin(loader: Loader, fresh: Path, base: Path | None, database: str | Path) -> None:
    """Creates the database that a resumable load adds to, with a record of the load's input."""
    if base is not None:
        shutil.copyfile(base, fresh)
    settings = loader.resources.settings(fresh) | block_size(loader.paths)
    with loading(str(database)), connect(fresh, settings, database) as connection:
        create_tables(connection)
        begun_on = json.dumps({"base": _identity(base), "paths": _resolved(loader.paths)})
        connection.execute("DELETE FROM loading")
        connection.execute("INSERT INTO loading VALUES (?)", [begun_on])
        # Closing a connection also writes its log to the file, but hides errors.
        connection.execute("CHECKPOINT")


def _require_same(partial: Path, base: Path | None, paths: Iterable[str]) -> None:
    """Refuses to resume `partial` if it belongs to a different load.

    Raises:
        TracekitError: when another version started it, `base` has changed since, or it was started
            with traces outside `paths`.
    """
    begun_on = _begun_on(partial)
    if begun_on["base"] != _identity(base):
        raise _refused(partial, "the database has changed since this load started")
    if others := sorted(set(begun_on["paths"]) - set(_resolved(paths))):
        raise _refused(partial, f"it may hold {others[0]}, which this load does not include")


def _begun_on(partial: Path) -> dict[str, Any]:
    with connect_partial(partial) as connection:
        try:
            if not stored.is_part_of_ours(connection):
                raise _refused(partial, "another version of tracekit or another program made it")
            rows = connection.execute("SELECT begun_on FROM main.loading LIMIT 2").fetchall()
        except duckdb.Error as error:
            raise _refused(partial, "it cannot be read") from error
    if len(rows) != 1:
        raise _refused(partial, "it does not say which load it belongs to")
    noted: dict[str, Any] = json.loads(rows[0][0])
    return noted


def _identity(base: Path | None) -> list[int] | None:
    """Identifies one state of a file, since each load writes a new file."""
    if base is None:
        return None
    status = base.stat()
    return [catalog.FORMAT, status.st_ino, status.st_size, status.st_mtime_ns]


def _resolved(paths: Iterable[str]) -> list[str]:
    return [
        shown(path) if path == "-" or is_url(path) else str(Path(path).resolve()) for path in paths
    ]


def _refused(partial: Path, why: str) -> TracekitError:
    return TracekitError(
        f"{partial}: {why}: remove it to start over, or repeat the call that started it"
    )
