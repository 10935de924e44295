"""Answers that are shared: each question is asked once, about all traces of a database at once.

For a small trace, DuckDB takes longer to plan a question than to answer it. So a question about the
ranks of a run is planned once, and answered for all of them together.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracekit.database import catalog
from tracekit.database.catalog import Query, Value

if TYPE_CHECKING:
    import polars

T = TypeVar("T")
R = TypeVar("R", dict[str, Any], tuple[Any, ...])
_TRACE = "trace_id"
# Parameters that choose a part of one trace: others would be asked for another part.
_OF_ONE = ("from_ns", "to_ns", "events", "range")
_ALL_ROWS = 1 << 30


class Shared:
    """The answers so far.

    If all traces are asked about `together`, an answer about one is the rows of that trace in the
    answer about all; else each trace is asked about alone, once. `ask`, `frame` and `arrays` answer
    a question with these parameters.
    """

    def __init__(
        self,
        together: bool,
        ask: Callable[[str, Mapping[str, Value]], list[dict[str, Any]]],
        frame: Callable[[str, Mapping[str, Value]], polars.DataFrame],
        arrays: Callable[[str, tuple[str, ...], Mapping[str, Value]], dict[str, NDArray[Any]]],
    ) -> None:
        self.together = together
        self._ask, self._frame, self._arrays = ask, frame, arrays
        self._locks: dict[Any, threading.Lock] = defaultdict(threading.Lock)
        self._making = threading.Lock()
        self._answers: dict[Any, Any] = {}

    def rows(self, name: str, parameters: Mapping[str, Value]) -> list[dict[str, Any]]:
        """The rows about one trace or all."""
        asked, chosen = self._split(name, parameters)
        key = ("rows", name, *asked.items())
        found = self.memoized(key, lambda: self._ask(name, asked))
        if _TRACE in chosen:
            by_trace = self.memoized(("by trace", *key), lambda: _by_trace(found, _TRACE))
            found = by_trace[chosen[_TRACE]]
        # Copied: callers may modify rows.
        return [dict(row) for row in found[: chosen.get("top")]]

    def frame(self, name: str, parameters: Mapping[str, Value]) -> polars.DataFrame:
        """The same as a frame."""
        asked, chosen = self._split(name, parameters)
        found = self.memoized(("frame", name, *asked.items()), lambda: self._frame(name, asked))
        if _TRACE in chosen:
            found = found.filter(trace_id=chosen[_TRACE])
        return found.head(chosen["top"]) if "top" in chosen else found

    def arrays(
        self, name: str, columns: tuple[str, ...], parameters: Mapping[str, Value]
    ) -> dict[str, NDArray[Any]] | None:
        """The rows as arrays of these columns. None: they are not shared, since they may be
        large."""
        others, chosen = self._split(name, parameters)
        if not self.together or "trace" in others:
            return None
        top = chosen.get("top")
        asked = tuple(dict.fromkeys((_TRACE, *columns))) if _TRACE in chosen else columns
        key = ("arrays", name, asked, *others.items())
        found = self.memoized(key, lambda: self._arrays(name, asked, others))
        if _TRACE not in chosen:
            return {column: values[:top].copy() for column, values in found.items()}
        own = np.flatnonzero(np.ma.filled(found[_TRACE], -1) == chosen[_TRACE])[:top]
        # Rows are in order of the trace, nearly always.
        whole = len(own) and own[-1] - own[0] + 1 == len(own)
        places: Any = slice(own[0], own[-1] + 1) if whole else own
        # A column may be an expression with an alias.
        own_columns = found if _TRACE in columns else found.keys() - {_TRACE}
        return {column: found[column][places].copy() for column in own_columns}

    def rows_of_trace(
        self, query: str, trace_id: int, ask: Callable[[], list[tuple[Any, ...]]]
    ) -> list[tuple[Any, ...]]:
        """The rows that begin with a trace_id, without that column."""
        found = self.memoized(query, lambda: _by_trace(ask(), 0))
        return [row[1:] for row in found[trace_id]]

    def memoized(self, key: Any, make: Callable[[], T]) -> T:
        """The first result of `make` for this key."""
        with self._making:
            lock = self._locks[key]
        with lock:
            if key not in self._answers:
                self._answers[key] = make()
            answer: T = self._answers[key]
            return answer

    def _split(
        self, name: str, parameters: Mapping[str, Value]
    ) -> tuple[dict[str, Value], dict[str, Any]]:
        """The parameters to ask with, so that callers share the answer, and the trace_id and the
        number of rows (`top`) to choose from it."""
        question = catalog.query(name)
        asked = question.check_parameters(parameters)
        chosen: dict[str, Any] = {}
        if self.together and is_about_each(question, asked):
            chosen[_TRACE] = asked.pop("trace")
        if self.together and asked.get("top") is not None and catalog.limits_rows(question):
            chosen["top"], asked["top"] = asked["top"], _ALL_ROWS
        return {each: value for each, value in asked.items() if value is not None}, chosen


def _by_trace(rows: Iterable[R], column: Any) -> dict[Any, list[R]]:
    found: dict[Any, list[R]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found


def is_about_each(question: Query, parameters: Mapping[str, Value]) -> bool:
    """Whether an answer about one trace is the rows of that trace in the answer about all.

    False if the question limits the number of rows, or chooses parts of the trace.
    """
    return (
        parameters.get("trace") is not None
        and any(column.name == _TRACE for column in question.columns)
        and not any(each in parameters for each in _OF_ONE)
        and ("top" in parameters or not catalog.limits_rows(question))
    )
