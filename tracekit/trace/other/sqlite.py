"""A SQLite file that anyone may have written, read without executing anything of its own.

Only ordinary tables are seen: views, virtual tables and tables with computed columns would run the
file's SQL. https://sqlite.org/security.html
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from tracekit.errors import explained
from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.native.rows import EventQuery, connected, read_rows

# Names that need no quotes in SQL.
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# The longest text or BLOB.
_MOST_BYTES = 64 << 20
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


class Tables:
    """The ordinary tables of a SQLite file, which is not changed: nor are files beside it."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        self._name = name
        self.columns: dict[str, dict[str, str]] = {}
        """The columns of each table, with their declared types."""
        self.definitions: dict[str, str] = {}
        with self._damage():
            uri = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
            self._connection, self._handle = connected(
                partial(sqlite3.connect, uri, uri=True, check_same_thread=False)
            )
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
                self._connection.execute(f"PRAGMA {setting}")
            self._read_schema()
            self._connection.text_factory = bytes
            self._connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
            )

    def _read_schema(self) -> None:
        found = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
            " AND upper(sql) NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        for table, sql in found:
            if not _PLAIN.fullmatch(table):
                continue
            rows = self._connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
            if all(_PLAIN.fullmatch(row[1]) and not row[6] for row in rows):
                self.columns[table] = {row[1]: str(row[2]).upper() for row in rows}
                self.definitions[table] = str(sql)

    def again(self) -> Tables:
        """The same tables through a connection of their own, for another thread."""
        return Tables(self._file, self._name)

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a short result; texts are bytes.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            return self._connection.execute(query, parameters).fetchall()

    def records(
        self, names: Iterable[str], query: str, parameters: Sequence[object] = ()
    ) -> Iterator[dict[str, Any]]:
        """The rows of a long result, one at a time: their values that are not null, by these names.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            for row in self._connection.execute(query, parameters):
                yield {
                    name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                    for name, value in zip(names, row, strict=True)
                    if value is not None
                }

    def events(
        self, query: EventQuery, first_id: int, labels: Labels
    ) -> Iterator[tuple[Batch, int]]:
        """The rows of a long result as batches of events, with the bytes of text in each.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            yield from read_rows(self._connection, self._handle, query, first_id, labels)

    def define(self, name: str, function: Callable[[object], str | None]) -> None:
        """Makes a function of Python known to SQL."""
        self._connection.create_function(name, 1, function, deterministic=True)

    def count(self, table: str, most: int | None = None) -> int:
        """How many rows there are, counted up to `most`."""
        counted = table if most is None else f"(SELECT 1 FROM {table} LIMIT {most})"
        return int(self.rows(f"SELECT count(*) FROM {counted}")[0][0])

    def _damage(self) -> AbstractContextManager[None]:
        what = f"{self._name}: cannot be read as a SQLite database"
        return explained(what, sqlite3.Error, OverflowError, TypeError, UnicodeError)
