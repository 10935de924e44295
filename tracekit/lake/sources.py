"""Paths and URLs -> the files to add, their state, and their traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from tracekit.database.connection import is_database
from tracekit.errors import TracekitError
from tracekit.files import work_folder
from tracekit.lake.layout import Source, is_url, valid_name
from tracekit.lake.storage import filesystem, translated_errors
from tracekit.trace.other.formats import open_traces
from tracekit.trace.source import ByteStream, trace_paths, unreadable
from tracekit.trace.unpacking import TRACES

# Prefix of the folders for the work on one file; those of dead processes are removed.
WORK_PREFIX = "tracekit-lake-"
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
_ENDINGS = re.compile(r"(\.(pt|trace|json|gz|zst|tar|tgz))+$")
# Keys under which file systems report an object's state, the most reliable first.
_STAMPS = ("ETag", "etag", "md5Hash", "checksum", "LastModified", "mtime", "updated", "created")


def find_sources(paths: Iterable[str]) -> Iterator[Source | TracekitError]:
    """The files at paths and URLs (files, folders and patterns), each with its state.

    An error takes the place of what cannot be found.
    """
    for path in paths:
        try:
            if is_url(path):
                yield from _remote(path)
                continue
            if path == "-":
                raise TracekitError("-: a lake needs files: standard input cannot be read again")
            for each in trace_paths([path.removeprefix("file://")]):
                yield _local(each)
        except TracekitError as error:
            yield error


def _local(path: str) -> Source | TracekitError:
    try:
        state = Path(path).stat()
    except (OSError, ValueError) as error:
        return unreadable(path, error) if isinstance(error, OSError) else TracekitError(str(error))
    if is_database(path):
        return TracekitError(f"{path}: is a database: add the traces that it was loaded from")
    return Source(str(Path(path).absolute()), state.st_size, str(state.st_mtime_ns))


def _remote(url: str) -> Iterator[Source]:
    fs, path = filesystem(url)
    scheme = url.partition("://")[0]
    with translated_errors(url):
        fs.invalidate_cache()
        if any(letter in path for letter in "*["):
            infos = list(fs.glob(path, detail=True).values())
        elif path.endswith((*TRACES, *_ARCHIVES)):
            infos = [fs.info(path)] if fs.exists(path) else []
        else:
            infos = list(fs.find(path, detail=True).values())
            infos = [info for info in infos if info["name"].endswith((*TRACES, *_ARCHIVES))]
    infos = [info for info in infos if info.get("type") != "directory"]
    if not infos:
        raise TracekitError(f"{url}: no trace is there")
    for info in sorted(infos, key=lambda each: str(each["name"])):
        name = str(info["name"])
        full = name if is_url(name) else f"{scheme}://{name.lstrip('/')}"
        if scheme in ("memory",):
            full = f"{scheme}://{name}"
        yield Source(full, int(info.get("size") or 0), _stamp(info))


def _stamp(info: dict[str, Any]) -> str:
    return next((str(info[key]) for key in _STAMPS if info.get(key)), "")


def run_of(source: Source) -> str:
    """The run that a trace belongs to unless the user names it: its folder, or its archive."""
    path = PurePosixPath(source.url)
    if source.member is not None or path.name.endswith(_ARCHIVES):
        return valid_name(stem(path.name))
    return valid_name(path.parent.name)


def stem(file_name: str) -> str:
    """A file's name without the endings of traces and archives."""
    return _ENDINGS.sub("", file_name) or file_name


@contextmanager
def open_source(source: Source, temp_dir: Path) -> Iterator[Iterator[ByteStream | TracekitError]]:
    """The traces of a file. A file at a URL is copied first, and the copy removed after the block.

    Raises:
        TracekitError: when the file is not there or cannot be read.
        StorageError: when its file system fails: another attempt may succeed.
    """
    if not is_url(source.url):
        yield open_traces(source.url, temp_dir=temp_dir)
        return
    fs, path = filesystem(source.url)
    with work_folder(temp_dir, WORK_PREFIX) as folder:
        copy = folder / valid_name(PurePosixPath(path).name)
        try:
            with translated_errors(source.url):
                fs.get_file(path, str(copy))
        except FileNotFoundError as error:
            raise TracekitError(f"{source.url}: no such file") from error
        yield open_traces(str(copy), temp_dir=temp_dir, name=source.url)
