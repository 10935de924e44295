"""The flame graph: call paths of modules, Python lines and operators."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration

# Above this many events, the graph is of the interval that the timeline draws.
_LARGE = 600_000
_ROW = 17


def _between(subject: Subject) -> dict[str, int]:
    """The interval, if the whole trace is too large."""
    if subject.analysis.trace.events <= _LARGE or subject.interval is None:
        return {}
    return subject.interval.bounds


@figure("flame_graph", given=_between)
def flame(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Host time or GPU time by call path."""
    rows = rows.select(
        "depth", "name", "kind", "count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns"
    )
    inner = rows.filter(pl.col("kind") != "thread").sort("host_ns", descending=True)
    first = inner.row(0, named=True) if len(inner) else rows.row(0, named=True)
    kinds = rows["kind"].unique(maintain_order=True).to_list()
    shades = {kind: colours.KINDS.get(kind, colours.of("unknown")) for kind in kinds}
    chart = frames_chart(rows, charts.shades("kind", shades), ["kind:N=kind", "count:Q=count"])
    is_part = bool(_between(subject)) and subject.interval
    return Figure(
        f"{first['name'][:60]} has the longest time on the host: {duration(first['host_ns'])} "
        "with all that it calls. Click on a frame to look into it.",
        rows,
        chart,
        frames_control(rows),
        f"Call paths of {is_part.name if is_part else 'the trace'}",
    )


def frames_control(rows: pl.DataFrame) -> dict[str, object]:
    """What the page's script needs of a chart of frames."""
    return {"kind": "flame", "measures": 2 if rows["gpu_ns"].sum() else 1}


def frames_chart(
    rows: pl.DataFrame,
    colour: alt.Color,
    more_tips: Sequence[str],
    begin: str = "(measure == 'gpu' ? datum.gpu_from_ns : datum.host_from_ns)",
    length: str = "(measure == 'gpu' ? datum.gpu_ns : datum.host_ns)",
    measures: Sequence[str] = ("time:N", "gpu:N=GPU time inside"),
    **computed: str,
) -> alt.TopLevelMixin:
    """Frames with `depth`, `name`, and begin and length by host and by GPU time, or others.

    The parameter `measure` chooses between the two; `from` and `to` zoom. `measures` and
    `more_tips` are lines of the tooltip, and `computed` columns by their Vega expressions.
    """
    laid = (
        alt.Chart(rows)
        .transform_calculate(begin=begin, length=length)
        .transform_calculate(end="datum.begin + datum.length")
        .transform_filter("datum.length > 0")
        .transform_filter("to <= from || (datum.end > from && datum.begin < to)")
        .transform_calculate(
            left="to > from ? max(datum.begin, from) : datum.begin",
            right="to > from ? min(datum.end, to) : datum.end",
            **charts.durations(time="length", gpu="gpu_ns"),
            top="-datum.depth",
            bottom="-datum.depth - 0.94",
            **computed,
        )
    )
    base = laid.encode(
        x=alt.X("left:Q", title=None, axis=None, scale=alt.Scale(zero=False, nice=False)),
        tooltip=charts.tips("name:N", *measures, *more_tips),
    )
    frames = base.mark_rect(stroke=None, cursor="pointer").encode(
        y=alt.Y("top:Q", axis=None, title=None), y2="bottom:Q", x2="right:Q", color=colour
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
    chosen = {"measure": "host", "from": 0, "to": 0}
    params = [alt.param(name=name, value=value) for name, value in chosen.items()]
    depth = int(rows["depth"].max()) + 1  # type: ignore[arg-type]
    return charts.sized((frames + labels).add_params(*params), min(_ROW * depth, 700))
