"""Memory: use over time, holders by operator, line and call path, segments; and copies."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative, without_empty
from tracekit.reporters.html.sections.flame import frames_chart, frames_control
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, percent, share, size

_BINS = 500
_HOLDERS = 15
_LARGEST = 50
_COPIES = 300
_PEAK, _END = "live at the peak", "live when the recording ends"
# The finding that memory was not recorded.
_UNRECORDED = "no_memory_events"
_HEX = pl.format("0x{}", pl.col("address").map_elements("{:x}".format, pl.String))
# c10::DeviceType of a host.
_HOST = 0


@figure("memory_bins", unless=_UNRECORDED, bins=_BINS)
def memory(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Allocated and reserved memory over time, and its peak."""
    holders = subject.rows("memory_peak", top=_HOLDERS)
    if holders.is_empty():
        return None
    first = _peak(holders).row(0, named=True)
    rows = rows.drop("trace_id").filter(
        device_type=first["device_type"], device_id=first["device_id"]
    )
    rows = subject.since_start(rows, "start_ns", "end_ns")
    reserved = (
        f", of {size(first['reserved_bytes'])} reserved then" if first["reserved_bytes"] else ""
    )
    return Figure(
        f"At most {size(first['peak_bytes'])} were allocated"
        f"{reserved}, {duration(first['peak_at_ns'] - subject.window.start_ns)} after the window's "
        "start. The band spans the least and the most allocated memory.",
        rows,
        _over_time(rows),
        title=f"Memory of {_device(first)} over time",
        shows=["min_allocated_bytes", "max_allocated_bytes"],
    )


@figure("memory_peak", unless=_UNRECORDED, top=_HOLDERS)
def holders(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The operators that allocated the memory live at the peak."""
    rows = _peak(rows)
    first = rows.row(0, named=True)
    holder = "Memory allocated before the recording"
    if first["tensors"] is not None:
        holder = charts.shown_name(first["operator"])
    return Figure(
        f"{holder} holds {size(first['live_bytes'])} of the peak of "
        f"{size(first['peak_bytes'])} ({share(first['live_bytes'], first['peak_bytes'])}).",
        subject.since_start(rows, "peak_at_ns"),
        _bars(rows, "operator", _PEAK, "tensors:Q|,"),
        title=f"Memory at the peak of {_device(first)}",
        shows=["operator"],
    )


@figure("copies", "Copies by direction", unless="no_copies", top=_COPIES)
def copies(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Copies by direction, with their bandwidth and their callers."""
    kinds = rows.group_by("copy_kind").agg(pl.col("count", "bytes", "total_ns").sum())
    first = kinds.sort("total_ns", "copy_kind", descending=[True, False]).row(0, named=True)
    per_s = 1e9 * first["bytes"] / first["total_ns"] if first["total_ns"] else 0
    speed = f" at {size(per_s)}/s" if per_s else ""
    blocking = int(rows["blocking_count"].sum())
    waited = counted(blocking, "copy", "copies")
    says = f" {waited} kept the host waiting until done." if blocking else ""
    return Figure(
        f"{first['copy_kind']} takes most: {counted(first['count'], 'copy', 'copies')}, "
        f"{size(first['bytes'])} in {duration(first['total_ns'])}{speed}.{says}",
        without_empty(rows.drop("trace_id")),
    )


@figure("memory_sites", "Memory at the peak, by line", unless=_UNRECORDED, top=_HOLDERS)
def memory_sites(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The call sites that hold the memory at the peak."""
    return _sites(rows, _PEAK)


@figure(
    "memory_sites", "Memory at the end, by line", unless=_UNRECORDED, top=_HOLDERS,
    moment="end",
)  # fmt: skip
def memory_left(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The call sites whose memory is never freed."""
    return _sites(rows, _END)


@figure("memory_roles", "Memory at the peak, by role", unless=_UNRECORDED)
def memory_roles(subject: Subject, rows: pl.DataFrame) -> Figure:
    """What held the peak: parameters, gradients, activations ..., and how that is known."""
    held = rows.group_by("role", "device_id", maintain_order=True).agg(
        pl.sum("live_bytes", "share_of_live")
    )
    first = held.sort("live_bytes", descending=True, maintain_order=True).row(0, named=True)
    rows = rows.drop("peak_bytes", "peak_at_ns", "peak_phase", "peak_place")
    return Figure(
        f"The largest role, {first['role']}, holds {size(first['live_bytes'])} of device "
        f"{first['device_id']}: {percent(first['share_of_live'])} of what was {_PEAK}. A role is "
        "known by its stack and lifetime.",
        informative(rows),
        _bars(rows, "role", _PEAK, "place:N", "evidence:N", "allocations:Q|,"),
    )


@figure("memory_growth", "Allocated again and again, never freed", unless=_UNRECORDED)
def memory_growth(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Call sites whose allocations stay, pass for pass."""
    first = rows.row(0, named=True)
    return Figure(
        f"{charts.shown_name(first['place'])} made "
        f"{counted(first['allocations'], 'allocation')} over "
        f"{counted(first['passes'], 'forward pass', 'forward passes')}; none was freed: "
        f"{size(first['live_bytes'])}.",
        informative(rows),
    )


@figure("memory_flame", "Memory at the peak, by call path", unless=_UNRECORDED)
def memory_flame(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """The memory that is live at the peak, by the call paths that allocated it."""
    inner = rows.filter(pl.col("kind") == "frame").sort("live_bytes", "depth", descending=True)
    if inner.is_empty():
        return None
    control = frames_control(rows, ("memory", "live_bytes"))
    rows = rows.select("depth", "name", "kind", "allocations", "live_bytes", "from_bytes")
    total = int(rows.filter(depth=0)["live_bytes"].sum())
    first = inner.row(0, named=True)
    shades = {"device": colors.KINDS["thread"], "frame": colors.KINDS["python"]}
    chart = frames_chart(
        rows, charts.shades("kind", shades), ["allocations:Q|,"], begin="from_bytes",
        length="live_bytes", measures=["live_bytes=live at the peak"],
    )  # fmt: skip
    says = (
        f"Calls of {charts.shown_name(first['name'])} hold {size(first['live_bytes'])}: "
        f"{share(first['live_bytes'], total)} of the {size(total)} that were recorded and are "
        f"{_PEAK}. Click a frame to zoom in."
    )
    return Figure(says, rows, chart, control, shows=["live_bytes"])


@figure(
    "largest_allocations", "The largest allocations at the peak", unless=_UNRECORDED, top=_LARGEST
)
def largest_allocations(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Single allocations that are live at the peak, the largest first."""
    first = rows.row(0, named=True)
    rows = subject.since_start(rows, "start_ns", "end_ns").with_columns(address=_HEX)
    return Figure(
        f"The largest takes {size(first['allocated_bytes'])}: {charts.shown_name(first['place'])}.",
        informative(rows),
    )


@figure("fragmentation", "Reserved memory by pool")
def fragmentation(subject: Subject, rows: pl.DataFrame) -> Figure:
    """How reserved memory divides into memory in use, rounding, and free blocks."""
    reserved, free = int(rows["segment_bytes"].sum()), int(rows["free_bytes"].sum())
    return Figure(
        f"{size(free)} of {size(reserved)} reserved ({share(free, reserved)}) are free, in "
        f"{counted(int(rows['free_blocks'].sum()), 'piece')}, the largest of "
        f"{size(int(rows['largest_free_bytes'].max()))}: "  # type: ignore[arg-type]
        "a larger allocation needs another segment.",
        rows,
    )


@figure("memory_segments", "Segments with the most free memory", top=100)
def memory_segments(subject: Subject, rows: pl.DataFrame) -> Figure:
    """How each segment is filled."""
    rows = informative(rows).with_columns(segment=_HEX).drop("address")
    base = alt.Chart(rows).transform_fold(["used_bytes", "free_bytes"], as_=["part", "part_bytes"])
    chart = charts.bars(
        base.transform_calculate(color="datum.part == 'used_bytes' ? 'allocated' : 'idle'"),
        charts.x("part_bytes", "in use, and free", 6),
        alt.Y("segment:N", sort=None, title=None),
        charts.color(["allocated", "idle"], "memory"),
        16 * len(rows) + 30,
        "segment:N", "segment_bytes=whole", "part_bytes=in this part",
        "largest_free_bytes=largest free",
    )  # fmt: skip
    first = rows.row(0, named=True)
    return Figure(
        f"The segment with most has {size(first['free_bytes'])} free of "
        f"{size(first['segment_bytes'])}.",
        rows,
        chart,
        shows=["segment"],
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


def _sites(rows: pl.DataFrame, live: str) -> Figure:
    held = rows.group_by("place", "device_type", "device_id", maintain_order=True).agg(
        pl.sum("live_bytes", "share_of_live", "allocations")
    )
    first = held.sort("live_bytes", descending=True, maintain_order=True).row(0, named=True)
    rows = informative(rows)
    operator = ["cpu_op:N=operator"] if "cpu_op" in rows.columns else []
    return Figure(
        f"{charts.shown_name(first['place'])} holds {size(first['live_bytes'])} in "
        f"{counted(first['allocations'], 'allocation')}: {percent(first['share_of_live'])} of what "
        f"was recorded and is {live}.",
        rows,
        _bars(rows, "place", live, *operator, "allocations:Q|,"),
        shows=["place"],
    )


def _peak(rows: pl.DataFrame) -> pl.DataFrame:
    """The holders of the highest peak of a device; without one, of the host's."""
    rows = rows.drop("trace_id").sort(
        pl.col("device_type") == _HOST, -pl.col("peak_bytes"), "device_type", "device_id",
        -pl.col("live_bytes"), "operator",
    )  # fmt: skip
    first = rows.row(0, named=True)
    return rows.filter(device_type=first["device_type"], device_id=first["device_id"])


def _device(row: dict[str, int]) -> str:
    return "the host" if row["device_type"] == _HOST else f"device {row['device_id']}"


def _over_time(rows: pl.DataFrame) -> alt.TopLevelMixin:
    base = alt.Chart(rows).transform_filter(charts.OF_CHOSEN_STEP)
    tips = (
        "start_ns=at", "min_allocated_bytes=allocated, least",
        "max_allocated_bytes=allocated, most", "max_reserved_bytes=reserved", "step:N",
    )  # fmt: skip
    x, y = charts.time("start_ns", 8), charts.y("bytes", "memory", 6)
    color = charts.color(["allocated", "reserved"], "memory", symbolOpacity=1)
    band = (
        base.transform_calculate(color="'allocated'")
        .mark_area(interpolate="step-after", opacity=0.35)
        .encode(
            x=x, y=alt.Y("min_allocated_bytes:Q"), y2=alt.Y2("max_allocated_bytes:Q"), color=color
        )
    )
    lines = (
        charts.with_tooltip(base, *tips)
        .transform_fold(["max_allocated_bytes", "max_reserved_bytes"], as_=["kind", "bytes"])
        .transform_filter("datum.kind == 'max_allocated_bytes' || datum.bytes > 0")
        .transform_calculate(color="datum.kind == 'max_allocated_bytes' ? 'allocated' : 'reserved'")
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x=x, y=y, color=color)
    )
    peak = (
        base.transform_window(
            place="row_number()", sort=[alt.SortField("max_allocated_bytes", "descending")]
        )
        .transform_filter("datum.place == 1")
        .transform_calculate(peak="'peak ' + " + charts.size_of("datum.max_allocated_bytes"))
        .encode(x=x, y=alt.Y("max_allocated_bytes:Q"))
    )
    dot = charts.with_tooltip(peak, *tips).mark_point(filled=True, size=60, color=charts.PLAIN)
    at = "scale('x', datum.start_ns)"
    align = alt.ExprRef(f"{at} < 60 ? 'left' : {at} > width - 60 ? 'right' : 'center'")
    text = peak.mark_text(dy=-10, align=align).encode(text=alt.Text("peak:N"))
    return charts.sized([band, lines, dot, text], 170, charts.CHOSEN_STEP)


def _bars(rows: pl.DataFrame, column: str, live: str, *tips: str) -> alt.TopLevelMixin:
    """A bar for each operator or call site: the memory that it holds."""
    names = charts.names(column, rows[column].to_list(), "-x")
    color, height = alt.value(colors.of("allocated")), 22 * rows[column].n_unique() + 20
    x, tips = charts.x("live_bytes", live, 6), (f"{column}:N", f"live_bytes={live}", *tips)
    return charts.bars(alt.Chart(rows), x, names, color, height, *tips)
