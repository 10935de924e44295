"""A SQLite file that anyone may have written, read without executing anything of its own.

Only ordinary tables are seen: views, virtual tables and tables with computed columns would run the
file's SQL. https://sqlite.org/security.html
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.trace.other.converted import AT_ONCE

# Names that stand in SQL as they are.
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# The longest text or BLOB.
_MOST_BYTES = 64 << 20
# The key of a table's number of rows: no column can have this name.
ROWS = "*"
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


class Tables:
    """The ordinary tables of a SQLite file, which is not changed: nor are files beside it."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        self._name = name
        self._counts: dict[str, dict[str, int]] = {}
        self.columns: dict[str, dict[str, str]] = {}
        """The columns of each table, with their declared types."""
        self.definitions: dict[str, str] = {}
        with self._damage():
            uri = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
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
        tables = Tables(self._file, self._name)
        tables._counts = self._counts
        return tables

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a short result; texts are bytes.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            return self._connection.execute(query, parameters).fetchall()

    def records(self, query: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a long result, one at a time; texts are bytes.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            yield from self._connection.execute(query, parameters)

    def texts(self, query: str, parameters: Sequence[object] = ()) -> Iterator[bytes]:
        """The first column of a long result, many rows at a time, separated by commas.

        Raises:
            TracekitError: when the file is damaged.
        """
        with self._damage():
            cursor = self._connection.execute(query, parameters)
            while rows := cursor.fetchmany(AT_ONCE):
                yield b",\n".join(text for (text,) in rows)

    def define(self, name: str, function: Callable[[object], str | None]) -> None:
        """Makes a function of Python known to SQL."""
        self._connection.create_function(name, 1, function, deterministic=True)

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    def counts(self, table: str) -> dict[str, int]:
        """How many values each column has, and under ROWS the rows; counted once."""
        if table not in self._counts:
            columns = list(self.columns[table])
            counted = ", ".join(f'count("{column}")' for column in columns)
            (row,) = self.rows(f"SELECT count(*), {counted} FROM {table}")
            self._counts[table] = dict(zip([ROWS, *columns], row, strict=True))
        return self._counts[table]

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, TypeError) as error:
            raise TracekitError(
                f"{self._name}: cannot be read as a SQLite database: {error}"
            ) from error
