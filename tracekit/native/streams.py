"""Batches as Arrow streams, which DuckDB reads as tables."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p
from typing import ClassVar, Literal

from tracekit.native.library import Batch, library

# The kinds of rows that a batch may hold.
Rows = Literal["event", "label", "segment", "slice", "wait"]
CAPSULE_NAME = b"arrow_array_stream"

# Fills in the struct at the second address; returns 0, or an errno when it fails.
_Fill = CFUNCTYPE(c_int, c_void_p, c_void_p)
_LastError = CFUNCTYPE(c_void_p, c_void_p)
_Release = CFUNCTYPE(None, c_void_p)


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
    """Batches of one kind as a table that DuckDB can read once, one thread at a time.

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
