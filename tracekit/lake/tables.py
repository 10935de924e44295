"""The tables and answers that a lake stores for each trace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import duckdb

from tracekit.database import catalog, facts
from tracekit.database.catalog import Query, Value

# Stored relations and answers are about a single trace, so the combined rows of all ranks equal the
# answer of the same SQL over all of them. A lake's views and questions read the stored rows.
# The relation whose rows are stored: a macro.
FIGURES = "run_figures"
# Questions whose answers (without parameters, ordered by trace first) are stored.
ANSWERS = ("overview", "health", "missing", "launch_stats", "partition", "idle_causes")
# Conditions on stored answers. They were computed for one rank at a time, so some rows are wrong
# for a run of several ranks.
_STILL = {
    "missing": " AND (code <> 'one_rank' OR trace_id IN "
    "(SELECT any_value(trace_id) FROM jobs GROUP BY job HAVING count(*) = 1))"
}
_PREFIX = "answer_"
# The first columns of each table in a lake.
KEYS = ("run", "rank", "trace_id")
# Tables that every group has, even without rows.
NEEDED = frozenset({"trace", FIGURES, *(f"{_PREFIX}{name}" for name in ANSWERS)})
# Tables that are read from ranks written by another version, if their columns match.
SMALL = NEEDED | {"trace_span", "device", "windows", "window_partition", *catalog.VERDICTS}
SMALL |= {"window_timeline_parts", "judged_steps", "collective"}


@cache
def not_stored() -> tuple[str, ...]:
    """Tables that the reader creates instead of the lake storing them."""
    return ("tracekit", "loading", "hardware", *facts.rows_over_traces())


def stored_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The columns of each table of a database that a lake stores."""
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "JOIN duckdb_tables() USING (database_name, schema_name, table_name) "
        "WHERE database_name = current_database() AND schema_name = 'main' "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {name: columns for name, columns in rows if name not in not_stored()}


def summaries() -> dict[str, str]:
    """The name of each stored summary and the SQL of its rows. (Verdicts are not SQL.)"""
    numbered = "SELECT row_number() OVER () AS place, * FROM ({})"
    answers = {f"{_PREFIX}{name}": numbered.format(catalog.query(name).sql) for name in ANSWERS}
    return {FIGURES: f"FROM {FIGURES}"} | answers


def stored_answer_sql(question: Query, given: Mapping[str, Value]) -> str | None:
    """The SQL that reads stored answers to a question; None: not stored, at least not for these
    parameters."""
    if question.name not in ANSWERS or any(
        value is not None for name, value in given.items() if name != "trace"
    ):
        return None
    columns = ", ".join(f'"{column.name}"' for column in question.columns)
    return (
        f"SELECT {columns} FROM lake.{_PREFIX}{question.name} "
        f"WHERE trace_id = coalesce(getvariable('trace'), trace_id){_STILL.get(question.name, '')} "
        "ORDER BY trace_id, place"
    )
