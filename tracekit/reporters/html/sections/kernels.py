"""Kernels: a table, by step too, a roofline of what their operators reached, hardware counters."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.sections.steps import drawn_steps
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration, percent

# Rows of the table of kernels, shared by the trace and all its steps, and how many of each at most.
_ROWS = 4000
_MOST, _LEAST = 300, 10

# Operators with shapes in the roofline, those with the most GPU time.
_DOTS = 1000

# A roof is drawn as far beyond the outermost dot and the ridge.
_BEYOND = 2

# Where the axes have lines.
_DECADES = [10.0**exponent for exponent in range(-9, 10)]

# A question's word for the roof that limits, and the cause that has its colour.
_NEAR = {"math": "near the math roof", "memory": "near memory's", "latency": "far below both"}
_LIMITS = {"math": "math", "memory": "memory-bandwidth", "latency": "latency"}
# Rows of the table of counters.
_COUNTED = 5000


def kernels(subject: Subject) -> Figure | None:
    """All kernels with the time that they take, of the whole trace and of each step."""
    # No other step can be chosen.
    steps = [each.window.name for each in drawn_steps(subject)]
    top = max(_LEAST, min(_MOST, _ROWS // (1 + len(steps))))
    rows = subject.rows("step_kernels", top=top).drop("trace_id")
    rows = rows.filter(pl.col("step").is_null() | pl.col("step").is_in(steps))
    whole = rows.filter(pl.col("step").is_null())
    if whole.is_empty():
        return None
    first = whole.row(0, named=True)
    says = (
        f"Of all kernel time, {percent(first['share_of_kernel_time'])} is in "
        f"{first['name'][:60]}, which ran {first['count']:,} times for "
        f"{duration(first['mean_ns'])} on average."
    )
    if (shown := float(whole["share_of_kernel_time"].sum())) < 1 and len(whole) == top:
        says += f" The {top} longest are listed: {percent(shown)} of the time."
    return Figure(
        name="kernels",
        title="Kernels by GPU time",
        says=says,
        rows=rows,
        source=subject.source("step_kernels", top=top),
        doubts=subject.doubts("step_kernels"),
        control={"step": "own"},
    )


def roofline(subject: Subject) -> Figure | None:
    """Each operator with its shapes: the rate that it reached, below the device's roofs."""
    if subject.device_id is None:
        return None
    lacking = [code for code in ("no_shapes", "unknown_device") if subject.lacks(code)]
    rows = None if lacking else subject.rows("roofline", top=_DOTS).drop("trace_id")
    if rows is not None:
        rows = rows.filter(
            pl.col("device_id") == subject.device_id,
            pl.col("flops") > 0,
            pl.col("moved_bytes") > 0,
            pl.col("bound").is_not_null(),
        )
        if rows.is_empty():
            return None
    title = "Roofline: what operators reach, and what the device could"
    if rows is None:
        absent = subject.absent().filter(pl.col("code").is_in(lacking))
        reasons = "; ".join(absent["message"])
        return Figure(
            name="roofline",
            title=title,
            says=f"Not drawn: {reasons}.",
            rows=absent,
            source=subject.source("missing"),
        )
    first = rows.row(0, named=True)
    spent = int(rows["gpu_ns"].sum())
    of_limit = dict(rows.group_by("bound").agg(pl.col("gpu_ns").sum()).iter_rows())
    split = ", ".join(
        f"{percent(of_limit[limit] / spent)} {words}"
        for limit, words in _NEAR.items()
        if limit in of_limit
    )
    return Figure(
        name="roofline",
        title=title,
        says=f"{first['operator'][:60]} takes most: {duration(first['gpu_ns'])}, at "
        f"{percent(first['share_of_roof'])} of its roof. "
        f"Of {duration(spent)} with known work, {split}.",
        rows=rows,
        source=subject.source("roofline", top=_DOTS),
        chart=_roofs(rows),
        doubts=subject.doubts("roofline"),
    )


def _roofs(rows: pl.DataFrame) -> alt.TopLevelMixin:
    limits = [cause for limit, cause in _LIMITS.items() if limit in set(rows["bound"])]
    base = alt.Chart(rows).transform_calculate(
        intensity="datum.flops / datum.moved_bytes",
        limit="datum.bound == 'memory' ? 'memory-bandwidth' : datum.bound",
    )
    scale = alt.Scale(type="log", nice=False, padding=14)
    x = alt.X(
        "intensity:Q", title="FLOPs per byte", scale=scale,
        axis=alt.Axis(format="~g", values=_DECADES),
    )  # fmt: skip
    y = alt.Y(
        "tflop_per_s:Q", title="TFLOP per second", scale=scale,
        axis=alt.Axis(format="~g", values=_DECADES),
    )  # fmt: skip
    roofs = (
        base.transform_joinaggregate(least="min(intensity)", most="max(intensity)")
        .transform_aggregate(
            groupby=["format", "peak_tflop_per_s", "memory_gb_per_s", "least", "most"]
        )
        .transform_calculate(ridge="1000 * datum.peak_tflop_per_s / datum.memory_gb_per_s")
        .transform_calculate(
            intensity=f"[min(datum.least, datum.ridge) / {_BEYOND}, datum.ridge, "
            f"max(datum.most, datum.ridge) * {_BEYOND}]",
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
    lines = roofs.mark_line(strokeWidth=1.5, color=charts.plain()).encode(
        x=x, y=y, detail=["format:N", "peak_tflop_per_s:Q"]
    )
    names = (
        roofs.transform_filter("datum.place == 'math'")
        .mark_text(align="right", dy=-7)
        .encode(x=x, y=y, text="roof:N")
    )
    memory = (
        roofs.transform_filter("datum.place == 'memory'")
        .mark_text(align="left", dx=6, dy=12)
        .encode(x=x, y=alt.Y("tflop_per_s:Q", aggregate="min"), text="memory:N")
    )
    dots = (
        base.transform_calculate(
            colour="datum.limit",
            gpu_time=charts.duration_of("datum.gpu_ns"),
            of_roof="format(datum.share_of_roof, '.1%')",
            shape_of="datum.shapes",
        )
        .mark_circle(opacity=0.75, stroke=charts.plain(), strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            size=alt.Size("gpu_ns:Q", legend=None, scale=alt.Scale(range=[20, 900])),
            color=charts.colour(limits, "nearest roof", symbolOpacity=1),
            tooltip=[
                alt.Tooltip("operator:N"),
                alt.Tooltip("shape_of:N", title="shapes"),
                alt.Tooltip("kernel:N"),
                alt.Tooltip("format:N"),
                alt.Tooltip("calls:Q", format=","),
                alt.Tooltip("gpu_time:N", title="GPU time"),
                alt.Tooltip("tflop_per_s:Q", title="TFLOP/s", format=".3~g"),
                alt.Tooltip("gb_per_s:Q", title="GB/s", format=",.3~r"),
                alt.Tooltip("of_roof:N", title="of its roof"),
                alt.Tooltip("bound:N", title="limited by"),
            ],
        )
    )
    return charts.sized(lines + dots + names + memory, 380)


def counters(subject: Subject) -> Figure | None:
    """A table of counted kernels."""
    if subject.lacks("no_counters"):
        return None
    rows = subject.rows("counter_ranges").drop("trace_id")
    if rows.is_empty():
        return None
    counted, names = rows["place"].n_unique(), sorted(rows["counter"].unique())
    cut = f" The first {_COUNTED:,} rows are listed." if len(rows) > _COUNTED else ""
    return Figure(
        name="counters",
        title="Hardware counters by kernel",
        says=f"{counted:,} kernels were counted, each with {', '.join(names[:4])}"
        f"{f' and {len(names) - 4} more' if len(names) > 4 else ''}.{cut}",
        rows=rows.head(_COUNTED),
        source=subject.source("counter_ranges"),
        doubts=subject.doubts("counter_ranges"),
    )
