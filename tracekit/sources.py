"""Files and pipes -> the decompressed bytes of a trace."""

from __future__ import annotations

import gzip
import hashlib
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from tracekit.errors import TracekitError

_READ_BYTES = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class _Hashing:
    """A file that is hashed and counted as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ahead = b""
        self.sha256 = hashlib.sha256()
        self.size = 0

    def peek(self, size: int) -> bytes:
        """The next bytes, without consuming them; only at the start."""
        self._ahead = self._file.read(size)
        return self._ahead

    def read(self, size: int = _READ_BYTES) -> bytes:
        data = self._ahead[:size] + self._file.read(max(0, size - len(self._ahead)))
        self._ahead = self._ahead[size:]
        self.sha256.update(data)
        self.size += len(data)
        return data


class ByteStream:
    """The decompressed bytes of a trace. What ends early is noted in `damage`, not raised."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.damage: str | None = None
        if path == "-" and sys.stdin is None:
            raise TracekitError("-: standard input is closed")
        try:
            file = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115
        except OSError as error:
            raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
        self._file = file
        self._hashing = _Hashing(file)
        raw = cast(BinaryIO, self._hashing)
        try:
            magic = self._hashing.peek(4)
        except OSError as error:
            self.close()
            raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
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
        """The next chunk; empty at the end."""
        try:
            return self._read(_READ_BYTES)
        except EOFError:
            self.damage = "the compressed file ends early"
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            self.damage = f"the compressed data is corrupt ({error})"
        except OSError as error:
            raise TracekitError(f"{self.path}: cannot be read: {error}") from error
        return b""

    @property
    def file_bytes(self) -> int:
        return self._hashing.size

    @property
    def sha256(self) -> str:
        return self._hashing.sha256.hexdigest()

    def close(self) -> None:
        if self.path != "-":
            self._file.close()
