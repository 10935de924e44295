"""A prepared database of empty tables, views and macros to copy from: copying it takes a tenth of
the time that DuckDB needs to parse and bind their SQL.

It is kept in the user's cache folder, one per version of the SQL and of DuckDB. It is trusted like
the user's other files; a file that somebody else could have written is not used. Without a cache
folder everything works, 0.25 s slower.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb

from tracekit import causes, thresholds
from tracekit.database import catalog, facts, packaged
from tracekit.errors import TracekitError
from tracekit.files import is_own, own_cache, written_whole

_PREFIX = "vocabulary-"
# DuckDB's smallest block: the database holds little.
_BLOCK_BYTES = 16 << 10


def create_all(connection: duckdb.DuckDBPyConnection) -> bool:
    """Creates all tables, views and macros in an empty database. Returns False, without changes, if
    the database is not empty."""
    (name, tables) = connection.execute(
        "SELECT current_database(), count(*) FROM duckdb_tables()"
        " WHERE database_name = current_database() AND NOT internal"
    ).fetchall()[0]
    if tables:
        return False
    path = _prepared()
    if path is None or not _copied(connection, name, path):
        create_from_sql(connection)
    return True


def _copied(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> bool:
    """Copies the prepared database into the one called `name`; False, without changes, if it is
    damaged or was just removed: the next load makes a new one."""
    try:
        quoted = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS prepared (READ_ONLY)")
        try:
            target = name.replace('"', '""')
            connection.execute(f'COPY FROM DATABASE prepared TO "{target}" (SCHEMA)')
        finally:
            connection.execute("DETACH prepared")
    except duckdb.Error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    return True


def create_from_sql(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates all tables, views and macros from their SQL."""
    for statements in definitions():
        connection.execute(statements)


def definitions() -> tuple[str, ...]:
    """The SQL of all tables, views and macros, in order."""
    tables = catalog.schema("tables"), catalog.schema("types"), facts.tables()
    return *tables, *catalog.vocabulary().values()


def _prepared() -> Path | None:
    """The path of the prepared database for this version, made if necessary; None if the cache
    folder cannot be used."""
    folder = own_cache()
    if folder is None:
        return None
    path = folder / f"{_PREFIX}{_version()}.duckdb"
    try:
        if not is_own(path):
            _make(folder, path)
        return path
    except (TracekitError, duckdb.Error):
        return None


@cache
def _version() -> str:
    """Identifies the SQL, by its format and the times of its files, and the version of DuckDB."""
    folders = ("schema/", "facts/", "views/", "names/")
    stamps = [each for each in packaged.stamps() if each[0].startswith(folders)]
    modules = [Path(str(module.__file__)).stat().st_mtime_ns for module in (thresholds, causes)]
    texts = (duckdb.__version__, catalog.FORMAT, stamps, modules)
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _make(folder: Path, path: Path) -> None:
    with written_whole(path) as beside:
        with duckdb.connect(str(beside), config={"default_block_size": _BLOCK_BYTES}) as made:
            create_from_sql(made)
            made.execute("CHECKPOINT")
        beside.chmod(0o600)
    for old in folder.glob(f"{_PREFIX}*.duckdb"):
        if old != path:
            with suppress(OSError):
                old.unlink()
