"""Reads the text of compressed files and the traces in tar archives.

tarfile parses the archives' headers. This module walks from header to header itself, because
tarfile trusts headers without limit (sizes, sparse maps, chains of long names) and stops early
without an error.
https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from tarfile import BLOCKSIZE, TarInfo
from typing import Any, Protocol

from isal import isal_zlib
from msgspec import Struct

from tracekit.errors import TracekitError

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

_GZIP_WINDOW = 31  # zlib's code for the largest window and a gzip header
# zstd's own default limit. Files from `zstd --ultra --long=28` and above need a larger window.
_ZSTD_WINDOW_BYTES = 128 << 20
_ZSTD_OPTIONS: dict[int, int] = {
    zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BYTES.bit_length() - 1
}
# Decompress the last bytes separately, so that a wrong checksum does not lose the text before it.
_TRAILER_BYTES = 8
# Stop after this much compressed data without text (empty members, endless headers).
_SILENT_BYTES = 4 << 20
# Search this much of a file for the start of compressed data.
HEAD_BYTES = 64 << 10
# A gzip header with deflate and no reserved flag; a zstd frame, or a skippable one (RFC 8878).
_MAGIC = re.compile(rb"(\x1f\x8b\x08[\x00-\x1f])|(\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)")
_PARQUET = b"PAR1"
_JSON_BEGINS = (b"{", b"[", b" ", b"\t", b"\r", b"\n", b"\xef\xbb\xbf")
# Names of files with graph annotations: PyTorch's, or the trace's name with an ending.
ANNOTATIONS = re.compile(
    r"(kernel_annotations.*|(?P<trace>.+)\.annotations)\.(json|pkl|pickle)(\.gz|\.zst)?"
)
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
_READ_BYTES = 1 << 20
_BUFFER_BYTES = 64 << 10
# Skip larger headers that describe the next member (its long name, its pax records).
_EXTRA_BYTES = 1 << 20
_ZERO_BLOCK = bytes(BLOCKSIZE)
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTRAS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_PAX, tarfile.XGLTYPE)
_PAX_RECORD = re.compile(rb"(\d{1,9}) ([^=\n]+)=")
# Offset of the flag for another block of the sparse map: in the header, and in each such block.
_SPARSE_CONTINUES, _SPARSE_GOES_ON = 482, 504
_KINDS = {
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "pipe",
    tarfile.GNUTYPE_SPARSE: "sparse file",
}


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Raw(io.RawIOBase):
    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data = self._stream.read(len(into))
        into[: len(data)] = data
        return len(data)


def buffered(stream: Readable) -> io.BufferedReader:
    """The stream, buffered for many short reads."""
    return io.BufferedReader(_Raw(stream), _BUFFER_BYTES)


class DamagedError(Exception):
    """The rest of the data cannot be decompressed; the message says why."""


class Codec(Struct, frozen=True):
    """A compressed format. Reading `piece_bytes` at a time bounds the memory for its text."""

    piece_bytes: int
    # Returns a function that opens a decompressor; each member or frame needs a new one.
    opener: Callable[[], Callable[[], Any]]


# One byte of deflate expands to at most 1 kB, four bytes of zstd to 128 kB. isal is four times as
# fast as zlib.
_GZIP = Codec(16 << 10, lambda: partial(isal_zlib.decompressobj, wbits=_GZIP_WINDOW))
_ZSTD = Codec(1 << 10, lambda: partial(zstd.ZstdDecompressor, options=_ZSTD_OPTIONS))


def codec_of(head: bytes) -> tuple[Codec, int] | None:
    """The codec of a file that starts with `head`, and the offset of the compressed data; None:
    text."""
    # What is compressed inside a Parquet file is no file of its own.
    if head.startswith((*_JSON_BEGINS, _PARQUET)):
        return None
    match = _MAGIC.search(head)
    return None if match is None else (_GZIP if match[1] else _ZSTD, match.start())


class Decompressed:
    """The text of compressed data: all its members or frames in order."""

    def __init__(self, raw: Readable, codec: Codec) -> None:
        self._parts = _decompress(raw, codec)
        self._data = bytearray()
        self._error: DamagedError | None = None

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end.

        Raises:
            DamagedError: when the data ends early or is corrupt, after all text before the damage
                has been returned.
        """
        data = self._data
        try:
            while len(data) < size and self._error is None and (part := next(self._parts, b"")):
                data += part
        except DamagedError as error:
            self._error = error
        if self._error is not None and not data:
            raise self._error
        text = bytes(data[:size])
        del data[:size]
        return text


def _decompress(raw: Readable, codec: Codec) -> Iterator[bytes]:
    """The text in parts; no part is empty."""
    opened = codec.opener()
    member, chunk, last, silent = opened(), b" ", b"", 0
    try:
        while chunk:
            chunk = raw.read(codec.piece_bytes)
            data = last + chunk
            if chunk:
                data, last = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
            silent += len(chunk)
            while data:
                if member.eof:
                    # A file may be padded with zeros.
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
    except (isal_zlib.error, zstd.ZstdError) as error:
        raise DamagedError(_reason(error)) from error
    if not member.eof:
        raise DamagedError("the compressed file ends early")


def _reason(error: Exception) -> str:
    if "too much memory" in str(error):
        needed = f"needs more than {_ZSTD_WINDOW_BYTES >> 20} MB of memory to decompress"
        return f"{needed}: decompress it first (zstd -d --long=31)"
    return f"the compressed data is corrupt ({error})"


class Stream(Protocol):
    """A file to read; `damage` says why it ended early, if so."""

    path: str
    damage: str | None

    def read(self, size: int, /) -> bytes: ...


class Member(Struct):
    """A trace in an archive. Read all its chunks before requesting the next member.

    `damage` is set after the chunks are read, if the trace is truncated.
    """

    path: str
    chunks: Iterator[bytes]
    damage: str | None = None


class _Extra(Struct):
    """Extra headers' data on the next member, which override the member's own header."""

    name: bytes | None = None
    size: int | None = None
    is_sparse: bool = False


def is_archive(head: bytes) -> bool:
    """Whether a file that begins with `head` is a tar archive."""
    return head[257:262] == b"ustar"


def members(stream: Stream, endings: tuple[str, ...]) -> Iterator[Member | TracekitError]:
    """The traces in an archive: members with one of these endings. For a trace that cannot be read,
    an error is yielded instead.

    Raises:
        TracekitError: after the last trace, if the archive is damaged or contains no trace.
    """
    return _Walk(stream, endings).members()


class _Walk:
    """Walks through an archive once, front to back."""

    def __init__(self, stream: Stream, endings: tuple[str, ...]) -> None:
        self._stream = stream
        self._endings = endings
        self._offset = 0
        self._damage: str | None = None
        self._is_lost = False

    def members(self) -> Iterator[Member | TracekitError]:
        is_any, extra = False, _Extra()
        while block := self._read(BLOCKSIZE):
            if block == _ZERO_BLOCK:
                continue
            header = self._header(block)
            if header is not None and header.type in _EXTRAS:
                self._read_extra(header, extra)
                continue
            if header is not None:
                name = header.name
                if extra.name is not None:
                    name = extra.name.decode("utf-8", "surrogateescape")
                if name.endswith(self._endings) and not header.isdir():
                    is_any = True
                    yield from self._trace(f"{self._stream.path}/{name}", header, extra)
                else:
                    if name.endswith(ARCHIVES) and header.isreg():
                        is_any = True
                        yield TracekitError(
                            f"{self._stream.path}/{name}: is an archive in an archive: unpack it "
                            "to load its traces"
                        )
                    self._skip_content(header, extra)
            extra = _Extra()
        reason = self._stream.damage or self._damage
        if reason:
            raise TracekitError(f"{self._stream.path}: is a damaged archive: {reason}")
        if not is_any:
            raise TracekitError(f"{self._stream.path}: this archive contains no trace")

    def _header(self, block: bytes) -> TarInfo | None:
        """The header in `block`; None: the walk continues to the next header."""
        if self._is_lost and not is_archive(block):
            return None
        try:
            header = TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError):
            header = None
        self._is_lost = header is None or header.size < 0
        if header is None or self._is_lost:
            self._note(f"the header before byte {self._offset:,} is missing")
            return None
        if header.type == tarfile.GNUTYPE_SPARSE:
            follows = block[_SPARSE_CONTINUES]
            while follows and len(more := self._read(BLOCKSIZE)) == BLOCKSIZE:
                follows = more[_SPARSE_GOES_ON]
        return header

    def _read_extra(self, header: TarInfo, extra: _Extra) -> None:
        if header.size > _EXTRA_BYTES:
            self._note(f"the header at byte {self._offset:,} is too large: {header.size:,} bytes")
            self._skip(header.size)
            return
        text = self._read(header.size)
        self._skip(-header.size % BLOCKSIZE)
        if header.type == tarfile.GNUTYPE_LONGNAME:
            extra.name = text.partition(b"\0")[0]
        elif header.type in _PAX and not _read_pax(text, extra):
            self._note(f"the header before byte {self._offset:,} is incomplete")

    def _trace(self, path: str, header: TarInfo, extra: _Extra) -> Iterator[Member | TracekitError]:
        kind = "sparse file" if extra.is_sparse else _KINDS.get(header.type)
        if kind is not None:
            self._skip_content(header, extra)
            yield TracekitError(
                f"{path}: is a {kind}, which cannot be read from an archive: unpack it first"
            )
            return
        member = Member(path, iter(()))
        member.chunks = self._content(member, _size(header, extra))
        yield member

    def _content(self, member: Member, size: int) -> Iterator[bytes]:
        left = size
        while left:
            chunk = self._read(min(left, _READ_BYTES))
            left -= len(chunk)
            if not chunk:
                member.damage = "the archive ends inside it"
                self._note(f"it ends inside {member.path}")
                return
            yield chunk
        self._skip(-size % BLOCKSIZE)

    def _skip_content(self, header: TarInfo, extra: _Extra) -> None:
        size = _size(header, extra)
        self._skip(size + -size % BLOCKSIZE)

    def _skip(self, size: int) -> None:
        while size:
            skipped = len(self._read(min(size, _READ_BYTES)))
            size -= skipped
            if not skipped:
                self._note("it ends early")
                return

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._offset += len(data)
        return data

    def _note(self, damage: str) -> None:
        self._damage = self._damage or damage


def _size(header: TarInfo, extra: _Extra) -> int:
    """The size of a member's content; 0 for links and the like, whatever their headers say."""
    if not header.isreg() and header.type in tarfile.SUPPORTED_TYPES:
        return 0
    return header.size if extra.size is None else extra.size


def _read_pax(text: bytes, extra: _Extra) -> bool:
    """Parses records `LENGTH KEY=VALUE` into `extra`; False when they are malformed."""
    at = 0
    while at < len(text):
        record = _PAX_RECORD.match(text, at)
        end = at + int(record[1]) if record else 0
        if record is None or end <= record.end() or text[end - 1 : end] != b"\n":
            # The block may be padded with zeros.
            return not text[at:].strip(b"\0")
        key, value = record[2], text[record.end() : end - 1]
        if key == b"path":
            extra.name = value
        elif key == b"size":
            if not re.fullmatch(rb"\d{1,18}", value):
                return False
            extra.size = int(value)
        elif key.startswith(b"GNU.sparse."):
            extra.is_sparse = True
        at = end
    return True
