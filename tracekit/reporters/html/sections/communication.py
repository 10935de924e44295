"""Communication: when collectives run, what covers them, and what bandwidth they reach."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, share

_BINS = 400
# Rows of the table of collectives.
_MOST = 2000


def communication(subject: Subject) -> Figure | None:
    """Collectives over time: exposed, and overlapped with compute."""
    if subject.device_id is None or subject.lacks("no_communication"):
        return None
    rows = subject.rows("comm_timeline", bins=_BINS).drop("trace_id")
    rows = rows.filter(pl.col("device_id") == subject.device_id)
    if rows.is_empty():
        return None
    ran, exposed = int(rows["communication_ns"].sum()), int(rows["exposed_ns"].sum())
    return Figure(
        name="communication",
        title=f"Collectives over time, device {subject.device_id}",
        says=f"Collectives ran for {duration(ran)} of the GPU-active span. No compute covers "
        f"{duration(exposed)} of it ({share(exposed, ran)}).",
        rows=subject.since_start(rows, "at_ns", "end_ns"),
        source=subject.source("comm_timeline", bins=_BINS),
        chart=_over_time(subject.since_start(rows, "at_ns", "end_ns")),
        doubts=subject.doubts("comm_timeline"),
    )


def collectives(subject: Subject) -> Figure | None:
    """Collectives by type, group and size of the message."""
    rows = _stats(subject)
    if rows is None:
        return None
    first = rows.row(0, named=True)
    waited = int(rows["wait_ns"].sum())
    says = (
        f"{first['type']} takes most: {duration(first['total_ns'])} in "
        f"{counted(first['count'], 'call')}, {duration(first['exposed_ns'])} of it exposed."
    )
    if waited:
        says += (
            f" Calls took at least {duration(waited)} longer than the shortest of their kind: "
            "probably waiting for other ranks."
        )
    return Figure(
        name="collectives",
        title="Collectives by type, group and size",
        says=says,
        rows=charts.told(rows),
        source=subject.source("collective_stats"),
        doubts=subject.doubts("collective_stats"),
    )


def bandwidth(subject: Subject) -> Figure | None:
    """The bandwidth of collectives by the size of their messages."""
    rows = _stats(subject)
    if rows is None:
        return None
    rows = rows.filter(pl.col("message_bytes") > 0, pl.col("bus_gb_per_s") > 0)
    if rows.is_empty():
        return None
    best = rows.sort("best_bus_gb_per_s", descending=True).row(0, named=True)
    return Figure(
        name="bandwidth",
        title="Bandwidth by size of the message",
        says=f"The best call is {best['type']}, with {best['best_bus_gb_per_s']:.3g} GB/s on the "
        "bus. Small messages are limited by latency; large ones far below the link's bandwidth "
        "wait, or share it.",
        rows=rows,
        source=subject.source("collective_stats"),
        chart=_by_size(rows),
        doubts=subject.doubts("collective_stats"),
    )


def _stats(subject: Subject) -> pl.DataFrame | None:
    if subject.device_id is None or subject.lacks("no_communication"):
        return None
    rows = subject.once("collective_stats").drop("trace_id", "rank")
    rows = rows.filter(pl.col("device_id") == subject.device_id).drop("device_id").head(_MOST)
    return None if rows.is_empty() else rows


def _over_time(rows: pl.DataFrame) -> alt.TopLevelMixin:
    bars = (
        alt.Chart(rows)
        .transform_filter(charts.of_chosen_step())
        .transform_fold(["exposed_ns", "overlapped_ns"], as_=["part", "part_ns"])
        .transform_calculate(
            colour="datum.part == 'exposed_ns' ? 'communication' : 'communication, overlapped'",
            share="datum.part_ns / (datum.end_ns - datum.at_ns)",
            low="datum.part == 'exposed_ns' ? 0"
            " : datum.exposed_ns / (datum.end_ns - datum.at_ns)",
            at=charts.duration_of("datum.at_ns"),
            length=charts.duration_of("datum.part_ns"),
        )
        .transform_calculate(high="datum.low + datum.share")
        .mark_rect()
        .encode(
            x=alt.X("at_ns:Q", title="since the window's start", axis=charts.time_axis(tickCount=8),
                    scale=alt.Scale(zero=False, nice=False)),
            x2="end_ns:Q",
            y=alt.Y("low:Q", title="share of the time",
                    axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=charts.colour(["communication", "communication, overlapped"], "collectives"),
            tooltip=[
                alt.Tooltip("at:N"),
                alt.Tooltip("colour:N", title="part"),
                alt.Tooltip("length:N", title="time"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("step:N"),
            ],
        )
    )  # fmt: skip
    return charts.sized(bars.add_params(charts.step_parameter()), 160)


def _by_size(rows: pl.DataFrame) -> alt.TopLevelMixin:
    dots = (
        alt.Chart(rows)
        .transform_calculate(
            message=charts.size_of("datum.message_bytes"),
            total=charts.duration_of("datum.total_ns"),
            exposed=charts.duration_of("datum.exposed_ns"),
            colour="'communication'",
        )
        .mark_point(filled=True, opacity=0.8, color=charts.shade("communication"))
        .encode(
            x=alt.X("message_bytes:Q", title="message", scale=alt.Scale(type="log"),
                    axis=charts.size_axis(tickCount=8)),
            y=alt.Y("bus_gb_per_s:Q", title="bus bandwidth, GB/s", scale=alt.Scale(type="log"),
                    axis=alt.Axis(format="~g", tickCount=6)),
            shape=alt.Shape("type:N", title="type", legend=alt.Legend(orient="top", columns=6)),
            size=alt.Size("total_ns:Q", legend=None, scale=alt.Scale(range=[40, 600])),
            tooltip=[
                alt.Tooltip("type:N"),
                alt.Tooltip("group_name:N", title="group"),
                alt.Tooltip("group_size:Q", title="ranks"),
                alt.Tooltip("dtype:N"),
                alt.Tooltip("message:N"),
                alt.Tooltip("count:Q", title="calls"),
                alt.Tooltip("total:N", title="time"),
                alt.Tooltip("exposed:N"),
                alt.Tooltip("bus_gb_per_s:Q", title="bus GB/s", format=".3~g"),
                alt.Tooltip("best_bus_gb_per_s:Q", title="best bus GB/s", format=".3~g"),
            ],
        )
    )  # fmt: skip
    return charts.sized(dots, 240)
