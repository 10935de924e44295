"""The host: how far it runs ahead of the device, and where its time goes."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, table
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration

_ROWS = 100


def delays(subject: Subject) -> Figure | None:
    """Launch delays over time."""
    rows = _over_time(subject)
    if rows is None:
        return None
    rows = rows.unpivot(
        ["delay_p50_ns", "delay_p90_ns"],
        index=["start_ns", "launches"],
        variable_name="of",
        value_name="delay_ns",
    )
    named = {"delay_p50_ns": "median", "delay_p90_ns": "90 %"}
    rows = rows.with_columns(of=pl.col("of").replace(named))
    launch = subject.analysis.launch
    of_all = duration(launch.first_delay_p50_ns) if launch else ""
    median = f" The median of all launches is {of_all}." if launch else ""
    chart = (
        alt.Chart(rows)
        .transform_calculate(delay=charts.duration_of("datum.delay_ns"))
        .mark_line()
        .encode(
            x=charts.time("start_ns", "since the window's start"),
            y=alt.Y(
                "delay_ns:Q",
                title="launch delay",
                scale=alt.Scale(type="symlog", constant=1000),
                axis=charts.time_axis(),
            ),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(domain=["median", "90 %"], range=list(colours.VARIANTS[:2])),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["of:N", "delay:N", "launches:Q"],
        )
    )
    return Figure(
        name="delays",
        title="From launch to start",
        says="Long delays mean that the host runs ahead and the device is busy; short ones that "
        f"the device takes each launch as it comes.{median}",
        rows=rows,
        source=subject.source("launches_over_time"),
        chart=charts.sized(chart, 180),
        doubts=subject.doubts("launches_over_time"),
    )


def queue(subject: Subject) -> Figure | None:
    """How many launches were queued over time."""
    rows = _over_time(subject)
    if rows is None:
        return None
    rows = rows.select("start_ns", "end_ns", "depth_p50", "depth_max")
    base = alt.Chart(rows).encode(
        x=charts.time("start_ns", "since the window's start"),
        tooltip=["depth_p50:Q", "depth_max:Q"],
    )
    areas = base.mark_area(interpolate="step-after", opacity=0.3, color=colours.of("launch"))
    lines = base.mark_line(interpolate="step-after", color=colours.of("launch"))
    chart = areas.encode(y=alt.Y("depth_max:Q", title="launches queued")) + lines.encode(
        y="depth_p50:Q"
    )
    empty = rows.filter(pl.col("depth_p50") == 0).height
    return Figure(
        name="queue",
        title="Launches queued",
        says="The line is the median that a launch call finds queued, the area the most. In "
        f"{empty} of {len(rows)} parts of the time the median launch finds the queue empty.",
        rows=rows,
        source=subject.source("launches_over_time"),
        chart=charts.sized(chart, 140),
        doubts=subject.doubts("launches_over_time"),
    )


def operators(subject: Subject) -> Figure | None:
    """What each operator costs the host."""
    rows = subject.rows("top_cpu_ops", top=_ROWS)
    if not len(rows):
        return None
    first = rows.row(0, named=True)
    return Figure(
        name="operators",
        title="Operators by their own time on the host",
        says=f"{first['name'][:60]} takes most: {duration(first['self_ns'])}.",
        rows=table(rows),
        source=subject.source("top_cpu_ops", top=_ROWS),
        doubts=subject.doubts("top_cpu_ops"),
    )


def synchronizations(subject: Subject) -> Figure | None:
    """Where the host waits for the device."""
    rows = subject.rows("sync_points", top=_ROWS)
    if not len(rows):
        return None
    first = rows.row(0, named=True)
    place = first["python_line"] or first["cpu_op"] or first["call"]
    return Figure(
        name="synchronizations",
        title="Where the host waits for the device",
        says=f"Most at {place[:80]}: {duration(first['host_ns'])} in "
        f"{counted(first['count'], 'call')}.",
        rows=table(rows),
        source=subject.source("sync_points", top=_ROWS),
        doubts=subject.doubts("sync_points"),
    )


def python(subject: Subject) -> Figure | None:
    """The time of Python lines outside operators."""
    rows = subject.rows("python_time", top=_ROWS)
    if not len(rows):
        return None
    return Figure(
        name="python",
        title="Python by its own time",
        says="Time of Python functions outside the operators and functions that they call.",
        rows=table(rows),
        source=subject.source("python_time", top=_ROWS),
        doubts=subject.doubts("python_time"),
    )


def _over_time(subject: Subject) -> pl.DataFrame | None:
    """Launches over time on the verdict's device."""
    if subject.device_id is None:
        return None
    rows = subject.rows("launches_over_time").filter(device_id=subject.device_id)
    return subject.since_start(rows, "start_ns", "end_ns") if len(rows) > 1 else None
