"""The flame graph: call paths of modules, Python lines and operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure
from tracekit.reporters.html.subject import Subject

# Above this many events, the graph covers only the timeline's interval.
_LARGE = 600_000
_ROW = 17
_HIGHEST = 560
_HOST, _GPU = ("host time", "host_ns"), ("GPU time launched", "gpu_ns")


def _drawn(subject: Subject) -> tuple[str, dict[str, int]]:
    """The name and the bounds of the verdict's window; where it is the device's, of all of the
    trace that the host spent before and beside it, or in a large one of the timeline's interval."""
    window = subject.window
    if window.kind in ("step", "range"):
        return window.name, {"from_ns": window.start_ns, "to_ns": window.end_ns}
    if subject.analysis.trace.events <= _LARGE or subject.interval is None:
        return "the trace", {}
    return subject.interval.name, subject.interval.bounds


@figure("flame_graph", given=lambda subject: _drawn(subject)[1])
def flame(subject: Subject, rows: pl.DataFrame) -> Figure | None:
    """Host time or GPU time by call path."""
    if not rows["host_ns"].sum():
        return None
    control = frames_control(rows)
    rows = rows.select(
        "depth", "name", "kind", "count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns"
    )
    kinds = rows["kind"].unique(maintain_order=True).to_list()
    shades = {kind: colors.KINDS.get(kind, colors.of("unknown")) for kind in kinds}
    # Kinds of little host time may have much of the device's.
    values = charts.listed(rows, "kind", pl.max_horizontal("host_ns", "gpu_ns"))
    by_kind = charts.shades("kind", shades, values=values, labelExpr=charts.WORDS)
    chart = frames_chart(rows, by_kind, ["kind:N=kind", "count:Q=count"])
    says = "Work that begins in the verdict's window."
    if subject.window.kind not in ("step", "range"):
        says = f"The verdict is on the {subject.window.name}."
    if rows["gpu_ns"].sum():
        says += " By GPU time, kernels are the leaves below the calls that launch them"
        replayed = ", of graphs below the modules and operators that their replays ran"
        says += (replayed if "replayed" in kinds else "") + "."
    return Figure(says, rows, chart, control, f"Call paths of {_drawn(subject)[0]}", wide=True)


def frames_control(rows: pl.DataFrame, *measures: tuple[str, str]) -> dict[str, Any]:
    """Settings of a chart of frames for the page's script: their tree, and the frames to hide."""
    at = {node: number for number, node in enumerate(rows["node"])}
    shown = [each for each in measures or (_HOST, _GPU) if rows[each[1]].sum()]
    marked: dict[str, Any] = {
        name: [n for n, is_so in enumerate(rows[column]) if is_so] if column in rows.columns else []
        for name, column in (("library", "is_library"), ("waits", "is_wait"))
    }
    parents = [at.get(parent, -1) for parent in rows["parent"]]
    return {"kind": "flame", "measures": shown, "parents": parents} | marked


def frames_chart(
    rows: pl.DataFrame,
    color: alt.Color,
    more_tips: Sequence[str],
    begin: str = "host_from_ns",
    length: str = "host_ns",
    measures: Sequence[str] = ("host_ns=host time", "gpu_ns=GPU time inside"),
    **computed: str,
) -> alt.TopLevelMixin:
    """Frames with `depth`, `name`, and the columns of their begin and length; the page's script
    lays them out anew, as the reader chooses.

    `measures` and `more_tips` are lines of the tooltip, and `computed` columns by their Vega
    expressions.
    """
    laid = (
        alt.Chart(rows)
        .transform_calculate(
            begin=f"isValid(datum.begin) ? datum.begin : datum.{begin}",
            length=f"isValid(datum.length) ? datum.length : datum.{length}",
            label="isValid(datum.label) ? datum.label : datum.name",
            **computed,
        )
        .transform_filter("datum.length > 0")
        .transform_calculate(
            end="datum.begin + datum.length", top="-datum.depth", bottom="-datum.depth - 0.94"
        )
    )
    base = charts.with_tooltip(laid, "name:N", *measures, *more_tips).encode(
        x=alt.X("begin:Q", title=None, axis=None, scale=alt.Scale(zero=False, nice=False)),
        opacity=alt.OpacityValue(**alt.condition("datum.faint", alt.value(0.3), alt.value(1))),
    )
    frames = base.mark_rect(stroke=None, cursor="pointer").encode(
        y=alt.Y("top:Q", axis=None, title=None, scale=alt.Scale(nice=False)),
        y2=alt.Y2("bottom:Q"),
        x2=alt.X2("end:Q"),
        color=color,
    )
    room = "scale('x', datum.end) - scale('x', datum.begin)"
    labels = (
        base.transform_calculate(middle="-datum.depth - 0.47")
        .mark_text(
            align="left", dx=3, fontSize=10, color="black", baseline="middle",
            limit=alt.ExprRef(f"max(1, {room} - 5)"),
        )
        .encode(y=alt.Y("middle:Q"), text=alt.Text("label:N"),
                opacity=alt.OpacityValue(
                    **alt.condition(f"{room} > 24", alt.value(1), alt.value(0))))
    )  # fmt: skip
    depth = int(rows["depth"].max()) + 1  # type: ignore[arg-type]
    return charts.sized([frames, labels], min(_ROW * depth, _HIGHEST))
