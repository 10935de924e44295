"""What a database file holds beside rows: its tables, views, macros and types.

A file may come from anyone. A view or macro in it is code that the next query would run, so all of
them have to be those that this version of tracekit writes before anything is asked.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import duckdb

from tracekit.database import catalog
from tracekit.database.prepared import create_from_sql
from tracekit.errors import TracekitError

# What DuckDB lists of a database, by kind: the table function, and its columns that define a thing.
# The names of DuckDB's own functions carry their schema, since the file may have others so named.
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
# DuckDB lists these names in no fixed order.
_EXCLUDED = re.compile(r"EXCLUDE \(([^()]*)\)")
_FORMAT_TABLE = "tracekit"
_OTHER_VERSION = "another version of tracekit made it: load its traces again"


@dataclass(frozen=True, order=True)
class Thing:
    """A table, view, macro or other entry of a database's catalog."""

    kind: str
    schema: str
    name: str
    definition: str


def things(connection: duckdb.DuckDBPyConnection, database: str) -> list[Thing]:
    """All entries of one attached database, in order. Nothing of them is run."""
    found = []
    for kind, (function, columns) in _LISTED.items():
        only = " AND NOT internal" if kind in _INTERNAL else ""
        rows = connection.execute(
            f"SELECT {columns} FROM system.main.{function}() WHERE database_name = $name{only}",
            {"name": database},
        ).fetchall()
        found += [Thing(kind, schema, name, _in_order(repr(rest))) for schema, name, *rest in rows]
    return sorted(found)


def _in_order(definition: str) -> str:
    return _EXCLUDED.sub(lambda found: str(sorted(found[1].split(", "))), definition)


def digest(found: list[Thing]) -> str:
    """A number that stands for all of them."""
    return hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()


def ours() -> list[Thing]:
    """What this version of tracekit writes, as the DuckDB that is installed says it."""
    with duckdb.connect(":memory:") as connection:
        create_from_sql(connection)
        return things(connection, "memory")


def require_ours(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> None:
    """Refuses an attached database with anything in it that this version would not have written.

    Raises:
        TracekitError: that calls it `name` and says what is wrong with it.
        duckdb.Error: when it cannot be read.
    """
    found = things(connection, database)
    if digest(found) != catalog.stored_digest():
        expected = ours()
        if found != expected:
            raise TracekitError(f"{name}: {_difference(connection, database, found, expected)}")
    made_by = _format(connection, database)
    if made_by is None:
        raise TracekitError(f"{name}: was not loaded to its end: load its traces again")
    if made_by != catalog.FORMAT:
        raise TracekitError(f"{name}: {_OTHER_VERSION}")


def require_traces(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> None:
    """Refuses an attached database whose traces cannot be copied: what else it holds is not looked
    at, and not run.

    Raises:
        TracekitError: when its tables are not those that ingest writes.
    """
    found = set(things(connection, database))
    if not _tables() <= found or _format(connection, database) != catalog.FORMAT:
        raise TracekitError(f"{name}: {_OTHER_VERSION}")


def _tables() -> set[Thing]:
    """Those that ingest writes."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(catalog.schema("tables"))
        return {each for each in things(connection, "memory") if each.kind == "table"}


def is_part_of_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database that a connection is opened on is what this version writes, as far as it
    has come: its tables, and nothing of anybody else."""
    (database,) = connection.execute("SELECT system.main.current_database()").fetchall()[0]
    found = set(things(connection, database))
    return _tables() <= found <= set(ours())


def _difference(
    connection: duckdb.DuckDBPyConnection, database: str, found: list[Thing], expected: list[Thing]
) -> str:
    marks = [each for each in expected if each.name == _FORMAT_TABLE]
    if not set(marks) <= set(found):
        return "is not a tracekit database"
    if _format(connection, database) != catalog.FORMAT:
        return _OTHER_VERSION
    names = {(each.kind, each.schema, each.name) for each in expected}
    for each in found:
        if (each.kind, each.schema, each.name) not in names:
            return (
                f"holds the {each.kind} {each.name!r}, which tracekit did not write; `tracekit "
                "load` copies the traces alone into a new database"
            )
    changed = min(set(expected) - set(found))
    return (
        f"its {changed.kind} {changed.name!r} is not the one that tracekit writes; `tracekit load` "
        "copies the traces alone into a new database"
    )


def _format(connection: duckdb.DuckDBPyConnection, database: str) -> int | None:
    """The number in the format table, which is known to be a table, of one column."""
    quoted = '"' + database.replace('"', '""') + '"'
    rows = connection.execute(f"SELECT format FROM {quoted}.main.{_FORMAT_TABLE} LIMIT 2")
    numbers = [row[0] for row in rows.fetchall()]
    return int(numbers[0]) if len(numbers) == 1 else None


if __name__ == "__main__":
    # After a change of the vocabulary: writes the digest that opening a database compares with.
    catalog.write_stored_digest(digest(ours()))
