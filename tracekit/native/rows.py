"""Events from the rows of a SQLite query, which the C library puts together.

It calls SQLite itself where the functions of the SQLite that Python uses can be reached, else it
takes rows that Python's module made: three times the time.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import CDLL, CFUNCTYPE, byref, c_char_p, c_int, c_int32, c_int64, c_void_p, cast
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import ClassVar, NamedTuple

import duckdb

from tracekit.native.events import Labels
from tracekit.native.library import Batch, held_library, library

# Rows that Python's module makes at once.
_AT_ONCE = 4096


class Kind(IntEnum):
    """What a column of a query becomes; the same numbers as in src/rows.h."""

    NUMBER = 0
    """A column of the event."""
    THREAD = 1
    """A process and a thread, 24 bits each."""
    WORD = 2
    MEMBER = 3
    """An argument; none where it is NULL."""
    ITEM = 4
    """An integer between two texts."""
    VERBATIM = 5
    """Arguments as text."""
    OPERATOR = 6
    """The text of PyTorch's NVTX range: a name, and arguments."""
    CONSTANT = 7
    """A word that is the same in all events; no column of the query."""


class Field(IntEnum):
    """Columns of an event: the same numbers as in src/event.h."""

    PID = 2
    TID = 3
    TS = 4
    DUR = 5
    CORRELATION = 6
    EXTERNAL_ID = 7
    DEVICE = 8
    STREAM = 9


class Word(IntEnum):
    """The same numbers as in src/labels.h."""

    PHASE = 0
    CATEGORY = 1
    NAME = 2


class Role(NamedTuple):
    """What becomes of a column: its event's `place`, or JSON text `before` and `after` it."""

    kind: Kind
    place: int = -1
    before: str = ""
    after: str = ""


class _Role(ctypes.Structure):
    _fields_: ClassVar = [
        ("kind", c_int32),
        ("place", c_int32),
        ("before", c_char_p),
        ("after", c_char_p),
    ]


class _Cells(ctypes.Structure):
    _fields_: ClassVar = [
        *((f"function_{place}", c_void_p) for place in range(7)),
        ("rows", c_void_p),
    ]


class _Read(ctypes.Structure):
    _fields_: ClassVar = [
        ("text_bytes", c_int64),
        ("status", c_int32),
        ("many_labels", c_int32),
    ]


class _Tuples(ctypes.Structure):
    _fields_: ClassVar = [
        ("list", c_void_p),
        ("row", c_void_p),
        ("next", c_int64),
        ("count", c_int64),
    ]


class _Python(ctypes.Structure):
    """Seven functions and three types."""

    _fields_: ClassVar = [(f"pointer_{place}", c_void_p) for place in range(10)]


_OUT_OF_MEMORY, _TOO_BIG, _ROW, _DONE = 0, 18, 100, 101
_CELLS = ("step", "column_value", "value_type", "value_int64", "value_double", "value_text",
          "value_bytes")  # fmt: skip
_ENTRY = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
_PYTHON = ("PyList_GetItem", "PyTuple_GetItem", "PyObject_IsInstance", "PyLong_AsLongLong",
           "PyFloat_AsDouble", "PyBytes_AsString", "PyBytes_Size")  # fmt: skip
_opening = threading.Lock()
_opened = threading.local()


def _note(handle: int, _error: int, _functions: int) -> int:
    _opened.handle = handle
    return 0


# SQLite may call it as long as the process lives.
_note_handle = _ENTRY(_note)


@cache
def _sqlite() -> CDLL | None:
    """The SQLite that Python's module uses; None if its functions cannot be reached."""
    try:
        # A library's functions include those of libraries that it needs.
        found = CDLL(import_module("_sqlite3").__file__)
        for name in _CELLS:
            getattr(found, f"sqlite3_{name}")
        found.sqlite3_auto_extension.argtypes = [_ENTRY]
        found.sqlite3_cancel_auto_extension.argtypes = [_ENTRY]
        found.sqlite3_prepare_v2.argtypes = [c_void_p, c_char_p, c_int, c_void_p, c_void_p]
        found.sqlite3_finalize.argtypes = [c_void_p]
        found.sqlite3_errmsg.argtypes, found.sqlite3_errmsg.restype = [c_void_p], c_char_p
    except (AttributeError, OSError):
        return None
    return found


def connected(connect: Callable[[], sqlite3.Connection]) -> tuple[sqlite3.Connection, int | None]:
    """A new connection, and SQLite's own handle of it if that can be had.

    SQLite tells the handle of each new connection to extensions.
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
    query: str,
    roles: Sequence[Role],
    first_id: int,
    labels: Labels,
) -> Iterator[tuple[Batch, int]]:
    """The rows of a query as batches of events, numbered from `first_id`, with the bytes of text in
    each. `roles` are those of the query's columns, with constants between them.

    Raises:
        sqlite3.Error: when the database is damaged.
        duckdb.OutOfMemoryException: when a batch does not fit in memory.
    """
    shared = (_Role * len(roles))(
        *(
            _Role(kind, place, before.encode(), after.encode())
            for kind, place, before, after in roles
        )
    )
    rows = _Cursor(connection, query) if handle is None else _Statement(handle, query)
    with closing(rows):
        while rows.has_more():
            batch, read = Batch(), _Read()
            rows.functions.tracekit_read_rows(
                byref(rows.cells), shared, len(roles), first_id, labels.handle, byref(batch),
                byref(read),
            )  # fmt: skip
            if read.status == _OUT_OF_MEMORY:
                raise duckdb.OutOfMemoryException("a batch of events does not fit in memory")
            if read.status not in (_ROW, _DONE):
                raise sqlite3.DatabaseError(rows.error(read.status))
            rows.is_done = read.status == _DONE
            labels.are_many = bool(read.many_labels)
            first_id += batch.rows
            yield batch, read.text_bytes


class _Statement:
    """A query that the C library steps."""

    is_done = False

    def __init__(self, handle: int, query: str) -> None:
        sqlite = _sqlite()
        assert sqlite is not None
        self._sqlite, self._handle, self._statement = sqlite, handle, c_void_p()
        self.functions = library()
        failed = sqlite.sqlite3_prepare_v2(handle, query.encode(), -1, byref(self._statement), None)
        if failed:
            raise sqlite3.DatabaseError(self.error(failed))
        addresses = (cast(getattr(sqlite, f"sqlite3_{name}"), c_void_p) for name in _CELLS)
        self.cells = _Cells(*addresses, self._statement)

    def has_more(self) -> bool:
        return not self.is_done

    def error(self, status: int) -> str:
        if status == _TOO_BIG:
            return "string or blob too big"
        return str(self._sqlite.sqlite3_errmsg(self._handle).decode("utf-8", "replace"))

    def close(self) -> None:
        self._sqlite.sqlite3_finalize(self._statement)


class _Cursor:
    """A query that Python's module steps."""

    is_done = True

    def __init__(self, connection: sqlite3.Connection, query: str) -> None:
        self._cursor = connection.execute(query)
        self._rows: list[tuple[object, ...]] = []
        self._tuples = _Tuples()
        self._python = _Python(
            *(cast(getattr(ctypes.pythonapi, name), c_void_p) for name in _PYTHON),
            *map(id, (int, float, bytes)),
        )
        self.cells = _Cells()
        # Its functions hold Python's lock.
        self.functions = held_library()

    def has_more(self) -> bool:
        if self.is_done:
            self._rows = self._cursor.fetchmany(_AT_ONCE)
            self._tuples = _Tuples(id(self._rows), None, 0, len(self._rows))
            self.functions.tracekit_tuples(
                byref(self._python), byref(self._tuples), byref(self.cells)
            )
        return bool(self._rows)

    def error(self, _: int) -> str:
        return "string or blob too big"

    def close(self) -> None:
        self._cursor.close()
