"""Writes batches of events to the tables of a trace database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb

from tracekit.database import catalog, stored
from tracekit.database.connection import unopened
from tracekit.database.names import literal
from tracekit.errors import TracekitError, reason_of
from tracekit.native.library import Batch, BatchStream, Rows
from tracekit.trace.prefetch import prefetched
from tracekit.trace.reader import METADATA_BYTES, Piece, TraceReader
from tracekit.trace.recovery import strict_json
from tracekit.trace.source import ByteStream

# A label_id has the trace_id in its high bits and a number within the trace in the low 32.
LABEL_BITS = 32
_INSERT: dict[Rows, str] = {"event": "write_event_rows", "label": "write_labels"}
_TEXTS = ("rejected", "verbatim")
# The tables of traces, without derived ones.
OF_EVENTS = ("device", "event_row", "label", "rejected", "verbatim", "graph_annotation", "trace")
_FLAGS = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")


def create_tables(connection: duckdb.DuckDBPyConnection, *, with_views: bool = True) -> bool:
    """Creates all tables and views in an empty database. Returns whether it was empty."""
    # Rows store their position in the file.
    connection.execute("SET preserve_insertion_order = false")
    return stored.create_tables(connection, with_views=with_views)


def last_trace_id(connection: duckdb.DuckDBPyConnection) -> int:
    """The highest trace_id, or 0 when no trace is loaded."""
    return scalar(connection, "SELECT coalesce(max(trace_id), 0) FROM trace")


# Path, size and SHA-256 of a trace's file, as stored.
LoadedTrace = tuple[str, int, str]


def loaded_traces(connection: duckdb.DuckDBPyConnection) -> set[LoadedTrace]:
    """The traces in the database."""
    return set(connection.execute("SELECT path, file_bytes, sha256 FROM trace").fetchall())


def copy_traces(
    connection: duckdb.DuckDBPyConnection,
    file: str,
    name: str,
    first_id: int,
    without: set[LoadedTrace],
) -> int:
    """Copies the traces of another database, numbered from `first_id`; returns their number. `name`
    is the other database's name in messages.

    Traces in `without` are skipped. Views and macros in the other database are never run.

    Raises:
        TracekitError: when the other database cannot be opened, or another version created it.
    """
    try:
        connection.execute(f"ATTACH {literal(file)} AS _other (READ_ONLY)")
    except duckdb.Error as error:
        raise unopened(name, error) from error
    try:
        stored.require_traces(connection, "_other", name)
        return _copied(connection, first_id, without)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise TracekitError(f"{name}: its traces cannot be copied: {reason_of(error)}") from error
    finally:
        connection.execute("DETACH _other")


def _copied(connection: duckdb.DuckDBPyConnection, first_id: int, without: set[LoadedTrace]) -> int:
    """Copies the traces of the attached database `_other`, all or none."""
    rows = connection.execute(
        "SELECT trace_id, path, file_bytes, sha256 FROM _other.trace ORDER BY trace_id"
    ).fetchall()
    chosen = [trace_id for trace_id, *known in rows if tuple(known) not in without]
    with transaction(connection):
        for new_id, old_id in enumerate(chosen, first_id):
            moved = f"{new_id} AS trace_id"
            labeled = f"{moved}, label_id + {(new_id - old_id) << LABEL_BITS} AS label_id"
            for table in OF_EVENTS:
                replaced = labeled if table in ("event_row", "label") else moved
                connection.execute(
                    catalog.render_template(
                        "write_copy", table=table, replaced=replaced, old_id=old_id
                    )
                )
    return len(chosen)


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction that an error rolls back."""
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        # After a failed commit there is no transaction to roll back.
        with suppress(duckdb.TransactionException):
            connection.rollback()
        raise


class Ingest:
    """Loads traces into a database through `connection`, which it must not share.

    Before each batch is inserted, `on_batch` is called with its number of events; an exception from
    it ends the load. Traces with more than `metadata_bytes` of metadata are refused.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_batch: Callable[[int], object] = int,
        metadata_bytes: int = METADATA_BYTES,
    ) -> None:
        self._connection = connection
        self._on_batch = on_batch
        self._metadata_bytes = metadata_bytes

    def load(self, stream: ByteStream, trace_id: int) -> None:
        """Adds one trace in one transaction: an error leaves the database unchanged.

        Raises:
            TracekitError: when the file cannot be read or is not a trace.
        """
        reader = self._reader(stream, trace_id)
        with transaction(self._connection):
            self.insert_events(trace_id, reader)
            _require_events(stream, reader)
            self._insert_traces([(trace_id, stream, reader)])

    def load_small(
        self, traces: Iterable[tuple[int, ByteStream]]
    ) -> list[tuple[int, TracekitError]]:
        """Adds traces that fit in memory together, in one transaction; returns the trace_ids and
        errors of those that could not be read."""
        errors, whole = [], []
        pieces: list[tuple[int, Piece]] = []
        for trace_id, stream in traces:
            reader = self._reader(stream, trace_id)
            try:
                with closing(reader.pieces()) as read:
                    read_pieces = list(read)
                _require_events(stream, reader)
                pieces += [(trace_id, piece) for piece in read_pieces]
            except TracekitError as error:
                errors.append((trace_id, error))
            else:
                whole.append((trace_id, stream, reader))
        with transaction(self._connection):
            for kind in ("event", "label"):
                self._insert_batches(kind, (piece for _, piece in pieces if piece[0] == kind))
            for trace_id, piece in pieces:
                if piece[0] in _TEXTS:
                    self._insert_texts(trace_id, [piece])
            self._insert_traces(whole)
        return errors

    def _reader(self, stream: ByteStream, trace_id: int) -> TraceReader:
        return TraceReader(stream, trace_id << LABEL_BITS, metadata_bytes=self._metadata_bytes)

    def insert_events(self, trace_id: int, reader: TraceReader) -> None:
        """Adds the events, labels and rejected text of one trace."""
        with closing(reader.pieces()) as read, prefetched(read) as pieces:
            # Batches nearly always come as all events, then all labels.
            for kind, run in groupby(pieces, key=itemgetter(0)):
                if kind in _TEXTS:
                    self._insert_texts(trace_id, run)
                else:
                    self._insert_batches(kind, run)

    def _insert_batches(self, kind: Rows, pieces: Iterator[Piece]) -> None:
        rows = BatchStream(kind, self._watched(pieces))
        try:
            # The statement reads the local variable `rows` by its name.
            self._connection.execute(catalog.render_template(_INSERT[kind], label_bits=LABEL_BITS))
        except duckdb.Error:
            if rows.error is not None:
                raise rows.error from None
            raise

    def _watched(self, pieces: Iterator[Piece]) -> Iterator[Batch]:
        for kind, batch in pieces:
            assert isinstance(batch, Batch)
            self._on_batch(batch.rows if kind == "event" else 0)
            yield batch

    def _insert_texts(self, trace_id: int, pieces: Iterable[Piece]) -> None:
        for table, texts in pieces:
            assert isinstance(texts, list)
            self._on_batch(0)
            insert(self._connection, table, [(trace_id, *row) for row in texts])

    def _insert_traces(self, traces: list[tuple[int, ByteStream, TraceReader]]) -> None:
        insert(self._connection, "trace", [_trace(*trace) for trace in traces])
        devices = []
        for trace_id, _, reader in traces:
            listed = reader.member("deviceProperties")
            for device in listed if isinstance(listed, list) else []:
                devices.append((trace_id, *_device(_mapping(device))))
        insert(self._connection, "device", devices)


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]
) -> None:
    """Inserts rows of Python values with one statement."""
    if rows:
        types = columns_of(connection, table)
        values = ", ".join(f"unnest(?::{kind}[])" for kind in types.values())
        columns = [list(column) for column in zip(*rows, strict=True)]
        connection.execute(f"INSERT INTO {table} SELECT {values}", columns)


def _require_events(stream: ByteStream, reader: TraceReader) -> None:
    """Refuses a trace without events, except the note that `tracekit sweep` writes for a workload
    that could not run."""
    if not reader.events and "sweep" not in _mapping(reader.member("tracekit")):
        why = f": {reader.damage}" if reader.damage else ""
        raise TracekitError(f"{stream.path}: contains no trace events{why}")


def _trace(trace_id: int, stream: ByteStream, reader: TraceReader) -> tuple[object, ...]:
    """The row of the table `trace` for a trace that was read to its end."""
    distributed = _mapping(reader.member("distributedInfo"))
    hosts = map(reader.member, ("host_name", "hostname"))
    host = next(filter(None, hosts), _mapping(reader.member("tracekit")).get("host"))
    return (
        trace_id,
        os.fsencode(stream.path).decode("utf-8", "replace"),
        stream.file_bytes,
        stream.sha256,
        reader.form,
        _integer(distributed.get("rank")),
        _integer(distributed.get("world_size")),
        _text(host),
        _integer(reader.member("baseTimeNanoseconds")),
        _text(_mapping(reader.member("profiler")).get("name")) or "kineto",
        *(_flag(reader.member(flag)) for flag in _FLAGS),
        reader.metadata_text,
        reader.events,
        reader.rejected,
        reader.damage,
    )


def _device(device: dict[str, Any]) -> tuple[object, ...]:
    """A row of the table `device`, without its trace_id."""
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    return (
        _integer(device.get("id")),
        _text(device.get("name")),
        _integer(device.get("totalGlobalMem")),
        _integer(device.get("numSms")),
        None if major is None else _text(f"{major}.{minor}"),
        strict_json(device),
    )


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The types of a table's columns, in order."""
    relation = connection.sql(f"FROM {table}")
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _text(value: object) -> str | None:
    return json.loads(strict_json(value)) if isinstance(value, str) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _flag(value: object) -> bool | None:
    return None if value is None else str(value).lower() not in ("0", "false", "")
