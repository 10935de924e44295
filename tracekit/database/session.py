"""Read-only access to a trace database: named queries, SQL, rows, arrays and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import duckdb
from msgspec.structs import replace

from tracekit.database import catalog, constants, stored
from tracekit.database.catalog import Query, Value
from tracekit.database.interrupt import interruptible, work_is_left_running
from tracekit.database.selects import Selects
from tracekit.database.shared import ARRAYS, DICTS, FRAME, Form, Shared, fetched, grouped
from tracekit.errors import TracekitError
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    import numpy
    import polars

T = TypeVar("T")

# Above this many events in one trace, or in all traces, saving memory is worth some time. Answers
# about all traces at once take about 1 kB per event.
_MANY_EVENTS = 500_000
_MANY_TOGETHER = 2_000_000


class Session:
    """Traces as tables and views, and the named queries over them.

    A query cannot write, read files, reach the network, or change these rules. Use it as a context
    manager or `close` it.
    """

    is_stored = False
    """Whether this is a database in a file."""
    is_untrusted = False
    """Whether its rows come from files, which others may have changed."""
    is_joined = False
    """Whether its traces were given one by one, so that no single path names them all."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        inputs: Sequence[str | Path] = (),
        add_names: Callable[[str], object] | None = None,
        more_memory: Callable[[], bool] | None = None,
    ) -> None:
        """`add_names` and `more_memory` are as in `Selects`."""
        self._connection = connection
        self._selects = Selects(
            connection, lambda: self.name, self._before_each, add_names, more_memory
        )
        self.name = name
        self.notes: Sequence[str] = ()
        """Notes for the user on missing data."""
        self._inputs = inputs
        self._shared: Shared | None = None
        self.thresholds = Thresholds()
        """The thresholds that questions, replays and rules use; `judging` changes them."""
        # The queries whose conditions hold, by the statement that sets the thresholds.
        self._possible: dict[str, set[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()
        if self.is_untrusted and error is not None:
            stored.blame_rows(self.name, error, where)

    def close(self) -> None:
        # A query that could not be stopped still uses the connection; after a fork, so does the
        # parent process.
        if not work_is_left_running() and self._selects.is_mine:
            self._connection.close()

    @property
    def inputs(self) -> Iterable[str | Path]:
        """The files that were read, which outputs must not replace; - is standard input."""
        return self._inputs

    def sql(self, query: str, *, timeout_s: float | None = None) -> polars.DataFrame:
        """The rows of one SELECT over the tables and views, as a Polars frame.

        Raises:
            TracekitError: when the SQL is wrong, does more than read, or takes longer than
                `timeout_s`.
        """
        from tracekit.database.frames import frame_of

        self.require_select(query)
        return self.stream(query, {}, frame_of, timeout_s)

    def query(self, name: str, **parameters: Value) -> polars.DataFrame:
        """The rows of the named query (`tracekit query --list` shows all), as a Polars frame.

        Raises:
            TracekitError: when there is no such query or parameter.
        """
        question = catalog.query(name)
        return self._answer(question, question.check_parameters(parameters), FRAME)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection to the tables and views, for tools that need one, such as marimo's
        SQL cells. It is read-only and cannot open other files; its queries have no timeout.

        Raises:
            TracekitError: when the database is in memory, where a connection could also write.
        """
        self._selects.require_process()
        cursor = self._connection.cursor()
        is_read_only = "SELECT readonly FROM duckdb_databases() WHERE NOT internal"
        if not all(row[0] for row in cursor.execute(is_read_only).fetchall()):
            cursor.close()
            raise TracekitError(
                f"{self.name}: a connection needs a database in a file: load(TRACE, DATABASE)"
            )
        return cursor

    def traces(self) -> list[dict[str, Any]]:
        """One row for each loaded trace: the rows of the query `overview`."""
        return self.ask("overview")

    def only(self, trace: int | None) -> int:
        """The trace_id that `trace` chooses; with None, the only trace's.

        Raises:
            TracekitError: when there are several traces and `trace` is None, or no such trace.
        """
        trace_ids = self.trace_ids()
        if trace is None and len(trace_ids) == 1:
            return trace_ids[0]
        ids = ", ".join(map(str, trace_ids))
        if trace is None:
            raise TracekitError(f"{self.name}: choose a trace by its trace_id (--trace-id): {ids}")
        if trace not in trace_ids and not (
            isinstance(trace, int) and self.fetch(f"FROM trace WHERE trace_id = {trace:d}")[1]
        ):
            raise TracekitError(f"{self.name}: has no trace {trace}; its traces are {ids}")
        return trace

    def chosen(self, trace: int | None, rank: int | None) -> int | None:
        """The trace_id that a trace_id or a rank chooses; with neither, None.

        Raises:
            TracekitError: when both are given, or when not exactly one trace has the rank.
        """
        if rank is None:
            return trace
        if trace is not None:
            raise TracekitError("choose a trace by its trace_id or by its rank, not by both")
        found = self.of_rank(rank)
        if len(found) == 1:
            return found[0]
        ids = ", ".join(map(str, found))
        raise TracekitError(
            f"{self.name}: several traces have rank {rank}: choose one by its trace_id "
            f"(--trace-id): {ids}"
        )

    def of_rank(self, rank: int) -> list[int]:
        """The trace_ids of the traces of a rank.

        Raises:
            TracekitError: when there is none.
        """
        rows = self.fetch("SELECT trace_id, rank FROM trace ORDER BY rank, trace_id")[1]
        if found := [int(each) for each, its_rank in rows if its_rank == rank]:
            return found
        ranks = ", ".join(dict.fromkeys(str(each) for _, each in rows if each is not None))
        raise TracekitError(f"{self.name}: has no rank {rank}; its ranks are {ranks or 'unknown'}")

    def ask(self, name: str, **parameters: Value) -> list[dict[str, Any]]:
        """The rows of the named query as dictionaries: for small results, without Polars.

        Raises:
            TracekitError: for an unknown query or parameter.
        """
        question = catalog.query(name)
        checked = question.check_parameters(parameters)
        return self._answer(question, checked, DICTS) if self.is_possible(question.name) else []

    def _answer(self, question: Query, given: Mapping[str, Value], as_: Form[T]) -> T:
        """The answer to a question with checked parameters; shared if answers are being shared."""
        if self._shared is None:
            return self._asked(question, given, as_)
        return self._shared.answer(question, given, as_, self._asked)

    def _asked(self, question: Query, given: Mapping[str, Value], as_: Form[T]) -> T:
        if as_.is_for_people:
            given = self.for_main_trace(question, given)
        own = (self.shown_sql if as_.is_for_people else self.sql_of)(question, given)
        sql = as_.sql(self._with_thresholds(own))
        with self.checked(question):
            return self._selects.run(sql, lambda cursor: as_.take(cursor, sql), given)

    def sql_of(self, question: Query, given: Mapping[str, Value]) -> str:
        """The SQL that answers a named question with these parameters: the question's own SQL,
        unless its answer is stored."""
        return question.sql

    def shown_sql(self, question: Query, given: Mapping[str, Value]) -> str:
        """The SQL for showing to people: with several runs, it also returns the run."""
        return self.sql_of(question, given)

    def for_main_trace(self, question: Query, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """The checked parameters of a question. If they do not choose a trace, and all traces but
        one were loaded only to describe it, the question is about that one."""
        checked = question.check_parameters(parameters)
        if "trace" in checked or all(
            parameter.name != "trace" for parameter in question.parameters
        ):
            return checked
        trace_ids = self.trace_ids()
        has_others = len(trace_ids) == 1 < self.fetch("SELECT count(*) FROM trace")[1][0][0]
        return {"trace": trace_ids[0]} | checked if has_others else checked

    def findings(self, trace: int | None = None) -> list[dict[str, Any]]:
        """Doubts about one trace_id or all, and data that was not recorded (severity `missing`):
        rows of the queries `health` and `missing`."""
        absent = [{"severity": "missing"} | row for row in self.ask("missing", trace=trace)]
        return self.ask("health", trace=trace) + absent

    def doubts(
        self, name: str, trace: int | None = None, findings: Sequence[dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Findings that make the named query's result doubtful or explain why it is empty. They are
        chosen from `findings`, by default those of one trace_id or all."""
        codes = catalog.query(name).doubts
        listed = self.findings(trace) if findings is None else findings
        # Errors in the file affect every query.
        return [row for row in listed if row["code"] in codes or row["severity"] == "error"]

    def fetch(
        self, query: str, variables: Mapping[str, Value] | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT, which may read `variables`.

        Raises:
            TracekitError: when the SQL is wrong or needs more memory than is allowed.
        """
        return self._selects.run(query, lambda cursor: fetched(cursor, query), variables or {})

    def rows_of_trace(self, query: str, trace_id: int) -> list[tuple[Any, ...]]:
        """The rows of a SELECT for one trace, without their first column (the trace_id), in any
        order."""
        if self._shared is not None and self._shared.together:
            by_trace = self.memoized(query, lambda: grouped(self.fetch(query)[1], 0))
            rows = by_trace[trace_id]
        else:
            rows = self.fetch(f"FROM ({query}) WHERE trace_id = {trace_id:d}")[1]
        return [row[1:] for row in rows]

    def is_possible(self, name: str) -> bool:
        """Whether the named query may have rows: False if its condition (catalog.conditions) holds
        for no trace here."""
        conditions = catalog.conditions()
        if name not in conditions:
            return True
        judged = constants.judging(self.thresholds)
        if judged not in self._possible:
            own_conditions = {
                each: sql for each, sql in conditions.items() if not catalog.plugin_of(each)
            }
            possible = self._holding(own_conditions)
            for condition in conditions.keys() - own_conditions.keys():
                if plugin := catalog.plugin_of(condition):
                    with plugin.leaving_out(f"{condition}, whose condition is wrong,"):
                        possible |= self._holding({condition: conditions[condition]})
            self._possible[judged] = possible
        return name in self._possible[judged]

    def _holding(self, conditions: Mapping[str, catalog.Condition]) -> set[str]:
        """The names of the queries whose conditions hold."""
        when = dict.fromkeys(part for each in conditions.values() for part in each.when)
        unless = dict.fromkeys(each.unless for each in conditions.values() if each.unless)
        # A subquery is a SELECT of its own: DuckDB would join many of them to each label.
        alone = [part for part in when if part.startswith("(SELECT ")]
        of_labels = [part for part in when if part not in alone]
        selects = [f"SELECT {place}, [{part}]" for place, part in enumerate(alone, 2)]
        if of_labels:
            tests = ", ".join(f"bool_or({part})" for part in of_labels)
            selects.append(f"SELECT 0, [{tests}] FROM slice_label")
        if unless:
            tests = ", ".join(
                f"bool_or({part}) IS TRUE AS e{place}" for place, part in enumerate(unless)
            )
            kept = ", ".join(f"NOT bool_and(e{place})" for place in range(len(unless)))
            selects.append(catalog.render_template("read_excluded", tests=tests, kept=kept))
        sql = self._with_thresholds(" UNION ALL ".join(selects))
        asked = (*of_labels, *unless, *alone)
        holds = (one for _, some in sorted(self.fetch(sql)[1]) for one in some)
        true = {part for part, is_true in zip(asked, holds, strict=True) if is_true}
        return {
            each
            for each, needed in conditions.items()
            if true.issuperset(needed.when) and (not needed.unless or needed.unless in true)
        }

    def memoized(self, key: Any, make: Callable[[], T]) -> T:
        """The result of `make`; within `asking(together=True)`, cached by key."""
        shared = self._shared
        return shared.memoized(key, make) if shared is not None and shared.together else make()

    def arrays(
        self, name: str, columns: Sequence[str] = (), *, in_order: bool = True, **parameters: Value
    ) -> dict[str, numpy.ndarray]:
        """Columns of the named query (all, or those in `columns`) as NumPy arrays: for large
        results. Causes are given as numbers. Rows in any order take less memory.

        Raises:
            TracekitError: for an unknown query or parameter.
        """
        question = catalog.query(name)
        checked = question.check_parameters(parameters)
        wanted = tuple(columns or (column.name for column in question.columns))
        if not self.is_possible(name):
            import numpy

            return {column: numpy.zeros(0, numpy.int64) for column in wanted}
        answered = self._answer(
            question, checked, replace(ARRAYS, columns=wanted, in_order=in_order)
        )
        self.give_back_memory()
        return answered

    def batches(
        self, query: str, variables: Mapping[str, Value], size: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of one SELECT, `size` at a time."""
        with self._selects.cursor(query, variables) as cursor:
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
        """The result of `take`, which receives the SELECT as a lazy relation.

        Raises:
            TracekitError: when the SQL is wrong, needs more memory than is allowed, or takes longer
                than `timeout_s`.
        """
        return self._selects.run(
            query, lambda cursor: take(cursor.sql(query)), variables, timeout_s
        )

    def trace_ids(self) -> list[int]:
        """The trace_ids of the loaded traces, ascending, without capture traces that were loaded
        only to describe other traces' graphs."""
        query = "SELECT trace_id, path FROM trace ORDER BY trace_id"
        asked = rows = self.memoized(query, lambda: self.fetch(query)[1])
        if len(rows) > 1:
            from tracekit.trace.beside import is_of_capture

            asked = [row for row in rows if not is_of_capture(row[1])] or rows
        return [trace_id for trace_id, _ in asked]

    def in_order(self) -> list[int]:
        """The trace_ids in the order of their verdicts."""
        return self.trace_ids()

    @property
    def without_events(self) -> frozenset[int]:
        """Traces that have only stored verdicts, so they cannot be judged again."""
        return frozenset()

    def require_events(self, trace_id: int) -> None:
        """Checks that a trace's events can be read.

        Raises:
            TracekitError: when the database has only its figures, verdicts and stored answers.
        """
        if trace_id in self.without_events:
            raise TracekitError(
                f"{self.name}: trace {trace_id} was added by another version of tracekit, and its "
                "events cannot be read: run `tracekit lake add` on it again"
            )

    def context_of(self, trace_id: int) -> str:
        """The inputs of stored verdicts on a trace, besides its own tables and the rules."""
        return ""

    @contextmanager
    def with_all_ranks(self) -> Iterator[Session]:
        """The session, or one that also has the other ranks of the run."""
        yield self

    @contextmanager
    def judging(self, thresholds: Thresholds | None) -> Iterator[None]:
        """While the block runs, everything uses these thresholds; None: the same as before. Blocks
        may be nested."""
        if thresholds is None:
            yield
            return
        before = self.thresholds, self._shared
        self.thresholds = thresholds
        if constants.judging(thresholds) != constants.judging(before[0]) and self._shared:
            # Shared answers used other thresholds.
            self._shared = Shared(self._shared.together)
        try:
            yield
        finally:
            self.thresholds, self._shared = before

    @property
    def judges_as_stored(self) -> bool:
        """Whether stored answers used the current thresholds."""
        return constants.judging(self.thresholds) == constants.judging(Thresholds())

    def _with_thresholds(self, sql: str) -> str:
        """The SQL, as it runs fastest: with its thresholds as numbers if they are the stored
        ones."""
        return constants.with_thresholds(sql) if self.judges_as_stored else sql

    def _before_each(self) -> str | None:
        """The statement that sets a cursor's thresholds, if they differ from the defaults."""
        return None if self.judges_as_stored else constants.judging(self.thresholds)

    @contextmanager
    def sharing(self, *, together: bool = True) -> Iterator[None]:
        """While the block runs, runs each query once, unless answers are large. With together=True,
        one query covers all traces and each trace gets its rows, for callers that ask the same
        about many traces. Blocks may be nested."""
        before = self._shared
        is_idle = together and len(self.trace_ids()) < 2
        if is_idle or self.is_large or (before is not None and before.together >= together):
            yield
            return
        self._shared = Shared(together)
        try:
            yield
        finally:
            self._shared = before

    def require_select(self, query: str) -> None:
        """Checks that SQL from a user only reads.

        Raises:
            TracekitError: when it is not one SELECT, or an EXPLAIN of one.
        """
        self._selects.require_select(query)

    def checked(self, question: Query) -> AbstractContextManager[None]:
        """Checks a plugin's question, and names it in errors of the block: `Selects.checked`."""
        return self._selects.checked(question)

    def give_back_memory(self) -> None:
        """Makes DuckDB return freed memory and cached pages to the system, if traces are large."""
        if self.is_large:
            self._selects.give_back_memory()

    @cached_property
    def is_large(self) -> bool:
        """Whether saving memory is worth some time: one trace, or all together, have very many
        events."""
        counts = "SELECT coalesce(max(events), 0), coalesce(sum(events), 0) FROM trace"
        ((most, together),) = self.fetch(counts)[1]
        return bool(most > _MANY_EVENTS or together > _MANY_TOGETHER)
