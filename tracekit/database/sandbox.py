"""The sandbox for SQL from users: it may read the database and do nothing else.

There are two lines of defence: the connection's configuration, which is locked before anything in a
file is read, and DuckDB's own parser, which says what a statement would do.
https://duckdb.org/docs/current/operations_manual/securing_duckdb/overview
"""

from __future__ import annotations

import re
from contextlib import suppress

import duckdb

from tracekit.errors import TracekitError

Config = dict[str, str | bool | int | float | list[str]]

# What queries may put on disk by default, where they may spill.
SPILL_MB = 10_000

# Settings that tracekit itself changes after locking. SQL from users cannot SET anything.
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
_NODE = re.compile(r'"type":"(\w+_NODE)"')
_FUNCTION = re.compile(r'"function_name":"([^"]*)"')
_TYPE = re.compile(r'"type_name":"([^"]*)"')

# Functions that run SQL from their arguments, which has not been checked.
_RUN_SQL = {"query", "json_execute_serialized_sql"}
# Functions that change DuckDB's state.
_CHANGE_STATE = {
    "checkpoint",
    "force_checkpoint",
    "enable_logging",
    "disable_logging",
    "truncate_duckdb_logs",
    "write_log",
    "enable_profiling",
    "disable_profiling",
    "create_external_resource",
    "destroy_external_resource",
    "register_external_resource",
    "deregister_external_resource",
    "register_external_resource_type",
    "nextval",
    "setval",
}
# Functions that read memory addresses instead of tables.
_READ_ADDRESSES = {
    "arrow_scan",
    "arrow_scan_dumb",
    "pandas_scan",
    "python_arrow_scan",
    "python_map_function",
    "seq_scan",
}
REFUSED_FUNCTIONS = _RUN_SQL | _CHANGE_STATE | _READ_ADDRESSES
# DuckDB 2.0.0 overflows its stack on values nested some 20,000 deep, and takes the process with it.
_CRASHING = re.compile(r"json_contains|variant_\w+", re.IGNORECASE)


def reading(settings: Config) -> Config:
    """`settings` plus those that restrict a connection to reading the file it opens.

    They are passed when the file is opened, so that they hold before anything in it runs.
    """
    # The order matters: DuckDB sets the last one first, and `temp_directory` has to be set before
    # the connection is locked.
    return _CLOSED | settings


def close_to_the_outside(connection: duckdb.DuckDBPyConnection) -> None:
    """Restricts an open connection: it can only use the data that it holds."""
    for name, value in _CLOSED.items():
        connection.execute(f"SET {name} = {value}")


def forbid_files(connection: duckdb.DuckDBPyConnection) -> None:
    """Keeps queries from opening any file, to read, write or spill. Open files stay open.

    Without this, DuckDB still lets a query write to the path of the database itself.
    """
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")


def limit_spilling(connection: duckdb.DuckDBPyConnection, spill_mb: int) -> None:
    """Limits what queries put on disk. DuckDB accepts this only on an open connection."""
    connection.execute(f"SET max_temp_directory_size = '{spill_mb}MB'")


def require_select(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Checks with DuckDB's parser that `query` only reads.

    Raises:
        TracekitError: when `query` is not one SELECT (or an EXPLAIN of one), or uses a refused
            function or type.
        duckdb.Error: when `query` is not SQL.
    """
    kind = _kind(query)
    if kind == duckdb.StatementType.EXPLAIN:
        query = _explained(query)
        kind = _kind(query)
    if kind != duckdb.StatementType.SELECT:
        raise _refused()
    asked = "SELECT system.main.json_serialize_sql($query)"
    with connection.cursor() as cursor:
        parsed: str = cursor.execute(asked, {"query": query}).fetchall()[0][0]
    if not parsed.startswith('{"error":false') or set(_NODE.findall(parsed)) - _READING_NODES:
        raise _refused()
    for name in _FUNCTION.findall(parsed):
        if name.lower() in REFUSED_FUNCTIONS:
            raise TracekitError(f"the database is read-only: {name}() does more than read")
        if _CRASHING.fullmatch(name):
            raise TracekitError(f"SQL: {name}() is refused: DuckDB crashes on deeply nested values")
    if any(name.upper() == "VARIANT" for name in _TYPE.findall(parsed)):
        raise TracekitError(
            "SQL: casts to VARIANT are refused: DuckDB crashes on deeply nested values"
        )


def _kind(query: str) -> duckdb.StatementType | None:
    """The kind of a single statement; None for several statements, for none, and for a kind that
    Python has no name for (UPDATE EXTENSIONS)."""
    statements = duckdb.extract_statements(query)
    with suppress(ValueError):
        return statements[0].type if len(statements) == 1 else None
    return None


def _explained(query: str) -> str:
    """The statement that an EXPLAIN explains: the longest suffix that DuckDB can parse."""
    text = query.encode()
    for offset, _ in duckdb.tokenize(query)[1:]:
        with suppress(duckdb.Error, UnicodeDecodeError):
            ending = text[offset:].decode()
            if duckdb.extract_statements(ending):
                return ending
    raise _refused()


def _refused() -> TracekitError:
    return TracekitError("the database is read-only: give one SELECT statement")
