"""Runs SELECTs on a connection, each in a read-only transaction."""

from __future__ import annotations

import mmap
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, TypeVar

import duckdb

from tracekit.database import catalog
from tracekit.database.catalog import Query, Value
from tracekit.database.interrupt import interruptible, work_is_left_running
from tracekit.database.sandbox import require_select
from tracekit.errors import TracekitError, file_trouble

T = TypeVar("T")

NEEDS_MEMORY = (
    "SQL: the query needs more memory than is allowed: allow more (--memory-mb), or let it spill "
    "to disk (--spill-mb)"
)
# Guards the count of running queries; held while DuckDB releases memory.
_COUNTING = threading.Lock()
# The sizes of this process in pages: all, and resident (proc(5)).
_STATM = Path("/proc/self/statm")
_NO_TABLE = re.compile(r"Table with name (\w+) does not exist")
# Set temporarily as DuckDB's limit, to make it release unused memory.
_LEAST_MEMORY = ("16MB", "128MB")
# DuckDB keeps up to this much, so that later queries need not read the file again.
_KEPT_BYTES = 200 << 20


class _NeedsMemoryError(TracekitError):
    """A query needs more memory than is allowed."""


class Selects:
    """SELECTs on one connection; `name()` is the database's name in messages.

    The statement `first()` runs before each SELECT. `add_names` creates missing views and macros
    that the SQL mentions. `more_memory` is called when a SELECT runs out of memory; True means that
    it may retry with more.
    """

    # The number of running queries on all databases of this process, since a file may be open
    # twice.
    _running: ClassVar[int] = 0

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: Callable[[], str],
        first: Callable[[], str | None],
        add_names: Callable[[str], object] | None,
        more_memory: Callable[[], bool] | None,
    ) -> None:
        self._connection, self._name, self._process = connection, name, os.getpid()
        self._first = first
        self._more_memory = more_memory or bool
        self._add_names = add_names or str
        # The statements that create the questions that a user's SQL calls, by that SQL.
        self._called: dict[str, list[str]] = {}
        self._resident_bytes = 0
        """The process's memory after DuckDB last returned some."""

    def run(
        self,
        sql: str,
        take: Callable[[duckdb.DuckDBPyConnection], T],
        variables: Mapping[str, Value],
        timeout_s: float | None = None,
    ) -> T:
        """The result of `take`, which runs the SELECT on a cursor.

        Raises:
            TracekitError: when the SQL is wrong, needs more memory than is allowed, or takes longer
                than `timeout_s`.
        """
        while True:
            try:
                with self.cursor(sql, variables) as cursor:
                    return interruptible(lambda: take(cursor), cursor.interrupt, timeout_s)
            except _NeedsMemoryError:
                if not self._more_memory():
                    raise

    @contextmanager
    def cursor(
        self, sql: str, variables: Mapping[str, Value]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor in a read-only transaction, for one SELECT that may use `variables`."""
        self.require_process()
        self._add_names(sql)
        with _COUNTING:
            Selects._running += 1
        try:
            cursor = self._connection.cursor()
            try:
                if (first := self._first()) is not None:
                    cursor.execute(first)
                for statement in self._called.get(sql, ()):
                    cursor.execute(statement)
                for name, value in variables.items():
                    cursor.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield cursor
            finally:
                if not work_is_left_running():
                    cursor.close()
        except duckdb.OutOfMemoryException as error:
            raise _NeedsMemoryError(NEEDS_MEMORY) from error
        except duckdb.Error as error:
            raise self._error(error) from error
        finally:
            with _COUNTING:
                Selects._running -= 1

    def require_select(self, query: str) -> None:
        """Checks that a user's SQL only reads.

        Raises:
            TracekitError: when it is not one SELECT, or an EXPLAIN of one.
        """
        self.require_process()
        # Its macros are allowed.
        self._add_names(query)
        called = catalog.called(query)
        try:
            require_select(self._connection, query, {each.name for each in called})
            if called:
                self._called[query] = [self._callable(each) for each in called]
        except duckdb.Error as error:
            raise self._error(error) from error

    def _callable(self, question: Query) -> str:
        """The statement that makes a question a table function without arguments; its parameters
        are variables."""
        if question.plugin is not None:
            self.require_select(question.sql)
        self._add_names(question.sql)
        return question.as_function

    @contextmanager
    def checked(self, question: Query) -> Iterator[None]:
        """Checks a plugin's question like a user's SQL, and names it in errors from the block.

        Raises:
            TracekitError: when it is not one SELECT.
        """
        if question.plugin is None:
            yield
            return
        try:
            self.require_select(question.sql)
            yield
        except TracekitError as error:
            named = f"{question.name} of plugin {question.plugin.name}"
            raise TracekitError(f"{named}: {error}") from error

    def give_back_memory(self) -> None:
        """Makes DuckDB return freed memory and cached pages to the system, if the process has
        grown much since the last time.

        DuckDB does that when its memory limit is set. This is skipped while a query runs, since the
        query would run out of memory.
        """
        resident = _resident_bytes()
        if resident is not None and resident - self._resident_bytes < _KEPT_BYTES:
            return
        self.require_process()
        with _COUNTING:
            if Selects._running:
                return
            limit, in_memory = self._connection.execute(
                "SELECT system.main.current_setting('memory_limit'), bool_or(path IS NULL)"
                " FROM duckdb_databases()"
                " WHERE NOT internal"
            ).fetchall()[0]
            if not in_memory:
                # DuckDB refuses the limit if the memory in use does not fit.
                for least in _LEAST_MEMORY:
                    with suppress(duckdb.Error):
                        self._connection.execute(f"SET memory_limit = '{least}'")
                        break
            self._connection.execute(f"SET memory_limit = '{limit}'")
        self._resident_bytes = _resident_bytes() or 0

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the connection."""
        return os.getpid() == self._process

    def require_process(self) -> None:
        """Raises TracekitError in a forked child: DuckDB's threads exist only in the parent, so a
        query would wait for them forever."""
        if not self.is_mine:
            raise TracekitError(
                f"{self._name()}: was opened before this process was forked: "
                "open it here, or start processes with multiprocessing's `spawn`"
            )

    def _error(self, error: duckdb.Error) -> TracekitError:
        if trouble := file_trouble(error):
            return TracekitError(f"{self._name()}: {trouble}")
        return _sql_error(error)


def _resident_bytes() -> int | None:
    """The process's memory; None: not on Linux."""
    try:
        return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return None


def _sql_error(error: duckdb.Error) -> TracekitError:
    if "Connection already closed" in str(error):
        return TracekitError("the database is closed: load or open it again")
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^\n")]
    if isinstance(error, duckdb.InternalException | duckdb.FatalException):
        # The rest is a DuckDB stack trace.
        lines = lines[:1]
    missing = _NO_TABLE.search(str(error))
    if missing and catalog.is_query(missing[1]):
        name = missing[1]
        return TracekitError(
            f"SQL: {name} is a question: FROM {name}(), or tracekit query TRACE {name}"
        )
    return TracekitError("SQL: " + " | ".join(lines))
