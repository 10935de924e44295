"""Slices -> tables: the only writer of a trace database."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from tracekit import catalog
from tracekit.salvage import Rejected, strict_json
from tracekit.slicing import SLICE_BYTES, Slice, TraceReader
from tracekit.sources import ByteStream

# Parsed in one statement, in parallel.
_SLICES_AT_ONCE = 2
_FLAGS = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")


class _SliceFiles(AbstractFileSystem):
    """Slices in memory as files that DuckDB can open by name."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.protocol = f"slices{uuid.uuid4().hex}"
        self._files: dict[str, bytes] = {}

    def hold(self, slices: list[Slice]) -> list[str]:
        names = [f"{self.protocol}://{place}.json" for place in range(len(slices))]
        self._files = {name: each.array for name, each in zip(names, slices, strict=True)}
        return names

    def _data(self, path: str) -> bytes:
        name = path if "://" in path else f"{self.protocol}://{path.lstrip('/')}"
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        return io.BytesIO(self._data(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self._data(path)), "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        return True

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(0, UTC)

    created = modified


class Ingest:
    """Loads traces, one by one, into an open database; `finish` derives what many share."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, slice_bytes: int = SLICE_BYTES
    ) -> None:
        self._connection = connection
        self._slice_bytes = slice_bytes
        connection.execute(catalog.schema("tables"))
        connection.execute(catalog.schema("reading"))

    def load(self, path: str) -> int:
        """Adds one trace (a path, or - for standard input) and returns its trace_id.

        All or nothing: an error leaves the database as it was.

        Raises:
            TracekitError: when `path` cannot be read or holds no trace.
        """
        stream = ByteStream(path)
        trace_id = self._scalar("SELECT coalesce(max(trace_id), 0) + 1 FROM trace")
        try:
            reader = TraceReader(stream, self._slice_bytes)
            self._insert_events(trace_id, reader)
            self._insert_trace(trace_id, stream, reader)
        except BaseException:
            # No transaction around it all: a slice that fails to parse would end it.
            for table in ("event", "rejected", "device", "trace"):
                self._connection.execute(f"DELETE FROM {table} WHERE trace_id = {trace_id}")
            raise
        finally:
            stream.close()
        return trace_id

    def finish(self) -> None:
        """Builds the views, and the tables that are derived once from all loaded traces."""
        for statement in catalog.vocabulary():
            self._connection.execute(statement)
        # What was only needed on the way is memory held for nothing.
        for kind in ("view", "table"):
            names = self._connection.execute(
                f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE temporary AND NOT internal"
            ).fetchall()
            for (name,) in names:
                self._connection.execute(f'DROP {kind} temp."{name}"')

    def _insert_events(self, trace_id: int, reader: TraceReader) -> None:
        # While DuckDB parses some slices, the next are read and decompressed.
        with self._slice_files() as files, ThreadPoolExecutor(1) as ahead:
            slices = _next_slices(reader)
            while slices:
                following = ahead.submit(_next_slices, reader)
                try:
                    self._insert(trace_id, files, slices)
                    slices = following.result()
                except duckdb.Error:
                    unread = following.result()
                    self._insert_carefully(trace_id, files, slices, unread, reader)
                    slices = _next_slices(reader)
        # Rows stand in the file's order, and ingest alone appends: the place is the row number.
        first_row = "(SELECT min(rowid) FROM event WHERE trace_id = $trace_id)"
        self._connection.execute(
            f"UPDATE event SET event_id = rowid - {first_row} WHERE trace_id = $trace_id",
            {"trace_id": trace_id},
        )

    def _insert_carefully(
        self,
        trace_id: int,
        files: _SliceFiles,
        slices: list[Slice],
        unread: list[Slice],
        reader: TraceReader,
    ) -> None:
        """One slice at a time; one that does not parse is mended, and what follows read again."""
        while len(slices) > 1:
            try:
                self._insert(trace_id, files, slices[:1])
            except duckdb.Error:
                break
            slices = slices[1:]
        # All but one of the slices were found good: then the last is the one that is not.
        mended = reader.resync(slices[0], [*slices[1:], *unread])
        if mended.array != b"[]":
            self._insert_mended(trace_id, files, mended, reader)

    def _insert_mended(
        self, trace_id: int, files: _SliceFiles, mended: Slice, reader: TraceReader
    ) -> None:
        try:
            self._insert(trace_id, files, [mended])
        except duckdb.Error as error:
            text = mended.events.decode("utf-8", "replace")
            reader.rejected.append(Rejected(mended.offset, text, str(error).splitlines()[0]))

    def _insert(self, trace_id: int, files: _SliceFiles, slices: list[Slice]) -> None:
        """Inserts all of the slices or none; a statement that fails leaves no row behind."""
        names = files.hold(slices)
        largest = max(len(each.array) for each in slices) + 1024
        self._connection.execute(
            catalog.schema("read_slices"),
            {"trace_id": trace_id, "slices": names, "object_bytes": largest},
        )

    def _insert_trace(self, trace_id: int, stream: ByteStream, reader: TraceReader) -> None:
        metadata = reader.metadata
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
                self._scalar(f"SELECT count(*) FROM event WHERE trace_id = {trace_id}"),
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

    def _scalar(self, query: str) -> int:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    @contextmanager
    def _slice_files(self) -> Iterator[_SliceFiles]:
        files = _SliceFiles()
        self._connection.register_filesystem(files)
        try:
            yield files
        finally:
            self._connection.unregister_filesystem(files.protocol)


def _next_slices(reader: TraceReader) -> list[Slice]:
    slices: list[Slice] = []
    while len(slices) < _SLICES_AT_ONCE and (each := reader.next_slice()):
        slices.append(each)
    return slices


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
