"""Connections to DuckDB: settings, spill directories, and opening untrusted files."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import closing
from functools import cache
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import duckdb

from tracekit.database import stored
from tracekit.database.sandbox import Config, forbid_files, limit_spilling, reading
from tracekit.errors import TracekitError, reason_of
from tracekit.files import TEMPORARY, process_folder, remove_abandoned

# https://duckdb.org/docs/stable/internals/storage
_DUCKDB_MAGIC = b"DUCK"
_HEAD_BYTES = 12
_COPY_BYTES = 1 << 20
_SPILL_PREFIX = "tracekit-spill-"
# DuckDB runs ASOF joins as nested loops if it expects few rows. A wrong estimate costs minutes.
_ALWAYS: Config = {"asof_loop_join_threshold": 0, "allow_persistent_secrets": False}
# Endings of the logs that DuckDB writes next to a database. Crashed clients leave them behind.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


def is_database(path: str | Path) -> bool:
    """Whether this is a DuckDB file, by its first bytes."""
    try:
        # A pipe can be read only once, so it is not opened here.
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(_HEAD_BYTES)[8:] == _DUCKDB_MAGIC
    except (OSError, ValueError):
        return False


def fetched_database(url: str, folder: str | Path | None = None) -> BinaryIO | None:
    """A copy of the database at a URL, in `folder` or the system's temporary directory; removed
    when closed. None: the file is not a database, or cannot be read.

    Raises:
        TracekitError: when it cannot be read to its end, or does not fit on the disk.
    """
    from tracekit.text import shown
    from tracekit.trace.paths import endings
    from tracekit.trace.remote import is_url, open_url
    from tracekit.trace.source import copied

    if not is_url(url) or "*" in url or shown(url).endswith(("/", *endings())):
        return None
    try:
        file = open_url(url)
    except (OSError, ValueError, TracekitError):
        # The caller then reads the file as a trace, whose error is clearer.
        return None
    with closing(file):
        head = file.read(_HEAD_BYTES)
        if head[8:] != _DUCKDB_MAGIC:
            return None
        chunks = chain([head], iter(lambda: file.read(_COPY_BYTES), b""))
        return copied(shown(url), chunks, str(folder or tempfile.gettempdir()), has_name=True)


def leftover_log(path: str | Path) -> Path | None:
    """The log of changes that are not in the database's file yet, or None. It exists while a client
    writes the database, or after a client crashed."""
    return next((log for log in logs_of(path) if log.exists() or log.is_symlink()), None)


def logs_of(path: str | Path) -> list[Path]:
    """The paths of DuckDB's logs for the database at `path`."""
    target = Path(path).resolve()
    return [target.with_name(target.name + ending) for ending in _LOGS]


def spill_directory(path: str | Path, folder: str | Path | None = None) -> str:
    """The directory to which DuckDB spills for the database at `path`. DuckDB makes and removes it.

    It is inside a directory of this process, in `folder` or the system's temporary directory. Each
    database of a process has its own, however often it is opened.

    Raises:
        TracekitError: when the process's directory cannot be made.
    """
    root = process_folder(folder, _SPILL_PREFIX)
    name = hashlib.sha256(str(Path(path).resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return str(root / name[:16])


@cache
def _remove_spilled() -> None:
    """Removes, once per process, files that killed processes spilled or copied, so that they do not
    fill the disk."""
    for prefix in (_SPILL_PREFIX, TEMPORARY):
        remove_abandoned(Path(tempfile.gettempdir()), prefix)


def connect(path: str | Path, config: Config, name: str | Path) -> duckdb.DuckDBPyConnection:
    """A writable connection to the DuckDB file `path`; `name` is the database's name in
    messages."""
    return _connected(path, _ALWAYS | config, name, read_only=False)


def connect_reading(
    path: str | Path, config: Config, name: str | Path, spill_mb: int
) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a database file, which may come from an untrusted source: nothing
    in the file can make it do more than read rows.

    Queries may spill up to `spill_mb` to disk. With 0, they cannot open any file.

    Raises:
        TracekitError: when the file cannot be opened, its catalog (tables, views, macros, types)
            differs from this version's, or its rows contradict each other.
    """
    if not is_database(path):
        what = "is not a tracekit database" if Path(path).exists() else "no such file"
        raise TracekitError(f"{name}: {what}")
    spills = {"temp_directory": spill_directory(path) if spill_mb else ""}
    connection = _connected(path, reading(_ALWAYS | config | spills), name, read_only=True)
    try:
        if spill_mb:
            limit_spilling(connection, spill_mb)
        else:
            forbid_files(connection)
        opened = connection.execute("SELECT * FROM system.main.duckdb_databases()").fetchall()
        database = next(row[0] for row in opened if row[2] is not None)
        stored.require_ours(connection, database, str(name))
        stored.require_sound(connection, str(name))
    except duckdb.Error as error:
        connection.close()
        raise unopened(name, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def require_database(path: str | Path) -> None:
    """Checks that `path` is a database written by this version.

    Raises:
        TracekitError: when it is not; the message says why.
    """
    connect_reading(path, {}, path, 0).close()


def connect_partial(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to an unfinished database; its queries cannot open any file.

    Raises:
        TracekitError: when the database cannot be opened.
    """
    connection = _connected(path, reading({"temp_directory": ""}), path, read_only=True)
    forbid_files(connection)
    return connection


def _connected(
    path: str | Path, config: Config, name: str | Path, *, read_only: bool
) -> duckdb.DuckDBPyConnection:
    _remove_spilled()
    try:
        return duckdb.connect(str(path), read_only=read_only, config=config)
    except (duckdb.Error, UnicodeError) as error:
        if read_only:
            raise unopened(name, error) from error
        raise TracekitError(f"{name}: cannot be written: {reason_of(error)}") from error


def unopened(name: str | Path, error: Exception) -> TracekitError:
    """The error for a database that DuckDB cannot open."""
    return TracekitError(f"{name}: cannot be opened as a tracekit database: {reason_of(error)}")
