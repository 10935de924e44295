"""What is held and moved: memory over time and who holds its peak; copies; collectives, what covers
them, and what bandwidth they reach."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative, without_empty
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, share, size

_BINS = 500
_HOLDERS = 15
_COPIES = 300

# c10::DeviceType of a host.
_HOST = 0


def _has_memory(subject: Subject) -> bool:
    return not subject.lacks("no_memory_events")


@figure("memory_bins", when=_has_memory, bins=_BINS)
def memory(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Allocated and reserved memory over time, and its peak."""
    held = subject.rows("memory_peak", top=_HOLDERS)
    if held.is_empty():
        return None
    first = _peak(held).row(0, named=True)
    rows = rows.drop("trace_id").filter(
        device_type=first["device_type"], device_id=first["device_id"]
    )
    rows = subject.since_start(rows, "at_ns", "end_ns")
    reserved = (
        f", of {size(first['reserved_bytes'])} reserved then" if first["reserved_bytes"] else ""
    )
    return Figure(
        f"At most {size(first['peak_bytes'])} were allocated"
        f"{reserved}, {duration(first['peak_at_ns'] - subject.window.start_ns)} after the window's "
        "start. The band is what was between least and most allocated.",
        rows,
        _over_time(rows),
        title=f"Memory of {_device(first)} over time",
        shows=["min_allocated_bytes", "max_allocated_bytes"],
    )


@figure("memory_peak", when=_has_memory, top=_HOLDERS)
def holders(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The operators that had allocated what was live at the peak."""
    rows = _peak(rows)
    first = rows.row(0, named=True)
    is_known = first["tensors"] is not None
    holder = (
        charts.shown_name(first["operator"])
        if is_known
        else "What was allocated before the recording"
    )
    return Figure(
        f"{holder} holds {size(first['live_bytes'])} of the peak of "
        f"{size(first['peak_bytes'])} ({share(first['live_bytes'], first['peak_bytes'])}).",
        subject.since_start(rows, "peak_at_ns"),
        _bars(rows),
        title=f"Who holds the peak of {_device(first)}",
        shows=["operator"],
    )


@figure(
    "copies",
    "Copies by direction",
    when=lambda subject: not subject.lacks("no_copies"),
    top=_COPIES,
)
def copies(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Copies by direction, with their bandwidth and who asks for them."""
    kinds = rows.group_by("copy_kind").agg(pl.col("count", "bytes", "total_ns").sum())
    first = kinds.sort("total_ns", "copy_kind", descending=[True, False]).row(0, named=True)
    per_s = 1e9 * first["bytes"] / first["total_ns"] if first["total_ns"] else 0
    speed = f" at {size(per_s)}/s" if per_s else ""
    blocking = int(rows["blocking_count"].sum())
    waited = counted(blocking, "copy", "copies")
    held_up = f" {waited} kept the host waiting until done." if blocking else ""
    return Figure(
        f"{first['copy_kind']} takes most: {counted(first['count'], 'copy', 'copies')}, "
        f"{size(first['bytes'])} in {duration(first['total_ns'])}{speed}.{held_up}",
        without_empty(rows.drop("trace_id")),
    )


def _peak(rows: pl.DataFrame) -> pl.DataFrame:
    """Who holds the peak of the device with the highest one, before the host's."""
    rows = rows.drop("trace_id").sort(
        pl.col("device_type") == _HOST, -pl.col("peak_bytes"), "device_type", "device_id",
        -pl.col("live_bytes"), "operator",
    )  # fmt: skip
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
    x = charts.time("at_ns", tickCount=8)
    y = alt.Y("bytes:Q", title="memory", axis=charts.size_axis(tickCount=6))
    color = charts.colour(["allocated", "reserved"], "memory", symbolOpacity=1)
    tooltip = charts.tips(
        "at:N", "least:N=allocated, least", "most:N=allocated, most", "reserved:N", "step:N"
    )
    band = (
        base.transform_calculate(colour="'allocated'")
        .mark_area(interpolate="step-after", opacity=0.35)
        .encode(x=x, y="min_allocated_bytes:Q", y2="max_allocated_bytes:Q", color=color)
    )
    lines = (
        base.transform_fold(["max_allocated_bytes", "max_reserved_bytes"], as_=["kind", "bytes"])
        .transform_filter("datum.kind == 'max_allocated_bytes' || datum.bytes > 0")
        .transform_calculate(
            colour="datum.kind == 'max_allocated_bytes' ? 'allocated' : 'reserved'"
        )
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x=x, y=y, color=color, tooltip=tooltip)
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
    return charts.sized((band + lines + dot + text).add_params(charts.step_parameter()), 170)


def _bars(rows: pl.DataFrame) -> alt.TopLevelMixin:
    live = "live at the peak"
    bars = alt.Chart(rows).transform_calculate(live=charts.size_of("datum.live_bytes")).mark_bar(
        color=colours.of("allocated")
    ).encode(
        y=charts.names("operator", rows["operator"].to_list(), "-x"),
        x=alt.X("live_bytes:Q", title=live, axis=charts.size_axis(tickCount=6)),
        tooltip=charts.tips("operator:N", f"live:N={live}", "tensors:Q|,"),
    )  # fmt: skip
    return charts.sized(bars, 22 * len(rows) + 20)


_COLLECTIVE_BINS = 400
# Rows of the table of collectives.
_MOST = 2000


def _communicates(subject: Subject) -> bool:
    return subject.device_id is not None and not subject.lacks("no_communication")


@figure("comm_timeline", when=_communicates, bins=_COLLECTIVE_BINS)
def communication(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Collectives over time: exposed, and overlapped with compute."""
    rows = subject.of_device(rows.drop("trace_id"))
    if rows.is_empty():
        return None
    ran, exposed = int(rows["communication_ns"].sum()), int(rows["exposed_ns"].sum())
    rows = subject.since_start(rows, "at_ns", "end_ns")
    return Figure(
        f"Collectives ran for {duration(ran)} of the GPU-active span. No compute covers "
        f"{duration(exposed)} of it ({share(exposed, ran)}).",
        rows,
        _collectives_over_time(rows),
        title=f"Collectives over time, device {subject.device_id}",
        shows=["exposed_ns", "overlapped_ns"],
    )


@figure("collective_stats", "Collectives by type, group and size", when=_communicates)
def collectives(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Collectives by type, group and size of the message."""
    rows = subject.of_device(rows).head(_MOST)
    if rows.is_empty():
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
    return Figure(says, informative(rows))


@figure("collective_stats", "Bandwidth by size of the message", when=_communicates)
def bandwidth(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """The bandwidth of collectives by the size of their messages."""
    rows = subject.of_device(rows).drop("trace_id", "rank", "device_id").head(_MOST)
    rows = rows.filter(pl.col("message_bytes") > 0, pl.col("bus_gb_per_s") > 0)
    if rows.is_empty():
        return None
    best = rows.sort("best_bus_gb_per_s", descending=True).row(0, named=True)
    return Figure(
        f"The best call is {best['type']}, with {best['best_bus_gb_per_s']:.3g} GB/s on the "
        "bus. Small messages are limited by latency; large ones far below the link's bandwidth "
        "wait, or share it.",
        rows,
        _by_size(rows),
        shows=["message_bytes"],
    )


def _collectives_over_time(rows: pl.DataFrame) -> alt.TopLevelMixin:
    bars = (
        alt.Chart(rows)
        .transform_filter(charts.of_chosen_step())
        .transform_fold(["exposed_ns", "overlapped_ns"], as_=["part", "part_ns"])
        .transform_calculate(
            colour="datum.part == 'exposed_ns' ? 'communication' : 'communication, overlapped'",
            share="datum.part_ns / (datum.end_ns - datum.at_ns)",
            low="datum.part == 'exposed_ns' ? 0"
            " : datum.exposed_ns / (datum.end_ns - datum.at_ns)",
            **charts.durations(at="at_ns", length="part_ns"),
        )
        .transform_calculate(high="datum.low + datum.share")
        .mark_rect()
        .encode(
            x=charts.time("at_ns", tickCount=8),
            x2="end_ns:Q",
            y=alt.Y("low:Q", title="share of the time",
                    axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=charts.colour(["communication", "communication, overlapped"], "collectives"),
            tooltip=charts.tips(
                "at:N", "colour:N=part", "length:N=time", "share:Q|.1%", "step:N"
            ),
        )
    )  # fmt: skip
    return charts.sized(bars.add_params(charts.step_parameter()), 160)


def _by_size(rows: pl.DataFrame) -> alt.TopLevelMixin:
    dots = (
        alt.Chart(rows)
        .transform_calculate(
            message=charts.size_of("datum.message_bytes"),
            **charts.durations(total="total_ns", exposed="exposed_ns"),
            colour="'communication'",
        )
        .mark_point(filled=True, opacity=0.8, color=colours.of("communication"))
        .encode(
            x=alt.X("message_bytes:Q", title="message", scale=alt.Scale(type="log"),
                    axis=charts.size_axis(tickCount=8)),
            y=alt.Y("bus_gb_per_s:Q", title="bus bandwidth, GB/s", scale=alt.Scale(type="log"),
                    axis=alt.Axis(format="~g", tickCount=6)),
            shape=alt.Shape("type:N", title="type", legend=alt.Legend(orient="top", columns=6)),
            size=alt.Size("total_ns:Q", legend=None, scale=alt.Scale(range=[40, 600])),
            tooltip=charts.tips(
                "type:N", "group_name:N=group", "group_size:Q=ranks", "dtype:N", "message:N",
                "count:Q=calls", "total:N=time", "exposed:N", "bus_gb_per_s:Q=bus GB/s|.3~g",
                "best_bus_gb_per_s:Q=best bus GB/s|.3~g",
            ),
        )
    )  # fmt: skip
    return charts.sized(dots, 240)
