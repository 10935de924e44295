"""Kernels: a table, by step too, a roofline of what their operators reached, hardware counters."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure
from tracekit.reporters.html.sections.steps import drawn_steps
from tracekit.reporters.html.subject import Subject
from tracekit.text import counted, duration, percent

# Rows of the table of kernels, shared by the trace and all its steps, and how many of each at most.
_ROWS = 4000
_MOST, _LEAST = 300, 10

# Operators with shapes in the roofline, those with the most GPU time.
_DOTS = 1000

# How far a roof goes beyond the outermost dot and the ridge; its name stands on the right.
_LEFT, _RIGHT = 2, 24

# Where the axes have lines.
_DECADES = [10.0**exponent for exponent in range(-9, 10)]

# A question's word for the roof that limits, and the cause that has its colour.
_NEAR = {"math": "near the math roof", "memory": "near memory's", "latency": "far below both"}
_LIMITS = {"math": "math", "memory": "memory-bandwidth", "latency": "latency"}
_ROOFLINE = "Roofline: what operators reach, and what the device could"
# Rows of the table of counters.
_COUNTED = 5000


def _top(subject: Subject) -> dict[str, int]:
    return {"top": max(_LEAST, min(_MOST, _ROWS // (1 + len(drawn_steps(subject)))))}


@figure("step_kernels", "Kernels by GPU time", _top)
def kernels(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """All kernels with the time that they take, of the whole trace and of each step."""
    # No other step can be chosen.
    steps = [each.window.name for each in drawn_steps(subject)]
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
    lacking = [code for code in ("no_shapes", "unknown_device") if subject.lacks(code)]
    if not lacking:
        return _measured(subject)
    absent = subject.findings_of("missing", "code", "message")
    absent = absent.filter(pl.col("code").is_in(lacking))
    says = f"Not drawn: {'; '.join(absent['message'])}."
    return Figure(says, pl.DataFrame(), title=_ROOFLINE, source=subject.source("missing"))


@figure("roofline", _ROOFLINE, top=_DOTS)
def _measured(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    rows = subject.of_device(rows.drop("trace_id")).filter(
        pl.col("flops") > 0, pl.col("moved_bytes") > 0, pl.col("bound").is_not_null()
    )
    if rows.is_empty():
        return None
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
        if len(far)
        else ""
    )
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
    lines = roofs.mark_line(strokeWidth=1.5, color=charts.plain()).encode(
        x=x, y=y, detail=["format:N", "peak_tflop_per_s:Q"]
    )
    names = roofs.transform_filter("datum.place == 'math'").mark_text(align="right", dy=-7)
    # Above the roofs on the left, no dot can be.
    memory = roofs.transform_filter("datum.place == 'memory'").mark_text(align="left", dx=6)
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
            tooltip=charts.tips(
                "operator:N", "shape_of:N=shapes", "kernel:N", "format:N", "calls:Q|,",
                "gpu_time:N=GPU time", "tflop_per_s:Q=TFLOP/s|.3~g", "gb_per_s:Q=GB/s|,.3~r",
                "of_roof:N=of its roof", "bound:N=limited by",
            ),
        )
    )  # fmt: skip
    labels = names.encode(x=x, y=y, text="roof:N")
    top = alt.Y("peak_tflop_per_s:Q", aggregate="max")
    whole = lines + dots + labels + memory.encode(x=x, y=top, text="memory:N")
    return charts.sized(whole, 290)


@figure(
    "counter_ranges",
    "Hardware counters by kernel",
    when=lambda subject: not subject.lacks("no_counters"),
)
def counters(subject: Subject, rows: pl.DataFrame) -> Figure:
    """A table of counted kernels."""
    rows = rows.drop("trace_id")
    counted, names = rows["place"].n_unique(), sorted(rows["counter"].unique())
    cut = f" The first {_COUNTED:,} rows are listed." if len(rows) > _COUNTED else ""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return Figure(
        f"{counted:,} kernels were counted, each with {', '.join(names[:4])}{more}.{cut}",
        rows.head(_COUNTED),
    )
