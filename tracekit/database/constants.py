"""Constants that Python and SQL share, as SQL macros: thresholds, causes, names."""

from __future__ import annotations

import re
from functools import cache

from tracekit.causes import CAUSE_OF_ACTIVITY, CAUSES, ENGINES, RECORDERS, UNRECORDED, words
from tracekit.database import names
from tracekit.thresholds import TABLE, Thresholds


def thresholds(judging: Thresholds | None = None) -> dict[str, int | float]:
    """The thresholds that queries use, by name (queries/thresholds.csv)."""
    table = judging or Thresholds()
    return {name: getattr(table, name) for name, each in TABLE.items() if each.in_sql}


def thresholds_struct(judging: Thresholds | None = None) -> str:
    """The SQL expression that the macro thresholds() returns."""
    fields = ", ".join(f"'{name}': {value}" for name, value in thresholds(judging).items())
    return f"{{{fields}}}"


@cache
def judging(thresholds: Thresholds) -> str:
    """The statement that makes a cursor's questions use these thresholds: a temporary macro that
    shadows the stored one."""
    return f"CREATE OR REPLACE TEMP MACRO thresholds() AS {thresholds_struct(thresholds)}"


def with_thresholds(sql: str) -> str:
    """The SQL with each `thresholds().NAME` replaced by its number."""
    stored = _stored()
    # A pattern that begins with \b takes ten times as long.
    return re.sub(r"thresholds\(\)\.(\w+)", lambda found: f"({stored[found[1]]})", sql)


def cause_number(column: str) -> str:
    """The SQL for a cause's number (tracekit/causes.py)."""
    return f"(list_position({list(CAUSES)}, {column}) - 1)::TINYINT"


@cache
def _stored() -> dict[str, int | float]:
    return thresholds()


@cache
def macros() -> str:
    """The SQL statements that define these constants as macros and a view."""
    renamed = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in CAUSE_OF_ACTIVITY.items())
    known = (*RECORDERS, *ENGINES)
    switches = {
        f"{recorder} {code}": switch
        for recorder in known
        for code, switch in words(f"switch {recorder}").items()
    }
    quoted = ", ".join(
        f"{names.literal(key)}: {names.literal(switch)}" for key, switch in switches.items()
    )
    return f"""{names.listed()}
CREATE OR REPLACE MACRO thresholds() AS {thresholds_struct()};
CREATE OR REPLACE MACRO switch_of(profiler, code) AS
    MAP {{{quoted}}}[if(profiler IN {known}, profiler, '{RECORDERS[0]}') || ' ' || code];
CREATE OR REPLACE MACRO host_cause(activity, is_long) AS
    CASE WHEN activity = 'untraced' AND is_long THEN '{UNRECORDED}'
         ELSE CASE activity {renamed} ELSE activity END END;
"""
