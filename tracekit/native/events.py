"""Events and a trace's other members, parsed from JSON text by the C library."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from ctypes import byref, c_char_p, c_int32, c_int64, c_void_p
from enum import IntEnum
from itertools import starmap
from secrets import randbits
from typing import ClassVar, NamedTuple

import duckdb
from msgspec import Struct

from tracekit.native.library import Batch, library


class Stop(IntEnum):
    """Why reading events or members stopped; same values as in src/members.h."""

    AT_END = 0
    INSIDE = 1
    AT_BRACKET = 2
    AT_ERROR = 3
    OUT_OF_MEMORY = 4
    AT_EVENTS = 5


class Verbatim(NamedTuple):
    """Text that rows do not hold in full: an event in which characters were replaced by U+FFFD, or
    elements that are not events, before the event `event_id`."""

    begin: int
    end: int
    event_id: int
    is_event: int
    elements: int


class Read(Struct, frozen=True):
    """A batch of events, where reading stopped (`end`, a byte index), why, and the text that the
    rows do not hold in full."""

    batch: Batch
    end: int
    stop: Stop
    error: str
    verbatim: Iterable[Verbatim] = ()


class _ReadEnd(ctypes.Structure):
    _fields_: ClassVar = [
        ("at", c_int64),
        ("reason", c_int32),
        ("many_labels", c_int32),
        ("error", c_char_p),
        ("mended_end", c_int64),
        ("size", c_int64),
        ("bytes", c_void_p),
    ]

    def where(self) -> tuple[int, Stop, str]:
        """The result's fields for where and why reading stopped."""
        return self.at, Stop(self.reason), (self.error or b"").decode()


def _read(name: str, text: bytearray, *more: object) -> tuple[_ReadEnd, bytes]:
    """Calls a function on the text."""
    stopped = _ReadEnd()
    shared = ctypes.c_char.from_buffer(text) if text else ctypes.c_char()
    try:
        read = getattr(library(), f"tracekit_{name}")
        read(ctypes.addressof(shared), len(text), *more, byref(stopped))
    finally:
        # A bytearray cannot change its size while its memory is shared.
        del shared
    replaced = ctypes.string_at(stopped.bytes, stopped.size) if stopped.size else b""
    library().tracekit_free(stopped.bytes)
    if stopped.reason == Stop.OUT_OF_MEMORY:
        raise duckdb.OutOfMemoryException("a part of a trace does not fit in memory")
    return stopped, replaced


class Labels:
    """The distinct texts of events (names, categories and the like): rows of the table `label`,
    numbered from `first_id`.

    It stays small by forgetting labels when names do not repeat: a label may then have several
    numbers. When `are_many` is true, it is time to `take` the new labels.

    Raises:
        duckdb.OutOfMemoryException: when the labels do not fit in memory.
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
        """The labels added since the last call."""
        batch = Batch()
        if library().tracekit_labels_take(self.handle, byref(batch)):
            raise duckdb.OutOfMemoryException("labels of events do not fit in memory")
        self.are_many = False
        return batch


def read_events(text: bytearray, first_id: int, labels: Labels, batch: Batch | None = None) -> Read:
    """Reads events from the front of a text and appends them to `batch`, as rows of the table
    `event_row`. The batch's first row has the number `first_id`.

    The events are separated by commas, as in the array `traceEvents`. Elements that are not objects
    are skipped. Raw control characters in strings are read as if escaped; invalid UTF-8 and lone
    surrogates become U+FFFD. Reading stops at the text's end, or at the start of anything that is
    not a complete element (`end`).

    Raises:
        duckdb.OutOfMemoryException: when the events do not fit in memory.
    """
    batch = batch or Batch()
    stopped, originals = _read("read_events", text, first_id, labels.handle, byref(batch))
    labels.are_many = bool(stopped.many_labels)
    # There may be many, so they are created one by one.
    return Read(batch, *stopped.where(), starmap(Verbatim, struct.iter_unpack("5q", originals)))


class Members(Struct, frozen=True):
    """Members of a JSON object, where reading stopped (`end`, a byte index), and why.

    `text` is JSON: keys and values, separated by commas, without white space between tokens. Raw
    control characters in strings are escaped; invalid UTF-8 and lone surrogates become U+FFFD, and
    then `mended_end` is the byte index after the last member (else 0).
    """

    text: str
    mended_end: int
    end: int
    stop: Stop
    error: str


def read_members(text: bytearray) -> Members:
    """The members at the front of a text, separated by commas as in a JSON object.

    Reading stops at the text's end, at the closing brace, at the value of `traceEvents`, or at the
    start of anything that is not a complete member (`end`).

    Raises:
        duckdb.OutOfMemoryException: when the members do not fit in memory.
    """
    stopped, members = _read("read_members", text)
    return Members(members.decode(), stopped.mended_end, *stopped.where())


def find_member(text: bytes, name: str) -> tuple[bytes, int] | None:
    """The value of the last member called `name` in an object, and the value's nesting depth.

    `text` is the text of `Members` in braces. None if the object has no such member.
    """
    end, depth = c_int64(), c_int32()
    key = name.encode()
    at = library().tracekit_find_member(text, len(text), key, len(key), byref(end), byref(depth))
    return None if at < 0 else (text[at : end.value], depth.value)
