"""What a lake stores: the names of its files, the manifests that make a rank visible, and the
answers that are stored with each rank.

LAKE/tracekit-lake.json                                      marks the folder as a lake
LAKE/manifests/run=RUN/NAME.json                             one rank of a run: written last
LAKE/tables/TABLE/run=RUN/rank=N/trace_id=ID/TOKEN.parquet   its rows of one table
LAKE/archives/HASH.json                                      an archive that was read to its end

Readers list the manifests and open the files that these name, so they never see half a rank. A
manifest may come from an untrusted source: it holds no paths. They follow from its fields, each of
which is checked for its type and its value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import duckdb

from tracekit.database import catalog, facts
from tracekit.database.catalog import Query, Value
from tracekit.errors import TracekitError
from tracekit.records import parsed, record
from tracekit.trace.remote import holds, is_url, shown
from tracekit.trace.source import ENDINGS

MARK = "tracekit-lake.json"
MANIFESTS = "manifests"
TABLES = "tables"
ARCHIVES = "archives"
# The version of this layout, and of the manifests.
LAYOUT = 1
# The folder of a partition whose value is NULL, for every reader of Hive partitions.
# https://cwiki.apache.org/confluence/display/Hive/Tutorial (hive.exec.default.partition.name)
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Stored relations and answers are about one trace alone, so the rows of all ranks together are what
# the same SQL answers over all of them. A lake's views and questions read the stored rows.
# Relations whose rows are stored: their SQL, and what they are in a lake.
RELATIONS = {
    "run_figures": ("FROM run_figures()", "MACRO run_figures() AS TABLE"),
}
# Questions whose answers are stored, as they are without parameters, ordered by trace first.
ANSWERS = ("overview", "health", "missing", "launch_stats", "partition", "idle_causes")
# Conditions on stored answers: each rank was alone when they were stored.
_STILL = {
    "missing": " AND (code <> 'one_rank' OR trace_id IN "
    "(SELECT any_value(trace_id) FROM jobs GROUP BY job HAVING count(*) = 1))"
}
_PREFIX = "answer_"
# Tables that a lake does not store: the reader makes them.
NOT_STORED = ("tracekit", "loading", "hardware", *facts.over_traces())
# Columns of the partition: the path has them.
PARTITION = ("trace_id", "run", "rank")
# Tables that every rank has, even without rows.
NEEDED = frozenset({"trace", *RELATIONS, *(f"{_PREFIX}{name}" for name in ANSWERS)})
_TOKEN = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TABLE = re.compile(r"[a-z_]+")
_RANK = re.compile(r"rank[ _.=-]?(\d{1,9})(?!\d)", re.IGNORECASE)
# The largest INTEGER; 0 is no trace.
_MOST_TRACE_ID = 2**31 - 1
# Most file systems limit names to 255 bytes; this leaves room for prefixes and endings.
_LONGEST = 180


@dataclass(frozen=True)
class Source:
    """Where a trace was read: the path or URL of its file, and the file's size and state then.

    `stamp` changes with the file: its modification time or ETag. `member` is the trace's path in an
    archive.
    """

    url: str
    size: int
    stamp: str
    member: str | None = None


@dataclass(frozen=True)
class Rank:
    """A manifest: one rank of one run, and the files that hold its tables."""

    run: str
    name: str
    """`rank=N`, or `file=NAME` for a trace that has no rank."""
    rank: int | None
    trace_id: int
    token: str
    """Names the files of this generation of the rank."""
    tables: int
    """The format of its tables."""
    sha256: str
    """The hash of the stored file, or of the archive's member."""
    events: int
    source: Source
    files: dict[str, int]
    """The tables that have rows here, and the size of each file in bytes."""

    @property
    def key(self) -> str:
        return manifest_path(self.run, self.name)

    def path(self, table: str) -> str:
        """The file with its rows of a table, relative to the lake."""
        rank = NO_VALUE if self.rank is None else str(self.rank)
        folders = f"run={escape(self.run)}/rank={rank}/trace_id={self.trace_id}"
        return f"{TABLES}/{table}/{folders}/{self.token}.parquet"

    def as_json(self) -> bytes:
        return json.dumps({"layout": LAYOUT} | asdict(self), indent=1).encode()


def read_manifest(text: bytes, path: str) -> Rank:
    """The rank that a manifest describes.

    Raises:
        TracekitError: when it is not one of this version, or its fields do not fit its path.
    """
    try:
        stored = parsed(text)
        if isinstance(stored, dict) and stored.get("layout", LAYOUT) != LAYOUT:
            raise TracekitError(f"{path}: another version of tracekit wrote this part of the lake")
        found = record(Rank, stored)
        is_sound = found.key == path and _is_sound(found)
    except ValueError as error:
        raise TracekitError(f"{path}: is not a manifest of a lake: {error}") from error
    if not is_sound:
        raise TracekitError(f"{path}: is not a sound manifest: its fields do not fit its name")
    return found


def _is_sound(rank: Rank) -> bool:
    names = NEEDED if rank.tables == catalog.FORMAT else frozenset[str]()
    return (
        rank.run == valid_name(rank.run)
        and (rank.rank is None or (rank.rank >= 0 and rank.name == f"rank={rank.rank}"))
        and (rank.rank is not None or rank.name.startswith("file="))
        and 0 < rank.trace_id <= _MOST_TRACE_ID
        and bool(_TOKEN.fullmatch(rank.token))
        and bool(_SHA256.fullmatch(rank.sha256))
        and rank.events >= 0
        and all(_TABLE.fullmatch(name) and size > 0 for name, size in rank.files.items())
        and names <= rank.files.keys()
    )


@dataclass(frozen=True)
class Archive:
    """The note about an archive that was read to its end: the run and name of each rank in it."""

    source: Source
    ranks: list[tuple[str, str]]

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read_archive(text: bytes) -> Archive | None:
    """The note about an archive; None: another version wrote it."""
    try:
        return record(Archive, parsed(text))
    except ValueError:
        return None


def manifest_path(run: str, name: str) -> str:
    kind, _, value = name.partition("=")
    return f"{MANIFESTS}/run={escape(run)}/{escape(kind)}={escape(value)}.json"


def archive_path(url: str, run: str | None) -> str:
    """The path of the note about an archive, for one choice of the run's name."""
    name = hashlib.sha256(f"{run or ''}\0{url}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{ARCHIVES}/{name[:32]}.json"


def trace_id_of(run: str, name: str, sha256: str, salt: int = 0) -> int:
    """The number of a trace in a lake: the same whenever the same trace is added to the same rank.

    Two ranks of a lake may get the same number: then one of them is written again with a `salt`.
    """
    text = f"{run}\0{name}\0{sha256}\0{catalog.FORMAT}\0{salt}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") % _MOST_TRACE_ID + 1


def escape(text: str) -> str:
    """Text as the name of one file or folder, as Hive escapes the values of partitions."""
    return quote(text, safe=" ,+@-_.", errors="surrogateescape")


def valid_name(text: str) -> str:
    """Text as the name of a run or a file in a lake: not empty, not NULL, and not too long for the
    name of a folder."""
    # DuckDB reads the text NULL in a path as no value.
    found = text if text and text.upper() not in ("NULL", NO_VALUE) else f"{text}_"
    found = found.encode("utf-8", "replace").decode()
    if len(escape(found)) > _LONGEST:
        digest = hashlib.sha256(found.encode()).hexdigest()[:16]
        while len(escape(found)) > _LONGEST - 17:
            found = found[:-1]
        found = f"{found}-{digest}"
    return found


def rank_in_name(file_name: str) -> int | None:
    """The rank that a file's name gives, such as 12 in `trace_rank12.json.gz`."""
    found = _RANK.search(file_name)
    return int(found[1]) if found else None


def may_be_lake(path: str) -> bool:
    """Whether a path is a lake or a part of one.

    Raises:
        TracekitError: when it is a URL that cannot be reached.
    """
    root = selection(path).root
    if is_url(root):
        return not shown(root).endswith(ENDINGS) and "*" not in root and holds(root, MARK)
    try:
        return (Path(root) / MARK).is_file()
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class Selection:
    """A lake, and the part of it that a path such as `LAKE/run=NAME/rank=3` selects."""

    root: str
    run: str | None = None
    name: str | None = None

    def takes(self, rank: Rank) -> bool:
        return self.run in (None, rank.run) and self.name in (None, rank.name)

    def __str__(self) -> str:
        parts = [self.root, *([f"run={self.run}"] if self.run is not None else []), self.name]
        return "/".join(part for part in parts if part)


_PART = re.compile(
    r"(?P<root>.+?)/+run=(?P<run>[^/]+)(?:/+(?P<name>(?:rank|file)=[^/]+))?/*", re.DOTALL
)


def selection(path: str) -> Selection:
    """What a path selects: `LAKE`, `LAKE/run=NAME`, `LAKE/run=NAME/rank=3` or `.../file=NAME`."""
    if found := _PART.fullmatch(path):
        name = found["name"]
        return Selection(found["root"], unquote(found["run"]), name and unquote(name))
    return Selection(path.rstrip("/") or path)


def stored_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The columns of each table of a database that a lake stores."""
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "JOIN duckdb_tables() USING (database_name, schema_name, table_name) "
        "WHERE database_name = current_database() AND schema_name = 'main' "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {name: columns for name, columns in rows if name not in NOT_STORED}


def summaries() -> dict[str, str]:
    """The name of each stored summary and the SQL of its rows. (Verdicts are no SQL.)"""
    relations = {name: sql for name, (sql, _) in RELATIONS.items()}
    answers = {
        f"{_PREFIX}{name}": "SELECT row_number() OVER () AS place, * "
        f"FROM ({catalog.query(name).sql})"
        for name in ANSWERS
    }
    return relations | answers


def stored_answer_sql(question: Query, given: Mapping[str, Value]) -> str | None:
    """The SQL that reads the stored answers to a question; None: they are not stored, or not for
    these parameters."""
    if question.name not in ANSWERS or any(
        value is not None for name, value in given.items() if name != "trace"
    ):
        return None
    columns = ", ".join(f'"{column.name}"' for column in question.columns)
    return (
        f"SELECT {columns} FROM lake.{_PREFIX}{question.name} "
        f"WHERE trace_id = coalesce(getvariable('trace'), trace_id){_STILL.get(question.name, '')} "
        "ORDER BY trace_id, place"
    )
