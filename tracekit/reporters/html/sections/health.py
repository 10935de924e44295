"""Health: what makes the trace's numbers doubtful, and what was not recorded."""

from __future__ import annotations

import polars as pl

from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject


def health(subject: Subject) -> Figure | None:
    """Findings about the trace; those that touch a figure also stand beside it."""
    columns = ["severity", "message", "count"]
    found = subject.rows("health").select(columns)
    missing = subject.rows("missing").with_columns(
        severity=pl.lit("not recorded"), count=pl.lit(None, pl.Int64)
    )
    rows = pl.concat([found, missing.select(columns)], how="vertical_relaxed").unique(
        "message", maintain_order=True
    )
    if not len(rows):
        return None
    serious = rows.filter(pl.col("severity").is_in(["error", "warning"])).height
    told = f"{serious} of them can make numbers wrong." if serious else "None makes a number wrong."
    return Figure(
        name="health",
        title="Findings",
        says=f"{told} What touches a figure is also said beside it.",
        rows=rows,
        source=subject.source("health"),
    )
