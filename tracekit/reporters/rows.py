"""Rows of a query as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tracekit.errors import TracekitError
from tracekit.files import written_whole
from tracekit.reporters.console import console
from tracekit.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tracekit.catalog import Value
    from tracekit.database import Database

_MOST_TABLE_ROWS = 1000


def render(
    database: Database,
    query: str,
    variables: Mapping[str, Value],
    form: str,
    output: str | None = None,
    columns: Sequence[str] = (),
) -> int:
    """Prints the rows of one SELECT, or writes them to `output`; returns how many there are.

    Of all columns, or of those in `columns`, in that order.

    Raises:
        TracekitError: when the SQL fails, or Parquet has nowhere to go.
    """
    if form == "table" and output is None:
        names, rows = _fetch(database, query, variables, columns)
        _table(names, rows)
        return len(rows)
    if form == "table":
        raise TracekitError(
            "a table goes to the terminal; give --format csv, json or parquet with -o"
        )
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise TracekitError("Parquet is binary: give -o FILE, or send it to a pipe")
    data, count = _encoded(database, query, variables, form, columns)
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return count
    with written_whole(output) as beside:
        Path(beside).write_bytes(data)
    return count


def _fetch(
    database: Database, query: str, variables: Mapping[str, Value], columns: Sequence[str]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    names, rows = database.fetch(query, variables)
    if not columns:
        return names, rows
    places = [names.index(name) for name in columns]
    return list(columns), [tuple(row[place] for place in places) for row in rows]


def _encoded(
    database: Database,
    query: str,
    variables: Mapping[str, Value],
    form: str,
    columns: Sequence[str],
) -> tuple[bytes, int]:
    """The rows in that form, and how many there are."""
    if form == "parquet":
        sink = io.BytesIO()
        frame = database.frame(query, variables)
        frame = frame.select(columns) if columns else frame
        frame.write_parquet(sink)
        return sink.getvalue(), frame.height
    names, rows = _fetch(database, query, variables, columns)
    if form == "json":
        records = [dict(zip(names, row, strict=True)) for row in rows]
        return (json.dumps(records, default=str, indent=1) + "\n").encode(), len(rows)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([_csv_value(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace"), len(rows)


def _csv_value(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, list | dict) else value


def _table(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """One line a row where that fits the width; else, as psql does, one line a value."""
    out = console()
    shown = rows[:_MOST_TABLE_ROWS]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        is_number = all(isinstance(row[place], int | float | NoneType) for row in shown)
        table.add_column(
            Text(printable(name), "bold"), justify="right" if is_number else "left", no_wrap=True
        )
    for row in shown:
        table.add_row(*(Text(_cell(value)) for value in row))
    natural = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    if natural <= out.width:
        out.print(table)
    else:
        for row in shown:
            out.print(_record(columns, row))
    if len(rows) > _MOST_TABLE_ROWS:
        print(
            f"... {len(rows) - _MOST_TABLE_ROWS:,} more rows; --format csv shows all",
            file=sys.stderr,
        )


def _record(columns: list[str], row: tuple[Any, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in zip(columns, row, strict=True):
        table.add_row(Text(printable(name)), Text(_cell(value)))
    table.add_row()
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    text = printable(value)
    return text if len(text) <= 80 else text[:77] + "..."
