"""Events from JSON text."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int32, c_int64
from dataclasses import dataclass
from enum import IntEnum
from secrets import randbits
from typing import ClassVar

import duckdb

from tracekit.native.library import Batch, library


class Stop(IntEnum):
    """Why reading events, or members, stopped where it did; as in members.h."""

    AT_END = 0
    INSIDE = 1
    AT_BRACKET = 2
    AT_ERROR = 3
    OUT_OF_MEMORY = 4
    AT_EVENTS = 5


@dataclass(frozen=True)
class Read:
    """What `read_events` made of a text."""

    batch: Batch
    end: int
    stop: Stop
    error: str


class _Stopped(ctypes.Structure):
    _fields_: ClassVar = [
        ("at", c_int64),
        ("reason", c_int32),
        ("many_labels", c_int32),
        ("error", c_char_p),
    ]


class Labels:
    """What events say in words: each distinct saying is a row of the table `label`, numbered from
    `first_id`.

    Where names do not repeat it forgets, so that it stays small: a label may have several numbers.
    `are_many` says that it is time to take the new ones.
    """

    handle: int | None = None

    def __init__(self, first_id: int) -> None:
        self.are_many = False
        self.handle = library().tracekit_labels_open(first_id, randbits(64))
        if not self.handle:
            raise duckdb.OutOfMemoryException("labels of events do not fit in memory")

    def __del__(self) -> None:
        if self.handle:
            library().tracekit_labels_close(self.handle)

    def take(self) -> Batch:
        """Those that are new since the last time."""
        batch = Batch()
        if library().tracekit_labels_take(self.handle, byref(batch)):
            raise duckdb.OutOfMemoryException("labels of events do not fit in memory")
        self.are_many = False
        return batch


def read_events(text: bytearray, first_id: int, labels: Labels) -> Read:
    """The events at the front of a text, numbered from `first_id`, as rows of the table
    `event_row`.

    They stand one behind the other as in the array `traceEvents`, parted by commas. Reading goes to
    the text's end, or to what is no event: to its beginning (`end`).

    Raises:
        duckdb.OutOfMemoryException: when there is no memory for them.
    """
    batch, stopped = Batch(), _Stopped()
    shared = (ctypes.c_char * len(text)).from_buffer(text)
    try:
        library().tracekit_read_events(
            shared, len(text), first_id, labels.handle, byref(batch), byref(stopped)
        )
    finally:
        # While it is shared, a bytearray cannot change its size.
        del shared
    if stopped.reason == Stop.OUT_OF_MEMORY:
        raise duckdb.OutOfMemoryException("a batch of events does not fit in memory")
    labels.are_many = bool(stopped.many_labels)
    return Read(batch, stopped.at, Stop(stopped.reason), (stopped.error or b"").decode())
