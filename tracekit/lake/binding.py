"""Views over the files of a lake, which stand for the tables of a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import duckdb
from msgspec import Struct
from msgspec.structs import replace

from tracekit.database import catalog, facts
from tracekit.database.stored import Vocabulary
from tracekit.errors import TracekitError
from tracekit.lake.layout import FIRST_LAYOUT, LAYOUT, Group
from tracekit.lake.runs import RunPart
from tracekit.lake.storage import Storage
from tracekit.lake.tables import NEEDED, RELATIONS, SMALL, stored_tables, summaries
from tracekit.text import counted

if TYPE_CHECKING:
    from tracekit.lake.remote import LakeFiles


_KEYS = "{'run': VARCHAR, 'rank': BIGINT, 'trace_id': INTEGER}"
# Columns that the table of traces has only in a lake.
_LABELS = {"labels": "MAP(VARCHAR, VARCHAR)"}
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE")


class _File(Struct, frozen=True):
    """A file, and the trace_ids of its rows that count; None: all do."""

    uri: str
    only: tuple[int, ...] | None
    layout: int


class Binding:
    """Puts views over the files of some ranks in the place of a database's tables."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, parts: Sequence[RunPart]) -> None:
        self._connection = connection
        self.parts = list(parts)
        self.notes: list[str] = []
        self._storages: dict[str, Storage] = {each.root: Storage(each.root) for each in parts}
        # Over the empty tables: what is created here is created again over the lake's.
        self._vocabulary = Vocabulary(connection)
        self._remote: LakeFiles | None = None
        self._added: dict[tuple[str, str], str] = {}

    def bind(self) -> Vocabulary:
        """Creates the views of the stored tables; returns those that are created once SQL mentions
        them: the vocabulary, and facts over several traces.

        Raises:
            TracekitError: when another version wrote all of these ranks in another way.
        """
        connection = self._connection
        # This is quick while the tables are empty.
        self._columns = stored_tables(connection)
        everything = [each.uri for some in self._files().values() for each in some]
        connection.execute("SET allowed_paths = $1", [everything])
        # A question reads the footers of a table's files several times.
        connection.execute("SET parquet_metadata_cache = true")
        connection.execute("CREATE SCHEMA lake")
        summarized = {name: self._types(rows) for name, (rows, _) in RELATIONS.items()}
        self._leave_out_others()
        by_name = any(each.tables != catalog.FORMAT for part in self.parts for each in part.ranks)
        for table, some in self._files().items():
            rows = _scanned(some, by_name)
            rows = self._completed(table, rows) if by_name else rows
            connection.execute(f'CREATE VIEW lake."{table}" AS {rows}')
            if table in self._columns:
                self._replace_table(table)
        names = catalog.vocabulary() | {"jobs": catalog.schema("lake_jobs")}
        for name, (_, kind) in RELATIONS.items():
            chosen = ", ".join(f'"{column}"' for column in summarized[name])
            names[name] = f"CREATE OR REPLACE {kind} SELECT {chosen} FROM lake.{name}"
        for name, fact in facts.over_traces().items():
            columns = ", ".join(self._types(f"FROM {name}"))
            names[name] = f"CREATE VIEW {name} ({columns}) AS {fact.rows}"
            connection.execute(f"DROP TABLE {name}")
        return Vocabulary(connection, names)

    # -- files

    def scans(self) -> dict[str, str]:
        """The SQL of the rows of each table that count."""
        return {table: f"FROM ({_scanned(some, False)})" for table, some in self._files().items()}

    def _files(self) -> dict[str, list[_File]]:
        """The files of each table."""
        found: dict[str, list[_File]] = defaultdict(list)
        for part in self.parts:
            for piece in part.group_parts():
                ids = None if piece.is_whole else tuple(each.trace_id for each in piece.ranks)
                for table, size in piece.group.files.items():
                    if piece.ranks[0].tables == catalog.FORMAT or table in SMALL:
                        uri = self._uri(part.root, piece.group, table, size)
                        found[table].append(_File(uri, ids, piece.group.layout))
        return found

    def _uri(self, root: str, group: Group, table: str, size: int) -> str:
        """The name by which the connection opens a file."""
        lake, path = self._storages[root], group.path(table)
        uri = lake.uri(path)
        if lake.is_local:
            return uri
        if (uri, path) in self._added:
            return self._added[uri, path]
        if self._remote is None:
            from tracekit.lake.remote import LakeFiles

            self._remote = LakeFiles()
            self._connection.register_filesystem(self._remote)
        self._added[uri, path] = self._remote.add(lake.fs, uri, path, size)
        return self._added[uri, path]

    # -- what other versions wrote

    def _leave_out_others(self) -> None:
        """Leaves out the ranks that another version wrote in another way, and says so."""
        formats = {each.tables for part in self.parts for each in part.ranks} - {catalog.FORMAT}
        if not formats:
            return
        count = sum(len(part.ranks) for part in self.parts)
        unreadable = {each for each in formats if not self._is_readable(each)}
        small, left_out = self._count(formats - unreadable), self._count(unreadable)
        self.parts = [
            each
            for part in self.parts
            for each in [
                replace(
                    part, names=frozenset(r.name for r in part.ranks if r.tables not in unreadable)
                )
            ]
            if each.names
        ]
        if not self.parts:
            raise TracekitError(
                f"another version of tracekit wrote these {counted(count, 'rank')}: run "
                "`tracekit lake add` on their traces again"
            )
        if left_out:
            self.notes.append(
                f"{left_out:,} of {counted(count, 'rank')} are left out: another version of "
                "tracekit wrote them; run `tracekit lake add` on their traces again"
            )
        if small:
            self.notes.append(
                f"{small:,} of {counted(count, 'rank')} are from another version of tracekit: "
                "their figures, verdicts and stored answers are read, their events are not"
            )

    def _count(self, formats: Iterable[int]) -> int:
        some = set(formats)
        return sum(each.tables in some for part in self.parts for each in part.ranks)

    def _is_readable(self, form: int) -> bool:
        """Whether the columns that the small tables of another format share with this one have the
        same types."""
        part, group = next(
            (part, piece.group)
            for part in self.parts for piece in part.group_parts()
            if piece.ranks[0].tables == form and piece.group.context is None
        )  # fmt: skip
        if not group.files.keys() >= NEEDED:
            return False
        for table in SMALL & group.files.keys():
            uri = self._uri(part.root, group, table, group.files[table])
            there = self._types(f"FROM {_read([uri], group.layout)}")
            here = self._expected(table)
            if any(_family(there.get(name, kind)) != _family(kind) for name, kind in here.items()):
                return False
        return True

    def _expected(self, table: str) -> dict[str, str]:
        """The columns of a stored table, with their types."""
        made = summaries().get(table)
        return self._types(f"FROM {table}" if made is None else made)

    def _completed(self, table: str, rows: str) -> str:
        """The rows with the columns that the files of another version lack."""
        there = self._types(rows)
        wanted = self._expected(table) | (_LABELS if table == "trace" else {})
        added = [f'NULL::{kind} AS "{n}"' for n, kind in wanted.items() if n not in there]
        return f"SELECT {', '.join(['*', *added])} FROM ({rows})"

    # -- tables

    def _replace_table(self, table: str) -> None:
        kinds = self._types(f"FROM {table}")
        # Numbers of threads are wider in a lake.
        chosen = ", ".join(
            f'"{name}"' if name == "thread" else f'"{name}"::{kinds[name]} AS "{name}"'
            for name in self._columns[table]
        )
        more = ", run, labels" if table == "trace" else ""
        self._connection.execute(f"DROP TABLE {table}")
        self._connection.execute(f"CREATE VIEW {table} AS SELECT {chosen}{more} FROM lake.{table}")

    def _types(self, rows: str) -> dict[str, str]:
        self._vocabulary.add(rows)
        return {row[0]: row[1] for row in self._connection.execute(f"DESCRIBE {rows}").fetchall()}


def _family(kind: str) -> str:
    """The family of a column's type: Parquet has fewer types than a database."""
    if kind.startswith("ENUM") or kind in ("VARCHAR", "JSON"):
        return "text"
    return "number" if kind.startswith(("DECIMAL", *_NUMBERS)) else kind


def _scanned(files: Sequence[_File], by_name: bool) -> str:
    """The SQL of the rows that count in some files."""
    scans = [
        f"FROM {_read(uris, layout, by_name)}"
        for layout in (FIRST_LAYOUT, LAYOUT)
        if (uris := [each.uri for each in files if each.only is None and each.layout == layout])
    ]
    for each in files:
        if each.only is not None:
            ids = ", ".join(map(str, each.only))
            scans.append(
                f"FROM {_read([each.uri], each.layout, by_name)} WHERE trace_id IN ({ids})"
            )
    return " UNION ALL BY NAME ".join(scans)


def _read(paths: Sequence[str], layout: int, by_name: bool = False) -> str:
    """The SQL that reads Parquet files; in layout 1, their paths have the keys. Each use of a view
    parses the list again, and one text is parsed three times as quickly as hundreds."""
    between = "\n"
    while any(between in each for each in paths):
        between += "\n"
    text = between.join(paths).replace("'", "''")
    named = ", union_by_name = true" if by_name else ""
    keys = "true, hive_types = " + _KEYS if layout == FIRST_LAYOUT else "false"
    return f"read_parquet(string_split('{text}', '{between}'), hive_partitioning = {keys}{named})"
