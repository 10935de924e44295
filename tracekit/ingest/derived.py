"""Derives facts and verdicts from tables of events."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from ctypes import byref, c_char_p, c_void_p, py_object
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from tracekit.database import catalog, facts
from tracekit.database.names import literal
from tracekit.ingest.writer import OF_EVENTS, columns_of, scalar, transaction
from tracekit.native.library import CAPSULE_NAME, Batch, BatchStream, Rows, library
from tracekit.native.walk_codes import WalkOutput, parameters
from tracekit.trace.prefetch import prefetched
from tracekit.units import rows as units

if TYPE_CHECKING:
    from tracekit.database.stored import Vocabulary

# Returns the verdicts on a database's traces, as rows by table; may ask for more memory.
Judge = Callable[
    [duckdb.DuckDBPyConnection, Callable[[], bool]],
    Iterable[Mapping[str, Sequence[Mapping[str, Any]] | Mapping[str, Any]]],
]
# Rows in one JSON text.
_ROWS_OF_JSON = 10_000
# The columns with numbers that are unique over all traces, by table.
_NUMBERED = {
    "host_thread": ("thread",),
    "thread_slice": ("thread",),
    "thread_segment": ("thread", "segment"),
    "gpu_timeline": ("place",),
}
# The size of a DuckDB row group.
_ROWS_AT_ONCE = 122_880
_WRITE: dict[WalkOutput, tuple[Rows, str]] = {
    WalkOutput.SEGMENTS: ("segment", "write_segments"),
    WalkOutput.SLICES: ("slice", "write_slices"),
    WalkOutput.WAITS: ("wait", "write_waits"),
}


class Derivation:
    """Derives facts and verdicts from the traces of one database.

    `vocabulary` has the views and macros that are missing in the database. When memory runs out, it
    calls `more_memory`, which raises the limit or returns False to refuse.
    Its methods raise duckdb.OutOfMemoryException when memory runs out and `more_memory` refuses.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        more_memory: Callable[[], bool],
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._connection = connection
        self._more_memory = more_memory
        add_names = vocabulary.add if vocabulary else str
        add_names(catalog.schema("host_order"))
        self._facts = facts.Builder(connection, self._until_done, add_names, {"units": units.fill})

    def build(self, *, is_new: bool) -> None:
        """Builds all facts. They replace existing ones unless the database `is_new`."""
        self._connection.execute("DELETE FROM tracekit")
        if not is_new:
            self._connection.execute(facts.emptied(facts.facts().values()))
        self._facts.build(nest)

    def build_to_add(self) -> None:
        """Builds the facts of a new database that another one will `add`."""
        self._facts.build(nest, over_traces=False)

    def add(self, other: Path) -> None:
        """Copies all traces from another database, with their facts, and rebuilds the facts over
        several traces. Their trace_ids must be higher than the existing ones."""
        connection = self._connection
        connection.execute("DELETE FROM tracekit")
        connection.execute(f"ATTACH {literal(str(other))} AS _added (READ_ONLY)")
        growth = connection.execute(catalog.schema("read_growth"))
        names = [each[0] for each in growth.description]
        offsets = dict(zip(names, growth.fetchall()[0], strict=True))
        for table in (*OF_EVENTS, *facts.about_one_trace()):
            moved = [f"{each} + {offsets[each]} AS {each}" for each in _NUMBERED.get(table, ())]
            values = f"* REPLACE ({', '.join(moved)})" if moved else "*"
            connection.execute(f"INSERT INTO {table} BY NAME SELECT {values} FROM _added.{table}")
        connection.execute("DETACH _added")
        self._facts.build_over_traces()

    def complete(self, judge: Judge | None) -> None:
        """Writes the verdicts that `judge` returns, and marks the database as complete."""
        self._connection.execute("SET preserve_insertion_order = true")
        # New traces may change the verdicts on the old ones.
        for table in catalog.VERDICTS:
            self._connection.execute(f"DELETE FROM {table}")
        if judge is not None:
            for rows in judge(self._connection, self._more_memory):
                record_verdicts(self._connection, rows)
        _write_out(self._connection)

    def _until_done(self, step: Callable[[], object]) -> None:
        while True:
            try:
                step()
                return
            except duckdb.OutOfMemoryException:
                if not self._more_memory():
                    raise


def record_verdicts(
    connection: duckdb.DuckDBPyConnection,
    rows: Mapping[str, Sequence[Mapping[str, Any]] | Mapping[str, Any]],
) -> None:
    """Writes verdicts: rows or columns by table (tracekit/verdict/rows.py)."""
    for table, added in rows.items():
        if isinstance(added, Mapping):
            connection.register("_columns", added)
            connection.execute(f"INSERT INTO {table} BY NAME FROM _columns")
            connection.unregister("_columns")
            continue
        columns = columns_of(connection, table)
        for start in range(0, len(added), _ROWS_OF_JSON):
            connection.execute(
                f"INSERT INTO {table} BY NAME SELECT unnest(from_json(?, ?), recursive := true)",
                [json.dumps(added[start : start + _ROWS_OF_JSON]), json.dumps([columns])],
            )


def _write_out(connection: duckdb.DuckDBPyConnection) -> None:
    """Marks the database as complete, and moves its data from DuckDB's log to the file.

    A checkpoint normally merges small row groups, written by several threads, into full ones: it
    rewrites them, which is slow and leaves holes in the file. It does not merge them while a
    transaction that might read the old ones is open, so this opens one. A database in memory has no
    log, and gains nothing from a checkpoint.
    """
    has_file = "SELECT count(path) FROM duckdb_databases() WHERE database_name = current_database()"
    if not scalar(connection, has_file):
        connection.execute("INSERT INTO tracekit VALUES (?)", [catalog.FORMAT])
        return
    with connection.cursor() as reader:
        reader.execute("BEGIN TRANSACTION READ ONLY")
        reader.execute("FROM tracekit").fetchall()
        connection.execute("INSERT INTO tracekit VALUES (?)", [catalog.FORMAT])
        connection.execute("CHECKPOINT")


# -- the walk of the host's stacks


def nest(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills thread_segment and thread_slice, and adds to gpu_timeline.

    queries/facts/thread_segment.sql, thread_slice.sql and gpu_timeline.sql describe these tables.
    """
    with connection.cursor() as reading, connection.cursor() as writing:
        ordered = reading.sql(catalog.render_template("host_order", **parameters()))
        with (
            closing(_walk(ordered.__arrow_c_stream__(), _ROWS_AT_ONCE)) as walk,
            prefetched(walk) as batches,
            transaction(writing),
        ):
            for kind, batch in batches:
                rows, statement = _WRITE[kind]
                # The statement reads this local variable by its name.
                walked = BatchStream(rows, iter([batch]))  # noqa: F841
                writing.execute(catalog.schema(statement))


def _walk(capsule: object, rows: int) -> Generator[tuple[WalkOutput, Batch], None, None]:
    """Batches of segments, slices and waits, about `rows` rows each; the C library nests slices
    into call trees. The caller closes it.

    `capsule` is an Arrow stream of host slices, with the columns and in the order of
    queries/schema/host_order.sql.

    Raises:
        duckdb.Error: when the stream fails or memory runs out.
    """
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = c_void_p, [py_object, c_char_p]
    opened = library().tracekit_walk_open(address(capsule, CAPSULE_NAME))
    try:
        while opened:
            batch = Batch()
            walked = WalkOutput(library().tracekit_walk_next(opened, rows, byref(batch)))
            if walked is WalkOutput.IS_DONE:
                return
            if walked is WalkOutput.FAILED:
                reason = library().tracekit_walk_error(opened) or b"unknown reason"
                raise _error(reason.decode("utf-8", "replace"))
            if walked is WalkOutput.OUT_OF_MEMORY:
                break
            yield walked, batch
        raise duckdb.OutOfMemoryException("a batch of host slices does not fit in memory")
    finally:
        library().tracekit_walk_close(opened)


def _error(reason: str) -> duckdb.Error:
    """The exception for this message from DuckDB; the stream only passes on the text."""
    is_memory = reason.startswith("Out of Memory")
    return duckdb.OutOfMemoryException(reason) if is_memory else duckdb.Error(reason)
