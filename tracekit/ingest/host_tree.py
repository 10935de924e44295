"""Host slices -> their call tree, each thread's time, and what threads did while a device idled."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import closing
from ctypes import byref, c_char_p, c_void_p, py_object

import duckdb

from tracekit.database import catalog
from tracekit.ingest.writer import transaction
from tracekit.native.library import CAPSULE_NAME, Batch, BatchStream, Rows, library
from tracekit.native.walk_codes import WalkOutput, parameters
from tracekit.trace.prefetch import prefetched

# One of DuckDB's row groups.
_ROWS_AT_ONCE = 122_880
_WRITE: dict[WalkOutput, tuple[Rows, str]] = {
    WalkOutput.SEGMENTS: ("segment", "write_segments"),
    WalkOutput.SLICES: ("slice", "write_slices"),
    WalkOutput.WAITS: ("wait", "write_waits"),
}


def nest(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills thread_segment and thread_slice, and adds to gpu_timeline.

    queries/views/host.sql and timeline.sql document these tables.
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
    """Batches of segments, slices and waits, about `rows` rows each: the C library nests slices
    into call trees. Close it.

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
                reason = library().tracekit_walk_error(opened) or b"no reason is given"
                raise _error(reason.decode("utf-8", "replace"))
            if walked is WalkOutput.OUT_OF_MEMORY:
                break
            yield walked, batch
        raise duckdb.OutOfMemoryException("a batch of host slices does not fit in memory")
    finally:
        library().tracekit_walk_close(opened)


def _error(reason: str) -> duckdb.Error:
    """The exception that DuckDB raises for this reason; the stream only passes its text on."""
    is_memory = reason.startswith("Out of Memory")
    return duckdb.OutOfMemoryException(reason) if is_memory else duckdb.Error(reason)
