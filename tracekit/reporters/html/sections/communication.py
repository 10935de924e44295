"""Communication between ranks: what it takes, and how much of it compute hides."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, table
from tracekit.reporters.html.subject import Subject
from tracekit.text import percent, size

_BARS = 20


def exposed(subject: Subject) -> Figure | None:
    """Time in collectives by type and size: exposed, and covered by compute."""
    rows = subject.rows("collective_stats")
    if not len(rows):
        return None
    rows = rows.sort("total_ns", descending=True).head(_BARS)
    total, shown = int(rows["total_ns"].sum()), int(rows["exposed_ns"].sum())
    label = [_label(row) for row in rows.iter_rows(named=True)]
    rows = rows.with_columns(
        label=pl.Series(label), covered_ns=pl.col("total_ns") - pl.col("exposed_ns")
    )
    rows = rows.group_by("label", maintain_order=True).agg(
        pl.col("exposed_ns", "covered_ns", "count").sum()
    )
    rows = rows.unpivot(
        ["exposed_ns", "covered_ns"], index=["label", "count"], variable_name="part",
        value_name="part_ns",
    ).with_columns(part=pl.col("part").str.strip_suffix("_ns"))  # fmt: skip
    names = ["exposed", "covered"]
    chart = (
        alt.Chart(rows)
        .transform_calculate(length=charts.duration_of("datum.part_ns"))
        .mark_bar()
        .encode(
            x=alt.X("part_ns:Q", title="time in kernels", axis=charts.time_axis()),
            y=charts.names("label", rows["label"].unique(maintain_order=True).to_list()),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(
                    domain=names, range=[colours.of("communication"), colours.of("compute")]
                ),
                legend=alt.Legend(orient="top"),
            ),
            order=alt.Order("part:N", sort="descending"),
            tooltip=["label:N", "part:N", "length:N", "count:Q"],
        )
    )
    return Figure(
        name="collectives",
        title="Collectives by type and size",
        says=f"{percent(shown / total) if total else '-'} of their time is exposed: no compute "
        "kernel runs meanwhile. Waiting for other ranks counts.",
        rows=rows,
        source=subject.source("collective_stats"),
        chart=charts.sized(chart, 24 * rows["label"].n_unique()),
        doubts=subject.doubts("collective_stats"),
    )


def bandwidth(subject: Subject) -> Figure | None:
    """All kinds of collectives with the bandwidth that they reach."""
    rows = subject.rows("collective_stats")
    if not len(rows):
        return None
    return Figure(
        name="bandwidth",
        title="What they reach",
        says="Compare the bus bandwidth with that of the link. The best call is nearest to the "
        "time on the wire; the rest of the others is probably waiting.",
        rows=table(rows),
        source=subject.source("collective_stats"),
        doubts=subject.doubts("collective_stats"),
    )


def _label(row: dict[str, Any]) -> str:
    known = [str(row["type"])]
    if row["message_bytes"] is not None:
        known.append(size(row["message_bytes"]))
    if row["group_name"] is not None:
        known.append(f"group {row['group_name']}")
    return ", ".join(known)
