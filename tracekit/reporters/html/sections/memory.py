"""Memory over time, and who holds the peak."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, table
from tracekit.reporters.html.subject import Subject
from tracekit.text import size

_CPU = 0


def memory(subject: Subject) -> Figure | None:
    """Allocated and reserved memory over time, of the device, or of the host without one."""
    rows = subject.rows("memory_over_time").filter(pl.col("allocated_max_bytes").is_not_null())
    on_device = rows.filter(pl.col("device_type") != _CPU)
    of_device = on_device.filter(device_id=subject.device_id) if subject.device_id else on_device
    chosen = next((each for each in (of_device, on_device, rows) if len(each)), None)
    if chosen is None:
        return None
    peak = int(chosen["allocated_max_bytes"].max())  # type: ignore[arg-type]
    if peak <= 0:
        return None
    rows = subject.since_start(chosen, "start_ns").drop("trace_id", "device_type")
    rows = rows.unpivot(
        ["allocated_max_bytes", "reserved_max_bytes"],
        index="start_ns",
        variable_name="of",
        value_name="held_bytes",
    )
    rows = rows.with_columns(
        of=pl.col("of").replace(
            {"allocated_max_bytes": "allocated", "reserved_max_bytes": "reserved"}
        )
    ).filter(pl.col("held_bytes") > 0)
    chart = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after")
        .encode(
            x=charts.time("start_ns", "since the window's start"),
            y=alt.Y("held_bytes:Q", title="bytes", axis=alt.Axis(format="~s")),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(domain=["allocated", "reserved"], range=list(colours.VARIANTS[:2])),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["of:N", alt.Tooltip("held_bytes:Q", format=".3~s")],
        )
    )
    return Figure(
        name="memory",
        title="Memory over time",
        says=f"At the peak, tensors had {size(peak)} allocated.",
        rows=rows,
        source=subject.source("memory_over_time"),
        chart=charts.sized(chart, 200),
        doubts=subject.doubts("memory_over_time"),
    )


def peak(subject: Subject) -> Figure | None:
    """The operators whose tensors were live at the peak."""
    rows = subject.rows("memory_peak", top=50).filter(pl.col("live_bytes") > 0)
    if len(rows.filter(pl.col("device_type") != _CPU)):
        rows = rows.filter(pl.col("device_type") != _CPU)
    if not len(rows):
        return None
    first = rows.sort("live_bytes", descending=True).row(0, named=True)
    return Figure(
        name="peak",
        title="Who holds the peak",
        says=f"Of the {size(first['peak_bytes'])}, {size(first['live_bytes'])} are from "
        f"{first['operator'][:60]}.",
        rows=table(subject.since_start(rows, "peak_at_ns")),
        source=subject.source("memory_peak", top=50),
        doubts=subject.doubts("memory_peak"),
    )


def copies(subject: Subject) -> Figure | None:
    """Copies and fills by direction."""
    rows = subject.rows("memory_traffic")
    if not len(rows):
        return None
    first = rows.sort("total_ns", descending=True).row(0, named=True)
    return Figure(
        name="copies",
        title="Copies and fills",
        says=f"{first['copy_kind']} takes most of their time: {first['count']:,} ops move "
        f"{size(first['bytes'])}.",
        rows=table(rows),
        source=subject.source("memory_traffic"),
        doubts=subject.doubts("memory_traffic"),
    )
