"""The storage of a lake or a source: a local folder, or any fsspec file system.

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
from typing import Any

from tracekit.errors import TracekitError
from tracekit.lake.layout import MANIFESTS, MARK, NUMBERS, TABLES
from tracekit.trace.remote import filesystem, is_url, translated_errors

# Prefix of the names of unfinished files.
HIDDEN = ".writing-"
# Prefix of this machine's work folders; folders of dead processes are removed.
WORK_PREFIX = "tracekit-lake-"
# Number of attempts to write a file before a missing folder is an error.
_ATTEMPTS = 20
# A lake's folders.
FOLDERS = (TABLES, MANIFESTS, NUMBERS)


class Storage:
    """Files by path in a lake. A file appears completely or not at all.

    Raises:
        TracekitError: when the name is not valid for a lake, or the file system for its URL is
            not installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root.removeprefix("file://")
        self.is_local = not is_url(root)
        self.fs: Any
        if not self.is_local:
            self.fs, self.folder = filesystem(root)
            return
        self.folder = Path(self.root).absolute().as_posix()
        self.fs = _Disk(self.folder)
        if any(part.startswith(("run=", "rank=", "trace_id=")) for part in self.folder.split("/")):
            raise TracekitError(
                f"{root}: a lake's folder must not be named like one of its partitions "
                "(run=..., rank=... or trace_id=...)"
            )

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None: no such file."""
        with translated_errors(self.root), suppress(FileNotFoundError):
            return bytes(self.fs.cat_file(self.uri(path)))
        return None

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of the existing files among these small ones, with their paths."""
        full = [self.uri(path) for path in paths]
        with translated_errors(self.root):
            contents = self.fs.cat(full, on_error="return") if full else {}
            if not isinstance(contents, dict):
                contents = {full[0]: contents}
            for path, content in contents.items():
                if isinstance(content, bytes):
                    yield self._inside(path), content
                elif not isinstance(content, FileNotFoundError):
                    raise content

    def paths(self, folder: str) -> list[str]:
        """The paths of all files ending in .json below a folder."""
        return [self._inside(each) for each in self._find(folder) if each.endswith(".json")]

    def ages(self, folder: str) -> Iterator[tuple[str, float]]:
        """All files below a folder, including unfinished ones, with their ages in seconds. Links
        are neither followed nor listed."""
        now = time.time()
        for path, info in self._find(folder, detail=True).items():
            written = info.get("LastModified") or info.get("mtime") or info.get("created") or now
            at = written.timestamp() if hasattr(written, "timestamp") else float(written)
            if not info.get("islink"):
                yield self._inside(path), now - at

    @contextmanager
    def leaving_no_empty_folder(self) -> Iterator[None]:
        """After the block, removes local folders of the lake that the block created and left
        empty."""
        here = (Path(self.folder), *Path(self.folder).parents) if self.is_local else ()
        missing = [each for each in here if not each.exists()]
        try:
            yield
        finally:
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()

    def write(self, path: str, data: bytes) -> None:
        """Writes a small file, replacing an older one."""
        with self._writing(path) as full:
            self.fs.pipe_file(full, data)

    def create(self, path: str, data: bytes) -> bool:
        """Writes a small file unless there is one; returns whether it did."""
        with self._writing(path) as full:
            try:
                self.fs.pipe_file(full, data, mode="create")
            except (OSError, TypeError, NotImplementedError) as error:
                if self.fs.exists(full):
                    return False
                if isinstance(error, OSError) and error.errno != errno.ENOSYS:
                    raise
                # The store lacks an atomic operation for this.
                self.fs.pipe_file(full, data)
        return True

    def put(self, local: Path, path: str) -> None:
        """Copies a local file."""
        with self._writing(path) as full:
            self.fs.put_file(str(local), full)

    def remove(self, paths: Iterable[str]) -> None:
        if full := [self.uri(path) for path in paths]:
            with translated_errors(self.root), suppress(FileNotFoundError):
                self.fs.rm(full)

    def uri(self, path: str) -> str:
        """A file's path in its file system; DuckDB opens local files by it."""
        return f"{self.folder}/{path}"

    def table_uri(self, path: str) -> str:
        """A file's or folder's name for other libraries."""
        return self.uri(path) if self.is_local else f"{self.root.rstrip('/')}/{path}"

    def holds(self, url: str) -> bool:
        """Whether a file's path or URL is inside this storage."""
        if self.is_local:
            return not is_url(url) and Path(url).is_relative_to(self.folder)
        return url.startswith(self.root.rstrip("/") + "/")

    @contextmanager
    def _writing(self, path: str) -> Iterator[str]:
        full = self.uri(path)
        with translated_errors(self.root):
            self.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
            yield full

    def _find(self, folder: str, *, detail: bool = False) -> Any:
        with translated_errors(self.root), suppress(FileNotFoundError):
            # The cached listing may lack files that another process wrote.
            self.fs.invalidate_cache()
            return self.fs.find(self.uri(folder), detail=detail)
        return {}

    def _inside(self, path: str) -> str:
        return path.removeprefix("/").removeprefix(self.folder.removeprefix("/") + "/")


class _Disk:
    """The fsspec methods that a lake needs, on the local disk: local lakes do not need fsspec."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def invalidate_cache(self) -> None:
        """Nothing is cached."""

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        """Folders are created with their files, since another process may remove empty ones."""

    def cat_file(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except NotADirectoryError as error:
            raise FileNotFoundError(path) from error

    def cat(self, paths: Iterable[str], on_error: str) -> dict[str, bytes]:
        contents = {}
        for path in paths:
            with suppress(FileNotFoundError):
                contents[path] = self.cat_file(path)
        return contents

    def find(self, folder: str, *, detail: bool) -> Any:
        paths = (Path(where, name) for where, _, names in os.walk(folder) for name in names)
        if not detail:
            return [path.as_posix() for path in paths]
        linked, infos = Path(folder).is_symlink(), {}
        for each in paths:
            with suppress(FileNotFoundError):
                state = each.lstat()
                islink = linked or not stat.S_ISREG(state.st_mode)
                infos[each.as_posix()] = {"mtime": state.st_mtime, "islink": islink}
        return infos

    def rm(self, paths: Iterable[str]) -> None:
        for path in map(Path, paths):
            path.unlink(missing_ok=True)
            for parent in path.parents:
                if parent == self._root:
                    break
                try:
                    parent.rmdir()
                except OSError:
                    break

    def put_file(self, local: str, path: str) -> None:
        self._put_in_place(path, lambda beside: shutil.copyfile(local, beside), Path.replace)

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        move = _create if mode == "create" else Path.replace
        self._put_in_place(path, lambda beside: beside.write_bytes(data), move)

    def _put_in_place(
        self, path: str, fill: Callable[[Path], object], move: Callable[[Path, Path], object]
    ) -> None:
        """Writes a hidden file in the same folder, and moves it to `path`."""
        target = Path(path)
        beside = target.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
        for left in reversed(range(_ATTEMPTS)):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                fill(beside)
                move(beside, target)
                return
            except (FileNotFoundError, FileExistsError):
                # Another process may have removed the empty folder.
                if not left or target.exists():
                    raise
            finally:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)


def _create(beside: Path, target: Path) -> None:
    """Gives a file a second name; raises FileExistsError if another file has it.

    If the file system lacks hard links, writes a new file, which readers may see unfinished.
    """
    try:
        target.hardlink_to(beside)
    except (OSError, NotImplementedError) as error:
        if target.exists() or isinstance(error, FileNotFoundError):
            raise
        with target.open("xb") as file:
            try:
                file.write(beside.read_bytes())
                file.flush()
            except BaseException:
                target.unlink()
                raise


def local_files(lake: Storage) -> Iterator[str]:
    """The paths of a lake's files, if they are on this machine."""
    if lake.is_local:
        yield lake.uri(MARK)
        for folder in FOLDERS:
            yield from lake.fs.find(lake.uri(folder), detail=False)
