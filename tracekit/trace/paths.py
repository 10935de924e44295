"""The traces that a path means: a file, a URL, a folder, or a pattern."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.trace.readers import trace_endings
from tracekit.trace.remote import find, is_url
from tracekit.trace.unpacking import ANNOTATIONS, ARCHIVES

DATABASES = (".duckdb", ".db")


@cache
def endings() -> tuple[str, ...]:
    """How the names of traces and archives end."""
    return (*trace_endings(), *ARCHIVES)


def trace_paths(paths: Iterable[str]) -> list[str]:
    """The paths and URLs of traces: files as given, and those in a directory or matching a pattern,
    sorted.

    Links to files are followed, links to directories are not. A directory that cannot be listed is
    returned as a path, so that reading it says why.

    Raises:
        TracekitError: for a directory or pattern without a trace, or an empty path.
    """
    found: list[str] = []
    for path in paths:
        if not path:
            raise TracekitError("a path is empty: name a file, a directory or a pattern")
        path = path.removeprefix("file://")
        if is_url(path):
            found += [each.url for each in find(path, endings())]
            continue
        if Path(path).is_dir():
            inside = sorted(_in_directory(path))
            what = f"this directory has no traces: no file ends in one of {', '.join(endings())}"
        elif glob.has_magic(path) and not os.path.lexists(path):
            inside = sorted(_matching(path))
            what = "no such file, and no file matches it as a pattern"
        else:
            found.append(path)
            continue
        if not inside:
            raise TracekitError(f"{path}: {what}")
        found += inside
    return found


def _in_directory(path: str) -> Iterator[str]:
    unlisted: list[str] = []
    ends = endings()
    for folder, _, names in os.walk(path, onerror=lambda error: unlisted.append(error.filename)):
        for name in sorted({*names} - {*_copies(names)}):
            each = str(Path(folder) / name)
            if name.endswith(ends) and may_be_read(each):
                yield each
    yield from unlisted


def is_within(path: str | Path, folders: Iterable[str | Path]) -> bool:
    """Whether a path is in one of these folders after links are followed; the folders are resolved
    already."""
    try:
        found = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(found.is_relative_to(each) for each in folders)


def _copies(names: Iterable[str]) -> Iterator[str]:
    """The files of a folder that are not traces of their own: a report of nsys beside its export,
    JAX's traces for viewers beside its own, and annotations of graphs."""
    names = list(names)
    yield from filter(ANNOTATIONS.fullmatch, names)
    exports = {name.removesuffix(".sqlite") for name in names if name.endswith(".sqlite")}
    yield from (f"{name}.nsys-rep" for name in exports)
    if any(name.endswith(".xplane.pb") for name in names):
        yield from (
            name for name in names if name.endswith((".trace.json.gz", "perfetto_trace.json.gz"))
        )


def _matching(pattern: str) -> Iterator[str]:
    """The paths that match a shell pattern; `**` does not follow links to directories, as glob.glob
    would."""
    parts, anchor = Path(pattern).parts, Path(pattern).anchor
    below = [*parts[1 if anchor else 0 :], *(["*"] if parts[-1] == "**" else [])]
    for each in Path(anchor).glob(str(Path(*below))):
        is_hidden = any(part.startswith(".") and part not in parts for part in each.parts)
        if not is_hidden and may_be_read(str(each)):
            yield str(each)


def may_be_read(path: str) -> bool:
    """True for an ordinary file, and for a path that cannot be examined: reading it says why."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return True
