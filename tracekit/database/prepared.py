"""The vocabulary, ready to copy: DuckDB copies a database of empty tables, views and macros in a
tenth of the time that it takes to parse and bind their SQL.

The copy lies in the user's cache folder, made anew for another version of the SQL or of DuckDB. It
is as trusted as the user's other files; one that belongs to somebody else is left alone. Without a
cache folder everything works, a quarter of a second slower.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb
from platformdirs import user_cache_path

from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.files import written_whole

_PREFIX = "vocabulary-"
# DuckDB's smallest: what is kept is little.
_BLOCK_BYTES = 16 << 10


def create_all(connection: duckdb.DuckDBPyConnection) -> bool:
    """Makes all tables, views and macros in an empty database, from the prepared copy.

    Returns False, having made nothing, where the database is not empty or there is no copy.
    """
    (name, tables) = connection.execute(
        "SELECT current_database(), count(*) FROM duckdb_tables()"
        " WHERE database_name = current_database() AND NOT internal"
    ).fetchall()[0]
    path = None if tables else _prepared()
    if path is None:
        return False
    try:
        quoted = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS prepared (READ_ONLY)")
        try:
            target = name.replace('"', '""')
            connection.execute(f'COPY FROM DATABASE prepared TO "{target}" (SCHEMA)')
        finally:
            connection.execute("DETACH prepared")
    except duckdb.Error:
        # Damaged, or just removed: the next load makes it anew.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    return True


def create_from_sql(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes all tables, views and macros by their statements; derived tables are filled from what
    the database holds."""
    connection.execute("ATTACH ':memory:' AS scratch")
    for statements in (catalog.schema("tables"), *catalog.vocabulary().values()):
        connection.execute(statements)
    connection.execute("DETACH scratch")


def _prepared() -> Path | None:
    """The copy for this version, made if need be; None where it cannot be kept."""
    try:
        folder = user_cache_path("tracekit")
        path = folder / f"{_PREFIX}{_version()}.duckdb"
        if not path.exists():
            _make(folder, path)
        return path if _is_own(path) else None
    except (OSError, RuntimeError, TracekitError, duckdb.Error):
        return None


@cache
def _version() -> str:
    """Stands for the SQL and the DuckDB that the copy is made by."""
    texts = (duckdb.__version__, catalog.schema("tables"), *catalog.vocabulary().values())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _make(folder: Path, path: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with written_whole(path) as beside:
        with duckdb.connect(str(beside), config={"default_block_size": _BLOCK_BYTES}) as made:
            create_from_sql(made)
            made.execute("CHECKPOINT")
        beside.chmod(0o600)
    for old in folder.glob(f"{_PREFIX}*.duckdb"):
        if old != path:
            with suppress(OSError):
                old.unlink()


def _is_own(path: Path) -> bool:
    """Whether nobody but this user can have written it. Windows keeps user folders apart."""
    if not hasattr(os, "getuid"):
        return True
    found = path.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022
