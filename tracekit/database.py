"""A trace database: open it, ask it."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb

from tracekit import catalog
from tracekit.catalog import Value
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy
    import polars

    from tracekit.analysis import Analysis
    from tracekit.diff import Diff
    from tracekit.replay.whatif import WhatIf
    from tracekit.thresholds import Thresholds

Config = dict[str, str | bool | int | float | list[str]]
# Held while a connection's configuration is being locked: two may share one.
_LOCKING = threading.Lock()
_DUCKDB_MAGIC = b"DUCK"
# What DuckDB is held to for a moment, to make it give back what it does not use.
_LEAST_MEMORY = "16MB"
# Of so many events on, it is worth the millisecond that takes.
_MANY_EVENTS = 500_000
_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


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
        # A query from outside may come from anyone: https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
        with _LOCKING:
            if connection.execute("SELECT NOT current_setting('lock_configuration')").fetchall()[0][
                0
            ]:
                connection.execute("SET enable_external_access = false")
                connection.execute("SET allowed_configs = ['memory_limit']")
                connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # -- asking ------------------------------------------------------------------------------------

    def sql(self, query: str) -> polars.DataFrame:
        """The rows of one SELECT over the tables and views.

        Raises:
            TracekitError: when the SQL is wrong, or does more than read.
        """
        return self.frame(query, {})

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
        with self._reading(query, variables or {}) as cursor:
            answer = cursor.execute(query)
            return [column[0] for column in answer.description or ()], answer.fetchall()

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
        with self._reading(sql, question.checked(parameters)) as cursor:
            found = cursor.execute(sql).fetchnumpy()
        self.give_back_memory()
        return found

    def give_back_memory(self) -> None:
        """Has DuckDB return memory, where traces are large: what it has freed, and pages that the
        file has.

        It does so when its limit is set. No query may run then: it would find none left.
        """
        if not self._is_large:
            return
        with _LOCKING:
            if Database._running:
                return
            limit, in_memory = self._connection.execute(
                "SELECT current_setting('memory_limit'), bool_or(path IS NULL)"
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
        with self._reading(query, variables) as cursor:
            answer = cursor.execute(query)
            while rows := answer.fetchmany(size):
                yield rows

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

    def frame(self, query: str, variables: Mapping[str, Value]) -> polars.DataFrame:
        """The rows of one SELECT that may read `variables`."""
        import polars

        with self._reading(query, variables) as cursor:
            relation = cursor.sql(query)
            _check_types(relation)
            stream = _ArrowStream(relation.__arrow_c_stream__())
            try:
                shared = polars.DataFrame(stream)
            except polars.exceptions.PolarsError as error:
                reason = str(error).splitlines()[0]
                raise TracekitError(f"a frame cannot hold this result: {reason}") from error
        # Copied out of DuckDB's buffers: a frame that still holds some when the interpreter ends
        # makes DuckDB report leaks on standard error.
        copy = io.BytesIO()
        shared.write_ipc(copy, compat_level=polars.CompatLevel.newest())
        copy.seek(0)
        return polars.read_ipc(copy)

    @contextmanager
    def _reading(
        self, query: str, variables: Mapping[str, Value]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor in a transaction that cannot write, for one SELECT that may use `variables`."""
        cursor = self._connection.cursor()
        with _LOCKING:
            Database._running += 1
        try:
            statements = duckdb.extract_statements(query)
            if len(statements) != 1 or statements[0].type not in _READING:
                raise TracekitError("the database is read-only: give one SELECT statement")
            for name, value in variables.items():
                cursor.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
            # The statement's type alone does not tell: a SELECT may hold an INSERT ... RETURNING.
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            yield cursor
        except duckdb.Error as error:
            raise _sql_error(error) from error
        finally:
            cursor.close()
            with _LOCKING:
                Database._running -= 1


class _ArrowStream:
    """An Arrow stream that Polars takes as such, and not as DuckDB's own type."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def _check_types(relation: duckdb.DuckDBPyRelation) -> None:
    """Refuses what Polars has no type for: it would abort on it."""
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if re.search(r"INTERVAL|UNION|\bBIT\b|BIGNUM|VARIANT", str(kind)):
            raise TracekitError(f"a frame has no type for {kind}: cast the column {name!r}")


def _sql_error(error: duckdb.Error) -> TracekitError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^\n")]
    return TracekitError("SQL: " + " | ".join(lines))


def is_database(path: str | Path) -> bool:
    """Whether this is a DuckDB file, by its first bytes."""
    try:
        # What is no file, a pipe say, can be read only once.
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(12)[8:] == _DUCKDB_MAGIC
    except OSError:
        return False


def spill_directory(path: str | Path, folder: str | Path | None = None) -> str:
    """Where DuckDB spills to: it makes and removes it, by default where the user happens to be.

    One of its own for each database of a process, and the same one should it be opened twice.
    """
    name = hashlib.sha256(str(Path(path).resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return str(Path(folder or tempfile.gettempdir()) / f"tracekit-{os.getpid()}-{name[:16]}")


def connect(
    path: str | Path, config: Config, name: str | Path, *, read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection to the DuckDB file `path`, which messages call `name`."""
    # Where DuckDB expects few rows it joins by time in nested loops: where it expects wrong, these
    # take minutes.
    always: Config = {"asof_loop_join_threshold": 0}
    try:
        return duckdb.connect(str(path), read_only=read_only, config=config | always)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise TracekitError(f"{name}: cannot be opened as a tracekit database: {reason}") from error


def open_database(path: str | Path, limit_mb: int | None = None) -> Database:
    """Opens a database that `load` wrote, read-only.

    DuckDB is held to `limit_mb`, if given, and takes what it needs of the machine's memory
    otherwise.

    Raises:
        TracekitError: when it is none.
    """
    if not is_database(path):
        what = "is no tracekit database" if Path(path).exists() else "no such file"
        raise TracekitError(f"{path}: {what}")
    config: Config = {"temp_directory": spill_directory(path)}
    if limit_mb is not None:
        config["memory_limit"] = f"{limit_mb}MB"
    connection = connect(path, config, path, read_only=True)
    try:
        connection.execute("SELECT 1 FROM trace, gpu_timeline LIMIT 0")
        is_marked = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'tracekit'"
        made = connection.execute(is_marked).fetchall()
        if made == [(1,)]:
            made = connection.execute("SELECT format FROM tracekit").fetchall()
    except duckdb.Error as error:
        connection.close()
        reason = str(error).splitlines()[0]
        raise TracekitError(f"{path}: cannot be opened as a tracekit database: {reason}") from error
    if made != [(catalog.FORMAT,)]:
        connection.close()
        raise TracekitError(f"{path}: another version of tracekit made it: load its traces again")
    return Database(connection, str(path))
