"""Compressed bytes -> text, up to the first damage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import zstandard
from isal import isal_zlib

_GZIP_WINDOW = 31  # zlib's code for the largest window and a gzip header
# zstd's own default limit. Files from `zstd --ultra --long=28` and above need a larger window.
_ZSTD_WINDOW_BYTES = 128 << 20
# Held back until the file ends, so that a wrong checksum does not lose the text before it.
_TRAILER_BYTES = 8
# Stop after this much compressed data without any text: empty members, endless headers.
_SILENT_BYTES = 4 << 20
# Search this much of a file for the start of compressed data.
HEAD_BYTES = 64 << 10
# A gzip header with deflate and no reserved flag; a zstd frame, or a skippable one (RFC 8878).
_MAGIC = re.compile(rb"(\x1f\x8b\x08[\x00-\x1f])|(\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)")
_JSON_BEGINS = (b"{", b"[", b" ", b"\t", b"\r", b"\n", b"\xef\xbb\xbf")


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class DamagedError(Exception):
    """Says why the rest of the data cannot be decompressed."""


@dataclass(frozen=True)
class Codec:
    """A compressed format. Reading `piece_bytes` at a time bounds the memory for its text."""

    piece_bytes: int
    # Makes a function that opens a decompressor; each member or frame gets its own.
    opener: Callable[[], Callable[[], Any]]


def _open_gzip() -> Callable[[], Any]:
    # isal decompresses four times as fast as zlib.
    return lambda: isal_zlib.decompressobj(wbits=_GZIP_WINDOW)


def _open_zstd() -> Callable[[], Any]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return lambda: decompressor.decompressobj()


# A byte of deflate grows to 1 kB at most, four bytes of zstd to 128 kB.
_GZIP = Codec(16 << 10, _open_gzip)
_ZSTD = Codec(1 << 10, _open_zstd)


def codec_of(head: bytes) -> tuple[Codec, int] | None:
    """The codec of a file that begins with `head`, and the offset of the compressed data; None for
    text."""
    if head.startswith(_JSON_BEGINS):
        return None
    found = _MAGIC.search(head)
    return None if found is None else (_GZIP if found[1] else _ZSTD, found.start())


class Decompressed:
    """The text of compressed data: all its members or frames, one after the other."""

    def __init__(self, raw: Readable, codec: Codec) -> None:
        self._parts = _decompress(raw, codec)
        self._error: DamagedError | None = None

    def read(self, size: int) -> bytes:
        """At least `size` bytes, fewer at the end.

        Raises:
            DamagedError: when the data ends early or is corrupt, after all text before the damage
                has been returned.
        """
        data = bytearray()
        try:
            while len(data) < size and self._error is None and (part := next(self._parts, b"")):
                data += part
        except DamagedError as error:
            self._error = error
        if self._error is not None and not data:
            raise self._error
        return bytes(data)


def _decompress(raw: Readable, codec: Codec) -> Iterator[bytes]:
    """The text in parts; no part is empty."""
    opened = codec.opener()
    member, chunk, held, silent = opened(), b" ", b"", 0
    try:
        while chunk:
            chunk = raw.read(codec.piece_bytes)
            data = held + chunk
            if chunk:
                data, held = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
            silent += len(chunk)
            while data:
                if member.eof:
                    # Zeros may pad a file.
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    member = opened()
                if part := member.decompress(data):
                    silent = 0
                    yield part
                data = member.unused_data
            if silent > _SILENT_BYTES:
                raise DamagedError(f"{_SILENT_BYTES >> 20} MB of the compressed file hold no text")
    except (isal_zlib.error, zstandard.ZstdError) as error:
        raise DamagedError(_reason(error)) from error
    if not member.eof:
        raise DamagedError("the compressed file ends early")


def _reason(error: Exception) -> str:
    if "too much memory" in str(error):
        needed = f"needs more than {_ZSTD_WINDOW_BYTES >> 20} MB of memory to decompress"
        return f"{needed}: decompress it first (zstd -d --long=31)"
    return f"the compressed data is corrupt ({error})"
