"""A SQLite file that anyone may have written, read without executing anything of its own.

Only ordinary tables are seen: views, virtual tables and tables with computed columns would run the
file's SQL. https://sqlite.org/security.html
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, explained
from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.native.rows import EventQuery, connected, read_rows
from tracekit.trace.budget import OBJECT_BYTES, Budget

# Names that need no quotes in SQL.
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# The longest text or BLOB.
_MOST_BYTES = 64 << 20
# SQLite's instructions between two looks at the budget, and those that count as one item: rows that
# look up a name or a time take hundreds of them.
_AT_ONCE, _OF_AN_ITEM = 100_000, 20
# Opening a file again takes about a millisecond: each of its processes does that twice.
_CONNECTION_ITEMS = 5_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


class Tables:
    """The ordinary tables of a SQLite file, which is not changed, like the files next to it."""

    def __init__(self, file: Path, name: str, budget: Budget) -> None:
        self._file = file
        self._name = name
        self.budget = budget
        self._used_up: TracekitError | None = None
        self.columns: dict[str, dict[str, str]] = {}
        """The columns of each table, with their declared types."""
        self.keys: dict[str, set[str]] = {}
        """The columns of each table's primary key."""
        with self._damage():
            uri = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
            self._connection, self._handle = connected(
                partial(sqlite3.connect, uri, uri=True, check_same_thread=False)
            )
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            self._connection.set_progress_handler(self._spends, _AT_ONCE)
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
                self._connection.execute(f"PRAGMA {setting}")
            self._read_schema()
            self._connection.text_factory = bytes
            self._connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
            )

    def _read_schema(self) -> None:
        tables = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
            " AND upper(sql) NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        for (table,) in tables:
            if not _PLAIN.fullmatch(table):
                continue
            rows = self._connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
            if all(_PLAIN.fullmatch(row[1]) and not row[6] for row in rows):
                self.columns[table] = {row[1]: str(row[2]).upper() for row in rows}
                self.keys[table] = {row[1] for row in rows if row[5]}

    def again(self) -> Tables:
        """The same tables through a connection of their own, for another thread."""
        self.budget.spend(_CONNECTION_ITEMS)
        return Tables(self._file, self._name, self.budget)

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a short result, which count as held; texts are bytes.

        Raises:
            TracekitError: when the file is damaged, or uses up its budget.
        """
        with self._damage():
            result = []
            for row in self._connection.execute(query, parameters):
                self._hold(row)
                result.append(row)
            return result

    def kept(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """All of these records, which count as held.

        Raises:
            TracekitError: when the file is damaged, or uses up its budget.
        """
        rows = []
        for record in records:
            self._hold(record.values())
            rows.append(record)
        return rows

    def _hold(self, row: Collection[object]) -> None:
        texts = sum(len(value) for value in row if isinstance(value, str | bytes))
        self.budget.hold(texts + (1 + len(row)) * OBJECT_BYTES)

    def records(
        self, names: Iterable[str], query: str, parameters: Sequence[object] = ()
    ) -> Iterator[dict[str, Any]]:
        """The rows of a long result, one at a time: their values that are not null, by these names.

        Raises:
            TracekitError: when the file is damaged, or uses up its budget.
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
            TracekitError: when the file is damaged, or uses up its budget.
        """
        with self._damage():
            yield from read_rows(self._connection, self._handle, query, first_id, labels)

    def define(self, name: str, function: Callable[[object], str | None]) -> None:
        """Makes a function of Python known to SQL."""
        self._connection.create_function(name, 1, function, deterministic=True)

    def count(self, table: str, most: int = 2**63 - 1) -> int:
        """How many rows there are, counted up to `most`."""
        # SQLite counts a table in one instruction, which no budget can end: hostile pages may be in
        # the table again and again.
        counted = f"(SELECT 1 FROM {table} LIMIT {most})"
        return int(self.rows(f"SELECT count(*) FROM {counted}")[0][0])

    def _spends(self) -> bool:
        """Called by SQLite now and then, which it ends by returning True."""
        try:
            self.budget.spend(_AT_ONCE // _OF_AN_ITEM)
        except TracekitError as error:
            self._used_up = error
        return self._used_up is not None

    @contextmanager
    def _damage(self) -> Iterator[None]:
        what = f"{self._name}: cannot be read as a SQLite database"
        with explained(what, sqlite3.Error, OverflowError, TypeError, UnicodeError):
            try:
                yield
            except sqlite3.Error:
                if self._used_up is not None:
                    raise self._used_up from None
                raise
