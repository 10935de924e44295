"""Writes files as groups of ranks. One call does all the work for some of a run's files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import duckdb
from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.database import catalog
from tracekit.database.stored import Vocabulary
from tracekit.errors import StorageError, TracekitError
from tracekit.files import work_folder
from tracekit.ingest.load import load_opened
from tracekit.ingest.resources import Resources
from tracekit.ingest.writer import LABEL_BITS
from tracekit.lake import layout
from tracekit.lake.layout import Group, Rank, Source
from tracekit.lake.runs import new_token
from tracekit.lake.storage import WORK_PREFIX, Storage
from tracekit.lake.tables import KEYS, NEEDED, not_stored, stored_tables, summaries
from tracekit.trace.beside import rank_in_name
from tracekit.trace.other.formats import open_traces
from tracekit.trace.paths import stem
from tracekit.trace.source import ByteStream

T = TypeVar("T")
_Opened = tuple[Source, ByteStream, str]

# Numbers that are unique in a database because their high bits hold the trace's number.
_LABELS = ("label_id", "op_label", "place_label")
_HIGH_BITS = dict.fromkeys(_LABELS, LABEL_BITS) | {"segment": 32, "thread": 24}
# The trace of rows in tables without a trace_id.
_TRACE_OF = {
    "label_id": f"(label_id >> {LABEL_BITS})::INTEGER",
    "thread": "(SELECT trace_id FROM host_thread AS h WHERE h.thread = own.thread)",
}
_FILLED = "SELECT table_name FROM duckdb_tables() WHERE estimated_size > 0 ORDER BY ALL"
_LEAST_QUERY_MB = 2_000
# The number of traces to load together, since planning takes as long for one.
MOST_TRACES = 64
MOST_BYTES = 32 << 20
# All Parquet engines know these encodings; files are a third smaller than with version 1.0.
PARQUET = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2"


class Task(Struct, frozen=True):
    """Files of one run to add."""

    sources: tuple[Source, ...]
    lake: str
    run: str | None
    """The run's name; None: the traces' folder or archive."""
    known: tuple[Rank, ...] = ()
    """The lake's ranks from these files."""
    labels: dict[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)


class Outcome(Struct, frozen=True):
    """The outcome for a trace: `added`, `replaced`, `unchanged` or `failed`."""

    status: str
    """added, replaced, unchanged or failed."""
    source: Source
    """The trace's source."""
    run: str | None = None
    """The trace's run; null: it failed."""
    name: str | None = None
    """The trace's rank in the run: rank=N or file=NAME; null: it failed."""
    events: int = 0
    """The number of its events (count)"""
    took_s: float = 0.0
    """The time to read it (s)"""
    message: str | None = None
    """Why it failed; null: it did not fail."""


class Written(Struct, frozen=True):
    """Written ranks that readers do not see yet, and the outcomes of other traces."""

    group: Group | None
    outcomes: list[Outcome]
    took_s: float = 0.0


def add(task: Task) -> list[Written]:
    """Reads files, and writes the tables of their traces.

    A trace that cannot be read becomes an outcome.

    Raises:
        StorageError: when a file system fails, for a source or the lake. Another attempt may
            succeed.
    """
    outcomes: list[Outcome] = []
    opened = _opened(task, outcomes)
    together = batches(opened, lambda each: each[1].stored_bytes, MOST_TRACES, MOST_BYTES)
    return [*[_write(task, batch) for batch in together], Written(None, outcomes)]


def batches(
    items: Iterable[T], size_of: Callable[[T], int], most: int, most_size: int
) -> Iterator[list[T]]:
    """The items in lists of at most `most` items, with a total of at most `most_size` or one
    item."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and total + size > most_size:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
        if len(batch) == most or total > most_size:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _opened(task: Task, outcomes: list[Outcome]) -> Iterator[_Opened]:
    """The traces to read, each with its source and hash; other traces' outcomes go to
    `outcomes`."""
    for source in task.sources:
        try:
            temp_dir = task.resources.folder
            for stream in open_traces(source.url, temp_dir=temp_dir, is_read_again=True):
                if isinstance(stream, TracekitError):
                    outcomes.append(failed(source, stream))
                    continue
                member = stream.path.removeprefix(source.url).lstrip("/") or None
                here = replace(source, member=member)
                sha256 = stream.hashed().sha256.hexdigest()
                before = next((each for each in task.known if each.source.is_same(here)), None)
                if before and (before.sha256, before.tables) == (sha256, catalog.FORMAT):
                    # The file was rewritten with the same bytes.
                    stream.close()
                    same = Outcome("unchanged", here, before.run, before.name, before.events)
                    outcomes.append(same)
                    continue
                yield here, stream, sha256
        except StorageError:
            raise
        except TracekitError as error:
            outcomes.append(failed(source, error))


def failed(source: Source, why: object) -> Outcome:
    return Outcome("failed", source, message=str(why))


def _write(task: Task, batch: Sequence[_Opened]) -> Written:
    """Loads traces into one database, and writes its tables as files of the lake."""
    start = time.monotonic()
    lake = Storage(task.lake)
    with work_folder(task.resources.folder, WORK_PREFIX) as folder:
        try:
            streams = [stream for _, stream, _ in batch]
            database = folder / "trace.duckdb"
            connection, vocabulary, bad = load_opened(streams, database, task.resources)
        except StorageError:
            raise
        except TracekitError as error:
            if len(batch) == 1:
                return Written(None, [failed(batch[0][0], error)])
            apart = [_write(task, [each]) for each in batch]
            return Written(None, [outcome for each in apart for outcome in each.outcomes])
        with closing(connection):
            outcomes = [failed(batch[place - 1][0], bad[place]) for place in sorted(bad)]
            ranks: dict[int, Rank] = {}
            numbers: list[str] = []
            for trace_id, rank in _identities(connection, task, batch, lake, numbers):
                other = next((each for each in ranks.values() if each.name == rank.name), None)
                if other is None:
                    ranks[trace_id] = rank
                else:
                    outcomes.append(clash(rank, other.source))
            tables = _to_write(connection, vocabulary, task.resources.memory_mb)
            try:
                group = write_group(connection, ranks, tables, lake, folder)
            except Exception:
                _remove(lake, numbers)
                raise
    return Written(group, outcomes, (time.monotonic() - start) / len(batch))


def clash(rank: Rank | Outcome, other: Source) -> Outcome:
    """The outcome of a trace whose rank another trace in the same addition already has."""
    return failed(
        rank.source,
        f"{rank.source.url}: is {rank.name} of run {rank.run!r}, like {other.url}: add one of "
        "them to another run (--run)",
    )


def _identities(
    connection: duckdb.DuckDBPyConnection,
    task: Task,
    batch: Sequence[_Opened],
    lake: Storage,
    numbers: list[str],
) -> Iterator[tuple[int, Rank]]:
    """A database's traces with their assigned runs, ranks and numbers; files of new numbers go to
    `numbers`."""
    for trace_id, rank, events, labels in connection.execute(
        "SELECT trace_id, rank, events, metadata->'$.tracekit.labels' FROM trace ORDER BY trace_id"
    ).fetchall():
        source, _, sha256 = batch[trace_id - 1]
        file_name = (source.member or source.url).rpartition("/")[2]
        if rank is None or rank < 0:
            rank = rank_in_name(file_name)
        own_name = layout.valid_name(stem(file_name))
        name = f"file={own_name}" if rank is None else f"rank={rank}"
        run = layout.valid_name(task.run) if task.run is not None else layout.run_of(source)
        number = _number(lake, run, name, sha256, numbers)
        run_labels = _recorded(labels) | task.labels
        yield (
            trace_id,
            Rank(run, name, rank, number, catalog.FORMAT, sha256, events, source, run_labels),
        )


def _recorded(labels: str | None) -> dict[str, str]:
    """The labels in a trace's metadata, which may hold anything."""
    recorded = json.loads(labels or "{}")
    if not isinstance(recorded, dict):
        return {}
    return {name: value for name, value in recorded.items() if isinstance(value, str)}


def _number(lake: Storage, run: str, name: str, sha256: str, made: list[str]) -> int:
    """A trace's unique number in the lake."""
    owner = layout.owner_of(run, name, sha256, catalog.FORMAT)
    for salt in count():
        number = layout.trace_id_of(run, name, sha256, salt)
        path = layout.number_path(number)
        if lake.create(path, owner):
            made.append(path)
            break
        if lake.read(path) == owner:
            break
    return number


def _to_write(
    connection: duckdb.DuckDBPyConnection, vocabulary: Vocabulary, memory_mb: int | None
) -> list[str]:
    """A database's tables that a lake stores, and the summaries, ready to be queried."""
    query_mb = max(_LEAST_QUERY_MB, memory_mb or 0)
    connection.execute(f"SET memory_limit = '{query_mb}MB'")
    # Stored answers are about a single trace.
    alone = catalog.schema("lake_alone")
    vocabulary.add("\n".join([alone, *summaries().values()]))
    connection.execute(alone)
    filled = connection.execute(_FILLED).fetchall()
    tables = [name for (name,) in filled if name not in (*catalog.VERDICTS, *not_stored())]
    return [*tables, *summaries()]


def write_group(
    connection: duckdb.DuckDBPyConnection,
    ranks: dict[int, Rank],
    tables: Iterable[str],
    lake: Storage,
    folder: Path,
    context: str | None = None,
) -> Group:
    """Writes these tables of a database as a lake's files. `ranks` are its traces, by trace_id."""
    made, columns = summaries(), stored_tables(connection)
    _number_ranks(connection, ranks)
    order = "ORDER BY place" if len(ranks) > 1 else ""
    selects = {}
    for table in tables:
        rows, moved = _moved(table, columns.get(table), made)
        selects[table] = (
            f"SELECT r.run, r.rank, r.number AS trace_id, {moved} FROM {rows} AS asked "
            f"JOIN lake_rank AS r ON asked.trace_id = r.given {order}"
        )
    return write_rows(connection, selects, list(ranks.values()), lake, folder, context)


def write_rows(
    connection: duckdb.DuckDBPyConnection,
    selects: Mapping[str, str],
    ranks: list[Rank],
    lake: Storage,
    folder: Path,
    context: str | None,
) -> Group:
    """Writes the rows of SELECTs as a lake's files, by table: nonempty ones, and all summaries."""
    token = new_token()
    group = Group(ranks[0].run, token, token, ranks, {}, context)
    try:
        for table, sql in selects.items():
            local = folder / f"{table}.parquet"
            target = str(local).replace("'", "''")
            done = connection.execute(f"COPY ({sql}) TO '{target}' ({PARQUET})").fetchall()
            if done != [(0,)] or table in NEEDED:
                lake.put(local, group.path(table))
                group.files[table] = local.stat().st_size
            local.unlink()
    except Exception:
        remove_files(lake, group)
        raise
    return group


def _moved(table: str, columns: Sequence[str] | None, made: Mapping[str, str]) -> tuple[str, str]:
    """The rows of a table or summary, and its columns in the lake's form."""
    if columns is None:
        others = f"COLUMNS(lambda name: name NOT IN {KEYS})"
        return f"(SELECT trace_id, {others} FROM ({made[table]}))", "asked.* EXCLUDE (trace_id)"
    moved = [_lake_column(column) for column in columns if column not in KEYS]
    rows = table
    if "trace_id" not in columns:
        trace_id = next(sql for name, sql in _TRACE_OF.items() if name in columns)
        rows = f"(SELECT {trace_id} AS trace_id, * FROM {table} AS own)"
    return rows, ", ".join([*moved, *(["r.labels"] if table == "trace" else [])])


def _number_ranks(connection: duckdb.DuckDBPyConnection, ranks: dict[int, Rank]) -> None:
    """Creates a table that maps this database's traces to their ranks in the lake."""
    connection.execute(catalog.schema("lake_rank"))
    order = sorted(ranks.items(), key=lambda each: each[1].order)
    rows = [
        [given, place, rank.run, rank.rank, rank.trace_id, rank.labels]
        for place, (given, rank) in enumerate(order)
    ]
    connection.executemany("INSERT INTO lake_rank VALUES (?, ?, ?, ?, ?, ?)", rows)


def _lake_column(column: str) -> str:
    """A column's values in a lake, where several traces share a table."""
    if column not in _HIGH_BITS:
        return f'asked."{column}"'
    bits = _HIGH_BITS[column]
    return f"(asked.{column} & {(1 << bits) - 1}) + (r.number::BIGINT << {bits}) AS {column}"


def remove_files(lake: Storage, group: Group) -> None:
    """Removes the files of a group that readers do not see."""
    _remove(lake, [group.path(table) for table in group.files])


def _remove(lake: Storage, paths: list[str]) -> None:
    # Leftover files are harmless: `clean` removes them later.
    with suppress(StorageError, OSError):
        lake.remove(paths)
