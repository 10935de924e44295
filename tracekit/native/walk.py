"""The C library's walk over host slices, which nests them into call trees."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from ctypes import byref, c_char_p, c_void_p, py_object

import duckdb

from tracekit.native.library import CAPSULE_NAME, Batch, library
from tracekit.native.walk_codes import WalkOutput


def walk(capsule: object, rows: int) -> Generator[tuple[WalkOutput, Batch], None, None]:
    """Batches of segments, slices and waits, about `rows` rows each. Close it.

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
