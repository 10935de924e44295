"""Files and pipes -> the decompressed bytes of a trace."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import zstandard

from tracekit.errors import TracekitError

_READ_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A pipe is read again where a trace turns out to be damaged; a small one is kept in memory.
_SPOOL_BYTES = 64 << 20
# Traces shrink to a tenth, generated ones to a fiftieth. What grows beyond this is no trace.
_BOMB_RATIO = 250
_BOMB_BYTES = 256 << 20


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


class ByteStream:
    """The decompressed bytes of a trace. What ends early is noted in `damage`, not raised."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = _seekable(path)
        except OSError as error:
            raise self._unreadable(error) from error
        self.rewind()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Back to the first byte."""
        self.damage: str | None = None
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
            # read1 hands over what was decompressed before an early end; read would lose it.
            self._read = gzip.GzipFile(fileobj=raw).read1
        elif magic == _ZSTD_MAGIC:
            decompressor = zstandard.ZstdDecompressor()
            self._read = decompressor.stream_reader(raw, read_across_frames=True).read
        else:
            self._read = self._hashing.read

    def read(self) -> bytes:
        """The next chunk; empty at the end.

        Raises:
            TracekitError: when the file cannot be read, or grows beyond all measure.
        """
        try:
            data = self._read(_READ_BYTES)
        except EOFError:
            self.damage = "the compressed file ends early"
            return b""
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            self.damage = f"the compressed data is corrupt ({error})"
            return b""
        except OSError as error:
            raise self._unreadable(error) from error
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
    def sha256(self) -> str:
        return self._hashing.sha256.hexdigest()

    def _unreadable(self, error: OSError) -> TracekitError:
        return TracekitError(f"{self.path}: cannot be read: {error.strerror or error}")


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


def _spooled(pipe: BinaryIO) -> BinaryIO:
    copy = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
    shutil.copyfileobj(pipe, copy)
    return cast(BinaryIO, copy)
