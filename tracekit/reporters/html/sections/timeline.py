"""The timeline: what threads and streams did in one step, what decided its length; idle gaps."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from tracekit.causes import cause_of
from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.subject import Interval, Subject
from tracekit.text import duration, percent, share

# Lanes beyond these, those with the least to do, are left out.
_THREADS, _STREAMS, _GAPS = 6, 8, 5
_PATH = "critical path"
_LANE = 26
# A piece with this many pixels has its name in it.
_NAMED = 36
_LISTED_GAPS, _CULPRITS = 200, 12

_NOTHING = "nothing recorded"
# Lane, side, start, end, activity, how many pieces, and name.
_Piece = tuple[str, str, int, int, str, int, str | None]


def _between(subject: Subject) -> dict[str, int] | None:
    return subject.interval.bounds if subject.interval else None


@figure("timeline_lanes", given=_between)
def timeline(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Threads by cause, streams by activity, and the critical path, in the median step."""
    interval = subject.interval
    assert interval is not None
    rows = pl.concat([_busiest(rows, "host", _THREADS), _busiest(rows, "device", _STREAMS)])
    rows = rows.select("lane", "side", "start_ns", "end_ns", "activity", "pieces", "name")
    path = subject.judgement.path
    pieces = [(_PATH, p.side, p.start_ns, p.start_ns + p.dur_ns, p.cause, 1, None) for p in path]
    for more in (pieces, _gaps(subject, interval)):
        lasting = [each for each in more if each[3] > each[2]]
        rows = pl.concat([rows, pl.DataFrame(lasting, schema=rows.schema, orient="row")])
    rows = rows.with_columns(
        pl.col("start_ns", "end_ns") - interval.start_ns,
        name=pl.col("name").fill_null(""),
        colour=pl.col("activity").map_elements(colours.name_of, pl.String),
    ).sort("side", "lane", "start_ns", descending=[True, False, False])
    span = interval.end_ns - interval.start_ns
    ns = dict.fromkeys(("device", "host", "unknown"), 0)
    for piece in path:
        end = min(piece.start_ns + piece.dur_ns, interval.end_ns)
        ns[piece.side] += max(0, end - max(piece.start_ns, interval.start_ns))
    says = interval.why
    if total := sum(ns.values()):
        part, other = share(ns["device"], total), share(ns["unknown"], total)
        rest = f", {other} is not explained" if ns["unknown"] else ""
        says += f" {part} of the critical path is on the device{rest}, the rest on the host."
    if (rows["pieces"] > 1).any():
        says += f" Pieces shorter than {duration(span / 400)} are summed up."
    return Figure(
        f"{says} Click on a piece to see all of it; drag to move; shift and the wheel, or the "
        "buttons, zoom.",
        rows,
        _lanes(rows, span),
        {
            "kind": "zoom",
            "span": span,
            "shift": subject.window.start_ns - interval.start_ns,
            "trace_start": interval.start_ns - subject.rows("overview")["start_ns"][0],
            "command": subject.command("open"),
        },
        f"{interval.name}: {duration(span)}",
        wide=True,
    )


def _busiest(rows: pl.DataFrame, side: str, most: int) -> pl.DataFrame:
    of_side = rows.filter(side=side)
    busy = of_side.group_by("lane").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    return of_side.join(
        busy.sort("ns", "lane", descending=[True, False]).head(most), on="lane"
    ).drop("ns")


def _gaps(subject: Subject, interval: Interval) -> Iterator[_Piece]:
    """The longest gaps of the interval, with what the host did meanwhile."""
    found = [
        row
        for row in subject.database.ask("idle_gaps", trace=subject.trace_id, top=500)
        if interval.start_ns <= row["start_ns"] < interval.end_ns
        and row["device_id"] == subject.device_id
    ]
    for row in found[:_GAPS]:
        start, culprit = row["start_ns"], row["culprit"] or row["idle_class"]
        cause = row["main_cause"] or "idle"
        yield "longest gaps", "device", start, start + row["gap_ns"], cause, 1, culprit


def _lanes(rows: pl.DataFrame, span: int) -> alt.TopLevelMixin:
    lanes = list(dict.fromkeys(rows["lane"]))
    order = [lane for lane in lanes if lane != _PATH] + [_PATH] * (_PATH in lanes)
    zoom = alt.selection_interval(
        name="zoom", bind="scales", encodings=["x"], zoom="wheel![event.shiftKey || event.ctrlKey]"
    )
    shown = f"(zoom_start_ns ? zoom_start_ns[1] - zoom_start_ns[0] : {span})"
    pixels = f"width * (datum.end_ns - datum.start_ns) / {shown}"
    base = (
        alt.Chart(rows)
        .transform_calculate(
            length=charts.duration_of("(datum.end_ns - datum.start_ns)"),
            at=charts.duration_of("datum.start_ns"),
            label="isValid(datum.label) ? datum.label : datum.name",
        )
        .encode(
            x=alt.X(
                "start_ns:Q",
                title="since the interval's start",
                axis=charts.time_axis(tickCount=8),
                scale=alt.Scale(domain=[0, span], nice=False),
            ),
            y=alt.Y("lane:N", sort=order, title=None, axis=alt.Axis(labelLimit=160)),
            tooltip=charts.tips(
                "lane:N", "activity:N", "name:N", "at:N=from", "length:N=for", "pieces:Q"
            ),
        )
    )
    pieces = base.mark_rect(clip=True, cursor="pointer").encode(
        x2="end_ns:Q", color=charts.colour(rows["colour"].to_list(), "busy with")
    )
    names = (
        base.transform_filter(f"datum.name && {pixels} > {_NAMED}")
        .mark_text(
            align="left", baseline="middle", clip=True, dx=4, fontSize=10,
            color=charts.on_colour("colour"), limit=alt.ExprRef(f"{pixels} - 6"),
        )
        .encode(text="label:N")
    )  # fmt: skip
    return charts.sized(pieces.add_params(zoom) + names, _LANE * len(lanes))


@figure("idle_culprits", "Over the whole trace", top=_CULPRITS)
def culprits(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The host slices for which the device waits, over all gaps."""
    rows = rows.with_columns(
        culprit=pl.col("culprit").fill_null(_NOTHING),
        colour=pl.col("cause").map_elements(colours.name_of, pl.String),
    )
    # A culprit of several causes has a bar for each.
    is_one = pl.col("culprit").is_unique()
    label = pl.when(is_one).then("culprit").otherwise(pl.format("{} ({})", "culprit", "cause"))
    rows = rows.with_columns(label=label)
    first = rows.row(0, named=True)
    bars = alt.Chart(rows).transform_calculate(**charts.durations(length="idle_ns")).mark_bar()
    chart = bars.encode(
        x=alt.X("idle_ns:Q", title="device idle time", axis=charts.time_axis()),
        y=charts.names("label", rows["label"].to_list()),
        color=charts.colour(rows["colour"].to_list(), "cause"),
        tooltip=charts.tips("culprit:N", "cause:N", "length:N=idle", "gaps:Q"),
    )
    waits = f"{cause_of(first['cause'])} in {charts.shown_name(first['culprit'])}"
    if first["culprit"] == _NOTHING:
        waits = "what was not recorded"
    return Figure(
        f"Most of all it waits for {waits}: "
        f"{duration(first['idle_ns'])}, {percent(first['share_of_host_late'])} of the time in "
        "which it waits for the host.",
        informative(rows),
        charts.sized(chart, 20 * len(rows)),
        shows=["culprit", "cause"],
    )


@figure("idle_gaps", "The longest gaps", top=_LISTED_GAPS)
def gaps(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The longest gaps, with what the host did and what ended them."""
    rows = informative(subject.since_start(rows, "start_ns"))
    if "step" in rows.columns and rows["step"].n_unique() == 1:
        rows = rows.drop("step")
    if "step" in rows.columns:
        rows = rows.with_columns(step=pl.format("ProfilerStep#{}", "step"))
    first = rows.row(0, named=True)
    return Figure(
        f"The longest lasts {duration(first['gap_ns'])}; start counts from the start of the "
        f"{subject.window.name}.",
        rows.rename({"main_cause_ns": "of_that_cause_ns"}, strict=False),
        control={
            "step": "of" if "step" in rows.columns else None,
            "starts": "start_ns",
            "lasts": "gap_ns",
        },
    )
