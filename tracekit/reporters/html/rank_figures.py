"""The figures of the page of several traces: of the whole run, and of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.page import Part, View
from tracekit.reporters.html.ranks import (
    FEW,
    MOST_CELLS,
    WAITS,
    Ranks,
    across,
    amount,
    height,
    is_labelled,
    lane,
    left_out_text,
    legend,
    part_name,
    step_number,
)
from tracekit.reporters.parts import parts_of
from tracekit.text import duration, printable
from tracekit.verdict.regime import UNKNOWN

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.verdict.model import Analysis

# What the cells of the matrix of steps can show.
_SHOWN = {
    "how long others waited for it": "held_up_ns",
    "how long it waited for others": "waited_ns",
    "length of the step": "step_ns",
}


def ranks_view(database: Session, analyses: Sequence[Analysis]) -> View:
    """All traces on one page. The fact `paged` is for the names of the views of single traces, by
    trace_id."""
    ranks = Ranks(database, analyses)
    cells = cells_of(ranks)
    sections = [
        Part("all", ranks.noun.capitalize(), _drawn(table(ranks), parts(ranks), excess(ranks))),
        Part("steps", "Steps", _drawn(steps(ranks, cells), regimes(ranks, cells))),
        Part("waits", "Who waits for whom", _drawn(who_waits(ranks), clocks(ranks))),
        Part("collectives", "Collectives over time", _drawn(collectives(ranks))),
    ]
    facts: dict[str, Any] = {"ranks": ranks, "paged": {}}
    shown = [section for section in sections if section.figures]
    title, label = printable(database.name), f"All {len(ranks)} {ranks.noun}"
    return View("ranks", title, "ranks.html", facts, shown, label)


# -- all together


def table(ranks: Ranks) -> Figure:
    """A row for each rank, with the numbers of its verdict."""
    rows = pl.DataFrame([_row(ranks, each) for each in ranks.analyses], infer_schema_length=None)
    late = " Late is how long the others together waited for it." if ranks.met else ""
    return Figure(
        "table",
        "Each with its verdict",
        f"The verdict on each alone, and what would save most.{late}",
        rows.select(column for column in rows if column.null_count() < len(rows)),
        ranks.analyzed,
    )


def _row(ranks: Ranks, analysis: Analysis) -> dict[str, object]:
    trace, judged = analysis.trace.trace_id, analysis.judged
    span = judged.window.span_ns
    best = next((each for each in analysis.advice if each.share is not None), None)
    waits = ranks.waits[trace] if ranks.met else {}
    return {
        "name": ranks.names[trace],
        "trace_id": trace,
        "verdict": analysis.verdict.regime,
        "bottleneck": analysis.verdict.bottleneck,
        "window_ns": span,
        "busy_share": judged.gpu.busy_ns / span if judged.gpu and span else None,
        "waits_ns": waits.get("waited_ns"),
        "late_ns": waits.get("held_up_ns"),
        "times_last": waits.get("times_last"),
        "best_remedy": best.title if best else None,
        "where": best.where if best else None,
        "saves_share": best.share if best else None,
    }


def parts(ranks: Ranks) -> Figure | None:
    """Where the time of each window went."""
    rows = [
        {"rank": ranks.names[each.trace.trace_id], "part": part.name, "colour": part.kind,
         "place": place, "part_ns": part.ns, "window_ns": each.judged.window.span_ns}
        for each in ranks.analyses
        for place, part in enumerate(parts_of(each))
    ]  # fmt: skip
    if not rows:
        return None
    # As many ranks as fit, each with all its parts.
    last = rows[MOST_CELLS - 1]["rank"] if len(rows) > MOST_CELLS else None
    fitting = [row for row in rows[:MOST_CELLS] if row["rank"] != last]
    left_out = len(ranks) - len({row["rank"] for row in fitting})
    frame = pl.DataFrame(fitting)
    bars = (
        alt.Chart(frame)
        .transform_calculate(
            length=charts.duration_of("datum.part_ns"), window=charts.duration_of("datum.window_ns")
        )
        .mark_bar()
        .encode(
            y=lane(ranks, "rank"),
            x=alt.X("part_ns:Q", title="window of the verdict", axis=charts.time_axis()),
            color=charts.colour(frame["colour"].to_list()),
            order="place:Q",
            tooltip=["rank:N", "part:N", "length:N", "window:N"],
        )
    )
    longest = max(ranks.analyses, key=lambda each: each.judged.window.span_ns)
    shown, more = duration(longest.judged.window.span_ns), "further " + ranks.noun
    return Figure(
        "parts",
        "Where the time went",
        f"The parts of each window. The longest is that of {ranks.names[longest.trace.trace_id]}, "
        f"{shown}.{left_out_text(left_out, more)}",
        frame,
        ranks.source("partition"),
        charts.sized(bars, height(ranks)),
    )


def excess(ranks: Ranks) -> Figure | None:
    """What each rank does for longer than the others."""
    found = ranks.rows("rank_excess")
    if not len(found) or not found["excess_ns"].abs().max():
        return None
    most = found.row(0, named=True)
    rows = _named(ranks, found).head(MOST_CELLS)
    cells = (
        alt.Chart(rows)
        .transform_calculate(
            more=charts.duration_of("datum.excess_ns"),
            others=charts.duration_of("datum.others_ns"),
            own=charts.duration_of("datum.own_ns"),
        )
        .mark_rect()
        .encode(
            x=alt.X("part:N", title=None, axis=alt.Axis(labelAngle=-30)),
            y=lane(ranks, "name"),
            color=alt.Color(
                "excess_ns:Q",
                title="more than the median of the others, per step",
                scale=alt.Scale(scheme=colours.DIFFERENCES, domainMid=0, reverse=True),
                legend=legend(titleLimit=400),
            ),
            tooltip=["name:N", "part:N", "own:N", "others:N", "more:N"],
        )
    )
    return Figure(
        "excess",
        "What each does for longer than the others",
        f"Most stands out {ranks.names[most['trace_id']]}, with "
        f"{duration(most['excess_ns'])} more of {part_name(most['part'])} per step. "
        "Communication is left out, because it contains the waiting."
        f"{left_out_text(len(found) - len(rows), 'cells with less')}",
        rows.drop("trace_id"),
        ranks.source("rank_excess"),
        charts.sized(cells, height(ranks) + 40),
        ranks.doubts("rank_excess"),
    )


# -- waiting


def who_waits(ranks: Ranks) -> Figure | None:
    """A matrix of waiting and awaited ranks."""
    if not len(ranks.who):
        return None
    rows = ranks.who.select(
        "collectives", "wait_ns",
        waiting=pl.col("waiting_trace_id").replace_strict(ranks.names, return_dtype=pl.String),
        awaited=pl.col("awaited_trace_id").replace_strict(ranks.names, return_dtype=pl.String),
    )  # fmt: skip
    axis = across(rows["awaited"])
    base = (
        alt.Chart(rows)
        .transform_calculate(told=charts.duration_of("datum.wait_ns"))
        .encode(
            x=alt.X("awaited:N", title="waits for", sort=list(ranks.names.values()), axis=axis),
            y=lane(ranks, "waiting"),
        )
    )
    drawn: Any = base.mark_rect().encode(
        color=amount("wait_ns"), tooltip=["waiting:N", "awaited:N", "told:N", "collectives:Q"]
    )
    if is_labelled(ranks, rows["awaited"]):
        drawn += base.mark_text(color=charts.on_colour("wait_ns")).encode(text="told:N")
    most = rows.sort("wait_ns", descending=True).row(0, named=True)
    left_out = sum(1 for each in ranks.waits.values() if each["times_last"])
    left_out -= rows["awaited"].n_unique()
    return Figure(
        "who",
        "Who waits for whom",
        f"Longest, {most['waiting']} waits for {most['awaited']}: {duration(most['wait_ns'])} in "
        f"{most['collectives']:,} collectives. A wait counts for the rank that came last, though "
        "others may have come late, too."
        f"{left_out_text(left_out, 'ranks that are waited for less')}",
        rows,
        ranks.source("rank_waits", top=ranks.awaited),
        charts.sized(drawn, height(ranks) + 20),
        _waiting_doubts(ranks, "rank_waits"),
    )


def clocks(ranks: Ranks) -> Figure | None:
    """How far the clocks differ."""
    rows = ranks.clocks
    if not len(rows):
        return None
    apart = max(rows["offset_ns"]) - min(rows["offset_ns"])
    missing = len(ranks) - len(rows)
    alone = f" {missing:,} {ranks.noun} share no collective to compare clocks by." * bool(missing)
    return Figure(
        "clocks",
        "Clocks",
        f"By the ends of their collectives, the clocks differ by up to {duration(apart)}. Drawn on "
        f"one clock, ends differ by about {duration(max(rows['residual_ns']))} at most.{alone}",
        _named(ranks, rows).select("name", pl.exclude("name", "trace_id", "rank")),
        ranks.source("rank_clocks"),
    )


def collectives(ranks: Ranks) -> Figure | None:
    """The collectives with most waiting, on one clock."""
    top = max(1, MOST_CELLS // (2 * len(ranks)))
    found = ranks.rows("collective_times", top=top)
    if not len(found):
        return None
    # Instants since the epoch are too large for JavaScript's numbers.
    begin = found["start_ns"].min()
    names = {p.window.name for each in ranks.analyses for p in each.steps}
    numbers = {step_number(name): name for name in names}
    rows = _named(ranks, found).with_columns(
        pl.col("start_ns", "end_ns") - begin,
        pl.col("step").replace_strict(numbers, default=None, return_dtype=pl.String),
    )
    arrived = pl.col("start_ns") + pl.col("wait_ns")
    kept = ("name", "type", "step", "place", "awaited_rank", "wait_ns")
    waiting, wire = colours.RANK
    drawn = pl.concat(
        [
            rows.select(*kept, "start_ns", end_ns=arrived, colour=pl.lit(waiting)),
            rows.select(*kept, start_ns=arrived, end_ns="end_ns", colour=pl.lit(wire)),
        ]
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
    moved = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]")
    scale = alt.Scale(zero=False)
    bars = (
        alt.Chart(drawn)
        .transform_filter(charts.of_chosen_step())
        .transform_calculate(
            length=charts.duration_of("datum.end_ns - datum.start_ns"),
            waits=charts.duration_of("datum.wait_ns"),
        )
        .mark_bar()
        .encode(
            x=alt.X("start_ns:Q", title="one clock", scale=scale, axis=charts.time_axis()),
            x2="end_ns:Q",
            y=lane(ranks, "name"),
            color=charts.colour([waiting, wire]),
            tooltip=["name:N", "type:N", "step:N", "place:Q", "colour:N", "length:N", "waits:N",
                     "awaited_rank:N"],
        )
    )  # fmt: skip
    calls = found.select("group_key", "matched_by", "place", "type", "awaited_ns").n_unique()
    shown = f"all {calls:,} collectives that could be matched"
    if calls >= top:
        shown = f"the {calls:,} collectives with most waiting"
    return Figure(
        "collectives",
        "Collectives by one clock",
        f"Shown are {shown}. Where one {ranks.noun.removesuffix('s')} begins late, the others "
        "wait. Drag to move; turn the wheel with Shift to zoom.",
        drawn,
        ranks.source("collective_times", top=top),
        charts.sized(bars.add_params(charts.step_parameter(), moved), height(ranks)),
        _waiting_doubts(ranks, "collective_times"),
    )


def _named(ranks: Ranks, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the names of their traces."""
    name = pl.col("trace_id").replace_strict(ranks.names, return_dtype=pl.String)
    return rows.with_columns(name=name)


def _waiting_doubts(ranks: Ranks, question: str) -> list[str]:
    return [*ranks.doubts(question), *([ranks.clock_doubt] if ranks.clock_doubt else [])]


def _drawn(*figures: Figure | None) -> list[Figure]:
    return [figure for figure in figures if figure is not None]


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
