"""Events from the rows of a SQLite query, assembled by the C library.

The C library calls the SQLite that Python uses, if its functions are accessible. Otherwise it takes
rows from Python's sqlite3 module, which takes three times as long.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import (
    CDLL,
    CFUNCTYPE,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_void_p,
    cast,
)
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import ClassVar, NamedTuple

import duckdb

from tracekit.native.events import Labels
from tracekit.native.library import Batch, held_library, library

# Rows that Python's sqlite3 module fetches at once.
_AT_ONCE = 4096


class RoleKind(IntEnum):
    """The role of a query's column in the event; same values as in src/rows.h."""

    NUMBER = 0
    """A column of the event."""
    END = 1
    """The event's end time, right after the column of its start."""
    THREAD = 2
    """A process and a thread, 24 bits each."""
    WORD = 3
    MEMBER = 4
    """An argument; left out if NULL."""
    ITEM = 5
    """An integer between two texts."""
    VERBATIM = 6
    """Arguments as text."""
    CALL = 7
    """The name of a CUDA call, which also determines the category."""
    OPERATOR = 8
    """The text of an NVTX range; PyTorch's ranges have an operator's name and arguments."""
    CONSTANT = 9
    """A word that is the same in all events; not a column of the query."""


class Field(IntEnum):
    """Columns of an event; same values as in src/rows.h."""

    PID = 2
    TID = 3
    TS = 4
    DUR = 5
    CORRELATION = 6
    EXTERNAL_ID = 7
    DEVICE = 8
    STREAM = 9


class Word(IntEnum):
    """Same values as in src/labels.h."""

    PHASE = 0
    CATEGORY = 1
    NAME = 2


class Role(ctypes.Structure):
    """How a column is used: as the event's member `place`, or between the JSON texts `before` and
    `after`."""

    _fields_: ClassVar = [
        ("kind", c_int32),
        ("place", c_int32),
        ("before", c_char_p),
        ("after", c_char_p),
        ("before_size", c_int64),
    ]

    def __init__(self, kind: RoleKind, place: int = -1, before: str = "", after: str = "") -> None:
        text = before.encode()
        super().__init__(kind, place, text, after.encode(), len(text))


class EventQuery(NamedTuple):
    """A query whose rows are events, split into the selected columns and the SQL around them.
    `roles` are the roles of these columns, with constants between them."""

    before: str
    selected: Sequence[str]
    after: str
    roles: Sequence[Role]

    def text(self, function: str = "") -> str:
        """The query, either as it is or with one function around all selected columns."""
        selected = ", ".join(self.selected)
        if function:
            selected = f"{function}({selected})"
        return f"{self.before} SELECT {selected} {self.after}"


class _Rows(ctypes.Structure):
    _fields_: ClassVar = [
        ("values", c_void_p),
        ("statement", c_void_p),
        ("python", c_void_p),
        ("list", c_void_p),
        ("next", c_int64),
        ("count", c_int64),
        ("roles", c_void_p),
        ("n_roles", c_int64),
        ("n_columns", c_int64),
        ("text_bytes", c_int64),
        ("status", c_int32),
        ("many_labels", c_int32),
    ]


_OUT_OF_MEMORY, _TOO_BIG, _ROW, _DONE = 0, 18, 100, 101
_UTF8, _DIRECT_ONLY = 1, 1 << 19
# In the order in src/rows.h.
_VALUES = ("value_type", "value_int64", "value_double", "value_text", "value_bytes", "step")
_PYTHON = ("PyList_GetItem", "PyTuple_GetItem", "PyObject_IsInstance", "PyLong_AsLongLong",
           "PyFloat_AsDouble", "PyBytes_AsString", "PyBytes_Size")  # fmt: skip
_ENTRY = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
_opening = threading.Lock()
_opened = threading.local()


def _note(handle: int, _error: int, _functions: int) -> int:
    _opened.handle = handle
    return 0


# SQLite may call this as long as the process lives.
_note_handle = _ENTRY(_note)


@cache
def _sqlite() -> CDLL | None:
    """The SQLite library that Python uses; None: its functions are not accessible."""
    try:
        # A library's functions include those of its dependencies.
        sqlite = CDLL(import_module("_sqlite3").__file__)
        for name in _VALUES:
            getattr(sqlite, f"sqlite3_{name}")
        sqlite.sqlite3_errmsg.restype = c_char_p
    except (AttributeError, OSError):
        return None
    return sqlite


def connected(connect: Callable[[], sqlite3.Connection]) -> tuple[sqlite3.Connection, int | None]:
    """A new connection, with SQLite's own handle if available.

    SQLite passes each new connection's handle to extensions.
    https://sqlite.org/c3ref/auto_extension.html
    """
    sqlite = _sqlite()
    if sqlite is None:
        return connect(), None
    with _opening:
        _opened.handle = None
        sqlite.sqlite3_auto_extension(_note_handle)
        try:
            return connect(), _opened.handle
        finally:
            sqlite.sqlite3_cancel_auto_extension(_note_handle)


def read_rows(
    connection: sqlite3.Connection,
    handle: int | None,
    query: EventQuery,
    first_id: int,
    labels: Labels,
) -> Iterator[tuple[Batch, int]]:
    """The rows of a query as batches of events, numbered from `first_id`, with the bytes of text in
    each.

    Raises:
        sqlite3.Error: when the database is damaged.
        duckdb.OutOfMemoryException: when a batch does not fit in memory.
    """
    shared = (Role * len(query.roles))(*query.roles)
    rows = _Rows(roles=addressof(shared), n_roles=len(shared), n_columns=len(query.selected))
    for read in (
        _fetched(connection, rows, query) if handle is None else _stepped(handle, rows, query)
    ):
        batch = Batch()
        read(byref(rows), first_id, labels.handle, byref(batch))
        if rows.status == _OUT_OF_MEMORY:
            raise duckdb.OutOfMemoryException("a batch of events does not fit in memory")
        if rows.status == _TOO_BIG:
            raise sqlite3.DataError("string or blob too big")
        labels.are_many = bool(rows.many_labels)
        first_id += batch.rows
        yield batch, rows.text_bytes


def _stepped(handle: int, rows: _Rows, query: EventQuery) -> Iterator[Callable[..., None]]:
    """SQLite produces the rows and calls the C library for each."""
    sqlite, database = _sqlite(), c_void_p(handle)
    assert sqlite is not None
    functions = [cast(getattr(sqlite, f"sqlite3_{name}"), c_void_p) for name in _VALUES]
    values = (c_void_p * len(functions))(*functions)
    statement = c_void_p()

    def check(status: int, *fine: int) -> None:
        if status not in fine:
            raise sqlite3.DatabaseError(sqlite.sqlite3_errmsg(database).decode("utf-8", "replace"))

    add_row = cast(library().tracekit_add_row, c_void_p)
    check(
        sqlite.sqlite3_create_function_v2(
            database, b"add_row", -1, _UTF8 | _DIRECT_ONLY, None, add_row, None, None, None
        ),
        0,
    )
    try:
        text = query.text("add_row").encode()
        check(sqlite.sqlite3_prepare_v2(database, text, -1, byref(statement), None), 0)
        rows.values, rows.statement, rows.status = addressof(values), statement.value, _ROW
        while rows.status == _ROW:
            yield library().tracekit_read_rows
            check(rows.status, _ROW, _DONE)
    finally:
        sqlite.sqlite3_finalize(statement)


def _fetched(
    connection: sqlite3.Connection, rows: _Rows, query: EventQuery
) -> Iterator[Callable[..., None]]:
    """Python's sqlite3 module produces the rows."""
    functions = [cast(getattr(ctypes.pythonapi, name), c_void_p) for name in _PYTHON]
    python = (c_void_p * 10)(*functions, *map(id, (int, float, bytes)))
    rows.python = addressof(python)
    cursor = connection.execute(query.text())
    while batch := cursor.fetchmany(_AT_ONCE):
        rows.list, rows.next, rows.count, rows.status = id(batch), 0, len(batch), _ROW
        while rows.status == _ROW:
            # Holds the GIL.
            yield held_library().tracekit_read_rows
