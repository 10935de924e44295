"""The flame graph: call paths of modules, Python lines and operators."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration

# Of a larger trace, only the interval is asked that the timeline draws.
_LARGE = 600_000
_ROW = 17


def flame(subject: Subject) -> Figure | None:
    """Host time or GPU time by call path."""
    between: dict[str, int] = {}
    of = "the trace"
    interval = subject.interval
    if subject.analysis.trace.events > _LARGE and interval is not None:
        between = {"from_ns": interval.start_ns, "to_ns": interval.end_ns}
        of = interval.name
    rows = subject.rows("flame_graph", **between)
    if not len(rows):
        return None
    rows = rows.select(
        "depth", "name", "kind", "count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns"
    )
    inner = rows.filter(pl.col("kind") != "thread").sort("host_ns", descending=True)
    first = inner.row(0, named=True) if len(inner) else rows.row(0, named=True)
    return Figure(
        name="flame",
        title=f"Call paths of {of}",
        says=f"{first['name'][:60]} has the longest time on the host: {duration(first['host_ns'])} "
        "with all that it calls. Click on a frame to look into it.",
        rows=rows,
        source=subject.source("flame_graph", **between),
        chart=frames_chart(rows, _by_kind(rows), {"kind:N": "kind", "count:Q": "count"}),
        doubts=subject.doubts("flame_graph"),
        control={
            "kind": "flame",
            "measures": 2 if rows["gpu_ns"].sum() else 1,
        },
    )


def frames_chart(
    rows: pl.DataFrame, colour: alt.Color, told: Mapping[str, str], **computed: str
) -> alt.TopLevelMixin:
    """Frames with `depth`, `name`, and begin and length by host and by GPU time.

    The parameter `measure` chooses between the two; `from` and `to` zoom. `told` are more columns
    of the tooltip with their titles, and `computed` columns by their Vega expressions.
    """
    params = [
        alt.param(name="measure", value="host"),
        alt.param(name="from", value=0),
        alt.param(name="to", value=0),
    ]
    begin = "(measure == 'gpu' ? datum.gpu_from_ns : datum.host_from_ns)"
    length = "(measure == 'gpu' ? datum.gpu_ns : datum.host_ns)"
    laid = (
        alt.Chart(rows)
        .transform_calculate(begin=begin, length=length)
        .transform_calculate(end="datum.begin + datum.length")
        .transform_filter("datum.length > 0")
        .transform_filter("to <= from || (datum.end > from && datum.begin < to)")
        .transform_calculate(
            left="to > from ? max(datum.begin, from) : datum.begin",
            right="to > from ? min(datum.end, to) : datum.end",
            time=charts.duration_of("datum.length"),
            gpu=charts.duration_of("datum.gpu_ns"),
            top="-datum.depth",
            bottom="-datum.depth - 0.94",
            **computed,
        )
    )
    base = laid.encode(
        x=alt.X("left:Q", title=None, axis=None, scale=alt.Scale(zero=False, nice=False)),
        tooltip=[
            "name:N",
            "time:N",
            alt.Tooltip("gpu:N", title="GPU time inside"),
            *(alt.Tooltip(column, title=title) for column, title in told.items()),
        ],
    )
    frames = base.mark_rect(stroke=None, cursor="pointer").encode(
        y=alt.Y("top:Q", axis=None, title=None),
        y2="bottom:Q",
        x2="right:Q",
        color=colour,
    )
    labels = (
        base.transform_calculate(middle="-datum.depth - 0.47")
        .mark_text(
            align="left", dx=3, fontSize=10, color="black", baseline="middle",
            limit=alt.ExprRef("max(1, scale('x', datum.right) - scale('x', datum.left) - 5)"),
            opacity=alt.ExprRef("scale('x', datum.right) - scale('x', datum.left) > 24 ? 1 : 0"),
        )
        .encode(y="middle:Q", text="name:N")
    )  # fmt: skip
    depth = int(rows["depth"].max()) + 1  # type: ignore[arg-type]
    return charts.sized((frames + labels).add_params(*params), min(_ROW * depth, 700))


def _by_kind(rows: pl.DataFrame) -> alt.Color:
    kinds = rows["kind"].unique(maintain_order=True).to_list()
    shades = [colours.KINDS.get(kind, colours.of("unknown")) for kind in kinds]
    return alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=shades),
        title=None,
        legend=alt.Legend(orient="top"),
    )
