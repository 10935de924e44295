"""Allocations: which places and call paths hold the memory, and how its segments are filled."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.sections.flame import frames_chart, frames_control
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, share, size

_SITES = 15
_LARGEST = 50
_MOMENTS = {"peak": "at the peak", "end": "when the recording ends"}


def _has_memory(subject: Subject) -> bool:
    return not subject.lacks("no_memory_events")


@figure("memory_sites", "Who holds the peak, by line", when=_has_memory, top=_SITES)
def memory_sites(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The places in the program that hold the memory at its peak."""
    return _sites(rows, "peak")


@figure(
    "memory_sites", "Who holds memory at the end, by line", when=_has_memory, top=_SITES,
    moment="end",
)  # fmt: skip
def memory_left(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The places in the program whose memory is never freed."""
    return _sites(rows, "end")


@figure("memory_flame", "Who holds the peak, by call path", when=_has_memory)
def memory_flame(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """The memory that is live at the peak, by the call paths that allocated it."""
    inner = rows.filter(pl.col("kind") == "frame").sort("live_bytes", "depth", descending=True)
    if inner.is_empty():
        return None
    control = frames_control(rows, ("memory", "live_bytes"))
    rows = rows.select("depth", "name", "kind", "allocations", "live_bytes", "from_bytes")
    total = int(rows.filter(depth=0)["live_bytes"].sum())
    first = inner.row(0, named=True)
    shades = {"device": colours.KINDS["thread"], "frame": colours.KINDS["python"]}
    chart = frames_chart(
        rows,
        charts.shades("kind", shades),
        ["allocations:Q|,"],
        begin="from_bytes",
        length="live_bytes",
        measures=["held:N=live at the peak"],
        held=charts.size_of("datum.live_bytes"),
    )
    return Figure(
        f"{size(first['live_bytes'])} of {size(total)} ({share(first['live_bytes'], total)}) are "
        f"from calls of {charts.shown_name(first['name'])}. Click on a frame to look into it.",
        rows,
        chart,
        control,
        shows=["live_bytes"],
    )


@figure(
    "largest_allocations", "The largest allocations at the peak", when=_has_memory, top=_LARGEST
)
def largest_allocations(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Single allocations that are live at the peak, the largest first."""
    first = rows.row(0, named=True)
    rows = subject.since_start(rows, "start_ns", "end_ns").with_columns(
        address=pl.format("0x{}", pl.col("address").map_elements("{:x}".format, pl.String))
    )
    return Figure(
        f"The largest takes {size(first['allocated_bytes'])}: {charts.shown_name(first['place'])}.",
        informative(rows),
    )


@figure("fragmentation", "Reserved memory by pool")
def fragmentation(subject: Subject, rows: pl.DataFrame) -> Figure:
    """What of the reserved memory is in use, rounding, or free in pieces."""
    reserved, free = int(rows["segment_bytes"].sum()), int(rows["free_bytes"].sum())
    return Figure(
        f"{size(free)} of {size(reserved)} reserved ({share(free, reserved)}) are free, in "
        f"{counted(int(rows['free_blocks'].sum()), 'piece')}, the largest of "
        f"{size(int(rows['largest_free_bytes'].max()))}: "  # type: ignore[arg-type]
        "a larger allocation needs another segment.",
        rows,
    )


@figure("memory_segments", "Segments with most free memory", top=100)
def memory_segments(subject: Subject, rows: pl.DataFrame) -> Figure:
    """How each segment is filled."""
    rows = informative(rows).with_columns(
        segment=pl.format("0x{}", pl.col("address").map_elements("{:x}".format, pl.String))
    ).drop("address")  # fmt: skip
    parts = (
        alt.Chart(rows)
        .transform_fold(["used_bytes", "free_bytes"], as_=["part", "bytes"])
        .transform_calculate(
            colour="datum.part == 'used_bytes' ? 'allocated' : 'idle'",
            held=charts.size_of("datum.bytes"),
            whole=charts.size_of("datum.segment_bytes"),
            largest=charts.size_of("datum.largest_free_bytes"),
        )
        .mark_bar()
        .encode(
            x=alt.X("bytes:Q", title="in use, and free", axis=charts.size_axis(tickCount=6)),
            y=alt.Y("segment:N", sort=None, title=None),
            color=charts.colour(["allocated", "idle"], "memory"),
            tooltip=charts.tips("segment:N", "whole:N", "held:N", "largest:N=largest free"),
        )
    )
    first = rows.row(0, named=True)
    return Figure(
        f"The segment with most has {size(first['free_bytes'])} free of "
        f"{size(first['segment_bytes'])}.",
        rows,
        charts.sized(parts, 16 * len(rows) + 30),
    )


@figure("out_of_memory", "Out of memory")
def out_of_memory(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The allocations that failed."""
    last = rows.row(-1, named=True)
    had = f" with {size(last['allocated_bytes'])} in use" if last["allocated_bytes"] else ""
    where = f" at {charts.shown_name(last['place'])}" if last["place"] else ""
    return Figure(
        f"{size(last['requested_bytes'])} could not be allocated{where}{had}.",
        informative(subject.since_start(rows, "at_ns")),
    )


def _sites(rows: pl.DataFrame, moment: str) -> Figure:
    live = f"live {_MOMENTS[moment]}"
    rows = informative(rows)
    first = rows.row(0, named=True)
    bars = alt.Chart(rows).transform_calculate(live=charts.size_of("datum.live_bytes")).mark_bar(
        color=colours.of("allocated")
    ).encode(
        y=charts.names("place", rows["place"].to_list(), "-x"),
        x=alt.X("live_bytes:Q", title=live, axis=charts.size_axis(tickCount=6)),
        tooltip=charts.tips(
            "place:N", *(["cpu_op:N=operator"] if "cpu_op" in rows.columns else []),
            f"live:N={live}", "allocations:Q|,",
        ),
    )  # fmt: skip
    return Figure(
        f"{charts.shown_name(first['place'])} holds {size(first['live_bytes'])} "
        f"({first['share_of_live']:.1%}) in {counted(first['allocations'], 'allocation')}.",
        rows,
        charts.sized(bars, 22 * rows["place"].n_unique() + 20),
    )
