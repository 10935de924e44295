"""Views over a lake's files that replace a database's tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import duckdb

from tracekit.database import catalog, facts
from tracekit.database.stored import Vocabulary
from tracekit.errors import TracekitError
from tracekit.lake.layout import Group
from tracekit.lake.runs import LakeRun
from tracekit.lake.storage import Storage
from tracekit.lake.tables import FIGURES, NEEDED, SMALL, stored_tables, summaries
from tracekit.text import counted

if TYPE_CHECKING:
    from tracekit.lake.remote import LakeFiles


# Additional columns of the table trace in a lake.
_LABELS = {"labels": "MAP(VARCHAR, VARCHAR)"}
# The tables of ranks with at most this many events in all are copied into memory when they are
# first needed: a question over files takes ten times as long to plan.
_MOST_COPIED = 1_000_000
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE")


# Files by the trace_ids of their valid rows; an empty key means that all rows are valid.
_Files = Mapping[tuple[int, ...], Sequence[str]]


class Binding:
    """Replaces a database's tables with views over the files of some ranks."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, parts: Sequence[LakeRun]) -> None:
        self._connection = connection
        self.parts = list(parts)
        self.notes: list[str] = []
        self._storages: dict[str, Storage] = {part.root: Storage(part.root) for part in parts}
        # Over the empty tables: what is created here is created again over the lake's.
        self._vocabulary = Vocabulary(connection)
        self._remote: LakeFiles | None = None

    def bind(self) -> Vocabulary:
        """Creates the views of the stored tables; returns views to create when SQL mentions them:
        the vocabulary, and facts over several traces.

        Raises:
            TracekitError: when another version wrote all these ranks in another format.
        """
        connection = self._connection
        # This is quick while the tables are empty.
        columns = stored_tables(connection)
        listed = (uris for some in self._files().values() for uris in some.values())
        everything = list(chain.from_iterable(listed))
        connection.execute("SET allowed_paths = $1", [everything])
        # Questions read the footers of a table's files several times.
        connection.execute("SET parquet_metadata_cache = true")
        connection.execute("CREATE SCHEMA lake")
        figures = ", ".join(f'"{column}"' for column in self._types(f"FROM {FIGURES}"))
        by_name = self._has_others()
        for table, some in self._files().items():
            rows = _scanned(some, by_name)
            rows = self._completed(table, rows) if by_name else rows
            connection.execute(f'CREATE VIEW lake."{table}" AS {rows}')
            if table in columns:
                self._replace_table(table, columns[table])
        copies = self._copies(columns) if self._is_small() else {}
        names = catalog.vocabulary() | {"jobs": catalog.schema("lake_jobs")}
        names[FIGURES] = f"CREATE OR REPLACE VIEW {FIGURES} AS SELECT {figures} FROM lake.{FIGURES}"
        for name, rows in facts.rows_over_traces().items():
            own = ", ".join(self._types(f"FROM {name}"))
            made = "TABLE" if copies else "VIEW"
            names[name] = f"CREATE {made} {name} ({own}) AS {rows}"
            connection.execute(f"DROP TABLE {name}")
        return Vocabulary(connection, names, copies)

    def _is_small(self) -> bool:
        events = sum(rank.events for part in self.parts for rank in part.ranks.values())
        return events <= _MOST_COPIED

    def _copies(self, columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """What turns the views of stored tables into tables, by the words of SQL that need them."""
        copies = {}
        for table in self._files():
            schema = "main" if table in columns else "lake"
            copies[table] = (
                f'CREATE TABLE {schema}.copied AS FROM {schema}."{table}"; '
                f'DROP VIEW {schema}."{table}"; '
                f'ALTER TABLE {schema}.copied RENAME TO "{table}"'
            )
        return copies

    # -- files

    def scans(self) -> dict[str, str]:
        """The SQL for each table's valid rows."""
        return {table: f"FROM ({_scanned(some, False)})" for table, some in self._files().items()}

    def _files(self) -> Mapping[str, _Files]:
        """The files of each table."""
        files: dict[str, dict[tuple[int, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
        for part in self.parts:
            for group in part.groups:
                ids = tuple(each.trace_id for each in group.here) if group.without else ()
                for table, size in group.files.items():
                    if group.ranks[0].tables == catalog.FORMAT or table in SMALL:
                        uri = self._uri(part.root, group, table, size)
                        files[table][ids].append(uri)
        return files

    def _uri(self, root: str, group: Group, table: str, size: int) -> str:
        """The name under which the connection opens a file."""
        lake, path = self._storages[root], group.path(table)
        if lake.is_local:
            return lake.uri(path)
        if self._remote is None:
            from tracekit.lake.remote import LakeFiles

            self._remote = LakeFiles()
            self._connection.register_filesystem(self._remote)
        return self._remote.add(lake, path, size)

    # -- ranks written by other versions

    def _has_others(self) -> bool:
        """Leaves out unreadable ranks written by other versions of tracekit, and warns about them.
        Returns whether readable ranks from other versions remain."""
        counts = Counter(rank.tables for part in self.parts for rank in part.ranks.values())
        count = counts.total()
        others = counts.keys() - {catalog.FORMAT}
        unreadable = {other for other in others if not self._is_readable(other)}
        left_out = sum(counts[each] for each in unreadable)
        small = sum(counts[other] for other in others - unreadable)
        readable = (
            part.only({n for n, rank in part.ranks.items() if rank.tables not in unreadable})
            for part in self.parts
        )
        self.parts = [each for each in readable if each.ranks]
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
                "only their figures, verdicts and stored answers can be read, not their events"
            )
        return small > 0

    def _is_readable(self, form: int) -> bool:
        """Whether shared columns have the same types in the small tables of another format."""
        data = ((part, group) for part in self.parts for group in part.data)
        part, group = next(each for each in data if each[1].ranks[0].tables == form)
        if not group.files.keys() >= NEEDED:
            return False
        for table in SMALL & group.files.keys():
            uri = self._uri(part.root, group, table, group.files[table])
            there = self._types(f"FROM {_read([uri])}")
            here = self._expected(table)
            if any(_family(there.get(name, kind)) != _family(kind) for name, kind in here.items()):
                return False
        return True

    def _expected(self, table: str) -> dict[str, str]:
        """The columns of a stored table, with their types."""
        made = summaries().get(table)
        return self._types(f"FROM {table}" if made is None else made)

    def _completed(self, table: str, rows: str) -> str:
        """The rows, with columns added that another version's files lack."""
        there = self._types(rows)
        wanted = self._expected(table) | (_LABELS if table == "trace" else {})
        added = [f'NULL::{kind} AS "{n}"' for n, kind in wanted.items() if n not in there]
        return f"SELECT {', '.join(['*', *added])} FROM ({rows})"

    # -- tables

    def _replace_table(self, table: str, columns: Sequence[str]) -> None:
        kinds = self._types(f"FROM {table}")
        # Thread numbers have a wider type in a lake.
        chosen = ", ".join(
            f'"{name}"' if name == "thread" else f'"{name}"::{kinds[name]} AS "{name}"'
            for name in columns
        )
        extra_columns = ", run, labels" if table == "trace" else ""
        self._connection.execute(f"DROP TABLE {table}")
        self._connection.execute(
            f"CREATE VIEW {table} AS SELECT {chosen}{extra_columns} FROM lake.{table}"
        )

    def _types(self, rows: str) -> dict[str, str]:
        self._vocabulary.add(rows)
        return {row[0]: row[1] for row in self._connection.execute(f"DESCRIBE {rows}").fetchall()}


def _family(kind: str) -> str:
    """The family of a column's type: Parquet has fewer types than a database."""
    if kind.startswith("ENUM") or kind in ("VARCHAR", "JSON"):
        return "text"
    return "number" if kind.startswith(("DECIMAL", *_NUMBERS)) else kind


def _scanned(files: _Files, by_name: bool) -> str:
    """The SQL for the valid rows of some files."""
    return " UNION ALL BY NAME ".join(
        f"FROM {_read(uris, by_name)}"
        + (f" WHERE trace_id IN ({', '.join(map(str, ids))})" if ids else "")
        for ids, uris in files.items()
    )


def _read(paths: Sequence[str], by_name: bool = False) -> str:
    """The SQL that reads Parquet files. DuckDB parses the list at each use of a view, and one long
    text is parsed three times as quickly as hundreds."""
    between = "\n"
    while any(between in path for path in paths):
        between += "\n"
    text = between.join(paths).replace("'", "''")
    named = ", union_by_name = true" if by_name else ""
    return f"read_parquet(string_split('{text}', '{between}'), hive_partitioning = false{named})"
