"""Kernels: which take the device's time, and how near they come to what it could do."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration, percent

_KERNELS, _OF_STEP, _DOTS = 300, 40, 400
# Rows of kernels by step, at most.
_MOST = 3_000


def kernels(subject: Subject) -> Figure | None:
    """All kernels by name, over the trace and in each step."""
    rows = subject.rows("top_kernels", top=_KERNELS)
    if not len(rows):
        return None
    columns = ["name", "class", "count", "total_ns", "mean_ns", "max_ns"]
    share = rows["share_of_kernel_time"].round(6)
    rows = rows.select(*columns, "cpu_op").with_columns(
        kernel_time_share=share, step=pl.lit(None, pl.String)
    )
    by_step = subject.rows("kernels_by_step", top=_OF_STEP)
    if len(by_step) <= _MOST:
        named = by_step.select(*columns, step=pl.format("ProfilerStep#{}", "step"))
        rows = pl.concat([rows, named], how="diagonal_relaxed")
    first = rows.row(0, named=True)
    few = f"The first {_KERNELS} kernels. " if len(share) == _KERNELS else ""
    return Figure(
        name="kernels",
        title="Kernels by name",
        says=f"{few}{first['name'][:60]} takes most: {duration(first['total_ns'])}, "
        f"{percent(first['kernel_time_share'])} of the summed kernel time.",
        rows=rows,
        source=subject.source("top_kernels", top=_KERNELS),
        doubts=subject.doubts("top_kernels"),
        control={"step": "own"},
    )


def roofline(subject: Subject) -> Figure | None:
    """Every operator's work against the device's roofs."""
    rows = subject.rows("roofline", top=_DOTS)
    rows = rows.filter((pl.col("flops") > 0) & (pl.col("moved_bytes") > 0) & (pl.col("gpu_ns") > 0))
    if not len(rows):
        return None
    rows = rows.select(
        "operator", "shapes", "format", "calls", "gpu_ns", "tflop_per_s", "gb_per_s", "bound",
        roof_share="share_of_roof",
        flops_per_byte=pl.col("flops") / pl.col("moved_bytes"),
        math_peak=pl.col("flops") / pl.col("math_ns") / 1e3,
        memory_peak=pl.col("moved_bytes") / pl.col("memory_ns") / 1e3,
    )  # fmt: skip
    rows = rows.with_columns(
        colour=pl.col("bound").replace({"memory": "memory-bandwidth"}).fill_null("unknown"),
        kind=pl.lit("dot"),
    )
    roofs = _roofs(rows)
    known = "" if roofs else " The device's peaks are not known, so no roof is drawn (--hardware)."
    limits = rows.group_by("bound").agg(ns=pl.col("gpu_ns").sum()).sort("ns", descending=True)
    total = int(rows["gpu_ns"].sum())
    told = ", ".join(
        f"{percent(row['ns'] / total)} {row['bound'] or 'unknown'}"
        for row in limits.iter_rows(named=True)
    )
    drawn = pl.concat([rows, *roofs], how="diagonal_relaxed")
    return Figure(
        name="roofline",
        title="Roofline",
        says="Each dot is an operator with its shapes, as large as its time. Time by what limits "
        f"it: {told}.{known}",
        rows=drawn,
        source=subject.source("roofline", top=_DOTS),
        chart=_roofline(drawn),
        doubts=subject.doubts("roofline"),
    )


def _roofs(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """The ends and the ridge of each roof that the work is held against."""
    known = rows.filter(pl.col("math_peak").is_finite() & pl.col("memory_peak").is_finite())
    if not len(known):
        return []
    low = min(known["flops_per_byte"].min(), 0.1)  # type: ignore[type-var]
    high = max(known["flops_per_byte"].max(), 1000)  # type: ignore[type-var]
    found = []
    for name, peak in known.group_by("format").agg(pl.col("math_peak").median()).rows():
        memory = known["memory_peak"].median()
        ridge = peak / memory
        points = [(low, low * memory), (ridge, peak), (max(high, ridge), peak)]  # type: ignore
        found.append(
            pl.DataFrame(
                [
                    {"kind": "roof", "format": name, "flops_per_byte": x, "tflop_per_s": y}
                    for x, y in points
                ]
            )
        )
    return found


def _roofline(rows: pl.DataFrame) -> alt.TopLevelMixin:
    base = alt.Chart(rows).encode(
        x=alt.X(
            "flops_per_byte:Q", title="FLOPs per byte", scale=alt.Scale(type="log", nice=False)
        ),
        y=alt.Y("tflop_per_s:Q", title="TFLOP/s", scale=alt.Scale(type="log", nice=False)),
    )
    roofs = (
        base.transform_filter("datum.kind == 'roof'")
        .mark_line(color=colours.of("unknown"), strokeDash=[4, 3])
        .encode(detail="format:N", tooltip=[alt.Tooltip("format:N", title="roof")])
    )
    dots = (
        base.transform_filter("datum.kind == 'dot'")
        .transform_calculate(time=charts.duration_of("datum.gpu_ns"))
        .mark_circle(opacity=0.75)
        .encode(
            size=alt.Size("gpu_ns:Q", scale=alt.Scale(range=[15, 700]), legend=None),
            color=charts.colour(
                rows.filter(kind="dot")["colour"].to_list(), "limited by"
            ),
            tooltip=[
                "operator:N", "shapes:N", "format:N", "time:N", "calls:Q",
                alt.Tooltip("tflop_per_s:Q", format=".3~g", title="TFLOP/s"),
                alt.Tooltip("gb_per_s:Q", format=".3~g", title="GB/s"),
                alt.Tooltip("roof_share:Q", format=".1%", title="of the roof"),
            ],
        )
    )  # fmt: skip
    return charts.sized(roofs + dots, 320)
