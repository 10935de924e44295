"""The steps of several traces: how long each is, who waits in it, and what bounds it."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.rank_charts import (
    FEW,
    across,
    amount,
    height,
    is_labelled,
    lane,
    left_out_text,
    step_number,
)
from tracekit.reporters.html.ranks import MOST_CELLS, WAITS, Ranks
from tracekit.text import duration
from tracekit.verdict.regime import UNKNOWN

# What the cells of the matrix of steps can show.
_SHOWN = {
    "how long others waited for it": "held_up_ns",
    "how long it waited for others": "waited_ns",
    "length of the step": "step_ns",
}


def cells_of(ranks: Ranks) -> pl.DataFrame:
    """A row for each rank and step."""
    waits = {(row["trace_id"], row["step"]): row for row in ranks.stragglers.iter_rows(named=True)}
    rows = []
    for each in ranks.analyses:
        trace = each.trace.trace_id
        for period in {period.window.name: period for period in each.steps}.values():
            number = step_number(period.window.name)
            found = waits.get((trace, number), {})
            rows.append(
                {"rank": ranks.names[trace], "step": period.window.name, "number": number}
                | {name: found.get(name) for name in WAITS[:3]}
                | {"step_ns": period.window.span_ns, "regime": period.regime}
                | {"bottleneck": period.bottleneck}
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _fitting(ranks: Ranks, cells: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The steps that a matrix can show, those with most waiting, and how many are left out."""
    by_waits = cells.group_by("step").agg(pl.col("waited_ns", "step_ns").sum())
    by_waits = by_waits.sort("waited_ns", "step_ns", "step", descending=[True, True, False])
    kept = by_waits["step"][: max(1, MOST_CELLS // len(ranks))]
    return cells.filter(pl.col("step").is_in(kept.to_list())), len(by_waits) - len(kept)


def steps(ranks: Ranks, cells: pl.DataFrame) -> Figure | None:
    """A matrix of ranks and steps: how late each was, how long it waited, how long it took."""
    if not len(cells):
        return None
    rows, left_out = _fitting(ranks, cells)
    shown = {title: name for title, name in _SHOWN.items() if rows[name].null_count() < len(rows)}
    choice = alt.binding_select(options=list(shown), name="Colour by ")
    by = alt.param(name="cell", value=next(iter(shown)), bind=choice)
    chosen = "".join(f"cell == '{title}' ? datum.{name} : " for title, name in shown.items())
    base = (
        _matrix(ranks, rows)
        .transform_calculate(value=f"{chosen} null")
        .transform_calculate(
            told=f"datum.value == null ? '' : {charts.duration_of('datum.value')}",
            **{f"{name}_told": charts.duration_of(f"datum.{name}") for name in shown.values()},
        )
    )
    tips = [alt.Tooltip(f"{name}_told:N", title=title) for title, name in shown.items()]
    drawn: Any = base.mark_rect(cursor="pointer").encode(
        color=amount("value"),
        opacity=alt.condition(charts.of_chosen_step(), alt.value(1), alt.value(0.35)),
        tooltip=["rank:N", "step:N", *tips, "regime:N", "bottleneck:N"],
    )
    if is_labelled(ranks, rows["step"]):
        drawn += base.mark_text(color=charts.on_colour("value")).encode(text="told:N")
    worst = ""
    if rows["waited_ns"].sum():
        sums = rows.group_by("step").agg(pl.col("waited_ns").sum())
        step, waited = sums.sort("waited_ns", "step", descending=[True, False]).row(0)
        worst = f"The {ranks.noun} wait longest in {step}: {duration(waited)} together. "
    return Figure(
        "matrix",
        f"Each step of each {ranks.noun.removesuffix('s')}",
        f"{worst}Click on a step to see only it in what follows."
        f"{left_out_text(left_out, 'steps with less waiting')}",
        rows,
        ranks.source("stragglers"),
        charts.sized(drawn.add_params(charts.step_parameter(), by), height(ranks)),
        ranks.doubts("stragglers"),
        {"kind": "steps"},
    )


def regimes(ranks: Ranks, cells: pl.DataFrame) -> Figure | None:
    """A matrix of ranks and steps: what bounds each."""
    if not len(cells) or cells["step"].n_unique() < 2 or set(cells["regime"]) == {UNKNOWN}:
        return None
    rows, left_out = _fitting(ranks, cells)
    rows = rows.select("rank", "step", "number", "bottleneck", colour="regime")
    base = _matrix(ranks, rows)
    drawn: Any = base.mark_rect().encode(
        color=charts.colour(rows["colour"].to_list(), "regime"),
        tooltip=["rank:N", "step:N", "colour:N", "bottleneck:N"],
    )
    if is_labelled(ranks, rows["step"]) and rows["step"].n_unique() <= FEW:
        drawn += base.mark_text(color=charts.on_colour("colour")).encode(text="bottleneck:N")
    differing = rows.group_by("step").agg(pl.col("colour").n_unique() > 1)["colour"].sum()
    told = f"The {ranks.noun} differ in {differing} of {rows['step'].n_unique():,} steps."
    if not differing:
        told = f"In each step, all {ranks.noun} are bound by the same side."
    return Figure(
        "regimes",
        f"What bounds each step of each {ranks.noun.removesuffix('s')}",
        f"{told}{left_out_text(left_out, 'steps with less waiting')}",
        rows,
        ranks.analyzed,
        charts.sized(drawn, height(ranks)),
    )


def _matrix(ranks: Ranks, rows: pl.DataFrame) -> alt.Chart:
    order = alt.EncodingSortField("number")
    return alt.Chart(rows).encode(
        x=alt.X("step:N", title=None, sort=order, axis=across(rows["step"])),
        y=lane(ranks, "rank"),
    )
