"""Hardware counters."""

from __future__ import annotations

from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject


def counters(subject: Subject) -> Figure | None:
    """Hardware counters by range, where the trace has some."""
    rows = subject.rows("counter_ranges")
    if not len(rows):
        return None
    return Figure(
        name="counters",
        title="Hardware counters by range",
        says=f"{len(rows)} ranges have counters.",
        rows=rows.drop("trace_id").head(500),
        source=subject.source("counter_ranges"),
        doubts=subject.doubts("counter_ranges"),
    )
