"""A trace's members other than its events, parsed from JSON text by the C library."""

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
    """Members of a JSON object, where reading stopped (`end`, a byte index), and why.

    `text` is JSON: keys and values, separated by commas, without white space between tokens. Raw
    control characters in strings are escaped; invalid UTF-8 and lone surrogates become U+FFFD, and
    then `mended_end` is the byte index behind the last member (else 0).
    """

    text: str
    mended_end: int
    end: int
    stop: Stop
    error: str


class _Read(ctypes.Structure):
    _fields_: ClassVar = [
        ("at", c_int64),
        ("size", c_int64),
        ("text", c_void_p),
        ("mended_end", c_int64),
        ("error", c_char_p),
        ("reason", c_int32),
    ]


def read_members(text: bytearray) -> Members:
    """The members at the front of a text, separated by commas as in a JSON object.

    Reading stops at the text's end, at the closing brace, at the value of `traceEvents`, or at the
    beginning of anything that is not a complete member (`end`).

    Raises:
        duckdb.OutOfMemoryException: when the members do not fit in memory.
    """
    read = _Read()
    shared = (ctypes.c_char * len(text)).from_buffer(text)
    try:
        library().tracekit_read_members(shared, len(text), byref(read))
    finally:
        # A bytearray cannot change its size while its memory is shared.
        del shared
    try:
        if read.reason == Stop.OUT_OF_MEMORY:
            raise duckdb.OutOfMemoryException("a trace's metadata does not fit in memory")
        found = ctypes.string_at(read.text, read.size) if read.size else b""
    finally:
        library().tracekit_free(read.text)
    error = (read.error or b"").decode()
    return Members(found.decode(), read.mended_end, read.at, Stop(read.reason), error)


def find_member(text: bytes, name: str) -> tuple[bytes, int] | None:
    """The value of the last member called `name` in an object, and the value's nesting depth.

    `text` is the text of `Members` in braces. None when the object has no such member.
    """
    end, depth = c_int64(), c_int32()
    key = name.encode()
    at = library().tracekit_find_member(text, len(text), key, len(key), byref(end), byref(depth))
    return None if at < 0 else (text[at : end.value], depth.value)
