"""What the charts of several traces share: a lane for each, colours of amounts, their height."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.ranks import Ranks

# Cells of a matrix with at most so many columns and rows are labelled.
_LABELLED = 16
# The names of at most so many columns stand level.
FEW = 8
_LANE, _HIGHEST = 26, 620


def across(names: pl.Series) -> alt.Axis:
    """The axis of a matrix; the names of few columns stand level."""
    axis = alt.Axis(labelOverlap=True)
    return alt.Axis(labelOverlap=True, labelAngle=0) if names.n_unique() <= FEW else axis


def lane(ranks: Ranks, column: str) -> alt.Y:
    axis = alt.Axis(labelOverlap=True, labelLimit=160)
    return alt.Y(f"{column}:N", title=None, sort=list(ranks.names.values()), axis=axis)


def amount(column: str) -> alt.Color:
    scale = alt.Scale(scheme=colours.AMOUNTS)
    return alt.Color(f"{column}:Q", title=None, scale=scale, legend=legend())


def legend(**options: Any) -> alt.Legend:
    text = charts.duration_of("datum.value")
    return alt.Legend(orient="top", labelExpr=text, gradientLength=260, **options)


def height(ranks: Ranks) -> int:
    return min(_HIGHEST, max(2 * _LANE, _LANE * len(ranks)))


def is_labelled(ranks: Ranks, columns: pl.Series) -> bool:
    return len(ranks) <= _LABELLED and columns.n_unique() <= _LABELLED


def step_number(step: str) -> int | None:
    """The number of a profiler step, such as 3 in ProfilerStep#3."""
    number = step.rpartition("#")[2]
    return int(number) if number.isdecimal() else None


def left_out_text(count: int, what: str) -> str:
    """A sentence that tells what a figure does not show."""
    return f" {count:,} {what} are left out." if count > 0 else ""
