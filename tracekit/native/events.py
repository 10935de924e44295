"""Events from JSON text."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int32, c_int64
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import duckdb

from tracekit.native.library import Batch, library


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


class _Stopped(ctypes.Structure):
    _fields_: ClassVar = [("at", c_int64), ("reason", c_int32), ("error", c_char_p)]


def read_events(text: bytearray, first_id: int) -> Read:
    """The events at the front of a text, numbered from `first_id`, as rows of the table `event`.

    They stand one behind the other as in the array `traceEvents`, parted by commas. Reading goes to
    the text's end, or to what is no event: to its beginning (`end`).

    Raises:
        duckdb.OutOfMemoryException: when there is no memory for them.
    """
    batch, stopped = Batch(), _Stopped()
    shared = (ctypes.c_char * len(text)).from_buffer(text)
    try:
        library().tracekit_read_events(shared, len(text), first_id, byref(batch), byref(stopped))
    finally:
        # While it is shared, a bytearray cannot change its size.
        del shared
    if stopped.reason == Stop.OUT_OF_MEMORY:
        raise duckdb.OutOfMemoryException("a batch of events does not fit in memory")
    return Read(batch, stopped.at, Stop(stopped.reason), (stopped.error or b"").decode())
