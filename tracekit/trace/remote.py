"""Traces at URLs, such as s3://, gs://, hf:// and https://, read through fsspec.

https://filesystem-spec.readthedocs.io
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

from tracekit.errors import StorageError, TracekitError, install, reason_of
from tracekit.text import shown

# Object stores and web sites. fsspec's other schemes wrap file systems, run programs, or wait for
# servers indefinitely.
SCHEMES = (
    "s3", "s3a", "gs", "gcs", "hf", "https", "http", "az", "abfs", "oci", "oss", "memory",
)  # fmt: skip
# Keys for an object's state in file systems' answers, most reliable first.
_STAMPS = ("ETag", "etag", "md5Hash", "checksum", "LastModified", "mtime", "updated", "created")
# Traces are read sequentially, so the next blocks are needed next.
_BLOCK_BYTES = 4 << 20
# The maximum size of a file at a URL, since a server may send endlessly.
MOST_BYTES = 64 << 30


class RemoteFile(NamedTuple):
    """A file at a URL, its size, and a text that changes when the file does."""

    url: str
    size: int
    stamp: str


def is_url(path: str) -> bool:
    """Whether a path is a URL, such as s3://bucket/folder."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").isalnum() and scheme != "file"


@contextmanager
def translated_errors(root: str) -> Iterator[None]:
    """Turns errors from a file system or its library into StorageErrors, except
    FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, TracekitError):
        raise
    except OSError as error:
        reason = error.strerror or _reason(error)
        raise StorageError(f"{shown(root)}: {shown(reason)}") from error
    except Exception as error:  # Object stores' libraries have their own exceptions.
        raise StorageError(f"{shown(root)}: cannot be reached: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    return shown(reason_of(error))


def filesystem(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises:
        TracekitError: when the scheme is not in SCHEMES, or its library is not installed.
        StorageError: when it cannot be reached.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        schemes = ", ".join(f"{each}://" for each in SCHEMES)
        raise TracekitError(
            f"{shown(url)}: {scheme}:// is not supported, only {schemes} and local paths"
        )
    try:
        from fsspec.registry import get_filesystem_class

        kind = get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise TracekitError(
            f"{shown(url)}: cannot be reached: {_reason(error)} ({install('remote')})"
        ) from error
    # Clients also log the errors that they raise, and Python prints logs without a handler.
    logging.getLogger(kind.__module__.partition(".")[0]).addHandler(logging.NullHandler())
    settings = {}
    if scheme in ("http", "https"):
        # Importing it takes longer than reading a small file.
        from tracekit.trace import web

        settings["get_client"] = web.session
    with translated_errors(url):
        # Not url_to_fs, which interprets :: in a URL as a chain of file systems.
        fs = kind(**kind._get_kwargs_from_urls(url), **settings)
        return fs, str(kind._strip_protocol(url)).rstrip("/")


def find(url: str, endings: tuple[str, ...]) -> list[RemoteFile]:
    """The files at a URL: the file itself, all files that match a pattern, or the files in a folder
    with one of `endings`.

    Raises:
        TracekitError: when there are none.
        StorageError: when it cannot be reached.
    """
    fs, path = filesystem(url)
    with translated_errors(url):
        fs.invalidate_cache()
        if any(letter in path for letter in "*["):
            infos = list(fs.glob(path, detail=True).values())
        elif path.partition("?")[0].endswith(endings):
            infos = [_info(fs, path, url)]
        elif not url.endswith("/") and fs.isfile(path):
            infos = [fs.info(path)]
        else:
            infos = list(fs.find(path, detail=True).values())
            infos = [info for info in infos if str(info["name"]).endswith(endings)]
    infos = [info for info in infos if info.get("type") != "directory"]
    if not infos:
        raise TracekitError(f"{shown(url)}: there is no trace at this URL")
    return [
        RemoteFile(fs.unstrip_protocol(str(info["name"])), int(info.get("size") or 0), _stamp(info))
        for info in sorted(infos, key=lambda each: str(each["name"]))
    ]


def _info(fs: Any, path: str, url: str) -> dict[str, Any]:
    try:
        return dict(fs.info(path))
    except FileNotFoundError as error:
        # fsspec raises this error whenever a server refuses; its cause has the reason.
        reason = f": {_reason(error.__cause__)}" if error.__cause__ else ""
        raise TracekitError(f"{shown(url)}: there is no trace at this URL{reason}") from error


def _stamp(info: dict[str, Any]) -> str:
    return next((str(info[key]) for key in _STAMPS if info.get(key)), "")


def holds(url: str, name: str) -> bool:
    """Whether the folder at a URL has a file of that name."""
    fs, path = filesystem(url)
    with translated_errors(url):
        return bool(fs.exists(f"{path}/{name}"))


def open_url(url: str) -> BinaryIO:
    """The bytes at a URL, fetched as they are read.

    Raises:
        FileNotFoundError: when there is no such file.
        StorageError: when it cannot be reached.
    """
    fs, path = filesystem(url)
    with translated_errors(url):
        try:
            file = fs.open(path, "rb", block_size=_BLOCK_BYTES, cache_type="readahead")
        except FileNotFoundError:
            # The error's text would be the whole URL.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    return cast(BinaryIO, _Reading(url, file))


class _Reading:
    """An fsspec file whose errors name the file."""

    def __init__(self, url: str, file: Any) -> None:
        self._url = url
        self._file = file
        self.tell = file.tell
        self.close = file.close

    def seekable(self) -> bool:
        # A server that does not report a file's size cannot serve ranges, whatever fsspec says.
        return bool(self._file.seekable()) and getattr(self._file, "size", None) is not None

    def read(self, size: int = -1) -> bytes:
        with translated_errors(self._url):
            data = bytes(self._file.read(size))
        if self.tell() > MOST_BYTES:
            raise TracekitError(
                f"{shown(self._url)}: is larger than {MOST_BYTES >> 30} GB: download it first"
            )
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        with translated_errors(self._url):
            return int(self._file.seek(offset, whence))
