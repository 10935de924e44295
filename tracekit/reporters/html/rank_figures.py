"""The figures of the page of several traces: of the whole run, and of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from tracekit.database.session import Session
from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, without_empty
from tracekit.reporters.html.page import View, part_of
from tracekit.reporters.html.ranks import MOST_CELLS, WAITS, Ranks, step_number
from tracekit.reporters.parts import best_of, busy_share
from tracekit.text import counted, duration, printable
from tracekit.verdict.model import Analysis
from tracekit.verdict.parts import plain_part
from tracekit.verdict.regime import UNKNOWN, bound_by

# The measures that the cells of the matrix of steps can show.
_MEASURES = {
    "how long others waited for it": "held_up_ns",
    "how long it waited for others": "waited_ns",
    "length of the step": "step_ns",
}
# Parts of a device's time that are no idle time, by their names of the waterfall.
_OF_DEVICE = {"compute": "compute", "memcpy": "copy"}
# Cells are labeled in a matrix with at most this many columns and rows.
_LABELED = 16
# The names of up to this many columns are written level.
_FEW, _LANE, _HIGHEST = 8, 26, 620


def ranks_view(database: Session, analyses: Sequence[Analysis]) -> View:
    """All traces on one page. The fact `paged` is for the names of the views of single traces, by
    trace_id."""
    ranks = Ranks(database, analyses)
    sections = (
        ("all", ranks.noun.capitalize(), (table, parts, excess)),
        ("steps", "Steps", (matrix, regimes)),
        ("waits", "Who waits for whom", (who, clocks)),
        ("collectives", "Collectives over time", (collectives,)),
    )
    facts: dict[str, Any] = {"ranks": ranks, "paged": {}}
    made = [part_of(ranks, section) for section in sections]
    title, label = printable(database.name), f"All {len(ranks)} {ranks.noun}"
    return View("ranks", title, "ranks.html", facts, made, label)


def table(ranks: Ranks) -> Figure:
    """A row for each rank, with the numbers of its verdict."""
    rows = []
    for analysis in ranks.analyses:
        trace, best = analysis.trace.trace_id, best_of(analysis.advice)
        waits = ranks.waits[trace] if ranks.met else {}
        rows.append({
            "name": ranks.names[trace], "trace_id": trace,
            "verdict": bound_by(analysis.verdict.regime, analysis.verdict.bottleneck),
            "window_ns": analysis.judged.window.span_ns, "busy_share": busy_share(analysis.judged),
            "waits_ns": waits.get("waited_ns"), "late_ns": waits.get("held_up_ns"),
            "times_last": waits.get("times_last"), "best_remedy": best.title if best else None,
            "where": best.where if best else None, "saves_share": best.share if best else None,
        })  # fmt: skip
    frame = without_empty(pl.DataFrame(rows, infer_schema_length=None))
    late = " Late is how long the others together waited for it." if ranks.met else ""
    says = f"The verdict on each alone, and what would save most.{late}"
    return Figure(says, frame, title="Each with its verdict", source=ranks.analyzed)


def parts(ranks: Ranks) -> Figure | None:
    """The parts of each window's time."""
    rows = [
        {"rank": ranks.names[analysis.trace.trace_id], "part": part.name, "place": place,
         "color": colors.of(part.kind), "part_ns": part.dur_ns,
         "window_ns": analysis.judged.window.span_ns}
        for analysis in ranks.analyses
        for place, part in enumerate(analysis.parts)
    ]  # fmt: skip
    if not rows:
        return None
    rows = _folded(rows)
    # Draw as many ranks as fit, but no rank without some of its parts.
    last = rows[MOST_CELLS - 1]["rank"] if len(rows) > MOST_CELLS else None
    fitting = [row for row in rows[:MOST_CELLS] if row["rank"] != last]
    left_out = len(ranks) - len({row["rank"] for row in fitting})
    frame = pl.DataFrame(fitting)
    drawn = charts.bars(
        alt.Chart(frame), charts.x("part_ns", "window of the verdict"), _lane(ranks, "rank"),
        charts.shades("part", dict(frame.select("part", "color").iter_rows())), _height(ranks),
        "rank:N", "part:N", "part_ns=length", "window_ns=window", order=alt.Order("place:Q"),
    )  # fmt: skip
    longest = max(ranks.analyses, key=lambda each: each.judged.window.span_ns)
    return Figure(
        f"The parts of each window. The longest is that of {ranks.names[longest.trace.trace_id]}, "
        f"{duration(longest.judged.window.span_ns)}."
        f"{_left_out(left_out, f'further {ranks.noun}')}",
        frame.drop("color"),
        drawn,
        title="Where the time went",
        source=ranks.source("partition"),
    )


def _folded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts, with those that take hardly anything of all windows together as one."""
    total = Counter[str]()
    for row in rows:
        total[row["part"]] += row["part_ns"]
    if not (few := charts.few(total)):
        return rows
    kept = [row for row in rows if row["part"] not in few]
    rest: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["part"] in few:
            one = rest.setdefault(row["rank"], row | {
                "part": charts.FOLDED, "place": len(rows), "color": colors.of(UNKNOWN),
                "part_ns": 0,
            })  # fmt: skip
            one["part_ns"] += row["part_ns"]
    order = {row["rank"]: place for place, row in enumerate(rows)}
    return sorted([*kept, *rest.values()], key=lambda row: (order[row["rank"]], row["place"]))


@figure("rank_excess", "What each does for longer than the others")
def excess(ranks: Ranks, answer: pl.DataFrame) -> Figure | None:
    """The activities that take a rank longer than the others."""
    if not answer["excess_ns"].abs().max():
        return None
    words = {
        part: plain_part(_OF_DEVICE.get(part, f"idle: {part}"), of_host=False)
        for part in answer["part"].unique()
    }
    answer = answer.with_columns(part=pl.col("part").replace(words))
    most = answer.row(0, named=True)
    rows = answer.with_columns(name=_name(ranks)).head(MOST_CELLS)
    axis = alt.Axis(labelAngle=-30, labelOverlap=False)
    base = alt.Chart(rows).encode(x=alt.X("part:N", title=None, axis=axis), y=_lane(ranks, "name"))
    title = "more than the others (median), a step on average"
    scale = alt.Scale(scheme=colors.DIFFERENCES, domainMid=0, reverse=True)
    by = alt.Color("excess_ns:Q", title=title, scale=scale, legend=_legend(titleLimit=400))
    tips = ("name:N", "part:N", "own_ns=own", "others_ns=others", "excess_ns=more")
    cells = charts.cells(base, by, tips)
    return Figure(
        f"Most stands out {ranks.names[most['trace_id']]}, with "
        f"{duration(most['excess_ns'])} more of {most['part']} per step on average. "
        "Communication is left out, because it contains the waiting."
        f"{_left_out(len(answer) - len(rows), 'cells with less')}",
        rows.drop("trace_id"),
        charts.sized(cells, _height(ranks) + 40)
        if _is_matrix(rows["name"], rows["part"])
        else None,
    )


# -- waiting


@figure("rank_waits", "Who waits for whom", lambda ranks: {"top": max(1, MOST_CELLS // len(ranks))})
def who(ranks: Ranks, rows: pl.DataFrame) -> Figure:
    """A matrix of waiting and awaited ranks."""
    rows = rows.select(
        "collectives", "wait_ns", waiting=_name(ranks, "waiting_trace_id"),
        awaited=_name(ranks, "awaited_trace_id"),
    )  # fmt: skip
    order = list(ranks.names.values())
    base = alt.Chart(rows).encode(
        x=alt.X("awaited:N", title="waits for", sort=order, axis=_across(rows["awaited"])),
        y=_lane(ranks, "waiting"),
    )
    label = "wait_ns_text:N" if _is_labeled(ranks, rows["awaited"]) else None
    tips = ("waiting:N", "awaited:N", "wait_ns=wait", "collectives:Q")
    drawn = charts.cells(base, _amount("wait_ns"), tips, label, "wait_ns")
    most = rows.sort("wait_ns", descending=True).row(0, named=True)
    is_matrix = _is_matrix(rows["waiting"], rows["awaited"])
    left_out = sum(1 for wait in ranks.waits.values() if wait["times_last"])
    left_out -= rows["awaited"].n_unique()
    return Figure(
        f"Longest, {most['waiting']} waits for {most['awaited']}: {duration(most['wait_ns'])} in "
        f"{counted(most['collectives'], 'collective')}. A wait counts for the rank that came last, "
        "though others may have come late, too."
        f"{_left_out(left_out, 'ranks that are waited for less')}",
        rows,
        charts.sized(drawn, _height(ranks) + 20) if is_matrix else None,
        wide=is_matrix and len(ranks) > _LABELED,
        shows=["wait_ns"] if is_matrix else [],
    )


@figure("rank_clocks", "Clocks")
def clocks(ranks: Ranks, rows: pl.DataFrame) -> Figure:
    """How far the clocks differ."""
    apart = max(rows["offset_ns"]) - min(rows["offset_ns"])
    missing = len(ranks) - len(rows)
    alone = f" {missing:,} {ranks.noun} have no common collective for comparing clocks." * bool(
        missing
    )
    return Figure(
        f"By the ends of their collectives, the clocks differ by up to {duration(apart)}. Drawn on "
        f"one clock, ends differ by about {duration(max(rows['residual_ns']))} at most. Where a "
        f"recording begins is counted from the first one.{alone}",
        rows.select(
            _name(ranks).alias("name"),
            pl.exclude("trace_id", "rank", "begins_ns"),
            pl.col("begins_ns") - pl.col("begins_ns").min(),
        ),
    )


def _top(ranks: Ranks) -> dict[str, int]:
    return {"top": max(1, MOST_CELLS // (2 * len(ranks)))}


@figure("collective_times", "Collectives by one clock", _top)
def collectives(ranks: Ranks, answer: pl.DataFrame) -> Figure:
    """The collectives with most waiting, on one clock."""
    # Instants since the epoch are too large for JavaScript's numbers.
    begin = answer["start_ns"].min()
    names = {p.window.name for analysis in ranks.analyses for p in analysis.steps}
    numbers = {step_number(name): name for name in names}
    rows = answer.with_columns(
        pl.col("start_ns", "end_ns") - begin,
        pl.col("step").replace_strict(numbers, default=None, return_dtype=pl.String),
        name=_name(ranks),
    )
    arrived = pl.col("start_ns") + pl.col("wait_ns")
    columns = ("name", "type", "step", "place", "awaited_rank", "wait_ns")
    waiting, wire = colors.RANK
    waited = rows.select(*columns, "start_ns", end_ns=arrived, color=pl.lit(waiting))
    sent = rows.select(*columns, start_ns=arrived, end_ns="end_ns", color=pl.lit(wire))
    rows = pl.concat([waited, sent]).filter(pl.col("end_ns") > pl.col("start_ns"))
    moved = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]")
    with_tips = charts.with_tooltip(
        alt.Chart(rows)
        .transform_filter(charts.OF_CHOSEN_STEP)
        .transform_calculate(dur_ns="datum.end_ns - datum.start_ns"),
        "name:N", "type:N", "step:N", "place:Q", "color:N", "dur_ns=length", "wait_ns=waits",
        "awaited_rank:N",
    )  # fmt: skip
    bars = with_tips.mark_bar().encode(
        x=charts.x("start_ns", "one clock", scale=alt.Scale(zero=False)),
        x2=alt.X2("end_ns:Q"),
        y=_lane(ranks, "name"),
        color=charts.color([waiting, wire]),
    )
    calls = answer.select("group_key", "matched_by", "place", "type", "awaited_ns").n_unique()
    listed = f"all {counted(calls, 'collective')} that could be matched"
    if calls >= _top(ranks)["top"]:
        listed = f"the {counted(calls, 'collective')} with most waiting"
    return Figure(
        f"Shown are {listed}. Where one {ranks.noun.removesuffix('s')} begins late, the others "
        "wait. Drag to move; turn the wheel with Shift to zoom.",
        rows,
        charts.sized(bars, _height(ranks), charts.CHOSEN_STEP, moved),
        wide=True,
    )


def _name(ranks: Ranks, column: str = "trace_id") -> pl.Expr:
    return pl.col(column).replace_strict(ranks.names, return_dtype=pl.String)


# -- steps


def _cells(ranks: Ranks) -> tuple[pl.DataFrame, int]:
    """A row for each rank and step, and the number of steps that are left out. If a matrix cannot
    show all steps, it has those with most waiting."""
    waits = {(row["trace_id"], row["step"]): row for row in ranks.stragglers.iter_rows(named=True)}
    rows = []
    for analysis in ranks.analyses:
        trace = analysis.trace.trace_id
        for period in {period.window.name: period for period in analysis.steps}.values():
            number = step_number(period.window.name)
            waited = waits.get((trace, number), {})
            rows.append(
                {"rank": ranks.names[trace], "step": period.window.name, "number": number}
                | {name: waited.get(name) for name in WAITS[:3]}
                | {"step_ns": period.window.span_ns, "regime": period.regime}
                | {"bottleneck": period.bottleneck}
            )
    cells = pl.DataFrame(rows, infer_schema_length=None)
    if cells.is_empty():
        return cells, 0
    by_waits = cells.group_by("step").agg(pl.col("waited_ns", "step_ns").sum())
    by_waits = by_waits.sort("waited_ns", "step_ns", "step", descending=[True, True, False])
    steps = by_waits["step"][: max(1, MOST_CELLS // len(ranks))]
    return cells.filter(pl.col("step").is_in(steps.to_list())), len(by_waits) - len(steps)


def matrix(ranks: Ranks) -> Figure | None:
    """A matrix of ranks and steps: how late each was, how long it waited, how long it took."""
    rows, left_out = _cells(ranks)
    if rows.is_empty() or not _is_matrix(rows["rank"], rows["step"]):
        return None
    known = {t: name for t, name in _MEASURES.items() if rows[name].null_count() < len(rows)}
    choice = alt.binding_select(options=list(known), name="Color by ")
    by = alt.param(name="cell", value=next(iter(known)), bind=choice)
    chosen = "".join(f"cell == '{title}' ? datum.{name} : " for title, name in known.items())
    text = f"datum.value == null ? '' : {charts.duration_of('datum.value')}"
    base = _matrix(ranks, rows).transform_calculate(value=f"{chosen} null")
    base = base.transform_calculate(label=text)
    measures = [f"{name}={title}" for title, name in known.items()]
    tips = ("rank:N", "step:N", *measures, "regime:N", "bottleneck:N")
    label = "label:N" if _is_labeled(ranks, rows["step"]) else None
    faint = charts.FAINT_UNLESS_CHOSEN
    drawn = charts.cells(base, _amount("value"), tips, label, "value", faint, cursor="pointer")
    worst = ""
    if rows["waited_ns"].sum():
        sums = rows.group_by("step").agg(pl.col("waited_ns").sum())
        step, waited = sums.sort("waited_ns", "step", descending=[True, False]).row(0)
        worst = f"The {ranks.noun} wait longest in {step}: {duration(waited)} together. "
    return Figure(
        f"{worst}Click on a step to see only it in what follows."
        f"{_left_out(left_out, 'steps with less waiting')}",
        rows,
        charts.sized(drawn, _height(ranks), charts.CHOSEN_STEP, by),
        {"kind": "steps"},
        f"Each step of each {ranks.noun.removesuffix('s')}",
        ranks.source("stragglers"),
        ranks.doubts("stragglers"),
        wide=rows["step"].n_unique() > _FEW,
    )


def regimes(ranks: Ranks) -> Figure | None:
    """A matrix of ranks and steps with each one's regime."""
    rows, left_out = _cells(ranks)
    steps = {step.window.name: None for analysis in ranks.analyses for step in analysis.steps}
    known = {step.regime for analysis in ranks.analyses for step in analysis.steps}
    if len(steps) < 2 or known == {UNKNOWN}:
        return None
    bound = pl.col("bottleneck").fill_null(UNKNOWN)
    rows = rows.select("rank", "step", "number", "regime", color=bound)
    is_labeled = _is_labeled(ranks, rows["step"]) and rows["step"].n_unique() <= _FEW
    by_cause = charts.color(rows["color"].to_list(), "bound by")
    tips = ("rank:N", "step:N", "regime:N", "color:N")
    drawn = charts.cells(_matrix(ranks, rows), by_cause, tips, tips[-1] if is_labeled else None)
    differing = rows.group_by("step").agg(pl.col("regime").n_unique() > 1)["regime"].sum()
    says = (
        f"The {ranks.noun} differ in {differing} of {counted(rows['step'].n_unique(), 'step')}."
        if differing
        else f"In each step, all {ranks.noun} are bound by the same side."
    )
    return Figure(
        f"{says}{_left_out(left_out, 'steps with less waiting')}",
        rows,
        charts.sized(drawn, _height(ranks)),
        title=f"What bounds each step of each {ranks.noun.removesuffix('s')}",
        source=ranks.analyzed,
        wide=rows["step"].n_unique() > _FEW,
        shows=["color"],
    )


def _matrix(ranks: Ranks, rows: pl.DataFrame) -> alt.Chart:
    order = alt.EncodingSortField("number")
    across = alt.X("step:N", title=None, sort=order, axis=_across(rows["step"]))
    return alt.Chart(rows).encode(x=across, y=_lane(ranks, "rank"))


def _is_matrix(*sides: pl.Series) -> bool:
    """Whether there is anything to compare along both sides: one column is a list, not a map."""
    return all(side.n_unique() > 1 for side in sides)


def _across(names: pl.Series) -> alt.Axis:
    """The axis of a matrix; the names of few columns are written level."""
    is_level = names.n_unique() <= _FEW
    return alt.Axis(labelOverlap=True, labelAngle=0 if is_level else alt.Undefined)


def _lane(ranks: Ranks, column: str) -> alt.Y:
    order, axis = list(ranks.names.values()), alt.Axis(labelOverlap=True, labelLimit=160)
    return alt.Y(f"{column}:N", title=None, sort=order, axis=axis)


def _amount(column: str) -> alt.Color:
    scale = {"scheme": colors.AMOUNTS}
    return alt.Color(f"{column}:Q", title=None, scale=scale, legend=_legend())


def _legend(**options: Any) -> alt.Legend:
    options["labelExpr"] = charts.duration_of("datum.value")
    return alt.Legend(orient="top", gradientLength=260, **options)


def _height(ranks: Ranks) -> int:
    return min(_HIGHEST, max(2 * _LANE, _LANE * len(ranks)))


def _is_labeled(ranks: Ranks, columns: pl.Series) -> bool:
    return len(ranks) <= _LABELED and columns.n_unique() <= _LABELED


def _left_out(count: int, what: str) -> str:
    """A sentence that counts the rows that a figure does not show."""
    return f" {count:,} {what} are left out." if count > 0 else ""
