"""The texts of tracekit.queries."""

from __future__ import annotations

import os
from functools import cache
from importlib.resources import files
from io import FileIO
from pathlib import Path

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
    """The texts of all SQL and CSV files, by path. Reading all 300 takes a few milliseconds."""
    folder = os.fspath(root())
    insides = ("", *(each.name + "/" for each in os.scandir(folder) if each.is_dir()))
    paths = (inside + each.name for inside in insides for each in os.scandir(f"{folder}/{inside}"))
    return {path: _read(f"{folder}/{path}") for path in sorted(paths) if path.endswith(_ENDINGS)}


def _read(path: str) -> str:
    # Text mode takes three times as long, and a Path for each file half as long.
    with FileIO(path) as file:
        return file.readall().decode().replace("\r\n", "\n")


def root() -> Path:
    return Path(str(files("tracekit.queries")))
