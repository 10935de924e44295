"""Paths and URLs -> the files to add, their state, and their traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tracekit.database.connection import is_database
from tracekit.errors import TracekitError
from tracekit.lake.layout import Source, valid_name
from tracekit.trace.remote import find, is_url, shown
from tracekit.trace.source import DATABASES, ENDINGS, trace_paths, unreadable
from tracekit.trace.unpacking import ARCHIVES

# Prefix of the folders for the work on one file; those of dead processes are removed.
WORK_PREFIX = "tracekit-lake-"
_ENDINGS = re.compile(r"(\.(pt|trace|json|gz|zst|tar|tgz))+$")


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
            for each in trace_paths([path]):
                yield _local(each)
        except TracekitError as error:
            yield error


def _local(path: str) -> Source | TracekitError:
    try:
        state = Path(path).stat()
    except (OSError, ValueError) as error:
        return unreadable(path, error) if isinstance(error, OSError) else TracekitError(str(error))
    if is_database(path):
        return _is_a_database(path)
    return Source(str(Path(path).absolute()), state.st_size, str(state.st_mtime_ns))


def _is_a_database(path: str) -> TracekitError:
    return TracekitError(f"{path}: is a database: add the traces that it was loaded from")


def _remote(url: str) -> Iterator[Source | TracekitError]:
    if shown(url) != url:
        raise TracekitError(
            f"{shown(url)}: a lake keeps the addresses of its sources: give one without user, "
            "password or query"
        )
    if url.endswith(DATABASES):
        raise _is_a_database(url)
    yield from (Source(*each) for each in find(url, ENDINGS))


def run_of(source: Source) -> str:
    """The run that a trace belongs to unless the user names it: its folder, or its archive."""
    path = PurePosixPath(source.url)
    if source.member is not None or path.name.endswith(ARCHIVES):
        return valid_name(stem(path.name))
    return valid_name(path.parent.name)


def stem(file_name: str) -> str:
    """A file's name without the endings of traces and archives."""
    return _ENDINGS.sub("", file_name) or file_name
