"""Files and pipes -> the decompressed bytes of a trace."""

from __future__ import annotations

import glob
import hashlib
import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard
from isal import isal_zlib

from tracekit.errors import TracekitError

_READ_BYTES = 1 << 20
_COPY_BYTES = 64 << 10
# Of what is decompressed at once, nothing is had if it is corrupt.
_GZIP_BYTES = 16 << 10
_GZIP_TRAILER_BYTES = 8
_GZIP_WINDOW = 31  # zlib's: the largest, and a gzip header
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A pipe is looked at (is it an archive?) before it is read, and so copied; a small one to memory.
_SPOOL_BYTES = 64 << 20
# Traces shrink to a tenth, generated ones to a fiftieth. What grows beyond this is no trace.
_BOMB_RATIO = 250
_BOMB_BYTES = 256 << 20
_TRACES = (".json", ".json.gz", ".json.zst")
_SUFFIXES = (*_TRACES, ".tar", ".tar.gz", ".tgz", ".tar.zst")


class _Hashing:
    """A file that is hashed and counted as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _READ_BYTES) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        self.size += len(data)
        return data


class _Gunzipped:
    """The members of a gzip file, one behind the other, as far as they can be had.

    isal decompresses four times as fast as zlib; its files lose what stands before an early end.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._parts = _gunzip(raw)
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        """At least `size` bytes, fewer at the end.

        Raises:
            EOFError, isal_zlib.error: when there are none, for the file ends early or is corrupt.
        """
        data = bytearray()
        try:
            while len(data) < size and self._error is None and (part := next(self._parts, b"")):
                data += part
        except (EOFError, isal_zlib.error) as error:
            self._error = error
        if self._error is not None and not data:
            raise self._error
        return bytes(data)


def _gunzip(raw: BinaryIO) -> Iterator[bytes]:
    member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
    chunk, held = b" ", b""
    while chunk:
        chunk = raw.read(_GZIP_BYTES)
        text = held + chunk
        if chunk:
            # The last trailer goes by itself: should its checksum be wrong, the text is had.
            text, held = text[:-_GZIP_TRAILER_BYTES], text[-_GZIP_TRAILER_BYTES:]
        while text:
            if member.eof:
                text = text.lstrip(b"\0")
                if not text:
                    break
                member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
            if part := member.decompress(text):
                yield part
            text = member.unused_data
    if not member.eof:
        raise EOFError


class ByteStream:
    """The decompressed bytes of a trace. What ends early is noted in `damage`, not raised.

    `path` is what messages and the database call it; `progress` is told of bytes read, as stored.
    """

    def __init__(self, path: str, file: BinaryIO, progress: Callable[[int], object] = int) -> None:
        self.path = path
        self._file = file
        self._progress = progress
        self._hashing = _Hashing(file)
        self.rewind()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Back to the first byte."""
        self.damage: str | None = None
        self._progress(-self._hashing.size)
        self._hashing = _Hashing(self._file)
        self._decompressed = 0
        raw = cast(BinaryIO, self._hashing)
        try:
            self._file.seek(0)
            magic = self._file.read(4)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise self._unreadable(error) from error
        self._read: Callable[[int], bytes]
        if magic[:2] == _GZIP_MAGIC:
            self._read = _Gunzipped(raw).read
        elif magic == _ZSTD_MAGIC:
            decompressor = zstandard.ZstdDecompressor()
            self._read = decompressor.stream_reader(raw, read_across_frames=True).read
        else:
            self._read = self._hashing.read

    def read(self, size: int = _READ_BYTES) -> bytes:
        """The next bytes, about `size`; none at the end.

        Raises:
            TracekitError: when the file cannot be read, or grows beyond all measure.
        """
        before = self._hashing.size
        try:
            data = self._read(size)
        except EOFError:
            self.damage = "the compressed file ends early"
            return b""
        except (isal_zlib.error, zstandard.ZstdError) as error:
            self.damage = f"the compressed data is corrupt ({error})"
            return b""
        except OSError as error:
            raise self._unreadable(error) from error
        self._progress(self._hashing.size - before)
        self._decompressed += len(data)
        if self._decompressed > max(_BOMB_BYTES, _BOMB_RATIO * self._hashing.size):
            raise TracekitError(
                f"{self.path}: is more than {_BOMB_RATIO} times as large decompressed, which no "
                "trace is; if you trust it, decompress it first"
            )
        return data

    @property
    def file_bytes(self) -> int:
        """How much of the file, as stored, has been read."""
        return self._hashing.size

    @property
    def stored_bytes(self) -> int:
        """The size of the file, as stored."""
        here = self._file.tell()
        size = self._file.seek(0, io.SEEK_END)
        self._file.seek(here)
        return size

    @property
    def sha256(self) -> str:
        return self._hashing.sha256.hexdigest()

    def _unreadable(self, error: OSError) -> TracekitError:
        return unreadable(self.path, error)


def unreadable(path: str, error: OSError) -> TracekitError:
    return TracekitError(f"{path}: cannot be read: {error.strerror or error}")


def trace_paths(paths: Iterable[str]) -> list[str]:
    """Files as they are; what is in a directory, or matches a pattern, in order.

    Raises:
        TracekitError: for a directory or pattern without a trace.
    """
    found: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = [str(each) for each in Path(path).rglob("*") if each.name.endswith(_SUFFIXES)]
            what = f"no trace is in this directory: no file ends in one of {', '.join(_SUFFIXES)}"
        elif glob.has_magic(path) and not Path(path).exists():
            inside = list(glob.glob(path, recursive=True))  # noqa: PTH207
            what = "No such file, and none matches it as a pattern"
        else:
            found.append(path)
            continue
        inside = sorted(each for each in inside if Path(each).is_file())
        if not inside:
            raise TracekitError(f"{path}: {what}")
        found += inside
    return found


def open_streams(
    path: str, progress: Callable[[int], object] = int
) -> Iterator[ByteStream | TracekitError]:
    """The trace at `path` (- is standard input), or each trace of a tar archive, in order.

    Who takes a stream closes it. In place of an archive's bad member comes what is wrong with it.

    Raises:
        TracekitError: when it cannot be read.
    """
    try:
        stream = ByteStream(path, _seekable(path), progress)
    except OSError as error:
        raise unreadable(path, error) from error
    is_archive = stream.read(tarfile.BLOCKSIZE)[257:262] == b"ustar"
    stream.rewind()
    if not is_archive:
        yield stream
        return
    with stream:
        yield from _members(stream)


def _members(stream: ByteStream) -> Iterator[ByteStream | TracekitError]:
    """The traces of an archive. One that is cut off ends as its file does, in the middle."""
    found = False
    try:
        file = cast(BinaryIO, stream)
        with tarfile.open(fileobj=file, mode="r|", bufsize=_READ_BYTES) as archive:
            for member in archive:
                if member.isdir() or not member.name.endswith(_TRACES):
                    continue
                found = True
                name = f"{stream.path}/{member.name}"
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    yield TracekitError(f"{name}: is a link or a device, not a file")
                else:
                    yield ByteStream(name, _spooled(content))
    except tarfile.TarError as error:
        raise TracekitError(
            f"{stream.path}: is a damaged archive: {stream.damage or error}"
        ) from error
    if stream.damage:
        raise TracekitError(
            f"{stream.path}: {stream.damage}: what is behind its last trace is lost"
        )
    if not found:
        raise TracekitError(f"{stream.path}: no trace is in this archive")


def _seekable(path: str) -> BinaryIO:
    """The file, or a temporary copy of what comes through a pipe."""
    if path == "-":
        if sys.stdin is None:
            raise TracekitError("-: standard input is closed")
        return _spooled(sys.stdin.buffer)
    file = Path(path).open("rb")  # noqa: SIM115
    if file.seekable():
        return file
    with file:
        return _spooled(file)


def _spooled(source: IO[bytes]) -> BinaryIO:
    copy = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
    try:
        shutil.copyfileobj(source, copy, _COPY_BYTES)
    except tarfile.ReadError:
        # A member of an archive that is cut off is as long as there is of it.
        if not copy.tell():
            raise
    return cast(BinaryIO, copy)
