"""Slices -> tables: the only writer of a trace database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import duckdb

from tracekit import catalog
from tracekit.hardware import Peaks
from tracekit.salvage import Rejected, strict_json
from tracekit.slice_files import SliceFiles
from tracekit.slicing import SLICE_BYTES, Slice, TraceReader
from tracekit.sources import ByteStream

# Where some do not parse, each by itself, and smaller: all in one that is damaged is slow.
_CAREFUL_BYTES = 1 << 20
# What DuckDB raises for text that is no JSON, or is nested or long beyond its limits.
_UNPARSABLE = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
# DuckDB reads through buffers of twice the largest event; a larger one is read with care.
_OBJECT_BYTES = 1 << 20
_FLAGS = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes an empty database, or nothing where the tables are."""
    # Rows carry the place that they have in the file.
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(catalog.schema("tables"))


def record_peaks(connection: duckdb.DuckDBPyConnection, devices: list[Peaks]) -> None:
    """Notes what devices could do at most, in place of what was noted before."""
    connection.execute("DELETE FROM hardware")
    rows = [
        (place, d.name, d.pattern, d.memory_bytes_per_s, d.flop_per_s, d.source, d.note)
        for place, d in enumerate(devices)
    ]
    connection.executemany(
        "INSERT INTO hardware SELECT $1, $2, $3, $4, $5::JSON::MAP(VARCHAR, DOUBLE), $6, $7",
        [(*row[:4], json.dumps(row[4]), *row[5:]) for row in rows],
    )


def last_trace_id(connection: duckdb.DuckDBPyConnection) -> int:
    """0 where no trace is loaded."""
    return _scalar(connection, "SELECT coalesce(max(trace_id), 0) FROM trace")


def drop_unfinished(connection: duckdb.DuckDBPyConnection) -> set[tuple[str, int]]:
    """Removes what an interrupted load left of traces; returns path and size of the whole ones."""
    for table in ("event", "rejected", "device"):
        connection.execute(
            f"DELETE FROM {table} WHERE trace_id NOT IN (SELECT trace_id FROM trace)"
        )
    return set(connection.execute("SELECT path, file_bytes FROM trace").fetchall())


def finish(connection: duckdb.DuckDBPyConnection, more_memory: Callable[[], bool]) -> None:
    """Builds the views, and the tables that are derived once from all loaded traces.

    Should memory not do for one, `more_memory` may grant more, or refuse by returning False.
    """
    for file in catalog.vocabulary():
        for statement in connection.extract_statements(file):
            while True:
                try:
                    connection.execute(statement)
                    break
                except duckdb.OutOfMemoryException:
                    if not more_memory():
                        raise
    # What was only needed on the way is memory held for nothing.
    for kind in ("view", "table"):
        names = connection.execute(
            f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE temporary AND NOT internal"
        ).fetchall()
        for (name,) in names:
            connection.execute(f'DROP {kind} temp."{name}"')
    connection.execute("SET preserve_insertion_order = true")
    connection.execute(f"CREATE OR REPLACE MACRO tracekit_format() AS {catalog.FORMAT}")


def copy_traces(
    connection: duckdb.DuckDBPyConnection, path: str, first_id: int, without: set[tuple[str, int]]
) -> int:
    """Adds the traces of another database, numbered from `first_id`; returns how many.

    Those whose path and size are in `without` are left out.
    """
    connection.execute("ATTACH '{}' AS other (READ_ONLY)".format(path.replace("'", "''")))
    try:
        rows = connection.execute(
            "SELECT trace_id, path, file_bytes FROM other.trace ORDER BY trace_id"
        ).fetchall()
        chosen = [trace_id for trace_id, *known in rows if tuple(known) not in without]
        for new_id, old_id in enumerate(chosen, first_id):
            for table in ("device", "event", "rejected", "trace"):
                connection.execute(
                    f"INSERT INTO {table} BY NAME SELECT * REPLACE ({new_id} AS trace_id)"
                    f" FROM other.{table} WHERE trace_id = {old_id}"
                )
        return len(chosen)
    finally:
        connection.execute("DETACH other")


class Ingest:
    """Loads traces into a database, through a connection of its own.

    `on_slice` is told of each slice before it is parsed; what it raises ends the load.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: SliceFiles,
        slice_bytes: int = SLICE_BYTES,
        on_slice: Callable[[Slice], object] = id,
    ) -> None:
        self._connection = connection
        self._files = files
        self._slice_bytes = slice_bytes
        self._on_slice = on_slice
        connection.execute(catalog.schema("reading"))

    def load(self, stream: ByteStream, trace_id: int) -> None:
        """Adds one trace, all or nothing: an error leaves the database as it was.

        Raises:
            TracekitError: when it cannot be read, or is no trace.
        """
        try:
            reader = self._insert_events(trace_id, stream)
            self._insert_trace(trace_id, stream, reader)
        except BaseException:
            # No transaction around it all: a slice that fails to parse would end it.
            self._delete(trace_id)
            raise

    def _delete(self, trace_id: int) -> None:
        for table in ("event", "rejected", "device", "trace"):
            self._connection.execute(f"DELETE FROM {table} WHERE trace_id = {trace_id}")

    def _insert_events(self, trace_id: int, stream: ByteStream) -> TraceReader:
        """Inserts all events; returns what has read them, for what it learned on the way."""
        try:
            reader = TraceReader(stream, self._slice_bytes)
            self._insert(trace_id, iter(reader.next_slice, None))
        except _UNPARSABLE:
            self._delete(trace_id)
            stream.rewind()
            reader = TraceReader(stream, min(self._slice_bytes, _CAREFUL_BYTES))
            self._insert_carefully(trace_id, reader)
        return reader

    def _insert_carefully(self, trace_id: int, reader: TraceReader) -> None:
        """One slice at a time; one that does not parse is mended, and what follows read again."""
        before = 0
        while each := reader.next_slice():
            try:
                before = self._insert_one(trace_id, each, before)
            except _UNPARSABLE:
                mended = reader.resync(each)
                try:
                    before = self._insert_one(trace_id, mended, before)
                except _UNPARSABLE as error:
                    text = mended.events.decode("utf-8", "replace")
                    reason = str(error).splitlines()[0]
                    reader.rejected.append(Rejected(mended.offset, text, reason))

    def _insert_one(self, trace_id: int, each: Slice, before: int) -> int:
        return self._insert(trace_id, iter([each]), before, len(each.array) + 1024)

    def _insert(
        self,
        trace_id: int,
        slices: Iterator[Slice],
        before: int = 0,
        object_bytes: int = _OBJECT_BYTES,
    ) -> int:
        """Inserts slices behind `before` events; returns how many events there are then."""
        with self._files.folder(self._watched(slices)) as cuts:
            try:
                while names := cuts.following():
                    reading = {"slices": names, "object_bytes": object_bytes}
                    (inserted,) = self._run("read_slices", trace_id=trace_id, **reading)
                    self._run("place_slices", trace_id=trace_id, before=before)
                    self._run("number_events", trace_id=trace_id)
                    self._connection.execute("DELETE FROM slice_place")
                    before += inserted
            except duckdb.Error:
                if cuts.error is not None:
                    raise cuts.error from None
                raise
        return before

    def _run(self, statement: str, **parameters: object) -> tuple[int]:
        """Runs a statement that writes; returns how many rows it did."""
        row = self._connection.execute(catalog.schema(statement), parameters).fetchone()
        assert row is not None
        return row

    def _watched(self, slices: Iterator[Slice]) -> Iterator[Slice]:
        for each in slices:
            self._on_slice(each)
            yield each

    def _insert_trace(self, trace_id: int, stream: ByteStream, reader: TraceReader) -> None:
        metadata = reader.metadata
        events = f"SELECT count(*) FROM event WHERE trace_id = {trace_id}"
        distributed = _mapping(metadata.get("distributedInfo"))
        host = metadata.get("host_name", metadata.get("hostname"))
        self._connection.execute(
            f"INSERT INTO trace VALUES ({', '.join('?' * 18)})",
            [
                trace_id,
                os.fsencode(stream.path).decode("utf-8", "replace"),
                stream.file_bytes,
                stream.sha256,
                reader.form,
                _integer(distributed.get("rank")),
                _integer(distributed.get("world_size")),
                _text(host),
                _integer(metadata.get("baseTimeNanoseconds")),
                *(_flag(metadata.get(flag)) for flag in _FLAGS),
                strict_json(metadata),
                _scalar(self._connection, events),
                len(reader.rejected),
                reader.damage,
            ],
        )
        if reader.rejected:
            self._connection.executemany(
                "INSERT INTO rejected VALUES (?, ?, ?, ?)",
                [[trace_id, bad.offset, bad.reason, bad.text] for bad in reader.rejected],
            )
        devices = metadata.get("deviceProperties")
        for device in devices if isinstance(devices, list) else []:
            self._insert_device(trace_id, _mapping(device))

    def _insert_device(self, trace_id: int, device: dict[str, Any]) -> None:
        name = device.get("name")
        major, minor = device.get("computeMajor"), device.get("computeMinor")
        self._connection.execute(
            "INSERT INTO device VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                trace_id,
                _integer(device.get("id")),
                _text(name),
                _integer(device.get("totalGlobalMem")),
                _integer(device.get("numSms")),
                None if major is None else f"{major}.{minor}",
                strict_json(device),
            ],
        )


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
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
