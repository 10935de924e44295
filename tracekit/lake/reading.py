"""A lake as a database: the tables are views over the Parquet files of its ranks.

A question about each rank by itself is asked where the work is: the driver holds the answers, and
reads no events.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import duckdb

from tracekit.database import catalog, facts, prepared
from tracekit.database.catalog import Query, Value
from tracekit.database.connection import connect
from tracekit.database.sandbox import SPILL_MB, close_to_the_outside, limit_spilling
from tracekit.database.session import Session
from tracekit.database.stored import SURPRISES
from tracekit.errors import TracekitError, first_line
from tracekit.ingest.hardware import peaks, record_peaks
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import (
    MANIFESTS,
    MARK,
    RELATIONS,
    Rank,
    Selection,
    read_manifest,
    selection,
    stored_answer_sql,
    stored_tables,
)
from tracekit.lake.storage import RemoteStorage, Storage, local_files, storage

if TYPE_CHECKING:
    from tracekit.lake.remote import LakeFiles
    from tracekit.lake.workers import Workers

_OUTSIDE_QUERIES_MB = 200
# Above this many rows of one rank, export instead of asking.
MOST_ROWS = 100_000
_HIVE = (
    "hive_partitioning = true, hive_types = {'run': VARCHAR, 'rank': BIGINT, 'trace_id': INTEGER}"
)
_PACKAGE = str(Path(__file__).parents[1])


def visible_ranks(lake: Storage) -> list[Rank]:
    """The ranks of a lake, by run and rank.

    Raises:
        TracekitError: when a manifest is not sound.
    """
    found = [read_manifest(text, path) for path, text in lake.read_all(MANIFESTS).items()]
    return sorted(found, key=lambda each: (each.run, each.rank is None, each.rank or 0, each.name))


def selected_ranks(where: Selection) -> list[Rank]:
    """The ranks that a path selects.

    Raises:
        TracekitError: when there is no lake, none of its ranks is selected, or another version of
            tracekit wrote them.
    """
    lake = storage(where.root)
    if lake.read(MARK) is None:
        raise TracekitError(f"{where.root}: is not a lake: `tracekit lake add` makes one")
    everything = visible_ranks(lake)
    ranks = [each for each in everything if where.takes(each)]
    if not ranks:
        runs = ", ".join(sorted({each.run for each in everything})[:8]) or "none"
        raise TracekitError(f"{where}: the lake has no such rank; its runs are {runs}")
    old = [each for each in ranks if each.tables != catalog.FORMAT]
    if old:
        raise TracekitError(
            f"{where}: {len(old)} of {len(ranks)} ranks were written by another version of "
            "tracekit: run `tracekit lake add` on their traces again"
        )
    return ranks


class Lake(Session):
    """The traces of a lake, or of a part of it, as one database."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        chosen: Sequence[tuple[Rank, Storage]],
    ) -> None:
        super().__init__(connection, name)
        self.ranks = [rank for rank, _ in chosen]
        self._lakes = {lake.root: lake for _, lake in chosen}

    @property
    def inputs(self) -> Iterable[str | Path]:
        return (path for lake in self._lakes.values() for path in local_files(lake))

    def __exit__(self, *raised: Any) -> None:
        """Closes the lake. An error that tracekit's own code raised in the block means that rows
        contradict each other, or that the code has a mistake."""
        super().__exit__(*raised)
        _, error, where = raised
        if isinstance(error, (*SURPRISES, RecursionError, duckdb.Error)) and _is_own(where):
            raise TracekitError(
                f"{self.name}: its rows contradict each other, or tracekit made a mistake: "
                f"{first_line(error)}"
            ) from error

    def sql_of(self, question: Query, given: Mapping[str, Value]) -> str:
        stored = stored_answer_sql(question, given) if self.judges_as_stored else None
        return stored or question.sql

    def shown_sql(self, question: Query, given: Mapping[str, Value]) -> str:
        names = [column.name for column in question.columns]
        if "trace_id" not in names:
            return self.sql_of(question, given)
        beside = "".join(f"trace.{name}, " for name in ("run", "rank") if name not in names)
        return catalog.filled("lake_answer", beside=beside, answer=self.sql_of(question, given))

    def in_order(self) -> list[int]:
        return [rank.trace_id for rank in self.ranks]


def _is_own(where: TracebackType | None) -> bool:
    """Whether tracekit's own code raised an error, and not only its caller's."""
    while where is not None:
        if where.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        where = where.tb_next
    return False


def open_lake(paths: str | Iterable[str], resources: Resources | None = None) -> Lake:
    """Opens a lake, a part of one, or several together, read-only.

    Raises:
        TracekitError: when one is not a lake, or nothing is selected.
    """
    resources = resources or Resources()
    given = [paths] if isinstance(paths, str) else list(paths)
    chosen = []
    for path in given:
        where = selection(path)
        lake = storage(where.root)
        chosen += [(rank, lake) for rank in selected_ranks(where)]
    return open_pairs(chosen, resources, ", ".join(given))


def open_pairs(
    chosen: Sequence[tuple[Rank, Storage]], resources: Resources, name: str | None = None
) -> Lake:
    """Opens some ranks, each with the storage of its lake.

    Raises:
        TracekitError: when two of them have the same number and are not the same trace.
    """
    opened: dict[int, tuple[Rank, Storage]] = {}
    for rank, lake in chosen:
        other = opened.setdefault(rank.trace_id, (rank, lake))[0]
        if (other.run, other.name, other.sha256) != (rank.run, rank.name, rank.sha256):
            raise TracekitError(
                f"{lake.root}: {other.name} of {other.run!r} and {rank.name} of {rank.run!r} have "
                "the same number: run `tracekit lake add` on one of them again"
            )
    pairs = list(opened.values())
    if name is None:
        rank, lake = pairs[0]
        name = f"{lake.root}/run={rank.run}/{rank.name}"
    return Lake(_connected(pairs, resources), name, pairs)


def _connected(
    ranks: Sequence[tuple[Rank, Storage]], resources: Resources
) -> duckdb.DuckDBPyConnection:
    """A connection that can read these ranks, and no other file."""
    root = ranks[0][1].root
    connection = connect(":memory:", resources.settings(f"{root}#lake"), root)
    try:
        if resources.memory_mb is not None:
            limit_mb = resources.memory_mb - _OUTSIDE_QUERIES_MB
            connection.execute(f"SET memory_limit = '{limit_mb}MB'")
        # Rows carry their position in the file.
        connection.execute("SET preserve_insertion_order = false")
        prepared.create_all(connection)
        record_peaks(connection, peaks(resources.hardware))
        connection.execute("INSERT INTO tracekit VALUES (?)", [catalog.FORMAT])
        _bind(connection, ranks)
        limit_spilling(connection, SPILL_MB if resources.spill_mb is None else resources.spill_mb)
        close_to_the_outside(connection)
    except duckdb.Error as error:
        connection.close()
        reason = str(error).splitlines()[0]
        raise TracekitError(f"{root}: the lake cannot be read: {reason}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _bind(connection: duckdb.DuckDBPyConnection, ranks: Sequence[tuple[Rank, Storage]]) -> None:
    """Puts views over the files in the place of tables, and stored summaries in that of views."""
    files = _uris(connection, ranks)
    everything = [each for some in files.values() for each in some]
    connection.execute("SET allowed_paths = $1", [everything])
    # A question reads the footers of a table's files several times.
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("CREATE SCHEMA lake")
    # This is quick while the tables are empty.
    columns = stored_tables(connection)
    summarized = {
        name: _names(connection, f"FROM {name}{'()' if 'MACRO' in kind else ''}")
        for name, (_, kind) in RELATIONS.items()
    }
    for table, paths in files.items():
        connection.execute(
            f'CREATE VIEW lake."{table}" AS FROM read_parquet({_listed(paths)}, {_HIVE})'
        )
        if table in columns:
            _replace_table(connection, table, columns[table])
    for name, (_, kind) in RELATIONS.items():
        chosen = ", ".join(summarized[name])
        connection.execute(f"CREATE OR REPLACE {kind} SELECT {chosen} FROM lake.{name}")
    for name, fact in facts.over_traces().items():
        connection.execute(f"DROP TABLE {name}")
        connection.execute(f"CREATE VIEW {name} AS {fact.rows}")
    connection.execute(catalog.schema("lake_jobs"))


def _listed(paths: Sequence[str]) -> str:
    """The SQL of a list of paths. Each use of a view parses it again, and one text is parsed three
    times as quickly as hundreds."""
    between = "\n"
    while any(between in each for each in paths):
        between += "\n"
    text = between.join(paths).replace("'", "''")
    return f"string_split('{text}', '{between}')"


def _uris(
    connection: duckdb.DuckDBPyConnection, ranks: Sequence[tuple[Rank, Storage]]
) -> dict[str, list[str]]:
    """The names by which this connection opens the files of each table."""
    remote: LakeFiles | None = None
    found: dict[str, list[str]] = {}
    for rank, lake in ranks:
        if isinstance(lake, RemoteStorage) and remote is None:
            remote = _registered(connection)
        for table, size in rank.files.items():
            path = rank.path(table)
            uri = lake.uri(path)
            if isinstance(lake, RemoteStorage) and remote is not None:
                uri = remote.add(lake.fs, uri, path, size)
            found.setdefault(table, []).append(uri)
    return found


def _registered(connection: duckdb.DuckDBPyConnection) -> LakeFiles:
    from tracekit.lake.remote import LakeFiles

    files = LakeFiles()
    connection.register_filesystem(files)
    return files


def _replace_table(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]
) -> None:
    kinds = dict(
        connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() "
            "WHERE schema_name = 'main' AND table_name = ?",
            [table],
        ).fetchall()
    )
    # Numbers of threads are wider in a lake.
    chosen = ", ".join(
        f'"{name}"' if name == "thread" else f'"{name}"::{kinds[name]} AS "{name}"'
        for name in columns
    )
    beside = ", run" if table == "trace" else ""
    connection.execute(f"DROP TABLE {table}")
    connection.execute(f"CREATE VIEW {table} AS SELECT {chosen}{beside} FROM lake.{table}")


def _names(connection: duckdb.DuckDBPyConnection, relation: str) -> list[str]:
    return [f'"{row[0]}"' for row in connection.execute(f"DESCRIBE {relation}").fetchall()]


@dataclass(frozen=True)
class RankQuestion:
    """One rank of a lake, and what to ask it."""

    lake: str
    rank: Rank
    question: str
    given: Mapping[str, Value]
    resources: Resources = field(default_factory=Resources)


def answer(task: RankQuestion) -> bytes:
    """The answer of one rank as Parquet, with its run and rank.

    Raises:
        TracekitError: when the rank cannot be read, or the answer is too long.
    """
    question = catalog.query(task.question)
    with open_pairs([(task.rank, storage(task.lake))], task.resources) as opened:
        sql = f"SELECT * FROM ({opened.shown_sql(question, task.given)}) LIMIT {MOST_ROWS + 1}"
        frame = opened.frame(sql, task.given)
    if frame.height > MOST_ROWS:
        raise TracekitError(
            f"{task.question}: the answer of one rank has more than {MOST_ROWS:,} rows"
        )
    written = io.BytesIO()
    frame.write_parquet(written)
    return written.getvalue()


def ask_ranks(
    lake: str,
    question: str,
    given: Mapping[str, Value],
    workers: Workers,
    folder: Path,
    resources: Resources | None = None,
) -> Session:
    """The answers of all ranks of a lake, or a part of it, as the table `answers`; they are kept in
    `folder`.

    Raises:
        TracekitError: when there is no such question or parameter, or a rank cannot be read.
    """
    checked = catalog.query(question).checked(given)
    where = selection(lake)
    ranks = selected_ranks(where)
    place = {rank.trace_id: number for number, rank in enumerate(ranks)}
    tasks = [
        RankQuestion(where.root, rank, question, checked, resources or Resources())
        for rank in ranks
    ]
    for task, found in workers.each(answer, tasks):
        if isinstance(found, Exception):
            reason = str(found).strip().partition("\n")[0] or type(found).__name__
            raise TracekitError(f"run={task.rank.run}/{task.rank.name}: {reason}") from found
        (folder / f"{place[task.rank.trace_id]:09d}.parquet").write_bytes(found)
    return Session(_opened(sorted(folder.glob("*.parquet")), lake), lake)


def _opened(files: list[Path], name: str) -> duckdb.DuckDBPyConnection:
    """A connection that holds the answers, in the order of the ranks."""
    import polars

    filled = [each for each in files if polars.scan_parquet(each).limit(1).collect().height]
    connection = connect(":memory:", {}, name)
    listed = [str(each) for each in filled or files[:1]]
    connection.execute(
        "CREATE TABLE answers AS FROM read_parquet($1, union_by_name = true)", [listed]
    )
    close_to_the_outside(connection)
    return connection
