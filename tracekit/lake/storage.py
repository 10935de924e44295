"""Where a lake or a source lies: a local folder, or any file system that fsspec knows.

https://filesystem-spec.readthedocs.io
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tracekit.errors import TracekitError
from tracekit.lake.layout import ARCHIVES, MANIFESTS, MARK, NUMBERS, TABLES
from tracekit.trace.remote import filesystem, is_url, translated_errors

# Prefix of the names of unfinished files.
HIDDEN = ".writing-"
# How often a file is written before a missing folder counts as an error.
_ATTEMPTS = 20


class StoredFile(NamedTuple):
    """A stored file: its path in the lake, and how long ago it was written, in seconds."""

    path: str
    age_s: float


class LocalStorage:
    """Files by their paths in a lake that is a folder. A file appears whole, or not at all."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = Path(root).absolute()
        if any(part.startswith(("run=", "rank=", "trace_id=")) for part in self._folder.parts):
            raise TracekitError(
                f"{root}: a lake cannot be in a folder that is named like one of its partitions "
                "(run=..., rank=... or trace_id=...)"
            )

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None: there is none."""
        with translated_errors(self.root), suppress(FileNotFoundError, NotADirectoryError):
            return (self._folder / path).read_bytes()
        return None

    def paths(self, folder: str) -> list[str]:
        """The paths of all files ending in .json below a folder, unfinished ones excluded."""
        with translated_errors(self.root):
            return [
                self._inside(each)
                for each in self.local_paths(folder)
                if each.endswith(".json") and not Path(each).name.startswith(HIDDEN)
            ]

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of those of these small files that are there, with their paths."""
        for path in paths:
            text = self.read(path)
            if text is not None:
                yield path, text

    def write(self, path: str, data: bytes) -> None:
        """Writes a small file, replacing an older one."""
        self._put_in_place(path, lambda beside: beside.write_bytes(data), Path.replace)

    def create(self, path: str, data: bytes) -> bool:
        """Writes a small file unless there is one; returns whether it did."""
        try:
            self._put_in_place(path, lambda beside: beside.write_bytes(data), _link)
        except _Exists:
            return False
        return True

    def put(self, local: Path, path: str) -> None:
        """Copies a local file."""
        self._put_in_place(path, lambda beside: shutil.copyfile(local, beside), Path.replace)

    def _put_in_place(
        self, path: str, fill: Callable[[Path], object], move: Callable[[Path, Path], object]
    ) -> None:
        """Fills a hidden file in the same folder, and moves it to `path`."""
        target = self._folder / path
        beside = target.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
        with translated_errors(self.root):
            for left in reversed(range(_ATTEMPTS)):
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    fill(beside)
                    move(beside, target)
                    return
                except (FileNotFoundError, FileExistsError):
                    # Another process may have removed the folder, which was empty.
                    if not left:
                        raise
                finally:
                    with suppress(OSError):
                        beside.unlink(missing_ok=True)

    def list_files(self, folder: str) -> Iterator[StoredFile]:
        """All files below a folder, unfinished ones included; no links are followed or listed."""
        now = time.time()
        for each in [] if (self._folder / folder).is_symlink() else self.local_paths(folder):
            with suppress(FileNotFoundError):
                found = Path(each).lstat()
                if stat.S_ISREG(found.st_mode):
                    yield StoredFile(self._inside(each), now - found.st_mtime)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            each = self._folder / path
            with translated_errors(self.root):
                each.unlink(missing_ok=True)
            for parent in each.parents:
                if parent == self._folder:
                    break
                try:
                    parent.rmdir()
                except OSError:
                    break

    def uri(self, path: str) -> str:
        """The name by which DuckDB opens a file."""
        return f"{self._folder}/{path}"

    def table_uri(self, path: str) -> str:
        """The name by which other libraries open a file or folder."""
        return self.uri(path)

    def holds(self, url: str) -> bool:
        """Whether a file's path or URL is inside."""
        return not is_url(url) and Path(url).is_relative_to(self._folder)

    def local_paths(self, folder: str) -> Iterator[str]:
        """The paths of all files below a folder."""
        for where, _, names in os.walk(self._folder / folder):
            yield from (str(Path(where) / name) for name in names)

    def _inside(self, path: str) -> str:
        return Path(path).relative_to(self._folder).as_posix()


class RemoteStorage:
    """The same in a folder of a file system that fsspec knows. Object stores write an object whole
    or not at all."""

    def __init__(self, url: str) -> None:
        self.root = url
        self.fs, self.folder = filesystem(url)

    def read(self, path: str) -> bytes | None:
        with translated_errors(self.root), suppress(FileNotFoundError):
            return bytes(self.fs.cat_file(self._full(path)))
        return None

    def paths(self, folder: str) -> list[str]:
        return [self._inside(each) for each in self._find(folder) if each.endswith(".json")]

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        full = [self._full(path) for path in paths]
        with translated_errors(self.root):
            contents = self.fs.cat(full, on_error="return") if full else {}
            if not isinstance(contents, dict):
                contents = {full[0]: contents}
            for path, found in contents.items():
                if isinstance(found, bytes):
                    yield self._inside(path), found
                elif not isinstance(found, FileNotFoundError):
                    raise found

    def write(self, path: str, data: bytes) -> None:
        with self._writing(path) as full:
            self.fs.pipe_file(full, data)

    def create(self, path: str, data: bytes) -> bool:
        with self._writing(path) as full:
            try:
                self.fs.pipe_file(full, data, mode="create")
            except (OSError, TypeError, NotImplementedError) as error:
                if self.fs.exists(full):
                    return False
                if isinstance(error, OSError) and error.errno != errno.ENOSYS:
                    raise
                # The store cannot do both in one step.
                self.fs.pipe_file(full, data)
        return True

    def put(self, local: Path, path: str) -> None:
        with self._writing(path) as full:
            self.fs.put_file(str(local), full)

    def list_files(self, folder: str) -> Iterator[StoredFile]:
        now = time.time()
        for path, info in self._find(folder).items():
            written = info.get("LastModified") or info.get("mtime") or info.get("created") or now
            at = written.timestamp() if hasattr(written, "timestamp") else float(written)
            yield StoredFile(self._inside(path), now - at)

    def remove(self, paths: Iterable[str]) -> None:
        if full := [self._full(path) for path in paths]:
            with translated_errors(self.root):
                self.fs.rm(full)

    def uri(self, path: str) -> str:
        return self._full(path)

    def table_uri(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}"

    def holds(self, url: str) -> bool:
        return url.startswith(self.root.rstrip("/") + "/")

    @contextmanager
    def _writing(self, path: str) -> Iterator[str]:
        full = self._full(path)
        with translated_errors(self.root):
            self.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
            yield full

    def _full(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def _inside(self, path: str) -> str:
        return path.removeprefix("/").removeprefix(self.folder.removeprefix("/") + "/")

    def _find(self, folder: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with translated_errors(self.root), suppress(FileNotFoundError):
            # The cached listing may be older than what another process wrote.
            self.fs.invalidate_cache()
            found = self.fs.find(self._full(folder), detail=True)
        return found


Storage = LocalStorage | RemoteStorage


def local_files(lake: Storage) -> Iterator[str]:
    """The paths of a lake's own files, if they are on this machine."""
    if isinstance(lake, LocalStorage):
        yield lake.uri(MARK)
        for folder in (TABLES, MANIFESTS, ARCHIVES, NUMBERS):
            yield from lake.local_paths(folder)


class _Exists(TracekitError):
    """There is a file of that name already."""


def _link(beside: Path, target: Path) -> None:
    """Gives a file its second name.

    Raises:
        _Exists: when another file has it.
    """
    try:
        target.hardlink_to(beside)
    except (OSError, NotImplementedError) as error:
        if target.exists():
            raise _Exists(str(target)) from error
        if isinstance(error, FileNotFoundError):
            raise
        # The file system has no such links.
        beside.replace(target)


def storage(root: str) -> Storage:
    """The storage at a path or URL.

    Raises:
        TracekitError: when no file system for the URL is installed.
    """
    return RemoteStorage(root) if is_url(root) else LocalStorage(root.removeprefix("file://"))
