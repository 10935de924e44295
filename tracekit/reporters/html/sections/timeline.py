"""The timeline: what threads and streams did in one step, what decided its length; idle gaps."""

from __future__ import annotations

from collections.abc import Iterable

import altair as alt
import polars as pl

from tracekit.causes import cause_of
from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, table
from tracekit.reporters.html.subject import Interval, Subject
from tracekit.text import duration, percent, share

# Lanes beyond these, those with the least to do, are left out.
_THREADS, _STREAMS, _GAPS = 6, 8, 5
_PATH = "critical path"
_LANE = 26
_LISTED_GAPS, _CULPRITS = 200, 12


def timeline(subject: Subject) -> Figure | None:
    """Threads by cause, streams by activity, and the critical path, in the median step."""
    interval = subject.interval
    if interval is None:
        return None
    between = {"from_ns": interval.start_ns, "to_ns": interval.end_ns}
    rows = subject.rows("timeline_lanes", **between)
    if not len(rows):
        return None
    rows = pl.concat([_busiest(rows, "host", _THREADS), _busiest(rows, "device", _STREAMS)])
    rows = rows.select("lane", "side", "start_ns", "end_ns", "activity", "pieces", "name")
    path = subject.judgement.path
    gaps = _gaps(subject, interval)
    rows = pl.concat([
        rows,
        *_framed(rows, ((_PATH, p.side, p.start_ns, p.dur_ns, p.cause, None) for p in path)),
        *_framed(rows, gaps),
    ])  # fmt: skip
    rows = rows.with_columns(
        pl.col("start_ns", "end_ns") - interval.start_ns,
        colour=pl.col("activity").map_elements(colours.name_of, pl.String),
    ).sort("side", "lane", "start_ns", descending=[True, False, False])
    span = interval.end_ns - interval.start_ns
    on_device = sum(piece.dur_ns for piece in path if piece.side == "device")
    total = sum(piece.dur_ns for piece in path)
    told = (
        f" {share(on_device, total)} of the critical path is on the device, the rest on the host."
        if total
        else ""
    )
    bins = rows.filter(pl.col("pieces") > 1).height
    summed = f" Pieces shorter than {duration(span / 400)} are summed up." if bins else ""
    return Figure(
        name="timeline",
        title=f"{interval.name}: {duration(span)}",
        says=f"{interval.why}{told}{summed} Drag to move; shift and the wheel, or "
        "the buttons, zoom.",
        rows=rows,
        source=subject.source("timeline_lanes", **between),
        chart=_lanes(rows, span),
        doubts=subject.doubts("timeline_lanes"),
        control={"kind": "zoom", "span": span},
    )


def _busiest(rows: pl.DataFrame, side: str, most: int) -> pl.DataFrame:
    of_side = rows.filter(side=side)
    busy = of_side.group_by("lane").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    return of_side.join(
        busy.sort("ns", "lane", descending=[True, False]).head(most), on="lane"
    ).drop("ns")


def _gaps(
    subject: Subject, interval: Interval
) -> Iterable[tuple[str, str, int, int, str, str | None]]:
    """The longest gaps of the interval, with what the host did meanwhile."""
    found = [
        row
        for row in subject.database.ask("idle_gaps", trace=subject.trace_id, top=500)
        if interval.start_ns <= row["start_ns"] < interval.end_ns
        and row["device_id"] == subject.device_id
    ]
    for row in found[:_GAPS]:
        cause = row["main_cause"] or "idle"
        culprit = row["culprit"] or row["idle_class"]
        yield ("longest gaps", "device", row["start_ns"], row["gap_ns"], cause, culprit)


def _framed(
    like: pl.DataFrame, found: Iterable[tuple[str, str, int, int, str, str | None]]
) -> list[pl.DataFrame]:
    """Rows of lane, side, start, length, cause and name, in the columns of `like`."""
    rows = [
        (lane, side, start, start + ns, cause, 1, name)
        for lane, side, start, ns, cause, name in found
        if ns > 0
    ]
    return [pl.DataFrame(rows, schema=like.schema, orient="row")] if rows else []


def _lanes(rows: pl.DataFrame, span: int) -> alt.TopLevelMixin:
    lanes = list(dict.fromkeys(rows["lane"]))
    order = [lane for lane in lanes if lane != _PATH] + [_PATH] * (_PATH in lanes)
    zoom = alt.selection_interval(
        name="zoom",
        bind="scales",
        encodings=["x"],
        zoom="wheel![event.shiftKey || event.ctrlKey]",
    )
    chart = (
        alt.Chart(rows)
        .mark_rect(clip=True)
        .transform_calculate(
            length=charts.duration_of("(datum.end_ns - datum.start_ns)"),
            at=charts.duration_of("datum.start_ns"),
        )
        .encode(
            x=alt.X(
                "start_ns:Q",
                title="since the interval's start",
                axis=charts.time_axis(),
                scale=alt.Scale(domain=[0, span], nice=False),
            ),
            x2="end_ns:Q",
            y=alt.Y("lane:N", sort=order, title=None, axis=alt.Axis(labelLimit=160)),
            color=charts.colour(rows["colour"].to_list(), "busy with"),
            tooltip=[
                alt.Tooltip("lane:N"),
                alt.Tooltip("activity:N"),
                alt.Tooltip("name:N"),
                alt.Tooltip("at:N", title="from"),
                alt.Tooltip("length:N", title="for"),
                alt.Tooltip("pieces:Q"),
            ],
        )
        .add_params(zoom)
    )
    return charts.sized(chart, _LANE * len(lanes))


def culprits(subject: Subject) -> Figure | None:
    """The host slices for which the device waits, over all gaps."""
    rows = subject.rows("idle_culprits", top=_CULPRITS)
    if not len(rows):
        return None
    rows = rows.with_columns(
        culprit=pl.col("culprit").fill_null("nothing recorded"),
        colour=pl.col("cause").map_elements(colours.name_of, pl.String),
    ).with_columns(label=pl.concat_str("culprit", "cause", separator=" | "))
    first = rows.row(0, named=True)
    chart = (
        alt.Chart(rows)
        .transform_calculate(length=charts.duration_of("datum.idle_ns"))
        .mark_bar()
        .encode(
            x=alt.X("idle_ns:Q", title="device idle time", axis=charts.time_axis()),
            y=charts.names("label", rows["label"].to_list()),
            color=charts.colour(rows["colour"].to_list(), "cause"),
            tooltip=[
                "culprit:N", "cause:N", alt.Tooltip("length:N", title="idle"), "gaps:Q",
            ],
        )
    )  # fmt: skip
    return Figure(
        name="culprits",
        title="What the device waits for, over the whole trace",
        says=f"Most of all it waits for {cause_of(first['cause'])} in {first['culprit'][:60]}: "
        f"{duration(first['idle_ns'])}, {percent(first['share_of_host_late'])} of the time in "
        "which it waits for the host.",
        rows=table(rows),
        source=subject.source("idle_culprits", top=_CULPRITS),
        chart=charts.sized(chart, 22 * len(rows)),
        doubts=subject.doubts("idle_culprits"),
    )


def gaps(subject: Subject) -> Figure | None:
    """The longest gaps, with what the host did and what ended them."""
    rows = subject.rows("idle_gaps", top=_LISTED_GAPS)
    if not len(rows):
        return None
    rows = table(subject.since_start(rows, "start_ns"))
    if "step" in rows.columns:
        rows = rows.with_columns(step=pl.format("ProfilerStep#{}", "step"))
    first = rows.row(0, named=True)
    return Figure(
        name="gaps",
        title="The longest gaps",
        says=f"The longest lasts {duration(first['gap_ns'])}; start counts from the start of the "
        f"{subject.window.name}.",
        rows=rows.rename({"main_cause_ns": "of_that_cause_ns"}, strict=False),
        source=subject.source("idle_gaps", top=_LISTED_GAPS),
        doubts=subject.doubts("idle_gaps"),
        control={"step": "of"},
    )
