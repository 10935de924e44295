"""A trace database: open it, ask it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import duckdb

from tracekit import catalog
from tracekit.catalog import Value
from tracekit.connection import connect_reading, is_database
from tracekit.errors import TracekitError
from tracekit.frames import frame_of
from tracekit.interrupting import interruptible, work_is_left_behind
from tracekit.sandbox import Config, require_select

if TYPE_CHECKING:
    import numpy
    import polars

    from tracekit.analysis import Analysis
    from tracekit.diff import Diff
    from tracekit.replay.whatif import WhatIf
    from tracekit.thresholds import Thresholds

T = TypeVar("T")

# Held while queries are counted, or memory is given back.
_COUNTING = threading.Lock()
# What DuckDB is held to for a moment, to make it give back what it does not use.
_LEAST_MEMORY = "16MB"
# Above this many events, giving memory back is worth its millisecond.
_MANY_EVENTS = 500_000
# How much may be spilled where memory is limited and nothing else is said.
SPILL_MB = 10_000


class Database:
    """Traces as tables and views; read-only once made.

    What a query cannot do: write, read files, reach the network, or change these rules. Make one
    with `load` or `open_database`; use it as a context manager or `close` it.
    """

    # Queries that run in this process, of all databases: a file may be open twice.
    _running: ClassVar[int] = 0

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        # A query that could not be stopped still uses it.
        if not work_is_left_behind():
            self._connection.close()

    # -- asking ------------------------------------------------------------------------------------

    def sql(self, query: str, *, timeout_s: float | None = None) -> polars.DataFrame:
        """The rows of one SELECT over the tables and views.

        Raises:
            TracekitError: when the SQL is wrong, does more than read, or takes longer than
                `timeout_s`.
        """
        self.require_select(query)
        return self.frame(query, {}, timeout_s=timeout_s)

    def require_select(self, query: str) -> None:
        """Refuses SQL from outside that does more than read.

        Raises:
            TracekitError: when it is not one SELECT, or an EXPLAIN of one.
        """
        try:
            require_select(self._connection, query)
        except duckdb.Error as error:
            raise _sql_error(error) from error

    def query(self, name: str, **parameters: Value) -> polars.DataFrame:
        """The answer of the named question (`tracekit query --list` shows all).

        Raises:
            TracekitError: when there is no such question or parameter.
        """
        question = catalog.query(name)
        return self.frame(question.sql, question.checked(parameters))

    def __getattr__(self, name: str) -> Callable[..., polars.DataFrame]:
        """Every named question as a method: `run.top_kernels(top=5)`."""
        try:
            question = catalog.query(name)
        except TracekitError:
            raise AttributeError(
                f"a Database has no {name!r}, and no query has that name"
            ) from None

        def answer(**parameters: Value) -> polars.DataFrame:
            return self.query(name, **parameters)

        answer.__name__ = name
        answer.__doc__ = question.description
        return answer

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *catalog.queries()])

    def ask(self, name: str, **parameters: Value) -> list[dict[str, Any]]:
        """What `query` returns, as a list of rows: for small answers, without Polars."""
        question = catalog.query(name)
        columns, rows = self.fetch(question.sql, question.checked(parameters))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def doubts(self, name: str, trace: int | None = None) -> list[dict[str, Any]]:
        """What touches the answer of the named question: rows of `health`, and of `missing`.

        Where a question has no answer, they say why.
        """
        codes = catalog.query(name).doubts
        absent = [{"severity": "missing"} | row for row in self.ask("missing", trace=trace)]
        found = self.ask("health", trace=trace) + absent
        # What is missing or wrong in the file touches every answer.
        return [row for row in found if row["code"] in codes or row["severity"] == "error"]

    def fetch(
        self, query: str, variables: Mapping[str, Value] | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT that may read `variables`."""

        def rows(cursor: duckdb.DuckDBPyConnection) -> tuple[list[str], list[tuple[Any, ...]]]:
            answer = cursor.execute(query)
            return [column[0] for column in answer.description or ()], answer.fetchall()

        return self._read(rows, variables or {})

    def arrays(
        self, name: str, columns: Sequence[str] = (), **parameters: Value
    ) -> dict[str, numpy.ndarray]:
        """What `query` returns as NumPy arrays, all columns or some, for large answers.

        Causes come as their numbers.
        """
        question = catalog.query(name)
        wanted = ", ".join(
            "cause_number(cause) AS cause" if column == "cause" else column
            for column in columns or [column.name for column in question.columns]
        )
        sql = f"SELECT {wanted} FROM ({question.sql})"
        found = self._read(
            lambda cursor: cursor.execute(sql).fetchnumpy(), question.checked(parameters)
        )
        self.give_back_memory()
        return found

    def give_back_memory(self) -> None:
        """Has DuckDB return memory, where traces are large: what it has freed, and pages that the
        file has.

        It does so when its limit is set. No query may run then: it would find none left.
        """
        if not self._is_large:
            return
        with _COUNTING:
            if Database._running:
                return
            limit, in_memory = self._connection.execute(
                "SELECT system.main.current_setting('memory_limit'), bool_or(path IS NULL)"
                " FROM duckdb_databases() WHERE NOT internal"
            ).fetchall()[0]
            if not in_memory:
                # What is in use goes into it, or it says no.
                with suppress(duckdb.Error):
                    self._connection.execute(f"SET memory_limit = '{_LEAST_MEMORY}'")
            self._connection.execute(f"SET memory_limit = '{limit}'")

    @cached_property
    def _is_large(self) -> bool:
        rows = self.fetch("SELECT coalesce(sum(events), 0) FROM trace")[1]
        return bool(rows[0][0] > _MANY_EVENTS)

    def batches(
        self, query: str, variables: Mapping[str, Value], size: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of one SELECT, `size` at a time."""
        with self._reading(variables) as cursor:
            answer = interruptible(lambda: cursor.execute(query), cursor.interrupt)
            while rows := interruptible(lambda: answer.fetchmany(size), cursor.interrupt):
                yield rows

    def stream(
        self,
        query: str,
        variables: Mapping[str, Value],
        take: Callable[[duckdb.DuckDBPyRelation], T],
        timeout_s: float | None = None,
    ) -> T:
        """What `take` makes of one SELECT, given as a relation of which nothing has been computed.

        Raises:
            TracekitError: when the SQL is wrong, or takes longer than `timeout_s`.
        """
        return self._read(lambda cursor: take(cursor.sql(query)), variables, timeout_s)

    def trace_ids(self) -> list[int]:
        """The loaded traces' trace_ids, in order."""
        _, rows = self.fetch("SELECT trace_id FROM trace ORDER BY trace_id")
        return [row[0] for row in rows]

    def traces(self) -> list[dict[str, Any]]:
        """The loaded traces, as `query("overview")` describes them."""
        return self.ask("overview")

    def verdict(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Analysis:
        """What bounds this run, because of what, and what fixing it would save.

        Raises:
            TracekitError: when there are several traces and `trace` does not choose one.
        """
        from tracekit.gathering import gather

        return gather(self, self._one(trace), window, thresholds)[0]

    def whatif(
        self,
        *changes: str,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> WhatIf:
        """How long the run would have taken with changes such as "host*0.5" or "cuda-graph": what
        `tracekit.replay.whatif.what_if` says.

        Raises:
            TracekitError: when one is no change or names nothing in the trace, or when there are
                several traces and `trace` does not choose one.
        """
        from tracekit.replay.whatif import what_if

        return what_if(self, changes, self._one(trace), window, thresholds)

    def _one(self, trace: int | None) -> int:
        """The trace_id meant."""
        known = self.trace_ids()
        if trace is None and len(known) == 1:
            return known[0]
        ids = ", ".join(map(str, known))
        if trace is None:
            raise TracekitError(f"{self.name}: choose a trace by its trace_id: {ids}")
        if trace not in known:
            raise TracekitError(f"{self.name}: has no trace {trace}; its traces are {ids}")
        return trace

    def diff(self, a: int = 1, b: int = 2, top: int = 20) -> Diff:
        """Run b against run a, by their trace_ids: what `tracekit.diff.diff` says.

        Raises:
            TracekitError: when one of them is not there.
        """
        from tracekit.diff import diff

        return diff(self, a, b, top)

    def export(self, output: str | Path, trace: int | None = None) -> int:
        """Writes a trace as Kineto JSON again, as `tracekit.export` says; returns its events."""
        from tracekit.export import export

        return export(self, output, trace)

    def frame(
        self, query: str, variables: Mapping[str, Value], *, timeout_s: float | None = None
    ) -> polars.DataFrame:
        """The rows of one SELECT that may read `variables`."""
        return self.stream(query, variables, frame_of, timeout_s)

    def _read(
        self,
        take: Callable[[duckdb.DuckDBPyConnection], T],
        variables: Mapping[str, Value],
        timeout_s: float | None = None,
    ) -> T:
        with self._reading(variables) as cursor:
            return interruptible(lambda: take(cursor), cursor.interrupt, timeout_s)

    @contextmanager
    def _reading(self, variables: Mapping[str, Value]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor in a transaction that cannot write, for one SELECT that may use `variables`."""
        cursor = self._connection.cursor()
        with _COUNTING:
            Database._running += 1
        try:
            for name, value in variables.items():
                cursor.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            yield cursor
        except duckdb.OutOfMemoryException as error:
            raise TracekitError(
                "SQL: it takes more memory than is allowed: allow more (--memory-mb), or let it "
                "spill to disk (--spill-mb)"
            ) from error
        except duckdb.Error as error:
            raise _sql_error(error) from error
        finally:
            if not work_is_left_behind():
                cursor.close()
            with _COUNTING:
                Database._running -= 1


def _sql_error(error: duckdb.Error) -> TracekitError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^\n")]
    return TracekitError("SQL: " + " | ".join(lines))


def open_database(
    path: str | Path, limit_mb: int | None = None, spill_mb: int | None = None
) -> Database:
    """Opens a database that `load` wrote, read-only.

    DuckDB is held to `limit_mb` of memory, if given, and takes what it needs of the machine's
    otherwise. It spills up to `spill_mb` to disk: by default, 10,000 where memory is limited, and
    nothing where it is not. A query that may not spill cannot open any file either.

    Raises:
        TracekitError: when it is none, or holds what this version would not have written.
    """
    if not is_database(path):
        what = "is no tracekit database" if Path(path).exists() else "no such file"
        raise TracekitError(f"{path}: {what}")
    if spill_mb is None:
        spill_mb = 0 if limit_mb is None else SPILL_MB
    config: Config = {} if limit_mb is None else {"memory_limit": f"{limit_mb}MB"}
    return Database(connect_reading(path, config, path, spill_mb), str(path))
