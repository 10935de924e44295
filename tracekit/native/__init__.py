"""What is written in C: events of a trace, from JSON text to Arrow columns that DuckDB reads.

Compiled when tracekit is installed (setup.py). Columns are handed over by the Arrow C data
interface: https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import ClassVar

from tracekit.errors import TracekitError

LIBRARY = Path(__file__).with_name("libtracekit.so")


class Stop(IntEnum):
    """Why reading events stopped where it did; as in events.c."""

    AT_END = 0
    INSIDE_EVENT = 1
    AT_BRACKET = 2
    AT_ERROR = 3
    OUT_OF_MEMORY = 4


@dataclass(frozen=True)
class Read:
    """What `read_events` made of a text."""

    batch: Batch
    end: int
    stop: Stop
    error: str


class Batch(ctypes.Structure):
    """An Arrow record batch: some rows of the table `event`, as struct ArrowArray."""

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
            _library().tracekit_release(byref(self))

    def move_to(self, address: int) -> None:
        """Hands the rows over to who owns the struct at `address`."""
        ctypes.memmove(address, byref(self), ctypes.sizeof(self))
        self.release = None


class _Stopped(ctypes.Structure):
    _fields_: ClassVar = [("at", c_int64), ("reason", c_int32), ("error", c_char_p)]


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise TracekitError(
            f"{LIBRARY.name} is missing: install tracekit with pip, which compiles it"
        ) from error
    library.tracekit_read_events.restype = None
    library.tracekit_read_events.argtypes = [c_void_p, c_int64, c_int64, POINTER(Batch), c_void_p]
    library.tracekit_release.restype = None
    library.tracekit_release.argtypes = [c_void_p]
    library.tracekit_event_schema.restype = c_int
    library.tracekit_event_schema.argtypes = [c_void_p]
    return library


def read_events(text: bytearray, first_id: int) -> Read:
    """The events at the front of a text, numbered from `first_id`.

    They stand one behind the other as in the array `traceEvents`, parted by commas. Reading goes to
    the text's end, or to what is no event: to its beginning (`end`).
    """
    batch, stopped = Batch(), _Stopped()
    shared = (ctypes.c_char * len(text)).from_buffer(text)
    try:
        _library().tracekit_read_events(shared, len(text), first_id, byref(batch), byref(stopped))
    finally:
        # While it is shared, a bytearray cannot change its size.
        del shared
    if stopped.reason == Stop.OUT_OF_MEMORY:
        raise MemoryError("a batch of events does not fit in memory")
    return Read(batch, stopped.at, Stop(stopped.reason), (stopped.error or b"").decode())


# Fills in the struct at the second address; 0 when done.
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


class EventStream:
    """Batches as a table that DuckDB reads, once; threads of DuckDB ask for one after the other.

    What making one raises ends the query; it is kept in `error`.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.error: BaseException | None = None
        self._batches = batches
        self._streams: list[_CStream] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream = _CStream(
            _Fill(lambda _, schema: int(_library().tracekit_event_schema(schema))),
            _Fill(self._next),
            _LastError(lambda _: None),
            _Release(_mark_released),
        )
        # Its callbacks are Python's, and live as long.
        self._streams.append(stream)
        return _capsule(ctypes.addressof(stream))

    def _next(self, _: object, out: int) -> int:
        try:
            # Behind the last batch, one that is released says that there is no more.
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
    capsule: object = new(address, b"arrow_array_stream", None)
    return capsule
