"""The members of a trace beside its events, from JSON text."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import ClassVar

import duckdb

from tracekit.native.events import Stop
from tracekit.native.library import library


@dataclass(frozen=True)
class Members:
    """What `read_members` made of a text.

    `text` is JSON: keys and values without white space between them, parted by commas. Raw control
    characters in its strings are escaped; invalid UTF-8 and lone surrogates are U+FFFD.
    """

    text: str
    end: int
    stop: Stop
    error: str


class _Read(ctypes.Structure):
    _fields_: ClassVar = [
        ("at", c_int64),
        ("size", c_int64),
        ("text", c_void_p),
        ("error", c_char_p),
        ("reason", c_int32),
    ]


def read_members(text: bytearray) -> Members:
    """The members at the front of a text, which stand one behind the other as in an object.

    Reading goes to the text's end, to the closing brace, to the value of `traceEvents`, or to what
    is no member: to its beginning (`end`).

    Raises:
        duckdb.OutOfMemoryException: when there is no memory for them.
    """
    read = _Read()
    shared = (ctypes.c_char * len(text)).from_buffer(text)
    try:
        library().tracekit_read_members(shared, len(text), byref(read))
    finally:
        # While it is shared, a bytearray cannot change its size.
        del shared
    try:
        if read.reason == Stop.OUT_OF_MEMORY:
            raise duckdb.OutOfMemoryException("a trace's metadata does not fit in memory")
        found = ctypes.string_at(read.text, read.size) if read.size else b""
    finally:
        library().tracekit_free(read.text)
    error = (read.error or b"").decode()
    return Members(found.decode(), read.at, Stop(read.reason), error)


def find_member(text: bytes, name: str) -> tuple[bytes, int] | None:
    """The value of the last member of that name in an object, and how deep it is nested.

    The object is such as `read_members` reads, in braces. None where it has no such member.
    """
    end, depth = c_int64(), c_int32()
    key = name.encode()
    at = library().tracekit_find_member(text, len(text), key, len(key), byref(end), byref(depth))
    return None if at < 0 else (text[at : end.value], depth.value)
