"""Memory: what was allocated over time, who holds the peak, and what was copied."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, share, size

_BINS = 500
_HOLDERS = 15
_COPIES = 300

# c10::DeviceType of a host.
_HOST = 0


def memory(subject: Subject) -> Figure | None:
    """Allocated and reserved memory over time, and its peak."""
    if (peak := _peak(subject)) is None:
        return None
    first = peak.row(0, named=True)
    rows = subject.rows("memory_bins", bins=_BINS).drop("trace_id")
    rows = rows.filter(device_type=first["device_type"], device_id=first["device_id"])
    rows = subject.since_start(rows, "at_ns", "end_ns")
    kept = f", of {size(first['reserved_bytes'])} reserved then" if first["reserved_bytes"] else ""
    return Figure(
        name="memory",
        title=f"Memory of {_device(first)} over time",
        says=f"At most {size(first['peak_bytes'])} were allocated"
        f"{kept}, {duration(first['peak_at_ns'] - subject.window.start_ns)} after the window's "
        "start. The band is what was between least and most allocated.",
        rows=rows,
        source=subject.source("memory_bins", bins=_BINS),
        chart=_over_time(rows),
        doubts=subject.doubts("memory_bins"),
    )


def holders(subject: Subject) -> Figure | None:
    """The operators that had allocated what was live at the peak."""
    if (rows := _peak(subject)) is None:
        return None
    first = rows.row(0, named=True)
    known = first["tensors"] is not None
    holder = first["operator"][:80] if known else "What was allocated before the recording"
    return Figure(
        name="holders",
        title=f"Who holds the peak of {_device(first)}",
        says=f"{holder} holds {size(first['live_bytes'])} of the peak of "
        f"{size(first['peak_bytes'])} ({share(first['live_bytes'], first['peak_bytes'])}).",
        rows=subject.since_start(rows, "peak_at_ns"),
        source=subject.source("memory_peak", top=_HOLDERS),
        chart=_bars(rows),
        doubts=subject.doubts("memory_peak"),
    )


def copies(subject: Subject) -> Figure | None:
    """Copies by direction, with their bandwidth and who asks for them."""
    if subject.lacks("no_copies"):
        return None
    rows = subject.rows("copies", top=_COPIES).drop("trace_id")
    if rows.is_empty():
        return None
    first = rows.row(0, named=True)
    speed = f" at {size(first['bytes_per_s'])}/s" if first["bytes_per_s"] else ""
    blocking = int(rows["blocking_count"].sum())
    waited = counted(blocking, "copy", "copies")
    held_up = f" {waited} kept the host waiting until done." if blocking else ""
    return Figure(
        name="copies",
        title="Copies by direction",
        says=f"{first['copy_kind']} takes most: {counted(first['count'], 'copy', 'copies')}, "
        f"{size(first['bytes'])} in {duration(first['total_ns'])}{speed}.{held_up}",
        rows=charts.told(rows),
        source=subject.source("copies", top=_COPIES),
        doubts=subject.doubts("copies"),
    )


def _peak(subject: Subject) -> pl.DataFrame | None:
    """Who holds the peak of the device with the highest one, before the host's."""
    if subject.lacks("no_memory_events"):
        return None
    rows = subject.once("memory_peak", top=_HOLDERS).drop("trace_id")
    rows = rows.sort(
        pl.col("device_type") == _HOST, -pl.col("peak_bytes"), "device_type", "device_id",
        -pl.col("live_bytes"), "operator",
    )  # fmt: skip
    if rows.is_empty():
        return None
    first = rows.row(0, named=True)
    return rows.filter(device_type=first["device_type"], device_id=first["device_id"])


def _device(row: dict[str, int]) -> str:
    return "the host" if row["device_type"] == _HOST else f"device {row['device_id']}"


def _over_time(rows: pl.DataFrame) -> alt.TopLevelMixin:
    base = (
        alt.Chart(rows)
        .transform_filter(charts.of_chosen_step())
        .transform_calculate(
            at=charts.duration_of("datum.at_ns"),
            least=charts.size_of("datum.min_allocated_bytes"),
            most=charts.size_of("datum.max_allocated_bytes"),
            reserved=charts.size_of("datum.max_reserved_bytes"),
        )
    )
    x = alt.X("at_ns:Q", title="since the window's start", axis=charts.time_axis(tickCount=8),
              scale=alt.Scale(zero=False, nice=False))  # fmt: skip
    tooltip = [
        alt.Tooltip("at:N"),
        alt.Tooltip("least:N", title="allocated, least"),
        alt.Tooltip("most:N", title="allocated, most"),
        alt.Tooltip("reserved:N"),
        alt.Tooltip("step:N"),
    ]
    names = ["allocated", "reserved"]
    band = (
        base.transform_calculate(colour="'allocated'")
        .mark_area(interpolate="step-after", opacity=0.35)
        .encode(
            x=x, y="min_allocated_bytes:Q", y2="max_allocated_bytes:Q",
            color=charts.colour(names, "memory", symbolOpacity=1),
        )
    )  # fmt: skip
    y = alt.Y("bytes:Q", title="memory", axis=charts.size_axis(tickCount=6))
    lines = (
        base.transform_fold(["max_allocated_bytes", "max_reserved_bytes"], as_=["kind", "bytes"])
        .transform_filter("datum.kind == 'max_allocated_bytes' || datum.bytes > 0")
        .transform_calculate(
            colour="datum.kind == 'max_allocated_bytes' ? 'allocated' : 'reserved'"
        )
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x=x, y=y, color=charts.colour(names, "memory", symbolOpacity=1), tooltip=tooltip)
    )
    peak = (
        base.transform_window(
            place="row_number()", sort=[alt.SortField("max_allocated_bytes", "descending")]
        )
        .transform_filter("datum.place == 1")
        .transform_calculate(peak="'peak ' + datum.most")
    )
    dot = peak.mark_point(filled=True, size=60, color=charts.plain()).encode(
        x=x, y="max_allocated_bytes:Q", tooltip=tooltip
    )
    text = peak.mark_text(dy=-10).encode(x=x, y="max_allocated_bytes:Q", text="peak:N")
    return charts.sized((band + lines + dot + text).add_params(charts.step_parameter()), 220)


def _bars(rows: pl.DataFrame) -> alt.TopLevelMixin:
    bars = (
        alt.Chart(rows)
        .transform_calculate(live=charts.size_of("datum.live_bytes"))
        .mark_bar(color=charts.shade("allocated"))
        .encode(
            y=alt.Y("operator:N", sort="-x", title=None),
            x=alt.X("live_bytes:Q", title="live at the peak", axis=charts.size_axis(tickCount=6)),
            tooltip=[
                alt.Tooltip("operator:N"),
                alt.Tooltip("live:N", title="live at the peak"),
                alt.Tooltip("tensors:Q", format=","),
            ],
        )
    )
    return charts.sized(bars, 22 * len(rows) + 20)
