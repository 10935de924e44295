"""Slices of traces as files that DuckDB opens by name, each cut when it is asked for."""

from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from tracekit.slicing import Slice

# Read by one statement: each ends with a wait for its last slice.
_SLICES_AT_ONCE = 64
_NOTHING = b"[]"


class _SliceFile(io.BytesIO):
    """A slice that is forgotten when it is closed."""

    def __init__(self, array: bytes, forget: Callable[[], object]) -> None:
        super().__init__(array)
        self._forget = forget

    def close(self) -> None:
        super().close()
        self._forget()


class _Cuts:
    """The slices of one trace, each cut when it is asked for. Behind the last one is nothing."""

    def __init__(self, folder: str, slices: Iterator[Slice]) -> None:
        self.error: BaseException | None = None
        self._folder = folder
        self._slices = slices
        self._lock = threading.Lock()
        self._cut = 0
        self._held: dict[int, bytes] = {}

    def following(self) -> list[str]:
        """Names for the next slices; none when there are no more."""
        first = self._cut
        if self.slice(first) == _NOTHING:
            return []
        return [f"{self._folder}/{number}" for number in range(first, first + _SLICES_AT_ONCE)]

    def slice(self, number: int) -> bytes:
        with self._lock:
            while number >= self._cut:
                try:
                    following = next(self._slices, None)
                except BaseException as error:
                    self.error = error
                    raise
                if following is None:
                    return _NOTHING
                self._held[self._cut] = following.array
                self._cut += 1
            return self._held[number]

    def forget(self, number: int) -> None:
        self._held.pop(number, None)


class SliceFiles(AbstractFileSystem):
    """Slices as files that DuckDB opens by name: a folder for each trace that is being read.

    So a thread of DuckDB reads, decompresses and cuts its next slice while others parse theirs.
    """

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.protocol = f"slices{uuid.uuid4().hex}"
        self._folders: dict[str, _Cuts] = {}

    @contextmanager
    def folder(self, slices: Iterator[Slice]) -> Iterator[_Cuts]:
        name = uuid.uuid4().hex
        self._folders[name] = _Cuts(f"{self.protocol}://{name}", slices)
        try:
            yield self._folders[name]
        finally:
            del self._folders[name]

    def _place(self, path: str) -> tuple[_Cuts, int]:
        folder, number = path.rsplit("/", 2)[-2:]
        return self._folders[folder], int(number)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        cuts, number = self._place(path)
        return _SliceFile(cuts.slice(number), lambda: cuts.forget(number))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        cuts, number = self._place(path)
        return {"name": path, "size": len(cuts.slice(number)), "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        return True

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(0, UTC)

    created = modified


@contextmanager
def slice_files(connection: duckdb.DuckDBPyConnection) -> Iterator[SliceFiles]:
    """Files that all connections to this database may read.

    While one of them opens a file, no other file system may come or go: DuckDB 2.0 looks through
    them without a lock.
    """
    files = SliceFiles()
    connection.register_filesystem(files)
    try:
        yield files
    finally:
        connection.unregister_filesystem(files.protocol)
