"""Answers about all traces of a database at once, for questions that are asked about each in turn.

For a small trace, DuckDB takes longer to plan a question than to answer it. So a question about the
ranks of a run is planned once, and answered for all of them together.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracekit.database import catalog
from tracekit.database.catalog import Value

T = TypeVar("T")
_TRACE = "trace_id"
# Parameters that judge or choose single rows have names with these endings.
_OF_LIMITS = ("_ns", "_percent", "kind")
# Questions with a `top` whose full answer is short in any trace.
_OF_FEW = ("top_kernels",)
_ALL_ROWS = 1 << 30


class Shared:
    """The answers so far. An answer about one trace is the rows of that trace."""

    def __init__(self) -> None:
        self._locks: dict[Any, threading.Lock] = defaultdict(threading.Lock)
        self._making = threading.Lock()
        self._answers: dict[Any, Any] = {}

    def rows(
        self,
        name: str,
        parameters: Mapping[str, Value],
        ask: Callable[[dict[str, Value]], list[dict[str, Any]]],
    ) -> list[dict[str, Any]] | None:
        """The rows about one trace or all, out of the rows about all that `ask` returns for the
        other parameters; None: the question cannot be asked about all traces."""
        others = _others(parameters)
        key = (name, *others.items())
        if not parameters:
            found = self.once(key, lambda: ask(others))
        elif not is_about_each(name, parameters):
            return None
        else:

            def by_trace() -> dict[Any, list[dict[str, Any]]]:
                rows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
                for row in self.once(key, lambda: ask(others)):
                    rows[row[_TRACE]].append(row)
                return rows

            found = self.once(("by trace", *key), by_trace).get(parameters["trace"], [])
        top = parameters.get("top")
        # Copied: callers may modify rows.
        return [dict(row) for row in found[: None if top is None else int(top)]]

    def arrays(
        self,
        name: str,
        columns: tuple[str, ...],
        parameters: Mapping[str, Value],
        ask: Callable[[tuple[str, ...], dict[str, Value]], dict[str, NDArray[Any]]],
    ) -> dict[str, NDArray[Any]] | None:
        """The rows as arrays of these columns; `ask` also gets the columns."""
        if not parameters:
            found = self.once(("arrays", name, columns), lambda: ask(columns, {}))
            return {column: values.copy() for column, values in found.items()}
        if not is_about_each(name, parameters):
            return None
        asked = tuple(dict.fromkeys((_TRACE, *columns)))
        others = _others(parameters)
        found = self.once((name, asked, *others.items()), lambda: ask(asked, others))
        own = np.flatnonzero(np.ma.filled(found[_TRACE], -1) == parameters["trace"])
        # Rows are in order of the trace, nearly always.
        whole = len(own) and own[-1] - own[0] + 1 == len(own)
        chosen: Any = slice(own[0], own[-1] + 1) if whole else own
        # A column may be an expression with an alias.
        own_columns = found if _TRACE in columns else found.keys() - {_TRACE}
        return {column: found[column][chosen].copy() for column in own_columns}

    def rows_of_trace(
        self, query: str, trace_id: int, ask: Callable[[], list[tuple[Any, ...]]]
    ) -> list[tuple[Any, ...]]:
        """The rows that begin with a trace_id, without that column."""

        def by_trace() -> dict[Any, list[tuple[Any, ...]]]:
            found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
            for row in ask():
                found[row[0]].append(row[1:])
            return found

        return self.once(query, by_trace).get(trace_id, [])

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """The first result of `make` for this key."""
        with self._making:
            lock = self._locks[key]
        with lock:
            if key not in self._answers:
                self._answers[key] = make()
            answer: T = self._answers[key]
            return answer


def is_about_each(name: str, parameters: Mapping[str, Value]) -> bool:
    """Whether an answer about one trace is the rows of that trace in the answer about all.

    False if the question limits the number of rows, or chooses parts of the trace.
    """
    question = catalog.query(name)
    limits = {each.name for each in question.parameters if each.name.endswith(_OF_LIMITS)}
    if name in _OF_FEW and "top" in parameters:
        limits.add("top")
    return (
        parameters.get("trace") is not None
        and all(each in limits or each == "trace" for each in parameters)
        and any(column.name == _TRACE for column in question.columns)
        and all(each.default == "all" or each.name in limits for each in question.parameters)
    )


def _others(parameters: Mapping[str, Value]) -> dict[str, Value]:
    others = {name: value for name, value in parameters.items() if name != "trace"}
    return others | {"top": _ALL_ROWS} if "top" in others else others
