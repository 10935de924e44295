"""How fast the devices could do a trace's work (queries/roofline/window_limits.sql)."""

from __future__ import annotations

from typing import Any

from tracekit.database.session import Session


def limits_of(database: Session, trace_id: int, kind: str) -> list[dict[str, Any]]:
    """The limits of all windows of a kind, or of units, of a trace's devices. Of several devices
    that work in one, the device that needs longest comes last."""
    rows: list[dict[str, Any]] = database.memoized(
        ("limits", trace_id), lambda: database.ask("window_limits", trace=trace_id)
    )
    mine = (row for row in rows if row["kind"] == kind)
    return sorted(mine, key=lambda row: row["floor_ns"] or 0)
