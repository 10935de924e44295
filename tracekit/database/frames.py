"""Converts DuckDB relations to Arrow streams and Polars frames."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import duckdb

from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import polars


class ArrowStream:
    """The rows of a relation as an Arrow stream, computed as the consumer reads them."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._capsule = relation.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def frame_of(relation: duckdb.DuckDBPyRelation) -> polars.DataFrame:
    """All rows of a relation as a Polars frame.

    Raises:
        TracekitError: when Polars has no type for a column, or cannot hold the result.
    """
    import polars

    for name, kind in zip(relation.columns, relation.types, strict=True):
        # Polars would abort on these types.
        if re.search(r"INTERVAL|UNION|\bBIT\b|BIGNUM|VARIANT|UHUGEINT", str(kind)):
            raise TracekitError(f"Polars has no type for {kind}: cast the column {name!r}")
    names = distinct_names(relation.columns)
    try:
        shared = polars.DataFrame(ArrowStream(projected(relation, names)))
    except polars.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise TracekitError(f"a frame cannot hold this result: {reason}") from error
    # Copy the rows out of DuckDB's buffers: if a frame still holds buffers when the interpreter
    # ends, DuckDB reports leaks on standard error.
    copy = io.BytesIO()
    shared.write_ipc(copy, compat_level=polars.CompatLevel.newest())
    copy.seek(0)
    return polars.read_ipc(copy)


def distinct_names(names: list[str]) -> list[str]:
    """Makes names distinct, as DuckDB does for the columns of a subquery: a, a_1, a_2.

    As in SQL, names that differ only in case are the same name.
    """
    taken: set[str] = set()
    distinct = []
    for name in names:
        new, number = name, 0
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        distinct.append(new)
    return distinct


def projected(
    relation: duckdb.DuckDBPyRelation, names: list[str], values: list[str] | None = None
) -> duckdb.DuckDBPyRelation:
    """The columns of a relation under new names. `values` are SQL expressions to select in their
    place, in which `#1` is the first column."""
    values = values or [f"#{place}" for place in range(1, len(names) + 1)]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    columns = (f"{value} AS {name}" for value, name in zip(values, quoted, strict=True))
    return relation.project(", ".join(columns))
