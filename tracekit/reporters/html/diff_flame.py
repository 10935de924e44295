"""The flame graph of differences: call paths of two runs, and which of the runs they cost more."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.sections.flame import frames_chart
from tracekit.text import duration

# "change" is the heading of change_ns in other tables.
_SHOWN = (
    "depth", "name", "kind", "change", "a_host_ns", "b_host_ns", "a_gpu_ns", "b_gpu_ns", "a_count",
    "b_count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns",
)  # fmt: skip

# Longer names are cut in the sentence.
_LONGEST_NAME = 60


def shown_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the rows of the query diff_flame, what the chart and its table show."""
    return rows.select(_SHOWN).rename({"change": "what changed"})


def sentence(rows: pl.DataFrame) -> str:
    """How to read the chart, and the longest path that only one run has."""
    told = (
        "A frame is as wide as its time per step in both runs together; its colour tells in which "
        "of them it takes longer. Click on a frame to look into it."
    )
    outer = rows.join(
        rows.filter(pl.col("change").is_in(["added", "removed"])).select(parent="node"),
        on="parent",
        how="anti",
    ).filter(pl.col("change").is_in(["added", "removed"]))
    if not len(outer):
        return told
    first = outer.sort("host_ns", descending=True).row(0, named=True)
    side = "b" if first["change"] == "added" else "a"
    name = first["name"]
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
    return (
        f"Of the paths that only one run has, {name} takes the longest: "
        f"{duration(first['host_ns'])} of the host per step in {side}. {told}"
    )


def differences_chart(rows: pl.DataFrame) -> alt.TopLevelMixin:
    """Frames by call path, coloured by which of the two runs they cost more."""
    colour = alt.Color(
        "more:Q",
        title=None,
        scale=alt.Scale(
            domain=[-1, 0, 1],
            range=[colours.CHANGE["shorter"], colours.UNCHANGED, colours.CHANGE["longer"]],
        ),
        legend=alt.Legend(
            orient="top",
            values=[-1, 0, 1],
            gradientLength=260,
            labelExpr="datum.value < 0 ? 'only in a' : datum.value > 0 ? 'only in b' : 'alike'",
        ),
    )
    told = {"in_a:N": "in a, per step", "in_b:N": "in b, per step", "kind:N": "kind"}
    told |= {"a_count:Q": "count in a", "b_count:Q": "count in b"}
    in_a, in_b = (
        f"(measure == 'gpu' ? datum.{side}_gpu_ns : datum.{side}_host_ns)" for side in "ab"
    )
    return frames_chart(
        rows,
        colour,
        told,
        in_a=charts.duration_of(in_a),
        in_b=charts.duration_of(in_b),
        more=f"({in_b} - {in_a}) / ({in_a} + {in_b})",
    )
