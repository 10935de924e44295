"""If something were faster: the window at other speeds of host, device and network."""

from __future__ import annotations

from dataclasses import asdict

import altair as alt
import polars as pl

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration
from tracekit.verdict.regime import REGIMES, slower_sides


def faster(subject: Subject) -> Figure | None:
    """A map of replays: the window's length and the slower side, by speed of host and device."""
    speeds = subject.judgement.speeds
    if not speeds:
        return None
    rows = pl.DataFrame([asdict(each) for each in speeds])
    rows = rows.with_columns(bound_by=pl.Series(slower_sides(speeds, subject.analysis)))
    rows = rows.with_columns(
        colour=pl.col("bound_by").replace({**REGIMES, "network": "communication"})
    )
    [here] = rows.filter(host=1, device=1, network=1).rows(named=True)
    side = here["bound_by"]
    at = {"host": 1, "device": 1, "network": 1} | {side: 2}
    [twice] = rows.filter(**at)["window_ns"]
    command = subject.command("whatif")
    return Figure(
        name="faster",
        title="The window at other speeds",
        says=f"Now the window takes {duration(here['window_ns'])}, held up by the {side}. With a "
        f"{side} twice as fast it would take {duration(twice)}.",
        rows=rows,
        source=f"{command} steady",
        chart=_map(rows),
        control={"kind": "speeds", "command": command},
    )


def _map(rows: pl.DataFrame) -> alt.TopLevelMixin:
    network = alt.param(name="network", value=1.0)
    base = (
        alt.Chart(rows)
        .transform_filter("datum.network == network")
        .transform_calculate(length=charts.duration_of("datum.window_ns"))
        .encode(
            x=alt.X("host:O", title="host speed, times as recorded", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("device:O", title="device speed, times as recorded", sort="descending"),
        )
    )
    cells = base.mark_rect(stroke="white").encode(
        color=charts.colour(rows["colour"].to_list(), "slower side"),
        tooltip=["host:Q", "device:Q", "network:Q", alt.Tooltip("length:N", title="window")],
    )
    labels = base.mark_text(color=charts.on_colour("colour")).encode(text="length:N")
    return charts.sized((cells + labels).add_params(network), 220)
