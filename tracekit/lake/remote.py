"""Remote lakes' files for DuckDB.

DuckDB sees a read-only file system with only these files. Credentials stay in fsspec.
"""

from __future__ import annotations

import io
from typing import Any, ClassVar

import fsspec

from tracekit.lake.storage import Storage

# Smaller files are fetched in one request, since DuckDB reads a footer and then columns.
_WHOLE_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 20


class LakeFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Files by the path under which they were added."""

    protocol: ClassVar[str] = "lake"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, tuple[Any, str, int]] = {}

    def add(self, lake: Storage, path: str, size: int) -> str:
        """Adds a lake's file; returns its URL in this file system."""
        at = lake.table_uri(path).replace("://", "/", 1)
        self._files[at] = (lake.fs, lake.uri(path), size)
        return f"{self.protocol}://{at}"

    def _known(self, path: str) -> tuple[Any, str, int]:
        try:
            return self._files[str(self._strip_protocol(path))]
        except KeyError:
            raise FileNotFoundError(f"{path}: is not a file of the lake") from None

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if "r" not in mode or "+" in mode:
            raise PermissionError(f"{path}: a lake is read-only")
        fs, full, size = self._known(path)
        if size <= _WHOLE_BYTES:
            return io.BytesIO(fs.cat_file(full))
        return fs.open(full, "rb", block_size=_BLOCK_BYTES, cache_type="readahead", size=size)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._known(path)[2], "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        at = str(self._strip_protocol(path))
        return [at] if at in self._files else []

    def modified(self, path: str) -> Any:
        import datetime

        self._known(path)
        return datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
