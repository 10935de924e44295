"""A record of an unfinished load's inputs and options, so that only the same load resumes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from tracekit.database import catalog, stored
from tracekit.database.connection import connect_partial
from tracekit.errors import TracekitError
from tracekit.ingest.writer import create_tables
from tracekit.trace.remote import is_url, shown


def begin(connection: duckdb.DuckDBPyConnection, base: Path | None, paths: Iterable[str]) -> None:
    """Records that a load of `paths` has started, on a copy of `base` if there is one."""
    create_tables(connection)
    begun_on = json.dumps({"base": _identity(base), "paths": _resolved(paths)})
    connection.execute("DELETE FROM loading")
    connection.execute("INSERT INTO loading VALUES (?)", [begun_on])


def require_same(partial: Path, base: Path | None, paths: Iterable[str]) -> None:
    """Refuses to resume `partial` with a different load.

    Raises:
        TracekitError: when another version started it, `base` has changed since, or it was started
            with traces that are not among `paths`.
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
    """Identifies one state of a file: each load writes a new file."""
    if base is None:
        return None
    found = base.stat()
    return [catalog.FORMAT, found.st_ino, found.st_size, found.st_mtime_ns]


def _resolved(paths: Iterable[str]) -> list[str]:
    return [
        shown(path) if path == "-" or is_url(path) else str(Path(path).resolve()) for path in paths
    ]


def _refused(partial: Path, why: str) -> TracekitError:
    return TracekitError(
        f"{partial}: {why}: remove it to start again, or repeat the call that started it"
    )
