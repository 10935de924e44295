"""The host: how far it runs ahead of the device, and where its time goes."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration

_ROWS = 100


def _has_device(subject: Subject) -> bool:
    return subject.device_id is not None


@figure("launches_over_time", "From launch to start", when=_has_device)
def delays(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Launch delays over time."""
    rows = subject.since_start(subject.of_device(rows), "start_ns", "end_ns")
    if len(rows) < 2:
        return None
    named = {"delay_p50_ns": "median", "delay_p90_ns": "90 %"}
    rows = rows.unpivot(
        list(named), index=["start_ns", "launches"], variable_name="of", value_name="delay_ns"
    ).with_columns(of=pl.col("of").replace(named))
    launch = subject.analysis.launch
    of_all = duration(launch.first_delay_p50_ns) if launch else ""
    median = f" The median of all launches is {of_all}." if launch else ""
    shades = dict(zip(named.values(), colours.VARIANTS, strict=False))
    chart = alt.Chart(rows).transform_calculate(**charts.durations(delay="delay_ns")).mark_line()
    chart = chart.encode(
        x=charts.time("start_ns"),
        y=alt.Y("delay_ns:Q", title="launch delay", axis=charts.time_axis(),
                scale=alt.Scale(type="symlog", constant=1000)),
        color=charts.shades("of", shades),
        tooltip=["of:N", "delay:N", "launches:Q"],
    )  # fmt: skip
    return Figure(
        "Long delays mean that the host runs ahead and the device is busy; short ones that "
        f"the device takes each launch as it comes.{median}",
        rows,
        charts.sized(chart, 160),
        shows=["delay_ns"],
    )


@figure("launches_over_time", "Launches queued", when=_has_device)
def queue(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """How many launches were queued over time."""
    rows = subject.since_start(subject.of_device(rows), "start_ns", "end_ns")
    if len(rows) < 2:
        return None
    rows = rows.select("start_ns", "end_ns", "depth_p50", "depth_max")
    base = alt.Chart(rows).encode(x=charts.time("start_ns"), tooltip=["depth_p50:Q", "depth_max:Q"])
    launch = colours.of("launch")
    areas = base.mark_area(interpolate="step-after", opacity=0.3, color=launch)
    lines = base.mark_line(interpolate="step-after", color=launch)
    most = alt.Y("depth_max:Q", title="launches queued")
    empty, most_ever = rows.filter(pl.col("depth_p50") == 0).height, rows["depth_max"].max()
    says = (
        "The line is the median that a launch call finds queued, the area the most. In "
        f"{empty} of {len(rows)} parts of the time the median launch finds the queue empty."
    )
    return Figure(
        says if most_ever else "Each launch finds the queue empty.",
        rows,
        charts.sized(areas.encode(y=most) + lines.encode(y="depth_p50:Q"), 160),
        shows=["depth_p50", "depth_max"],
    )


@figure("top_cpu_ops", "Operators by their own time on the host", top=_ROWS)
def operators(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The cost of each operator on the host."""
    first = rows.row(0, named=True)
    says = f"{charts.shown_name(first['name'])} takes most: {duration(first['self_ns'])}."
    return Figure(says, informative(rows.drop("is_metadata")))


@figure("sync_points", "Where the host waits for the device", top=_ROWS)
def synchronizations(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The places in which the host waits for the device."""
    first = rows.row(0, named=True)
    place = first["python_line"] or first["cpu_op"] or first["call"]
    calls = counted(first["count"], "call")
    says = f"Most at {charts.shown_name(place)}: {duration(first['host_ns'])} in {calls}."
    return Figure(says, informative(rows))


@figure("python_time", "Python by its own time", top=_ROWS)
def python(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The time of Python lines outside operators."""
    says = "Time of Python functions outside the operators and functions that they call."
    return Figure(says, informative(rows))
