"""What queries share with Python: tables that stand in Python, written as macros of SQL."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from tracekit.causes import CAUSE_OF_ACTIVITY, CAUSES
from tracekit.thresholds import QueryThresholds, Thresholds


def thresholds() -> dict[str, int | float]:
    """The numbers that queries judge by, by name (tracekit/thresholds.py)."""
    return {
        each.name: getattr(table, each.name)
        for table in (Thresholds(), QueryThresholds())
        for each in fields(table)
        if each.metadata["in_sql"]
    }


@cache
def macros() -> str:
    """The statements that bring these tables into a database's vocabulary."""
    judged = ", ".join(f"'{name}': {value}" for name, value in thresholds().items())
    causes = ", ".join(f"'{name}'" for name in CAUSES)
    renamed = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in CAUSE_OF_ACTIVITY.items())
    return f"""
CREATE OR REPLACE MACRO thresholds() AS {{{judged}}};
CREATE OR REPLACE MACRO causes() AS [{causes}];
CREATE OR REPLACE MACRO cause_number(cause) AS (list_position(causes(), cause) - 1)::TINYINT;
CREATE OR REPLACE MACRO host_cause(activity) AS CASE activity {renamed} ELSE activity END;
"""
