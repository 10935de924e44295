"""Reports of Nsight Systems exported to a folder of Parquet files (`nsys export --type
parquetdir`): a file for each table, with the columns of the SQLite export."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

from tracekit.errors import explained
from tracekit.files import temporary_folder
from tracekit.text import quoted
from tracekit.trace.other.converted import OpenedFile

# The table that every export has stands for its folder.
ENDING = "StringIds.parquet"
_MAGIC = b"PAR1"
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_AT_ONCE = 10_000
_KEYS = {"StringIds": "id"}


def is_export(opened: OpenedFile) -> bool:
    """Whether the file is a table of such a folder."""
    return opened.path.endswith(ENDING) and opened.head.startswith(_MAGIC)


def to_sqlite(opened: OpenedFile) -> Path:
    """A SQLite file with the tables in the file's folder.

    Raises:
        TracekitError: when a file is damaged, or the tables do not fit on the disk.
    """
    path = opened.plain_path
    files = sorted(path.parent.glob("*.parquet")) if path is not None else []
    opened.budget.widen(sum(file.stat().st_size for file in files))
    made = opened.closes.enter_context(temporary_folder(opened.folder)) / "report.sqlite"
    with closing(sqlite3.connect(made)) as into, closing(duckdb.connect()) as source:
        into.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        for file in files:
            with explained(f"{quoted(str(file))}: cannot be read", duckdb.Error, sqlite3.Error):
                _copy(source, file, into)
        into.commit()
    return made


def _copy(source: duckdb.DuckDBPyConnection, file: Path, into: sqlite3.Connection) -> None:
    rows = source.execute("SELECT * FROM read_parquet($file)", {"file": str(file)})
    names = [column[0] for column in rows.description or []]
    if not _PLAIN.fullmatch(file.stem) or not all(map(_PLAIN.fullmatch, names)):
        return
    key = _KEYS.get(file.stem)
    columns = ", ".join(f"{name} INTEGER PRIMARY KEY" if name == key else name for name in names)
    into.execute(f"CREATE TABLE {file.stem} ({columns})")
    marks = ", ".join("?" * len(names))
    while batch := rows.fetchmany(_AT_ONCE):
        into.executemany(f"INSERT INTO {file.stem} VALUES ({marks})", batch)
