"""Idle gaps: the longest ones, and what the device waits for in all of them."""

from __future__ import annotations

import altair as alt
import polars as pl

from tracekit.causes import cause_of
from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, table
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration, percent

_GAPS, _CULPRITS = 200, 12


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
    rows = subject.rows("idle_gaps", top=_GAPS)
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
        source=subject.source("idle_gaps", top=_GAPS),
        doubts=subject.doubts("idle_gaps"),
        control={"step": "of"},
    )
