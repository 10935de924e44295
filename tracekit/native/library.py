"""The compiled library, its functions, and batches of rows that DuckDB reads as streams."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    PyDLL,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from tracekit.errors import TracekitError

_PATH = Path(__file__).with_name("libtracekit.so")
# The kinds of rows that a batch may hold.
Rows = Literal["event", "label", "segment", "slice", "wait"]
CAPSULE_NAME = b"arrow_array_stream"

# Fills in the struct at the second address; returns 0, or an errno when it fails.
_Fill = CFUNCTYPE(c_int, c_void_p, c_void_p)
_LastError = CFUNCTYPE(c_void_p, c_void_p)
_Release = CFUNCTYPE(None, c_void_p)


class Batch(ctypes.Structure):
    """An Arrow record batch: a struct ArrowArray that holds the columns."""

    _fields_: ClassVar = [
        ("rows", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", c_void_p),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]

    def __del__(self) -> None:
        if self.release:
            library().tracekit_release(byref(self))

    def move_to(self, address: int) -> None:
        """Moves the rows into the struct at `address`. Its owner must release them."""
        ctypes.memmove(address, byref(self), ctypes.sizeof(self))
        self.release = None


_BATCH = POINTER(Batch)
# The functions by name without the prefix `tracekit_`, with the result and argument types declared
# in the C files.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "read_events": (None, [c_void_p, c_int64, c_int64, c_void_p, _BATCH, c_void_p]),
    "read_rows": (None, [c_void_p, c_int64, c_void_p, _BATCH]),
    "add_row": (None, [c_void_p, c_int, c_void_p]),
    "event_schema": (c_int, [c_void_p]),
    "perfetto_open": (c_void_p, [c_uint64, c_void_p]),
    "perfetto_packets": (None, [c_void_p, c_void_p, c_int64, c_int, c_int64, c_void_p]),
    "perfetto_tracks": (c_int64, [c_void_p] * 4),
    "perfetto_place": (c_int, [c_void_p, c_int64, c_int64, c_int64, c_char_p, c_int64]),
    "perfetto_pair": (c_int, [c_void_p]),
    "perfetto_rows": (
        None, [c_void_p, c_char_p, c_int64, c_int64, c_int64, c_void_p, _BATCH, c_void_p]
    ),
    "perfetto_close": (None, [c_void_p]),
    "plane_open": (c_void_p, [c_uint64]),
    "plane_read": (None, [c_void_p, c_char_p, c_int64, c_int64, c_void_p]),
    "plane_words": (
        c_int, [c_void_p, c_int64, c_int, c_char_p, c_int64, c_char_p, c_int64, c_int]
    ),
    "plane_line": (None, [c_void_p, c_int64, c_int64, c_int64, c_int]),
    "plane_count": (c_int, [c_void_p, c_void_p, c_void_p]),
    "plane_rows": (None, [c_void_p, c_int64, c_int64, c_void_p, _BATCH, c_void_p]),
    "plane_close": (None, [c_void_p]),
    "labels_open": (c_void_p, [c_int64, c_uint64]),
    "labels_take": (c_int, [c_void_p, _BATCH]),
    "labels_close": (None, [c_void_p]),
    "label_schema": (c_int, [c_void_p]),
    "segment_schema": (c_int, [c_void_p]),
    "slice_schema": (c_int, [c_void_p]),
    "wait_schema": (c_int, [c_void_p]),
    "walk_open": (c_void_p, [c_void_p]),
    "walk_next": (c_int, [c_void_p, c_int64, _BATCH]),
    "walk_error": (c_char_p, [c_void_p]),
    "walk_close": (None, [c_void_p]),
    "read_members": (None, [c_void_p, c_int64, c_void_p]),
    "find_member": (c_int64, [c_char_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p]),
    "scaled": (None, [c_void_p, c_void_p, c_int64, c_void_p]),
    "work": (None, [c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "replay": (None, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "replay_ranks": (None, [c_void_p] * 6),
    "free": (None, [c_void_p]),
    "release": (None, [c_void_p]),
}  # fmt: skip


@cache
def library() -> CDLL:
    """The loaded library, with the types of its functions declared.

    Raises:
        TracekitError: when the library is missing or was compiled for another system.
    """
    return _loaded(CDLL)


@cache
def held_library() -> CDLL:
    """The library, for calls that use Python objects and hold the GIL."""
    return _loaded(PyDLL)


def _loaded(kind: type[CDLL]) -> CDLL:
    try:
        loaded = kind(str(_PATH))
    except OSError as error:
        raise TracekitError(_why_not(error)) from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, f"tracekit_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def _why_not(error: OSError) -> str:
    """Why the library is not there, and what to do."""
    if _PATH.exists():
        return f"{_PATH.name} cannot be loaded ({error}): install tracekit with pip again"
    checkout = _PATH.parents[2]
    if (checkout / "setup.py").exists():
        return (
            f"{checkout} is a checkout, whose folder `tracekit` hides an installed tracekit and is "
            f"not compiled: start Python in another folder, or run pip install -e {checkout}"
        )
    return f"{_PATH.name} is missing: install tracekit with pip, which compiles it"


class _CStream(ctypes.Structure):
    """struct ArrowArrayStream: https://arrow.apache.org/docs/format/CStreamInterface.html"""

    _fields_: ClassVar = [
        ("get_schema", _Fill),
        ("get_next", _Fill),
        ("get_last_error", _LastError),
        ("release", _Release),
        ("private_data", c_void_p),
    ]


class BatchStream:
    """Batches of one kind as a table that DuckDB can read once, by one thread at a time.

    An exception from `batches` ends the query and is kept in `error`.
    """

    def __init__(self, kind: Rows, batches: Iterator[Batch]) -> None:
        self.error: BaseException | None = None
        self._export_schema = getattr(library(), f"tracekit_{kind}_schema")
        self._batches = batches
        self._streams: list[_CStream] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream = _CStream(
            _Fill(lambda _, schema: int(self._export_schema(schema))),
            _Fill(self._next),
            _LastError(lambda _: None),
            _Release(_mark_released),
        )
        # Keep the struct alive: DuckDB calls its Python callbacks.
        self._streams.append(stream)
        return _capsule(ctypes.addressof(stream))

    def _next(self, _: object, out: int) -> int:
        try:
            # A released batch marks the end of the stream.
            (next(self._batches, None) or Batch()).move_to(out)
        except BaseException as error:
            self.error = error
            return errno.EIO
        return 0


def _mark_released(stream: int) -> None:
    _CStream.from_address(stream).release = _Release()


def _capsule(address: int) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [c_void_p, c_char_p, c_void_p]
    capsule: object = new(address, CAPSULE_NAME, None)
    return capsule
