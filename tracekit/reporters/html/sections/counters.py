"""Hardware counters: what the profiler counted for each kernel."""

from __future__ import annotations

from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject

# Rows of the table.
_MOST = 5000


def counters(subject: Subject) -> Figure | None:
    """A table of counted kernels."""
    if subject.lacks("no_counters"):
        return None
    rows = subject.rows("counter_ranges").drop("trace_id")
    if rows.is_empty():
        return None
    counted, names = rows["place"].n_unique(), sorted(rows["counter"].unique())
    cut = f" The first {_MOST:,} rows are listed." if len(rows) > _MOST else ""
    return Figure(
        name="counters",
        title="Hardware counters by kernel",
        says=f"{counted:,} kernels were counted, each with {', '.join(names[:4])}"
        f"{f' and {len(names) - 4} more' if len(names) > 4 else ''}.{cut}",
        rows=rows.head(_MOST),
        source=subject.source("counter_ranges"),
        doubts=subject.doubts("counter_ranges"),
    )
