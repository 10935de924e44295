"""Resolves paths to traces: a path may be a file, a URL, a folder, or a pattern."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.trace.readers import trace_endings
from tracekit.trace.remote import find, is_url
from tracekit.trace.unpacking import ANNOTATIONS, ARCHIVES

DATABASES = (".duckdb", ".db")
# Parts that may surround the endings of traces, archives and databases.
_AROUND = (".pt", ".trace", ".tar", ".gz", ".zst", ".zip")
# torch_npu's database of a rank, next to its timeline. Other files that end in .db may be anything.
_ASCEND = re.compile(r"ascend_pytorch_profiler(_\d+)?\.db")


@cache
def endings() -> tuple[str, ...]:
    """The endings of traces' and archives' names."""
    return (*trace_endings(), *ARCHIVES)


@cache
def _all_endings() -> tuple[str, ...]:
    return tuple(sorted({*endings(), *DATABASES, *_AROUND}, key=len, reverse=True))


def stem(name: str) -> str:
    """A file's name without the endings of traces, archives and databases."""
    size = len(name)
    while name.endswith(_all_endings(), 0, size):
        size -= next(len(ending) for ending in _all_endings() if name.endswith(ending, 0, size))
    return name[:size] or name


def trace_paths(paths: Iterable[str]) -> list[str]:
    """The paths and URLs of traces: files as given, and sorted files in a directory or matching a
    pattern.

    Links to files are followed, links to directories are not. A directory that cannot be listed is
    returned as a path: reading it reports the reason.

    Raises:
        TracekitError: for a directory or pattern without a trace, or an empty path.
    """
    listed: list[str] = []
    for path in paths:
        if not path:
            raise TracekitError("a path is empty: give a file, a directory or a pattern")
        path = path.removeprefix("file://")
        if is_url(path):
            listed += [each.url for each in find(path, endings())]
            continue
        if Path(path).is_dir():
            inside = sorted(_in_directory(path))
            plain = (ending for ending in endings() if not ending.endswith((".gz", ".zst")))
            what = f"this directory has no traces: no file ends in one of {', '.join(plain)}"
        elif glob.has_magic(path) and not os.path.lexists(path):
            inside = sorted(_matching(path))
            what = "there is no such file, and no file matches it as a pattern"
        else:
            listed.append(path)
            continue
        if not inside:
            raise TracekitError(f"{path}: {what}")
        listed += inside
    return listed


def _in_directory(path: str) -> Iterator[str]:
    unlisted: list[str] = []
    ends = endings()
    for folder, _, names in os.walk(path, onerror=lambda error: unlisted.append(error.filename)):
        for name in sorted({*names} - {*_copies(names)}):
            each = str(Path(folder) / name)
            if (name.endswith(ends) or _ASCEND.fullmatch(name)) and may_be_read(each):
                yield each
    yield from unlisted


def is_within(path: str | Path, folders: Iterable[str | Path]) -> bool:
    """Whether a path is in one of these (resolved) folders, after following links."""
    try:
        resolved = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(resolved.is_relative_to(folder) for folder in folders)


def _copies(names: Iterable[str]) -> Iterator[str]:
    """The files in a folder that are not separate traces: an nsys report next to its export, JAX's
    viewer traces next to its own, torch_npu's timeline next to its database, and graph
    annotations."""
    names = list(names)
    if any(map(_ASCEND.fullmatch, names)):
        yield "trace_view.json"
    yield from filter(ANNOTATIONS.fullmatch, names)
    exports = {name.removesuffix(".sqlite") for name in names if name.endswith(".sqlite")}
    yield from (name + ending for name in exports for ending in (".nsys-rep", ".qdrep"))
    if any(name.endswith(".xplane.pb") for name in names):
        yield from (
            name for name in names if name.endswith((".trace.json.gz", "perfetto_trace.json.gz"))
        )


def _matching(pattern: str) -> Iterator[str]:
    """The paths that match a shell pattern; `**` does not follow links to directories, as glob.glob
    would."""
    parts, anchor = Path(pattern).parts, Path(pattern).anchor
    below = [*parts[1 if anchor else 0 :], *(["*"] if parts[-1] == "**" else [])]
    for path in Path(anchor).glob(str(Path(*below))):
        is_hidden = any(part.startswith(".") and part not in parts for part in path.parts)
        if not is_hidden and may_be_read(str(path)):
            yield str(path)


def may_be_read(path: str) -> bool:
    """True for an ordinary file, and for a path that cannot be examined: reading reports why."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return True
