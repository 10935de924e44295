"""The device's work: kernels, rates of their operators, and hardware counters; and the host's work:
operators, Python, how far it runs ahead, and where it waits."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.sections.timeline import drawn_steps
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, percent

# Rows of the table of kernels, shared by the trace and all its steps, and how many of each at most.
_ROWS = 4000
_MOST, _LEAST = 300, 10

# The maximum number of operators in the roofline, by GPU time.
_DOTS = 1000

# How far a roof extends beyond the outermost dot and the ridge; its name is on the right.
_LEFT, _RIGHT = 2, 24

# Where the axes have lines.
_DECADES = [10.0**exponent for exponent in range(-9, 10)]

_DELAYS = [0, *(10**exponent for exponent in range(3, 12))]

# A question's word for the limiting roof, and the cause that determines its color.
_NEAR = {"math": "near the math roof", "memory": "near memory's", "latency": "far below both"}
_LIMITS = {"math": "math", "memory": "memory-bandwidth", "latency": "latency"}
_ROOFLINE = "Roofline: operators' rates, and the device's limits"
# Rows of the table of counters, and of those of the host.
_COUNTED, _LISTED = 5000, 100


def _top(subject: Subject) -> dict[str, int]:
    return {"top": max(_LEAST, min(_MOST, _ROWS // (1 + len(drawn_steps(subject)))))}


@figure("step_kernels", "Kernels by GPU time", _top)
def kernels(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """All kernels with the time that they take, of the whole trace and of each step."""
    # No other step can be chosen.
    steps = [step.window.name for step in drawn_steps(subject)]
    rows = rows.drop("trace_id").filter(pl.col("step").is_null() | pl.col("step").is_in(steps))
    whole = rows.filter(pl.col("step").is_null())
    if whole.is_empty():
        return None
    first = whole.row(0, named=True)
    says = (
        f"Of all kernel time, {percent(first['share_of_kernel_time'])} is in "
        f"{charts.shown_name(first['name'])}, which ran {first['count']:,} times for "
        f"{duration(first['mean_ns'])} on average."
    )
    listed = float(whole["share_of_kernel_time"].sum())
    if listed < 1 and len(whole) == _top(subject)["top"]:
        says += f" The {len(whole)} longest are listed: {percent(listed)} of the time."
    return Figure(says, rows, control={"step": "own"})


def roofline(subject: Subject) -> Figure | None:
    """Each operator with its shapes: the rate that it reached, below the device's roofs."""
    if subject.device_id is None:
        return None
    needs = ("no_shapes", "unknown_device")
    lacking = [row["message"] for row in subject.findings if row["code"] in needs]
    if not lacking:
        return _measured(subject)
    says = f"Not drawn: {'; '.join(lacking)}."
    return Figure(says, pl.DataFrame(), title=_ROOFLINE, source=subject.source("missing"))


_HAS_WORK = (pl.col("flops") > 0) & (pl.col("moved_bytes") > 0) & pl.col("bound").is_not_null()


@figure("roofline", _ROOFLINE, of_device=True, where=_HAS_WORK, top=_DOTS)
def _measured(subject: Subject, rows: pl.DataFrame) -> Figure:
    rows = rows.drop("trace_id")
    first = rows.row(0, named=True)
    spent = int(rows["gpu_ns"].sum())
    of_limit = dict(rows.group_by("bound").agg(pl.col("gpu_ns").sum()).iter_rows())
    split = ", ".join(
        f"{percent(of_limit[limit] / spent)} {words}"
        for limit, words in _NEAR.items()
        if limit in of_limit
    )
    lowest = charts.lowest_drawn(rows["tflop_per_s"], rows["gpu_ns"])
    far = rows.filter(pl.col("tflop_per_s") < lowest)
    below = (
        f" Not drawn, since they are far below all others: {counted(len(far), 'operator')} with "
        f"{percent(int(far['gpu_ns'].sum()) / spent)} of the time."
    ) * bool(len(far))
    return Figure(
        f"{charts.shown_name(first['operator'])} takes most: {duration(first['gpu_ns'])}, at "
        f"{percent(first['share_of_roof'])} of its roof. "
        f"Of {duration(spent)} with known work, {split}.{below}",
        rows,
        _roofs(rows, lowest),
    )


def _roofs(rows: pl.DataFrame, lowest: float) -> alt.TopLevelMixin:
    limits = [cause for limit, cause in _LIMITS.items() if limit in set(rows["bound"])]
    base = (
        alt.Chart(rows)
        .transform_filter(f"datum.tflop_per_s >= {lowest}")
        .transform_calculate(
            intensity="datum.flops / datum.moved_bytes",
            limit="datum.bound == 'memory' ? 'memory-bandwidth' : datum.bound",
        )
    )
    scale = alt.Scale(type="log", nice=False, padding=14)
    axis = alt.Axis(format="~g", values=_DECADES)
    x = alt.X("intensity:Q", title="FLOPs per byte", scale=scale, axis=axis)
    y = alt.Y("tflop_per_s:Q", title="TFLOP per second", scale=scale, axis=axis)
    roofs = (
        base.transform_joinaggregate(least="min(intensity)", most="max(intensity)")
        .transform_aggregate(
            groupby=["format", "peak_tflop_per_s", "memory_gb_per_s", "least", "most"]
        )
        .transform_calculate(ridge="1000 * datum.peak_tflop_per_s / datum.memory_gb_per_s")
        .transform_calculate(
            intensity=f"[min(datum.least, datum.ridge) / {_LEFT}, datum.ridge, "
            f"max(datum.most, datum.ridge) * {_RIGHT}]",
            place="['memory', 'ridge', 'math']",
        )
        .transform_flatten(["intensity", "place"])
        .transform_calculate(
            tflop_per_s="min(datum.peak_tflop_per_s, "
            "datum.intensity * datum.memory_gb_per_s / 1000)",
            roof="datum.format + ': ' + format(datum.peak_tflop_per_s, ',.3~r') + ' TFLOP/s'",
            memory="'memory: ' + format(datum.memory_gb_per_s, ',.0f') + ' GB/s'",
        )
    )
    lines = roofs.mark_line(strokeWidth=1.5, color=charts.PLAIN).encode(
        x=x, y=y, detail=[alt.Detail("format:N"), alt.Detail("peak_tflop_per_s:Q")]
    )
    names = roofs.transform_filter("datum.place == 'math'").mark_text(align="right", dy=-7)
    # Above the roofs on the left, no dot can be.
    memory = roofs.transform_filter("datum.place == 'memory'").mark_text(align="left", dx=6)
    with_tips = charts.with_tooltip(
        base.transform_calculate(
            color="datum.limit",
            of_roof="format(datum.share_of_roof, '.1%')",
            shape_of="datum.shapes",
        ),
        "operator:N", "shape_of:N=shapes", "kernel:N", "format:N", "calls:Q|,", "gpu_ns=GPU time",
        "tflop_per_s:Q=TFLOP/s|.3~g", "gb_per_s:Q=GB/s|,.3~r", "of_roof:N=of its roof",
        "bound:N=limited by",
    )  # fmt: skip
    dots = with_tips.mark_circle(opacity=0.75, stroke=charts.PLAIN, strokeWidth=0.5).encode(
        x=x,
        y=y,
        size=alt.Size("gpu_ns:Q", legend=None, scale=alt.Scale(range=[20, 900])),
        color=charts.color(limits, "nearest roof", symbolOpacity=1),
    )
    labels = names.encode(x=x, y=y, text=alt.Text("roof:N"))
    top = alt.Y("peak_tflop_per_s:Q", aggregate="max")
    of_memory = memory.encode(x=x, y=top, text=alt.Text("memory:N"))
    return charts.sized([lines, dots, labels, of_memory], 290)


@figure("counter_ranges", "Hardware counters by kernel", unless="no_counters")
def counters(subject: Subject, rows: pl.DataFrame) -> Figure:
    """A table of counted kernels."""
    rows = rows.drop("trace_id")
    kernels, names = rows["place"].n_unique(), sorted(rows["counter"].unique())
    cut = f" The first {_COUNTED:,} rows are listed." if len(rows) > _COUNTED else ""
    others = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return Figure(
        f"{counted(kernels, 'kernel')} counted, each with {', '.join(names[:4])}{others}.{cut}",
        rows.head(_COUNTED),
    )


@figure("launches_over_time", "From launch to start", of_device=True)
def delays(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Launch delays over time."""
    rows = subject.since_start(rows, "start_ns", "end_ns")
    if len(rows) < 2:
        return None
    named = {"delay_p50_ns": "median", "delay_p90_ns": "90th percentile"}
    rows = rows.unpivot(
        list(named), index=["start_ns", "launches"], variable_name="of", value_name="delay_ns"
    ).with_columns(of=pl.col("of").replace(named))
    launch = subject.analysis.launch
    of_all = duration(launch.first_delay_p50_ns) if launch else ""
    median = f" The median of all launches is {of_all}." if launch else ""
    shades = dict(zip(named.values(), colors.VARIANTS, strict=False))
    with_tips = charts.with_tooltip(alt.Chart(rows), "of:N", "delay_ns=delay", "launches:Q")
    scale = alt.Scale(type="symlog", constant=1000)
    y, color = (
        charts.y("delay_ns", "launch delay", _DELAYS, scale=scale),
        charts.shades("of", shades),
    )
    chart = with_tips.mark_line().encode(x=charts.time("start_ns"), y=y, color=color)
    says = (
        "Long delays mean that the host runs ahead and the device is busy; short ones that "
        f"the device takes each launch as it comes.{median}"
    )
    return Figure(says, rows, charts.sized(chart, 160), shows=["delay_ns"])


@figure("launches_over_time", "Launches queued", of_device=True)
def queue(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """How many launches were queued over time."""
    rows = subject.since_start(rows, "start_ns", "end_ns")
    if len(rows) < 2:
        return None
    rows = rows.select("start_ns", "end_ns", "depth_p50", "depth_max")
    base = charts.with_tooltip(alt.Chart(rows), "depth_p50:Q", "depth_max:Q").encode(
        x=charts.time("start_ns")
    )
    launch = colors.of("launch")
    areas = base.mark_area(interpolate="step-after", opacity=0.3, color=launch)
    lines = base.mark_line(interpolate="step-after", color=launch)
    most = alt.Y("depth_max:Q", title="launches queued", axis=alt.Axis(tickMinStep=1))
    empty, most_ever = rows.filter(pl.col("depth_p50") == 0).height, rows["depth_max"].max()
    says = (
        "The line is the median that a launch call finds queued, the area the most. In "
        f"{empty} of {len(rows)} parts of the time the median launch finds the queue empty."
    )
    return Figure(
        says if most_ever else "Each launch finds the queue empty.",
        rows,
        charts.sized([areas.encode(y=most), lines.encode(y=alt.Y("depth_p50:Q"))], 160),
        shows=["depth_p50", "depth_max"],
    )


@figure("top_cpu_ops", "Operators by their own time on the host", top=_LISTED)
def operators(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The cost of each operator on the host."""
    first = rows.row(0, named=True)
    says = f"{charts.shown_name(first['name'])} takes most: {duration(first['self_ns'])}."
    of_device = ("gpu_ops", "launches_per_call") if subject.device_id is None else ()
    return Figure(says, informative(rows.drop("is_metadata", *of_device)))


@figure("sync_points", "Where the host waits for the device", top=_LISTED)
def synchronizations(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The places in which the host waits for the device."""
    first = rows.row(0, named=True)
    place = first["python_line"] or first["cpu_op"] or first["call"]
    calls = counted(first["count"], "call")
    says = f"Most at {charts.shown_name(place)}: {duration(first['host_ns'])} in {calls}."
    return Figure(says, informative(rows))


@figure("python_time", "Python by its own time", top=_LISTED)
def python(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The time of Python lines outside operators."""
    says = "Time of Python functions outside the operators and functions that they call."
    return Figure(says, informative(rows))
