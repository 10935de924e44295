"""What a lake stores of each rank beside its tables, so that questions about all ranks need not
read events.

Each of these is about one trace alone, so that the rows of all ranks together are what the same SQL
would answer over all of them. A lake's views and questions read the stored rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracekit.database import catalog
from tracekit.database.catalog import Query, Value

# Relations whose rows are stored: their SQL, and what they are in a lake.
RELATIONS = {
    "run_figures": ("FROM run_figures()", "MACRO run_figures() AS TABLE"),
}
# Questions whose answers are stored, as they are without parameters, ordered by trace first.
ANSWERS = (
    "overview",
    "health",
    "missing",
    "launch_stats",
    "partition",
    "idle_causes",
)
# Of a stored answer, what holds among all ranks: each was alone when it was stored.
_STILL = {
    "missing": " AND (code <> 'one_rank' OR trace_id IN "
    "(SELECT any_value(trace_id) FROM jobs GROUP BY job HAVING count(*) = 1))"
}
_PREFIX = "answer_"
# What every rank has, with or without rows.
NEEDED = frozenset({"trace", *RELATIONS, *(f"{_PREFIX}{name}" for name in ANSWERS)})


def stored() -> dict[str, str]:
    """The name of each stored summary and the SQL of its rows. (Verdicts are no SQL.)"""
    relations = {name: sql for name, (sql, _) in RELATIONS.items()}
    answers = {
        f"{_PREFIX}{name}": f"SELECT row_number() OVER () AS place, * FROM ({_sql(name)})"
        for name in ANSWERS
    }
    return relations | answers


def _sql(name: str) -> str:
    return catalog.query(name).sql


def answered(question: Query, given: Mapping[str, Value]) -> str | None:
    """The SQL that reads the stored answers to a question; None: they are not stored, or not for
    these parameters."""
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
