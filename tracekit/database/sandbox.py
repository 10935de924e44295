"""The sandbox for users' SQL, which may only read the database.

There are two lines of defense: the connection's configuration, which is locked before anything in a
file is read, and DuckDB's parser, which shows what a statement would do and which functions and
types it uses: only those in allowed.toml are allowed.
https://duckdb.org/docs/current/operations_manual/securing_duckdb/overview
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct

from tracekit.errors import TracekitError

Config = dict[str, str | bool | int | float | list[str]]

# The default disk space for queries that may spill.
SPILL_MB = 10_000

# Settings that tracekit itself changes after locking. Users' SQL cannot SET anything.
_STILL_SET = ["memory_limit", "max_temp_directory_size", "disabled_filesystems"]
_CLOSED: Config = {
    "enable_external_access": False,
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "allowed_configs": _STILL_SET,
    "lock_configuration": True,
}

# Nodes of a parsed SELECT that only read. A common table expression may also contain an INSERT,
# UPDATE, DELETE or COPY.
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"}

# DuckDB's parser ignores time and memory limits, and takes seconds for a few thousand parentheses.
# tracekit's own SQL nests 7 levels deep.
MOST_CHARACTERS = 50_000
MOST_NESTED = 32
_OPENING, _CLOSING = set(b"([{"), set(b")]}")
# Words and options of an EXPLAIN before the statement that it explains.
_MOST_EXPLAINING = 50


def reading(settings: Config) -> Config:
    """`settings` plus settings that restrict a connection to reading the file that it opens.

    Pass them when opening the file, so that they apply before anything in it runs.
    """
    # The order matters: DuckDB sets the last one first, and `temp_directory` has to be set before
    # the connection is locked.
    return _CLOSED | settings


def close_to_the_outside(connection: duckdb.DuckDBPyConnection) -> None:
    """Restricts an open connection to the data that it holds."""
    for name, value in _CLOSED.items():
        connection.execute(f"SET {name} = {value}")


def forbid_files(connection: duckdb.DuckDBPyConnection) -> None:
    """Keeps queries from opening files to read, write or spill. Open files stay open.

    Without this, DuckDB would still let a query write to the database's own path.
    """
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")


def limit_spilling(connection: duckdb.DuckDBPyConnection, spill_mb: int) -> None:
    """Limits the disk space for spilling. DuckDB accepts this only on an open connection."""
    connection.execute(f"SET max_temp_directory_size = '{spill_mb}MB'")


def require_select(
    connection: duckdb.DuckDBPyConnection, query: str, questions: Iterable[str] = ()
) -> None:
    """Checks with DuckDB's parser that `query` only reads. It may call the `questions`.

    Raises:
        TracekitError: when `query` is not one SELECT (or an EXPLAIN of one), is too long or nested
            too deeply, or uses a function or type that is neither allowed nor tracekit's own.
        duckdb.Error: when `query` is not SQL.
    """
    _require_parsable(query)
    kind = _kind(query)
    if kind == duckdb.StatementType.EXPLAIN:
        query = _explained(query)
        kind = _kind(query)
    if kind != duckdb.StatementType.SELECT:
        raise _refused()
    asked = "SELECT system.main.json_serialize_sql($query)"
    with connection.cursor() as cursor:
        parsed: str = cursor.execute(asked, {"query": query}).fetchall()[0][0]
        functions, types = _used(parsed)
        functions -= set(questions)
        allowed = _allowed()
        # DuckDB takes milliseconds to list each kind.
        if functions := functions - allowed.functions:
            functions -= _names(cursor, "function_name FROM system.main.duckdb_functions()")
        if types := types - allowed.types:
            types -= _names(cursor, "type_name FROM system.main.duckdb_types()")
    for unknown, known, called in (
        (functions, allowed.functions, "function"),
        (types, allowed.types, "type"),
    ):
        if unknown:
            raise _not_allowed(min(unknown), known, called)


class _Allowed(Struct, frozen=True):
    """Names in lower case. Functions whose names are not words are operators."""

    functions: frozenset[str]
    types: frozenset[str]


@cache
def _allowed() -> _Allowed:
    import tomllib

    listed = tomllib.loads((Path(__file__).parent / "allowed.toml").read_text())
    types = frozenset(listed.pop("types"))
    return _Allowed(frozenset(name.lower() for names in listed.values() for name in names), types)


def _require_parsable(query: str) -> None:
    """Checks that DuckDB can parse `query` in little time and memory."""
    if len(query) > MOST_CHARACTERS:
        raise TracekitError(
            f"SQL: the statement has {len(query):,} characters, more than {MOST_CHARACTERS:,}"
        )
    try:
        text = query.encode()
    except UnicodeEncodeError as error:
        raise TracekitError("SQL: the statement is not valid Unicode text") from error
    depth = 0
    for offset, _ in duckdb.tokenize(query):
        depth += (text[offset] in _OPENING) - (text[offset] in _CLOSING)
        if depth > MOST_NESTED:
            raise TracekitError(f"SQL: the statement nests more than {MOST_NESTED} brackets")


def _used(parsed: str) -> tuple[set[str], set[str]]:
    """The functions and types that a statement uses, in lower case, from DuckDB's JSON of its
    syntax tree. An operator called as a function is quoted."""
    functions: set[str] = set()
    types: set[str] = set()

    def visit(node: dict[str, Any]) -> None:
        if node.get("error") is True:
            raise TracekitError(f"SQL: {node.get('error_message')}")
        kind = str(node.get("type"))
        if kind.endswith("_NODE") and kind not in _READING_NODES:
            raise _refused()
        if "function_name" in node:
            name = node["function_name"].lower()
            is_call = not node.get("is_operator") and not name[:1].isalpha()
            functions.add(f'"{name}"' if is_call else name)
        if "type_name" in node:
            types.add(node["type_name"].lower())

    try:
        json.loads(parsed, object_hook=visit)
    except RecursionError as error:
        raise TracekitError("SQL: the statement joins or nests too much") from error
    return functions, types


def _names(cursor: duckdb.DuckDBPyConnection, names: str) -> set[str]:
    """The names outside DuckDB's own: tracekit's catalog, which was checked when opening."""
    rows = cursor.execute(f"SELECT DISTINCT {names} WHERE NOT internal").fetchall()
    return {row[0].lower() for row in rows}


def _not_allowed(name: str, known: Iterable[str], called: str) -> TracekitError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, 0.8)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return TracekitError(
        f"the database is read-only: the {called} {name} is not allowed{hint}: only those in "
        "tracekit/database/allowed.toml are enabled"
    )


def _kind(query: str) -> duckdb.StatementType | None:
    """The kind of a single statement; None: not exactly one statement, or a kind without a name in
    Python (UPDATE EXTENSIONS)."""
    statements = duckdb.extract_statements(query)
    with suppress(ValueError):
        return statements[0].type if len(statements) == 1 else None
    return None


def _explained(query: str) -> str:
    """The statement inside an EXPLAIN: the longest suffix that DuckDB can parse."""
    text = query.encode()
    for offset, _ in duckdb.tokenize(query)[1:_MOST_EXPLAINING]:
        with suppress(duckdb.Error, UnicodeDecodeError):
            ending = text[offset:].decode()
            if duckdb.extract_statements(ending):
                return ending
    raise _refused()


def _refused() -> TracekitError:
    return TracekitError("the database is read-only: give one SELECT statement")
