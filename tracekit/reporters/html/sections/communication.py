"""Collectives: their overlap with compute, and their bandwidth."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, share

_COLLECTIVE_BINS = 400
# Grid lines of the axes.
_DECADES = [10.0**exponent for exponent in range(-3, 13)]
# Rows of the table of collectives.
_MOST = 2000


@figure("comm_timeline", unless="no_communication", of_device=True, bins=_COLLECTIVE_BINS)
def communication(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Collectives over time: exposed, and overlapped with compute."""
    ran, exposed = int(rows["communication_ns"].sum()), int(rows["exposed_ns"].sum())
    rows = subject.since_start(rows.drop("trace_id"), "start_ns", "end_ns")
    return Figure(
        f"Collectives ran for {duration(ran)} of the GPU-active span. No compute covers "
        f"{duration(exposed)} of it ({share(exposed, ran)}).",
        rows,
        _collectives_over_time(rows),
        title=f"Collectives over time, device {subject.device_id}",
        shows=["exposed_ns", "overlapped_ns"],
    )


@figure(
    "collective_stats", "Collectives by type, group and size",
    unless="no_communication", of_device=True,
)  # fmt: skip
def collectives(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Collectives by type, group and size of the message."""
    rows = rows.head(_MOST)
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
    return Figure(says, informative(rows))


@figure(
    "exposed_collectives", "Why communication is exposed",
    unless="no_communication", of_device=True,
)  # fmt: skip
def reasons(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Exposed collectives by group and reason."""
    if rows.is_empty():
        return None
    total = int(rows["reason_ns"].sum())
    by_reason = rows.group_by("reason").agg(pl.col("reason_ns").sum())
    reason, most = by_reason.sort("reason_ns", "reason", descending=True).row(0)
    says = f"Most is '{reason}': {duration(most)} of {duration(total)} ({share(most, total)})."
    return Figure(says, informative(rows.drop("kind", "name").head(_MOST)))


@figure(
    "collective_stats", "Bandwidth by size of the message", unless="no_communication",
    of_device=True, where=(pl.col("message_bytes") > 0) & (pl.col("bus_gb_per_s") > 0),
)  # fmt: skip
def bandwidth(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The bandwidth of collectives by the size of their messages."""
    rows = rows.drop("trace_id", "rank", "device_id").head(_MOST)
    best = rows.sort("best_bus_gb_per_s", descending=True).row(0, named=True)
    says = (
        f"The best call is {best['type']}, with {best['best_bus_gb_per_s']:.3g} GB/s on the "
        "bus. Small messages are limited by latency; large ones far below the link's bandwidth "
        "wait, or share it."
    )
    return Figure(says, rows, _by_size(rows), shows=["message_bytes"])


def _collectives_over_time(rows: pl.DataFrame) -> alt.TopLevelMixin:
    base = (
        alt.Chart(rows)
        .transform_filter(charts.OF_CHOSEN_STEP)
        .transform_fold(["exposed_ns", "overlapped_ns"], as_=["part", "part_ns"])
        .transform_calculate(
            color="datum.part == 'exposed_ns' ? 'communication' : 'communication, overlapped'",
            bin_ns="datum.end_ns - datum.start_ns",
        )
        .transform_calculate(
            share="datum.part_ns / datum.bin_ns",
            low="datum.part == 'exposed_ns' ? 0 : datum.exposed_ns / datum.bin_ns",
        )
        .transform_calculate(high="datum.low + datum.share")
    )
    with_tips = charts.with_tooltip(
        base, "start_ns=at", "color:N=part", "part_ns=time", "share:Q|.1%", "step:N"
    )
    bars = with_tips.mark_rect().encode(
        x=charts.time("start_ns", 8),
        x2=alt.X2("end_ns:Q"),
        y=alt.Y("low:Q", title="share of the time",
                axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
        y2=alt.Y2("high:Q"),
        color=charts.color(["communication", "communication, overlapped"], "collectives"),
    )  # fmt: skip
    return charts.sized(bars, 160, charts.CHOSEN_STEP)


def _by_size(rows: pl.DataFrame) -> alt.TopLevelMixin:
    with_tips = charts.with_tooltip(
        alt.Chart(rows), "type:N", "group_name:N=group", "group_size:Q=ranks", "dtype:N",
        "message_bytes=message", "count:Q=calls", "total_ns=time", "exposed_ns=exposed",
        "bus_gb_per_s:Q=bus GB/s|.3~g", "best_bus_gb_per_s:Q=best bus GB/s|.3~g",
    )  # fmt: skip
    dots = with_tips.mark_point(filled=True, opacity=0.8, color=colors.of("communication")).encode(
        x=charts.x("message_bytes", "message", _DECADES, scale=alt.Scale(type="log")),
        y=alt.Y("bus_gb_per_s:Q", title="bus bandwidth, GB/s", scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~g", values=_DECADES)),
        shape=alt.Shape("type:N", title="type", legend=alt.Legend(orient="top", columns=6)),
        size=alt.Size("total_ns:Q", legend=None, scale=alt.Scale(range=[40, 600])),
    )  # fmt: skip
    return charts.sized(dots, 240)
