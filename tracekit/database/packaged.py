"""The texts of tracekit.queries. A command needs about a hundred of these small files, so one file
in the user's cache folder holds all of them, for each state of the folder.

It is trusted like the user's other files; one that somebody else could have written is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.files import is_own, own_cache, written_whole

_PREFIX = "queries-"
_ENDINGS = (".sql", ".csv")


def text(path: str) -> str:
    """The text of a file by its path in queries, such as `views/host.sql`."""
    return texts()[path]


def stems(folder: str, ending: str = ".sql") -> list[str]:
    """The names of a folder's files, without their ending, in order."""
    start = f"{folder}/"
    return sorted(
        path.removeprefix(start).removesuffix(ending)
        for path in texts()
        if path.startswith(start) and path.endswith(ending)
    )


@cache
def texts() -> dict[str, str]:
    """The texts of all SQL and CSV files, by path."""
    kept = _kept_at()
    if kept is not None and is_own(kept):
        with suppress(OSError, ValueError, TypeError):
            return dict(json.loads(kept.read_text(encoding="utf-8")))
    read = {path: (root() / path).read_text(encoding="utf-8") for path, *_ in stamps()}
    if kept is not None:
        _keep(kept, read)
    return read


def root() -> Path:
    return Path(str(files("tracekit.queries")))


@cache
def stamps() -> tuple[tuple[str, int, int], ...]:
    """The path, size and modification time of each of these files."""
    folder = os.fspath(root())
    found = []
    for inside in ("", *(each.name + "/" for each in os.scandir(folder) if each.is_dir())):
        for file in os.scandir(f"{folder}/{inside}"):
            if file.name.endswith(_ENDINGS):
                state = file.stat()
                found.append((inside + file.name, state.st_size, state.st_mtime_ns))
    return tuple(sorted(found))


def _kept_at() -> Path | None:
    """The path of the one file with all texts; None without a cache folder."""
    folder = own_cache()
    digest = hashlib.sha256(repr((str(root()), stamps())).encode()).hexdigest()
    return folder and folder / f"{_PREFIX}{digest[:16]}.json"


def _keep(path: Path, read: dict[str, str]) -> None:
    with suppress(TracekitError, OSError):
        with written_whole(path) as beside:
            beside.write_text(json.dumps(read), encoding="utf-8")
            beside.chmod(0o600)
        for old in path.parent.glob(f"{_PREFIX}*.json"):
            if old != path:
                old.unlink()
