"""Files and pipes -> the decompressed bytes of a trace."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO, cast

from tracekit.errors import TracekitError
from tracekit.trace.archives import TRACES, is_archive, members
from tracekit.trace.compression import HEAD_BYTES, DamagedError, Decompressed, codec_of

# A trace that is stored in no more than this is small.
_SMALL_BYTES = 64 << 10
_SMALL_COMPRESSED_BYTES = 8 << 10
_READ_BYTES = 1 << 20
_COPY_BYTES = 64 << 10
# What is copied to be read again: in memory up to here, then in a file.
_SPOOL_BYTES = 1 << 20
# A copy leaves this much of the disk free, of a small disk this share. It is checked now and then.
_KEEP_FREE_BYTES = 1 << 30
_KEEP_FREE_SHARE = 10  # a tenth
_CHECK_BYTES = 16 << 20
# Traces shrink to a tenth, generated ones to a fiftieth. What grows beyond this is no trace.
_BOMB_RATIO = 250
_BOMB_BYTES = 256 << 20
_SUFFIXES = (*TRACES, ".tar", ".tar.gz", ".tgz", ".tar.zst")


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


class _Growth:
    """What a file is as stored, and what its layers (an archive's and its members') grow to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        self._stored = self._text = 0

    def add(self, *, stored: int, text: int) -> None:
        """Counts bytes that were read, and those that were decompressed.

        Raises:
            TracekitError: when they grow beyond all measure.
        """
        with self._lock:
            self._stored += stored
            self._text += text
            if self._text > max(_BOMB_BYTES, _BOMB_RATIO * self._stored):
                raise TracekitError(
                    f"{self._path}: is more than {_BOMB_RATIO} times as large decompressed, which "
                    "no trace is; if you trust it, decompress it first"
                )


class ByteStream:
    """The decompressed bytes of a trace. What ends early is noted in `damage`, not raised.

    `path` is what messages and the database call it; `progress` is told of bytes read, as stored.
    `archive` is the stream that it is a member of, and `damage` what is known to be wrong with it.
    """

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
        self._hashing = _Hashing(file)
        self.rewind()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Back to the first byte.

        Raises:
            TracekitError: when the file cannot be read.
        """
        self.damage = self._first_damage
        self._progress(-self._hashing.size)
        self._hashing = _Hashing(self._file)
        self._growth: _Growth = self._archive._growth if self._archive else _Growth(self.path)
        self._decompressed: Decompressed | None = None
        try:
            self._file.seek(0)
            head = self._file.read(HEAD_BYTES)
            self._file.seek(0)
            found = None if is_archive(head) else codec_of(head)
            if found is not None:
                codec, begin = found
                if self._hashing.read(begin):
                    self._note(f"its first {begin:,} bytes are not compressed data")
                self._decompressed = Decompressed(self._hashing, codec)
        except OSError as error:
            self._file.close()
            raise unreadable(self.path, error) from error

    def read(self, size: int = _READ_BYTES) -> bytes:
        """The next bytes, about `size`; none at the end.

        Raises:
            TracekitError: when the file cannot be read, or grows beyond all measure.
        """
        before = self._hashing.size
        try:
            data = (self._decompressed or self._hashing).read(size)
        except DamagedError as error:
            self._note(str(error))
            data = self._skip_rest()
        except OSError as error:
            raise unreadable(self.path, error) from error
        stored = self._hashing.size - before
        self._progress(stored)
        self._growth.add(
            stored=0 if self._archive else stored, text=len(data) if self._decompressed else 0
        )
        return data

    @property
    def file_bytes(self) -> int:
        """How much of the file, as stored, has been read."""
        return self._hashing.size

    @property
    def stored_bytes(self) -> int:
        """The size of the file, as stored.

        Raises:
            TracekitError: when the file cannot be read.
        """
        try:
            here = self._file.tell()
            size = self._file.seek(0, io.SEEK_END)
            self._file.seek(here)
        except OSError as error:
            raise unreadable(self.path, error) from error
        return size

    @property
    def is_small(self) -> bool:
        """Whether all of it surely takes little memory."""
        most = _SMALL_BYTES if self._decompressed is None else _SMALL_COMPRESSED_BYTES
        return self.stored_bytes <= most

    def stored_sha256(self) -> str:
        """Of the whole file, as stored, read for this alone: the stream stays where it is.

        Raises:
            TracekitError: when the file cannot be read.
        """
        try:
            here = self._file.tell()
            self._file.seek(0)
            found = hashlib.sha256()
            while data := self._file.read(_READ_BYTES):
                found.update(data)
            self._file.seek(here)
        except OSError as error:
            raise unreadable(self.path, error) from error
        return found.hexdigest()

    @property
    def sha256(self) -> str:
        return self._hashing.sha256.hexdigest()

    def _note(self, damage: str) -> None:
        self.damage = damage if self.damage is None else f"{self.damage}; {damage}"

    def _skip_rest(self) -> bytes:
        """Hashes what cannot be decompressed."""
        self._decompressed = None
        try:
            while self._hashing.read():
                pass
        except OSError as error:
            raise unreadable(self.path, error) from error
        return b""


def open_streams(
    path: str,
    progress: Callable[[int], object] = int,
    temp_dir: str | Path | None = None,
) -> Iterator[ByteStream | TracekitError]:
    """The trace at `path` (- is standard input), or each trace of a tar archive, in order.

    Who takes a stream closes it. In place of an archive's bad member comes what is wrong with it.
    What comes through a pipe and an archive's members are copied to `temp_dir` (the system's
    unless given) when large; a copy never fills the disk.

    Raises:
        TracekitError: when it cannot be read. When an archive is damaged, its traces come first.
    """
    folder = str(temp_dir or tempfile.gettempdir())
    stream = ByteStream(path, _seekable(path, folder), progress)
    if not is_archive(stream.read(HEAD_BYTES)):
        stream.rewind()
        yield stream
        return
    stream.rewind()
    with stream:
        for member in members(stream):
            if isinstance(member, TracekitError):
                yield member
                continue
            copy = _spooled(member.path, member.chunks, folder)
            if member.damage and not copy.tell():
                # Nothing of it is there; the archive's own error says so.
                copy.close()
                continue
            yield ByteStream(member.path, copy, archive=stream, damage=member.damage)


def _seekable(path: str, folder: str) -> BinaryIO:
    """The file, or a temporary copy of what comes through a pipe."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise TracekitError("-: standard input is closed")
            return _spooled(path, iter(lambda: sys.stdin.buffer.read(_COPY_BYTES), b""), folder)
        file = Path(path).open("rb")  # noqa: SIM115
        if file.seekable():
            return file
        with file:
            return _spooled(path, iter(lambda: file.read(_COPY_BYTES), b""), folder)
    except IsADirectoryError as error:
        raise unreadable(path, _unlisted(path) or error) from error
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise TracekitError(f"{path}: cannot be read: {error}") from error


def _unlisted(path: str) -> OSError | None:
    """Why a directory cannot be listed."""
    try:
        os.listdir(path)  # noqa: PTH208
    except OSError as error:
        return error
    return None


def _spooled(path: str, chunks: Iterable[bytes], folder: str) -> BinaryIO:
    """A temporary copy.

    Raises:
        TracekitError: when it does not fit on the disk.
    """
    copy = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=folder)  # noqa: SIM115
    try:
        unchecked = _CHECK_BYTES
        for chunk in chunks:
            try:
                copy.write(chunk)
                unchecked += len(chunk)
                if unchecked > _CHECK_BYTES and copy.tell() > _SPOOL_BYTES:
                    unchecked = 0
                    _check_room(folder)
            except OSError as error:
                raise TracekitError(
                    f"{path}: its temporary copy does not fit in {folder} "
                    f"({error.strerror}): name a larger directory for temporary files"
                ) from error
    except BaseException:
        # It is flushed when it is closed, which fails where the disk is full.
        with suppress(OSError):
            copy.close()
        raise
    return cast(BinaryIO, copy)


def _check_room(folder: str) -> None:
    disk = shutil.disk_usage(folder)
    if disk.free < min(_KEEP_FREE_BYTES, disk.total // _KEEP_FREE_SHARE):
        raise OSError(errno.ENOSPC, "the disk would be full")


def trace_paths(paths: Iterable[str]) -> list[str]:
    """Files as they are; what is in a directory, or matches a pattern, in order.

    Links to files are followed, those to directories are not. A directory that cannot be listed is
    among what is found: reading it says why.

    Raises:
        TracekitError: for a directory or pattern without a trace, or an empty path.
    """
    found: list[str] = []
    for path in paths:
        if not path:
            raise TracekitError("a path is empty: name a file, a directory or a pattern")
        if Path(path).is_dir():
            inside = sorted(_in_directory(path))
            what = f"no trace is in this directory: no file ends in one of {', '.join(_SUFFIXES)}"
        elif glob.has_magic(path) and not os.path.lexists(path):
            inside = sorted(_matching(path))
            what = "No such file, and none matches it as a pattern"
        else:
            found.append(path)
            continue
        if not inside:
            raise TracekitError(f"{path}: {what}")
        found += inside
    return found


def _in_directory(path: str) -> Iterator[str]:
    unlisted: list[str] = []
    for folder, _, names in os.walk(path, onerror=lambda error: unlisted.append(error.filename)):
        for name in names:
            each = str(Path(folder) / name)
            if name.endswith(_SUFFIXES) and _may_hold_a_trace(each):
                yield each
    yield from unlisted


def _matching(pattern: str) -> Iterator[str]:
    """What a pattern names, as a shell takes it; `**` goes through no link to a directory."""
    parts = Path(pattern).parts
    if "**" not in parts:
        found = glob.glob(pattern)  # noqa: PTH207
    else:
        # glob.glob follows links, which may lead in circles.
        anchor = Path(pattern).anchor
        below = [*parts[1 if anchor else 0 :], *(["*"] if parts[-1] == "**" else [])]
        found = [
            str(each)
            for each in Path(anchor).glob(str(Path(*below)))
            if all(part in parts for part in each.parts if part.startswith("."))
        ]
    yield from filter(_may_hold_a_trace, found)


def _may_hold_a_trace(path: str) -> bool:
    """A file, or what cannot be looked at: reading it says why."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return True


def unreadable(path: str, error: OSError) -> TracekitError:
    return TracekitError(f"{path}: cannot be read: {error.strerror or error}")
