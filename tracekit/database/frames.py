"""Rows on their way out of DuckDB: as an Arrow stream, and as a Polars frame."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import duckdb

from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import polars


class ArrowStream:
    """The rows of a relation, computed as they are taken; others than DuckDB take them, too."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._capsule = relation.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def frame_of(relation: duckdb.DuckDBPyRelation) -> polars.DataFrame:
    """All rows of a relation.

    Raises:
        TracekitError: when Polars has no type for a column.
    """
    import polars

    for name, kind in zip(relation.columns, relation.types, strict=True):
        # It would abort on these.
        if re.search(r"INTERVAL|UNION|\bBIT\b|BIGNUM|VARIANT|UHUGEINT", str(kind)):
            raise TracekitError(f"a frame has no type for {kind}: cast the column {name!r}")
    names = distinct_names(relation.columns)
    try:
        shared = polars.DataFrame(ArrowStream(projected(relation, names)))
    except polars.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise TracekitError(f"a frame cannot hold this result: {reason}") from error
    # Copied out of DuckDB's buffers: a frame that still holds some when the interpreter ends
    # makes DuckDB report leaks on standard error.
    copy = io.BytesIO()
    shared.write_ipc(copy, compat_level=polars.CompatLevel.newest())
    copy.seek(0)
    return polars.read_ipc(copy)


def distinct_names(names: list[str]) -> list[str]:
    """Each name once, as DuckDB would call the columns of a subquery: a, a_1, a_2.

    Names are the same where only their case differs, as in SQL.
    """
    taken: set[str] = set()
    found = []
    for name in names:
        new, number = name, 0
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        found.append(new)
    return found


def projected(
    relation: duckdb.DuckDBPyRelation, names: list[str], values: list[str] | None = None
) -> duckdb.DuckDBPyRelation:
    """The columns of a relation under other names, and as other values: in SQL, where `#1` is the
    first column."""
    values = values or [f"#{place}" for place in range(1, len(names) + 1)]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    columns = (f"{value} AS {name}" for value, name in zip(values, quoted, strict=True))
    return relation.project(", ".join(columns))
