"""Reads files and pipes as the decompressed bytes of a trace."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracekit.errors import TracekitError, explained
from tracekit.files import process_folder
from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.text import shown
from tracekit.trace.budget import Budget
from tracekit.trace.readers import trace_endings
from tracekit.trace.remote import is_url, open_url
from tracekit.trace.unpacking import (
    HEAD_BYTES,
    DamagedError,
    Decompressed,
    codec_of,
    is_archive,
    members,
)

# A trace with at most this stored size is small.
_SMALL_BYTES = 64 << 10
_SMALL_COMPRESSED_BYTES = 8 << 10
_READ_BYTES = 1 << 20
_COPY_BYTES = 64 << 10
# A temporary copy up to this size stays in memory; a larger one goes to a file.
_SPOOL_BYTES = 1 << 20
# A copy leaves this much disk space free, or a tenth of a small disk; checked every 16 MB.
_KEEP_FREE_BYTES = 1 << 30
_KEEP_FREE_SHARE = 10
_CHECK_BYTES = 16 << 20


class Hashing:
    """A file that counts and, unless its hash is known, hashes its bytes as they are read."""

    def __init__(self, file: BinaryIO, *, is_known: bool = False) -> None:
        self._file = file
        self._is_known = is_known
        self.sha256 = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _READ_BYTES) -> bytes:
        data = self._file.read(size)
        if not self._is_known:
            self.sha256.update(data)
        self.size += len(data)
        return data


class ByteStream:
    """The decompressed bytes of a trace. If they end early, `damage` says why; nothing is raised.

    `path` is the trace's name in messages and in the database. `progress` is called with the number
    of stored bytes read. `archive` is the stream of the archive that holds the trace, if any. The
    argument `damage` is a problem that is already known.
    """

    _stored: Hashing | None = None

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        progress: Callable[[int], object] = int,
        archive: ByteStream | None = None,
        damage: str | None = None,
    ) -> None:
        self.path = path
        self._file = file
        self._progress = progress
        self._archive = archive
        self._first_damage = damage
        self._hashing = Hashing(file)
        self.rewind()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Rewinds to the first byte.

        Raises:
            TracekitError: when the file cannot be read.
        """
        self.damage = self._first_damage
        self._progress(-self._hashing.size)
        self._hashing = Hashing(self._file, is_known=self._stored is not None)
        self._decompressed: Decompressed | None = None
        with _readable(self.path):
            self._file.seek(0)
            head = self._file.read(HEAD_BYTES)
            self._file.seek(0)
            detected = None if is_archive(head) else codec_of(head)
            if detected is not None:
                codec, begin = detected
                if self._hashing.read(begin):
                    self._note(f"its first {begin:,} bytes are not compressed data")
                self._decompressed = Decompressed(self._hashing, codec)
        archive = None if self._archive is None else self._archive.budget
        size, is_compressed = self.stored_bytes, detected is not None
        self.budget: Budget = Budget(self.path, size, is_compressed=is_compressed, archive=archive)

    def read(self, size: int = _READ_BYTES) -> bytes:
        """The next `size` bytes, fewer only at the end.

        Raises:
            TracekitError: when the file cannot be read, or grows too much when decompressed.
        """
        before = self._hashing.size
        with _readable(self.path):
            try:
                data = (self._decompressed or self._hashing).read(size)
            except DamagedError as error:
                self._note(str(error))
                data = self._skip_rest()
        self._progress(self._hashing.size - before)
        if self._decompressed:
            self.budget.grow(len(data))
        return data

    def head(self) -> bytes:
        """The first bytes of the text; the stream then rewinds.

        Raises:
            TracekitError: when the file cannot be read.
        """
        data = self.read(HEAD_BYTES)
        self.rewind()
        return data

    def batches(self, first_id: int, labels: Labels) -> Iterator[Batch]:
        """Events that the file holds as rows, after the events in its text."""
        yield from ()

    @property
    def is_text(self) -> bool:
        """Whether the text has everything in the file."""
        return True

    @property
    def file_bytes(self) -> int:
        """The number of stored bytes read so far."""
        return self._hashing.size

    @property
    def stored_bytes(self) -> int:
        """The size of the file, as stored.

        Raises:
            TracekitError: when the file cannot be read.
        """
        with _readable(self.path):
            here = self._file.tell()
            size = self._file.seek(0, io.SEEK_END)
            self._file.seek(here)
        return size

    @property
    def plain_path(self) -> Path | None:
        """The file on disk with exactly these bytes, if any."""
        name = getattr(self._file, "name", None)
        return Path(name) if self._decompressed is None and isinstance(name, str) else None

    @property
    def is_small(self) -> bool:
        """Whether the whole trace certainly fits in little memory."""
        most = _SMALL_BYTES if self._decompressed is None else _SMALL_COMPRESSED_BYTES
        return self.stored_bytes <= most

    def hashed(self) -> Hashing:
        """The whole stored file, read without changing the position; it is not hashed again once
        the stream is rewound.

        Raises:
            TracekitError: when the file cannot be read.
        """
        hashing = Hashing(self._file)
        with _readable(self.path):
            here = self._file.tell()
            self._file.seek(0)
            while hashing.read():
                pass
            self._file.seek(here)
        self._stored = hashing
        return hashing

    @property
    def sha256(self) -> str:
        return (self._stored or self._hashing).sha256.hexdigest()

    def _note(self, damage: str) -> None:
        self.damage = damage if self.damage is None else f"{self.damage}; {damage}"

    def _skip_rest(self) -> bytes:
        """Reads the rest, which cannot be decompressed, in order to hash and count it."""
        self._decompressed = None
        while self._hashing.read():
            pass
        return b""


def open_streams(
    path: str,
    progress: Callable[[int], object] = int,
    temp_dir: str | Path | None = None,
    is_read_again: bool = False,
) -> Iterator[ByteStream | TracekitError]:
    """The trace at a path or URL (- is standard input), or each trace of a tar archive, in order.

    The caller closes each stream. For an archive member that cannot be read, an error is yielded
    instead. Pipes and archive members are copied, and so are remote files with `is_read_again`.
    Large copies go to `temp_dir` (default: the system's temporary directory); a copy never fills
    the disk.

    Raises:
        TracekitError: when the file cannot be read. For a damaged archive, this is raised after
            the readable traces.
    """
    folder = str(temp_dir or tempfile.gettempdir())
    stream = ByteStream(shown(path), _seekable(path, folder, is_read_again), progress)
    if not is_archive(stream.head()):
        yield stream
        return
    with stream:
        for member in members(stream, trace_endings()):
            if isinstance(member, TracekitError):
                yield member
                continue
            copy = copied(member.path, member.chunks, folder)
            if member.damage and not copy.tell():
                # Nothing in the member could be read; the error about the archive says so.
                copy.close()
                continue
            yield ByteStream(member.path, copy, archive=stream, damage=member.damage)


def _seekable(path: str, folder: str, is_read_again: bool) -> BinaryIO:
    """The file, or a temporary copy if it is a pipe or should be copied."""
    with explained(f"{shown(path)}: cannot be read", OSError, ValueError):
        if path == "-":
            if sys.stdin is None:
                raise TracekitError("-: standard input is closed")
            return copied(path, iter(lambda: sys.stdin.buffer.read(_COPY_BYTES), b""), folder)
        is_remote = is_url(path)
        if not is_remote and Path(path).is_dir():
            # Listing the directory raises the reason why it cannot be read.
            os.listdir(path)  # noqa: PTH208
        file = open_url(path) if is_remote else Path(path).open("rb")  # noqa: SIM115
        if file.seekable() and not (is_remote and is_read_again):
            return file
        with closing(file):
            return copied(path, iter(lambda: file.read(_COPY_BYTES), b""), folder)


def copied(path: str, chunks: Iterable[bytes], folder: str, *, has_name: bool = False) -> BinaryIO:
    """A temporary copy of the chunks, removed when closed. Small copies stay in memory, unless
    `has_name`.

    Raises:
        TracekitError: when the copy does not fit on the disk.
    """
    copy = Copy(path, folder, has_name=has_name)
    try:
        for chunk in chunks:
            copy.write(chunk)
    except BaseException:
        copy.close()
        raise
    return copy.file


class Copy:
    """A temporary file for a part of the file at `path`."""

    def __init__(self, path: str, folder: str, *, has_name: bool = False) -> None:
        if has_name:
            file: Any = tempfile.NamedTemporaryFile(dir=process_folder(folder))  # noqa: SIM115
        else:
            file = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=folder)  # noqa: SIM115
        self.file = cast(BinaryIO, file)
        self._path, self._folder = path, folder
        self._unchecked = _CHECK_BYTES

    def write(self, chunk: bytes | memoryview) -> None:
        """Appends a chunk.

        Raises:
            TracekitError: when it does not fit on the disk.
        """
        try:
            self.file.write(chunk)
            self.file.flush()
            self._unchecked += len(chunk)
            if self._unchecked > _CHECK_BYTES and self.file.tell() > _SPOOL_BYTES:
                self._unchecked = 0
                _check_room(self._folder)
        except OSError as error:
            raise TracekitError(
                f"{self._path}: its temporary copy does not fit in {self._folder} "
                f"({error.strerror}): choose a larger directory (--temp-dir)"
            ) from error

    def close(self) -> None:
        # Closing flushes the copy, which fails if the disk is full.
        with suppress(OSError):
            self.file.close()


def _check_room(folder: str) -> None:
    disk = shutil.disk_usage(folder)
    if disk.free < min(_KEEP_FREE_BYTES, disk.total // _KEEP_FREE_SHARE):
        raise OSError(errno.ENOSPC, "the disk would be full")


def _readable(path: str) -> AbstractContextManager[None]:
    return explained(f"{path}: cannot be read", OSError)
