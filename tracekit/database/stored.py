"""The catalog of a database: its tables, views, macros and types.

A file may come from an untrusted source, and a view or macro in it is code that the next query
would run. So before any query runs, the catalog must equal the one that this version of tracekit
writes.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from traceback import walk_tb
from types import TracebackType

import duckdb
from msgspec import Struct

from tracekit.database import catalog, facts
from tracekit.errors import TracekitError, file_trouble, first_line

# Exceptions that inconsistent rows may cause.
_SURPRISES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, ValueError, duckdb.Error,
)  # fmt: skip
_PACKAGE = "tracekit"
# For each kind of entry, the table function that lists it and the columns that define it. DuckDB's
# functions are called with their schema, since the file may define others of the same name.
_LISTED = {
    "schema": ("duckdb_schemas", "schema_name, schema_name"),
    "table": ("duckdb_tables", "schema_name, table_name, sql"),
    "view": ("duckdb_views", "schema_name, view_name, sql"),
    "macro": (
        "duckdb_functions",
        "schema_name, function_name, function_type, parameters, parameter_types, macro_definition",
    ),
    "type": ("duckdb_types", "schema_name, type_name, logical_type, labels"),
    "sequence": ("duckdb_sequences", "schema_name, sequence_name, sql"),
    "index": ("duckdb_indexes", "schema_name, index_name, sql"),
    "trigger": ("duckdb_triggers", "schema_name, trigger_name, sql"),
}
_INTERNAL = {"schema", "table", "view", "macro", "type"}
# DuckDB lists these names in arbitrary order.
_EXCLUDED = re.compile(r"EXCLUDE \(([^()]*)\)")
_FORMAT_TABLE = "tracekit"
_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"\w+")
# SQL in lower case that may list views, or name one without mentioning it.
_OF_CATALOG = re.compile(
    r"duckdb_\w+\(|information_schema|sqlite_|pg_|show\s+(all\s+)?tables|query_table\("
)
# The format number is stored as an INTEGER.
_MOST_FORMAT = 1_000_000_000
_OTHER_VERSION = "was made by another version of tracekit: load its traces again"


class Entry(Struct, frozen=True, order=True):
    """A table, view, macro or other entry of a database's catalog."""

    kind: str
    schema: str
    name: str
    definition: str


def create_tables(connection: duckdb.DuckDBPyConnection, *, with_views: bool = False) -> bool:
    """Creates all tables in an empty database, and all views and macros with `with_views`. Returns
    False, without changes, if the database is not empty."""
    is_empty = (
        "SELECT count(*) = 0 FROM duckdb_tables()"
        " WHERE database_name = current_database() AND NOT internal"
    )
    if not connection.execute(is_empty).fetchall()[0][0]:
        return False
    views = catalog.vocabulary().values() if with_views else ()
    # A single transaction is faster, since each one writes the log.
    connection.execute("\n".join(("BEGIN;", *_tables_sql(), *views, "COMMIT")))
    return True


class Vocabulary:
    """The views and macros of a database that no other process opens. Creating all of them takes
    0.1 s, so each is created when SQL first mentions it."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        missing: Mapping[str, str] | None = None,
        copies: Mapping[str, str] | None = None,
    ) -> None:
        """`missing` are statements not yet run on the database, by name; by default, the whole
        vocabulary. `copies` are statements that turn a view into a table when SQL, or a part of
        the vocabulary that it needs, first mentions it."""
        self._connection = connection
        self._statements = dict(catalog.vocabulary() if missing is None else missing)
        self._missing = dict(self._statements)
        self._copies = dict(copies or {})
        self._lock = threading.Lock()

    def add(self, sql: str) -> None:
        """Creates the views and macros that the SQL mentions, directly or indirectly; all of them
        if it reads the catalog."""
        lower = sql.lower()
        with self._lock:
            wanted = [*self._missing] if _OF_CATALOG.search(lower) else self._mentioned(lower)
            copied = self._to_copy(lower)
            if wanted or copied:
                with self._connection.cursor() as cursor:
                    for each in copied:
                        cursor.execute(self._copies.pop(each))
                    self._create(cursor, wanted)

    def _to_copy(self, lower: str) -> list[str]:
        """The views to copy that the SQL mentions, directly or indirectly."""
        if not self._copies:
            return []
        words, new = set[str](), {lower}
        while new:
            found = {word for text in new for word in _words(text)} - words
            words |= found
            new = {self._statements[word].lower() for word in found & self._statements.keys()}
        return [each for each in self._copies if each in words]

    def _mentioned(self, lower: str) -> list[str]:
        words = _words(lower)
        return [each for each in self._missing if each in words]

    def _create(self, cursor: duckdb.DuckDBPyConnection, names: list[str]) -> None:
        """Creates each one after its dependencies."""
        for name in names:
            if statement := self._missing.pop(name, ""):
                self._create(cursor, self._mentioned(statement.lower()))
                cursor.execute(statement)


@lru_cache(maxsize=1024)
def _words(lower: str) -> frozenset[str]:
    """The words of an SQL text, without its comments."""
    return frozenset(_WORD.findall(_COMMENT.sub("", lower)))


def _tables_sql() -> tuple[str, ...]:
    return catalog.schema("tables"), catalog.schema("types"), facts.tables()


def entries(connection: duckdb.DuckDBPyConnection, database: str) -> list[Entry]:
    """All catalog entries of one attached database, sorted. Listing them does not run them."""
    listed = []
    for kind, (function, columns) in _LISTED.items():
        only = " AND NOT internal" if kind in _INTERNAL else ""
        rows = connection.execute(
            f"SELECT {columns} FROM system.main.{function}() WHERE database_name = $name{only}",
            {"name": database},
        ).fetchall()
        listed += [Entry(kind, schema, name, _in_order(repr(rest))) for schema, name, *rest in rows]
    return sorted(listed)


def _in_order(definition: str) -> str:
    return _EXCLUDED.sub(lambda found: str(sorted(found[1].split(", "))), definition)


def digest(found: list[Entry]) -> str:
    """The SHA-256 of catalog entries."""
    return hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()


def ours() -> list[Entry]:
    """The catalog entries that this version of tracekit writes, as listed by the installed
    DuckDB."""
    with duckdb.connect(":memory:") as connection:
        create_tables(connection, with_views=True)
        return entries(connection, "memory")


def format_number() -> int:
    """A number made from everything that a database's rows and views depend on: tables, facts and
    their order, the vocabulary, and the walk of the host's stacks."""
    walk = (files("tracekit.native") / "src" / "nesting.c").read_text(encoding="utf-8")
    texts = (
        *_tables_sql(),
        *catalog.vocabulary().values(),
        *(fact.rows for fact in facts.facts().values()),
        walk,
    )
    return int(hashlib.sha256(repr(texts).encode()).hexdigest(), 16) % _MOST_FORMAT


def require_ours(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> None:
    """Checks that an attached database has the catalog and the format that this version writes.

    Raises:
        TracekitError: when it does not; the message calls the database `name` and says why.
        duckdb.Error: when the database cannot be read.
    """
    present = entries(connection, database)
    if digest(present) != catalog.DIGEST:
        expected = ours()
        if present != expected:
            raise TracekitError(f"{name}: {_difference(connection, database, present, expected)}")
    made_by = _format(connection, database)
    if made_by is None:
        raise TracekitError(f"{name}: was not loaded completely: load its traces again")
    if made_by != catalog.FORMAT:
        raise TracekitError(f"{name}: {_OTHER_VERSION}")


def require_sound(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Checks that a database's rows refer only to existing events, labels, threads and traces,
    which other code relies on (queries/schema/contradictions.sql).

    Raises:
        TracekitError: when they do not; the message calls the database `name`.
        duckdb.Error: when the database cannot be read.
    """
    if contradicting := connection.execute(catalog.schema("contradictions")).fetchall():
        tables = ", ".join(table for (table,) in contradicting)
        raise TracekitError(
            f"{name}: its rows contradict each other ({tables}): load the trace again"
        )


def blame_rows(name: str, error: BaseException, where: TracebackType | None) -> None:
    """Explains an unexpected error from tracekit's own code (judging by its traceback `where`)
    while using the rows of `name`. Errors from the user's code are left alone.

    Raises:
        TracekitError: when the rows contradict each other, tracekit has a bug, or a file has become
            unreadable.
    """
    is_surprise = isinstance(error, _SURPRISES) and not isinstance(error, TracekitError | OSError)
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(where))
    if not is_surprise or all(module.partition(".")[0] != _PACKAGE for module in modules):
        return
    reason = file_trouble(error) or (
        "its rows contradict each other, or tracekit has a bug "
        f"({first_line(error)}): load its traces again"
    )
    raise TracekitError(f"{name}: {reason}") from error


def require_traces(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> None:
    """Checks that the traces of an attached database can be copied. Its other catalog entries do
    not matter, since they are not run.

    Raises:
        TracekitError: when its tables or its format are not those that this version writes.
    """
    present = set(entries(connection, database))
    if not _tables() <= present or _format(connection, database) != catalog.FORMAT:
        raise TracekitError(f"{name}: {_OTHER_VERSION}")


def _tables() -> set[Entry]:
    """The tables that loading writes."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(catalog.schema("tables"))
        return {entry for entry in entries(connection, "memory") if entry.kind == "table"}


def is_part_of_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a connection's database is an unfinished one by this version: it has all tables that
    loading writes, and this version writes all its other entries, too."""
    (database,) = connection.execute("SELECT system.main.current_database()").fetchall()[0]
    present = set(entries(connection, database))
    return _tables() <= present <= set(ours())


def _difference(
    connection: duckdb.DuckDBPyConnection, database: str, found: list[Entry], expected: list[Entry]
) -> str:
    """A description of how the catalog `found` differs from the `expected` one."""
    marks = [each for each in expected if each.name == _FORMAT_TABLE]
    if not set(marks) <= set(found):
        return "is not a tracekit database"
    if _format(connection, database) != catalog.FORMAT:
        return _OTHER_VERSION
    names = {(each.kind, each.schema, each.name) for each in expected}
    for entry in found:
        if (entry.kind, entry.schema, entry.name) not in names:
            return (
                f"contains the {entry.kind} {entry.name!r}, which tracekit did not write; "
                "`tracekit load` copies only the traces into a new database"
            )
    changed = min(set(expected) - set(found))
    return (
        f"its {changed.kind} {changed.name!r} is not the one that tracekit writes; `tracekit load` "
        "copies only the traces into a new database"
    )


def _format(connection: duckdb.DuckDBPyConnection, database: str) -> int | None:
    """The number in the format table; None: not exactly one row. The caller has checked that the
    table exists."""
    quoted = '"' + database.replace('"', '""') + '"'
    rows = connection.execute(f"SELECT format FROM {quoted}.main.{_FORMAT_TABLE} LIMIT 2")
    numbers = [row[0] for row in rows.fetchall()]
    return int(numbers[0]) if len(numbers) == 1 else None


if __name__ == "__main__":
    # Run this after any change to tables, facts or views: every change is a new format, so that
    # rows derived by other rules are never read.
    catalog.write_format(format_number(), digest(ours()))
