"""Host slices -> their call tree, each thread's time, and what threads did while a device idled."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing

import duckdb

from tracekit.database import catalog
from tracekit.native.library import Batch, BatchStream, Rows
from tracekit.native.walk import walk
from tracekit.native.walk_codes import WalkOutput, parameters

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
    with connection.cursor() as reading, ExitStack() as writing:
        ordered = reading.sql(catalog.render_template("host_order", **parameters()))
        tables = {
            kind: writing.enter_context(_Table(connection.cursor(), *names))
            for kind, names in _WRITE.items()
        }
        walked = writing.enter_context(closing(walk(ordered.__arrow_c_stream__(), _ROWS_AT_ONCE)))
        for kind, batch in walked:
            tables[kind].insert(batch)


class _Table:
    """Inserts batches into a table, in a thread and in one transaction."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, rows: Rows, statement: str) -> None:
        self._cursor = cursor
        self._rows = rows
        self._statement = catalog.schema(statement)
        self._thread = ThreadPoolExecutor(1)
        self._inserting: Future[None] | None = None

    def __enter__(self) -> _Table:
        self._cursor.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._cursor, self._thread:
            try:
                self._wait()
            except BaseException:
                self._cursor.rollback()
                raise
            if kind is None:
                self._cursor.commit()
            else:
                self._cursor.rollback()

    def insert(self, batch: Batch) -> None:
        self._wait()
        self._inserting = self._thread.submit(self._insert, batch)

    def _wait(self) -> None:
        if self._inserting is not None:
            self._inserting.result()

    def _insert(self, batch: Batch) -> None:
        # The statement reads this local variable by its name.
        walked = BatchStream(self._rows, iter([batch]))  # noqa: F841
        self._cursor.execute(self._statement)
