"""How fast the devices could do a trace's work (queries/roofline/window_limits.sql)."""

from __future__ import annotations

from typing import Any

from tracekit.database.session import Session


def limits_of(database: Session, trace_id: int) -> list[dict[str, Any]]:
    """The limits of each device's whole work, and of the unit of median length of each group. Of
    several devices that work in one unit, the one that needs longest comes last."""
    rows: list[dict[str, Any]] = database.memoized(
        ("limits", trace_id), lambda: database.ask("window_limits", trace=trace_id)
    )
    return sorted(rows, key=lambda row: row["floor_ns"] or 0)
