"""Prints or writes a query's rows as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import duckdb
from msgspec.structs import replace
from rich.table import Column
from rich.text import Text

from tracekit.database.catalog import Value
from tracekit.database.frames import ArrowStream, distinct_names, projected
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.files import (
    is_device,
    is_standard_output,
    require_no_input,
    temporary_folder,
    written_whole,
)
from tracekit.reporters.terminal import console, show_paged, table
from tracekit.reporters.units import LEFT_OUT, by_name, record, shown
from tracekit.text import counted, printable, printable_lines

TABLE_ROWS = 1_000
# Text that SQL selects is not cut to less than this.
_LEAST_TEXT = 40
FILE_ROWS = 100_000_000
_CHUNK_BYTES = 1 << 16
_COPIED_AS = {
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json, ARRAY true",
    "parquet": "FORMAT parquet",
}
# Arrow, JSON or Parquet cannot represent these types in full: they are written as text.
_AS_TEXT = re.compile(r"UHUGEINT|BIGNUM|\bBIT\b|UNION|VARIANT|INTERVAL|\bTIME WITH TIME ZONE|NULL")
_WITH_FRACTIONS = re.compile(r"FLOAT|DOUBLE")
# A table shows these types as numbers and booleans; DuckDB formats all others.
_PLAIN = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN|DECIMAL\(.*\)")
# NaN and the infinities, outside of strings: JSON cannot represent them.
_NO_JSON = re.compile(rb'("(?:[^"\\]|\\.)*")|-?\b(?:NaN|Infinity)\b')
# Column names, and rows.
_Rows = tuple[list[str], list[tuple[Any, ...]]]


def render(
    database: Session,
    query: str,
    variables: Mapping[str, Value],
    form: str,
    output: str | None = None,
    columns: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    *,
    most: int | None = None,
    timeout_s: float | None = None,
) -> int:
    """Prints the rows of one SELECT, at most `most`, or writes them to `output`; returns their
    number.

    Without `most`, a table has TABLE_ROWS, and a file of more than FILE_ROWS is refused.
    Prints all columns, or those in `columns`, in that order. Duplicate column names are numbered as
    DuckDB numbers them: a, a_1. A table is in units that read well, by the `units` of a question's
    columns or by the columns' names; CSV, JSON and Parquet are always exact.

    Raises:
        TracekitError: when the SQL fails, a limit is reached, a table should go to a file, or
            Parquet to a terminal.
    """
    if form == "table" and output is None:
        read = partial(first_rows, database, query, variables, columns, timeout_s=timeout_s)
        # Chosen columns are always printed.
        spare = 0 if columns or units is None else LEFT_OUT
        return _render_table(read, units, most or TABLE_ROWS, spare)
    if form == "table":
        raise TracekitError(
            "a table can only be printed: to write a file with -o, add --format csv, json or "
            "parquet"
        )
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise TracekitError("Parquet is binary: write it to a file with -o, or to a pipe")

    def write(sink: IO[bytes]) -> int:
        def written(relation: duckdb.DuckDBPyRelation) -> int:
            return _written(_chosen(relation, columns), form, sink, most)

        return database.stream(query, variables, written, timeout_s)

    if output is None or is_standard_output(output):
        count = write(sys.stdout.buffer)
        sys.stdout.flush()
    elif is_device(output):
        # A path such as /dev/fd/3 may refer to a file.
        require_no_input(output, database.inputs)
        with Path(output).open("wb") as sink:
            count = write(sink)
    else:
        with written_whole(output, database.inputs) as beside, beside.open("wb") as sink:
            count = write(sink)
    if count == most:
        print(
            f"only the first {counted(count, 'row')} (--max-rows); there may be more",
            file=sys.stderr,
        )
    return count


def _chosen(relation: duckdb.DuckDBPyRelation, columns: Sequence[str]) -> duckdb.DuckDBPyRelation:
    names = list(relation.columns)
    places = [names.index(name) for name in columns] or range(len(names))
    distinct = distinct_names([names[place] for place in places])
    return projected(relation, distinct, [f"#{place + 1}" for place in places])


def _written(
    relation: duckdb.DuckDBPyRelation, form: str, sink: IO[bytes], most: int | None
) -> int:
    """Writes the rows while DuckDB computes them; returns their number."""
    kinds = [str(kind) for kind in relation.types]
    values = [
        f"CAST(#{place} AS VARCHAR)" if form == "csv" or _AS_TEXT.search(kind) else f"#{place}"
        for place, kind in enumerate(kinds, 1)
    ]
    limited = projected(relation, relation.columns, values).limit(most or FILE_ROWS + 1)
    has_fractions = form == "json" and any(_WITH_FRACTIONS.search(kind) for kind in kinds)
    count = _copied(ArrowStream(limited), _COPIED_AS[form], sink, has_fractions)
    if most is None and count > FILE_ROWS:
        raise TracekitError(
            f"the result has more than {FILE_ROWS:,} rows: --max-rows sets how many to write"
        )
    return count


def _copied(rows: ArrowStream, how: str, sink: IO[bytes], has_fractions: bool) -> int:
    """Writes the rows to `sink` with DuckDB's COPY; returns their number.

    COPY runs in a separate connection that sees only these rows, and writes to a pipe.
    """

    def copy(target: str) -> int:
        with duckdb.connect(":memory:") as connection:
            connection.register("rows_asked_for", rows)
            copied = f"COPY (FROM rows_asked_for) TO '{target}' ({how})"
            return int(connection.execute(copied).fetchall()[0][0])

    with _piped(copy) as (source, count):
        parts: Iterable[bytes] = iter(partial(source.read, _CHUNK_BYTES), b"")
        if has_fractions:
            parts = (_NO_JSON.sub(lambda found: found[1] or b"null", line) for line in source)
        for text in _on_screen(parts) if sink.isatty() else parts:
            sink.write(text)
    return count.result()


@contextmanager
def _piped(write: Callable[[str], int]) -> Iterator[tuple[IO[bytes], Future[int]]]:
    """The bytes that `write` writes to its path, while it writes them, and what it returns."""
    with ThreadPoolExecutor(1, "tracekit-rows") as thread:
        if not Path("/dev/fd").exists():
            # On Windows, a pipe has no path: go through a file.
            with temporary_folder() as folder:
                written = thread.submit(write, str(folder / "rows"))
                written.result()
                with (folder / "rows").open("rb") as source:
                    yield source, written
            return
        read_end, write_end = os.pipe()

        def write_and_close() -> int:
            try:
                return write(f"/dev/fd/{write_end}")
            finally:
                os.close(write_end)

        # If the reader has gone, the thread's next write fails.
        with os.fdopen(read_end, "rb") as source:
            yield source, thread.submit(write_and_close)


def _on_screen(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without control characters, safe for a terminal."""
    rest = b""
    for part in parts:
        whole, end, rest = (rest + part).rpartition(b"\n")
        yield printable_lines((whole + end).decode("utf-8", "replace")).encode()
    yield printable_lines(rest.decode("utf-8", "replace")).encode()


def first_rows(
    database: Session,
    query: str,
    variables: Mapping[str, Value],
    columns: Sequence[str] = (),
    *,
    most: int,
    offset: int = 0,
    characters: int | None = None,
    with_lists: bool = False,
    timeout_s: float | None = None,
) -> _Rows:
    """Column names and at most `most` rows of one SELECT, from row `offset` on, for people to read.

    Numbers and booleans stay values, and with `with_lists` lists of text stay lists. Everything
    else is DuckDB's text, cut to `characters`. The rows have all columns, or those in `columns`, in
    that order.

    Raises:
        TracekitError: when the SQL fails, or takes longer than `timeout_s`.
    """

    def fetched(relation: duckdb.DuckDBPyRelation) -> _Rows:
        names = list(columns) or list(relation.columns)
        shown = _chosen(relation, columns)
        text = "CAST(#{} AS VARCHAR)"
        if characters is not None:
            text = f"system.main.left({text}, {characters})"
        values = [
            f"#{place}"
            if _PLAIN.fullmatch(str(kind)) or (with_lists and str(kind) == "VARCHAR[]")
            else text.format(place)
            for place, kind in enumerate(shown.types, 1)
        ]
        return names, projected(shown, shown.columns, values).limit(most, offset).fetchall()

    return database.stream(query, variables, fetched, timeout_s)


def _render_table(
    read: Callable[..., _Rows], units: Mapping[str, str] | None, most: int, spare: int
) -> int:
    names, rows = read(most=most + 1, with_lists=units is not None)
    known = by_name(names) if units is None else units
    least_text = _LEAST_TEXT if units is None else 0
    readable = replace(shown(names, rows[:most], known), spare=spare, least_text=least_text)
    out = console(is_wide=True)
    fitting = readable.within(out.width)
    with out.capture() as printed:
        if fitting is not None:
            out.print(table(fitting.columns, fitting.rows))
        else:
            # One line per value, as in psql.
            for row in readable.rows:
                lines = (Column(no_wrap=True), Column(overflow="fold"))
                out.print(table(lines, [*record(readable, row), ()]))
        for note in (fitting or readable).notes:
            out.print(Text(printable(note), "dim"))
    show_paged(printed.get())
    if len(rows) > most:
        hint = "--max-rows shows more, --format csv shows all"
        print(f"only the first {counted(most, 'row')}: {hint}", file=sys.stderr)
    return min(len(rows), most)
