"""Copies of views and macros that most questions read, in memory while a small trace is judged.

DuckDB plans a view anew in each query that reads it, which for a small trace takes far longer than
reading the rows. The copies hold the same rows, in a database of their own beside the traces. The
cursors that read them have temporary views and macros, which DuckDB finds before those of the same
names in the database, also inside other views and macros.

Of a large trace, only small results are copied that take much time and memory to compute.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

import duckdb

from tracekit.database import catalog, constants
from tracekit.database.catalog import Value
from tracekit.database.interrupt import work_is_left_running
from tracekit.thresholds import Thresholds

_DEFINED = re.compile(
    r"^CREATE (?:OR REPLACE )?(?:VIEW|MACRO) (\w+)(.*?);$", re.MULTILINE | re.DOTALL
)
_WORD = re.compile(r"\w+")
# Databases in one process may be open on the same file, and then share what is attached.
_NUMBERS = itertools.count(1)

PREFIX = "tracekit_kept_"
# A new cursor judges by these thresholds.
_DEFAULT = constants.judging(Thresholds())
_VIEWS = (
    "slices",
    "runtime_calls",
    "launches",
    "annotations",
    "steps",
    "host_slice",
    "graph_captures",
    "device_peaks",
)
_OF_TRACE = "WHERE trace_id = coalesce(getvariable('trace'), trace_id)"
# What each macro reads of its copy.
_MACROS = {
    "worked_operators": (
        "worked_operators(also_captures := FALSE)",
        "WHERE trace_id = coalesce(getvariable('trace'), trace_id)"
        " OR also_captures AND trace_id IN (SELECT trace_id FROM graph_captures)",
    ),
    "measured_work": ("measured_work()", _OF_TRACE),
    "collectives": ("collectives()", ""),
    "timed_collectives": ("timed_collectives()", _OF_TRACE),
    "matched_collectives": ("matched_collectives()", ""),
    "awaited_collectives": ("awaited_collectives()", ""),
}
_SMALL = {
    "timed_collectives": _MACROS["timed_collectives"],
    "fusable_pairs": ("fusable_pairs()", _OF_TRACE),
}


@dataclass
class _Pooled:
    """A cursor that one query after another uses."""

    cursor: duckdb.DuckDBPyConnection
    judged: str
    """The statement that set its thresholds."""
    shadowed: set[str] = field(default_factory=set)
    variables: dict[str, Value] = field(default_factory=dict)


class Kept:
    """The copies beside one connection's database, each made when a query first needs it, and the
    cursors that read them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, small_of: int | None = None) -> None:
        """Args:
            small_of: copies only small results, of this trace_id.

        Raises:
            duckdb.Error: when no database can be attached.
        """
        self._connection = connection
        self._trace_id = small_of
        self._macros = _MACROS if small_of is None else _SMALL
        self.names = (*_VIEWS, *_MACROS) if small_of is None else tuple(_SMALL)
        self._name = f"{PREFIX}{next(_NUMBERS)}"
        self._making = threading.Lock()
        self._made: set[str] = set()
        self._idle: list[_Pooled] = []
        connection.execute(f"ATTACH ':memory:' AS {self._name} (READ_WRITE)")

    def remove(self) -> None:
        """Frees the copies, unless a query that could not be stopped still reads them."""
        for pooled in self._idle:
            pooled.cursor.close()
        with suppress(duckdb.Error):
            self._connection.execute(f"DETACH {self._name}")

    @contextmanager
    def reading(
        self, query: str, variables: Mapping[str, Value], judged: str
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor in a read-only transaction, for one query that may use `variables`. It judges
        by the thresholds that the statement `judged` sets.

        Raises:
            duckdb.Error: when a copy cannot be made.
        """
        needed = needed_by(query, self.names)
        self.make(needed)
        pooled = self._idle.pop() if self._idle else _Pooled(self._connection.cursor(), _DEFAULT)
        cursor = pooled.cursor
        try:
            if pooled.judged != judged:
                cursor.execute(judged)
                pooled.judged = judged
            self._shadow(pooled, needed)
            for name in pooled.variables.keys() - variables.keys():
                cursor.execute(f'RESET VARIABLE "{name}"')
            for name, value in variables.items():
                if name not in pooled.variables or pooled.variables[name] != value:
                    cursor.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
            pooled.variables = dict(variables)
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            yield cursor
            cursor.execute("ROLLBACK")
        except BaseException:
            if not work_is_left_running():
                cursor.close()
            raise
        self._idle.append(pooled)

    def make(self, names: list[str]) -> None:
        """Copies the relations `names` that are not copied yet.

        Raises:
            duckdb.Error: when a copy cannot be made.
        """
        # Who needs no new copy does not wait for those that are being made.
        if self._made.issuperset(names):
            return
        with self._making, self._connection.cursor() as cursor:
            if self._trace_id is not None:
                cursor.execute(f"SET VARIABLE trace = {self._trace_id:d}")
            pooled = _Pooled(cursor, _DEFAULT)
            for name in names:
                if name not in self._made:
                    self._make_one(cursor, name)
                # What is made next may read it.
                self._shadow(pooled, [name])

    def _make_one(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        call = f"{name}()" if name in self._macros else name
        cursor.execute(f"CREATE TABLE {self._name}.{name} AS FROM {call}")
        self._made.add(name)

    def _shadow(self, pooled: _Pooled, names: list[str]) -> None:
        for name in names:
            if name in pooled.shadowed:
                continue
            copy = f"FROM {self._name}.{name}"
            if name in self._macros:
                signature, chosen = self._macros[name]
                pooled.cursor.execute(f"CREATE TEMP MACRO {signature} AS TABLE {copy} {chosen}")
            else:
                pooled.cursor.execute(f"CREATE TEMP VIEW {name} AS {copy}")
            pooled.shadowed.add(name)


@cache
def needed_by(query: str, names: tuple[str, ...] = (*_VIEWS, *_MACROS)) -> list[str]:
    """Those of `names` that a query reads, also through others, each after those that it reads
    itself."""
    found: set[str] = set()
    new = set(_WORD.findall(query))
    uses = _uses()
    while new:
        found |= new
        new = set().union(*(uses.get(name, frozenset()) for name in new)) - found
    return [name for name in names if name in found]


@cache
def _uses() -> dict[str, frozenset[str]]:
    """The words in the definition of each view and macro."""
    return {
        name: frozenset(_WORD.findall(text))
        for sql in catalog.vocabulary().values()
        for name, text in _DEFINED.findall(sql)
    }
