"""Answers in three forms, and shared answers: one query covers all traces in a database.

For a small trace, DuckDB takes longer to plan a query than to run it. So a question about a run's
ranks is planned once, and answered for all of them together.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from tracekit.database import catalog, constants
from tracekit.database.catalog import Query, Value

if TYPE_CHECKING:
    import duckdb
    import numpy
    import polars

    _Arrays = dict[str, numpy.ndarray]

T = TypeVar("T")
R = TypeVar("R", dict[str, Any], tuple[Any, ...])
_TRACE = "trace_id"
# Parameters that choose a part of one trace, so answers cannot be shared between traces.
_OF_ONE = ("from_ns", "to_ns", "events", "range")
_ALL_ROWS = 1 << 30
# The order of a query's result, on its last lines.
_ORDER = re.compile(r"\nORDER BY [^()]*\Z")


class Form(Struct, Generic[T], frozen=True):
    """A form of answers: `take` runs the SQL, `by_trace` splits the answer by trace_id, and `first`
    copies the first or all rows, since callers may modify them."""

    take: Callable[[duckdb.DuckDBPyConnection, str], T]
    by_trace: Callable[[T], Callable[[int], T]]
    first: Callable[[T, int | None], T]
    is_for_people: bool = False
    columns: tuple[str, ...] = ()
    """Columns as arrays, which may be large; causes are numbers."""
    in_order: bool = True

    def sql(self, rows: str) -> str:
        """The SQL to run for a question's SQL."""
        if not self.columns:
            return rows
        wanted = ", ".join(
            f"{constants.cause_number(column)} AS cause" if column == "cause" else column
            for column in self.columns
        )
        return f"SELECT {wanted} FROM ({rows if self.in_order else _ORDER.sub('', rows)})"


def fetched(cursor: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows."""
    answer = cursor.execute(sql)
    return [column[0] for column in answer.description or ()], answer.fetchall()


def _dicts(cursor: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    columns, rows = fetched(cursor, sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _frame(cursor: duckdb.DuckDBPyConnection, sql: str) -> polars.DataFrame:
    from tracekit.database.frames import frame_of

    return frame_of(cursor.sql(sql))


def _arrays_by_trace(answer: _Arrays) -> Callable[[int], _Arrays]:
    import numpy as np

    traces = np.ma.filled(answer[_TRACE], -1)

    def part(trace_id: int) -> _Arrays:
        own = np.flatnonzero(traces == trace_id)
        # Rows are nearly always ordered by trace.
        is_whole = len(own) and own[-1] - own[0] + 1 == len(own)
        places: Any = slice(own[0], own[-1] + 1) if is_whole else own
        return {column: values[places] for column, values in answer.items()}

    return part


DICTS: Form[list[dict[str, Any]]] = Form(
    _dicts,
    lambda rows: grouped(rows, _TRACE).__getitem__,
    lambda rows, most: [dict(row) for row in rows[:most]],
)
FRAME: Form[polars.DataFrame] = Form(
    _frame,
    lambda frame: lambda trace_id: frame.filter(trace_id=trace_id),
    lambda frame, most: frame if most is None else frame.head(most),
    is_for_people=True,
)
ARRAYS: Form[_Arrays] = Form(
    lambda cursor, sql: cursor.execute(sql).fetchnumpy(),
    _arrays_by_trace,
    lambda found, most: {column: values[:most].copy() for column, values in found.items()},
)


class Shared:
    """Cached answers.

    With `together`, one query covers all traces, and each trace gets its rows; otherwise each trace
    has its own query, run once, and arrays are not kept.
    """

    def __init__(self, together: bool) -> None:
        self.together = together
        self._locks: dict[Any, threading.Lock] = defaultdict(threading.Lock)
        self._making = threading.Lock()
        self._answers: dict[Any, Any] = {}

    def answer(
        self,
        question: Query,
        given: Mapping[str, Value],
        as_: Form[T],
        ask: Callable[[Query, Mapping[str, Value], Form[T]], T],
    ) -> T:
        """The answer about one trace or all; `ask` runs a query that is not cached yet."""
        asked, trace_id, most = self._split(question, given)
        if as_.columns and (not self.together or "trace" in asked):
            return ask(question, given, as_)
        is_added = trace_id is not None and as_.columns and _TRACE not in as_.columns
        form = replace(as_, columns=as_.columns + (_TRACE,) * bool(is_added), in_order=True)
        key = (form, question.name, *asked.items())
        found = self.memoized(key, lambda: ask(question, asked, form))
        if trace_id is not None:
            found = self.memoized(("by trace", *key), lambda: as_.by_trace(found))(trace_id)
        found = as_.first(found, most)
        if is_added:
            cast("_Arrays", found).pop(_TRACE)
        return found

    def memoized(self, key: Any, make: Callable[[], T]) -> T:
        """The cached result of `make` for this key."""
        with self._making:
            lock = self._locks[key]
        with lock:
            if key not in self._answers:
                self._answers[key] = make()
            answer: T = self._answers[key]
            return answer

    def _split(
        self, question: Query, given: Mapping[str, Value]
    ) -> tuple[dict[str, Value], Any, Any]:
        """The parameters of the shared query, and the trace_id and number of rows (`top`) to select
        from its answer."""
        asked = dict(given)
        trace_id = most = None
        if self.together and is_about_each(question, asked):
            trace_id = asked.pop("trace")
        if self.together and asked.get("top") is not None and catalog.limits_rows(question):
            most, asked["top"] = asked["top"], _ALL_ROWS
        return {each: value for each, value in asked.items() if value is not None}, trace_id, most


def grouped(rows: Iterable[R], column: Any) -> dict[Any, list[R]]:
    """The rows by their value in a column; an empty list for other values."""
    groups: dict[Any, list[R]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def is_about_each(question: Query, parameters: Mapping[str, Value]) -> bool:
    """Whether the answer about one trace is a subset of the answer about all traces.

    False if the question limits the number of rows, or chooses parts of a trace.
    """
    return (
        parameters.get("trace") is not None
        and any(column.name == _TRACE for column in question.columns)
        and not any(each in parameters for each in _OF_ONE)
        and ("top" in parameters or not catalog.limits_rows(question))
    )
