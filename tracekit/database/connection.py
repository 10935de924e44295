"""Connections to DuckDB: their settings, where they spill, and opening a file from anyone."""

from __future__ import annotations

import atexit
import hashlib
import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import duckdb

from tracekit.database import stored
from tracekit.database.sandbox import Config, forbid_files, limit_spilling, reading
from tracekit.errors import TracekitError
from tracekit.files import work_folder

_DUCKDB_MAGIC = b"DUCK"
_SPILL_PREFIX = "tracekit-spill-"
# Where DuckDB expects few rows it joins by time in nested loops: where it expects wrong, these take
# minutes.
_ALWAYS: Config = {"asof_loop_join_threshold": 0, "allow_persistent_secrets": False}
# What DuckDB puts beside a database, and a client that crashed leaves there.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


def is_database(path: str | Path) -> bool:
    """Whether this is a DuckDB file, by its first bytes."""
    try:
        # What is no file, a pipe say, can be read only once.
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(12)[8:] == _DUCKDB_MAGIC
    except (OSError, ValueError):
        return False


def leftover_log(path: str | Path) -> Path | None:
    """Changes of a database that are not in its file yet, beside it: a client is writing it, or
    crashed while it did."""
    return next((log for log in logs_of(path) if log.exists() or log.is_symlink()), None)


def logs_of(path: str | Path) -> list[Path]:
    """Where DuckDB puts changes of a database that are not in its file yet."""
    target = Path(path).resolve()
    return [target.with_name(target.name + ending) for ending in _LOGS]


def spill_directory(path: str | Path, folder: str | Path | None = None) -> str:
    """Where DuckDB spills to: it makes and removes it.

    It lies in a folder of this process alone, in `folder` or the system's temporary one. Each
    database of a process has one of its own, and the same one should it be opened twice.

    Raises:
        TracekitError: when the folder cannot be made.
    """
    root = _spill_root(Path(folder or tempfile.gettempdir()), os.getpid())
    name = hashlib.sha256(str(Path(path).resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return str(root / name[:16])


@cache
def _spill_root(folder: Path, process: int) -> Path:
    stack = ExitStack()
    try:
        root = stack.enter_context(work_folder(folder, _SPILL_PREFIX))
    except OSError as error:
        reason = error.strerror or error
        raise TracekitError(f"{folder}: no temporary folder can be made there: {reason}") from error

    def remove() -> None:
        # A forked child ends, too, and this is not its folder.
        if os.getpid() == process:
            stack.close()

    atexit.register(remove)
    return root


def connect(path: str | Path, config: Config, name: str | Path) -> duckdb.DuckDBPyConnection:
    """A connection that may write the DuckDB file `path`, which messages call `name`."""
    return _connected(path, _ALWAYS | config, name, read_only=False)


def connect_reading(
    path: str | Path, config: Config, name: str | Path, spill_mb: int
) -> duckdb.DuckDBPyConnection:
    """A connection to a database that `load` wrote, or anyone made who says so: it reads its rows,
    and nothing that the file holds can make it do more.

    Queries spill up to `spill_mb`. Where that is 0, they cannot open any file.

    Raises:
        TracekitError: when it cannot be opened, or this version would have written another one.
    """
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
    except duckdb.Error as error:
        connection.close()
        raise unopened(name, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def require_database(path: str | Path) -> None:
    """Refuses a path that is no database of this version.

    Raises:
        TracekitError: that says what is wrong.
    """
    if not is_database(path):
        what = "is not a tracekit database" if Path(path).exists() else "no such file"
        raise TracekitError(f"{path}: {what}")
    connect_reading(path, {}, path, 0).close()


def connect_partial(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection to an unfinished database: it reads its tables, and no file.

    Raises:
        TracekitError: when it cannot be opened.
    """
    connection = _connected(path, reading({"temp_directory": ""}), path, read_only=True)
    forbid_files(connection)
    return connection


def _connected(
    path: str | Path, config: Config, name: str | Path, *, read_only: bool
) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), read_only=read_only, config=config)
    except (duckdb.Error, UnicodeError) as error:
        raise unopened(name, error) from error


def unopened(name: str | Path, error: Exception) -> TracekitError:
    """What is said of a database that DuckDB cannot open."""
    reason = str(error).splitlines()[0]
    return TracekitError(f"{name}: cannot be opened as a tracekit database: {reason}")
