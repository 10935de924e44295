"""Steps: how long each was, what it consists of, and what bounds it; and the window at other speeds
of host, device and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl
from msgspec import to_builtins

from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.subject import Subject
from tracekit.text import duration
from tracekit.verdict.regime import REGIMES, UNKNOWN, slower_sides

if TYPE_CHECKING:
    from tracekit.evidence.model import Period

# More steps than this are not drawn one by one, and cannot be chosen.
_MOST = 400
# The strip of more steps needs the whole width of the page.
_WIDE = 16

_PARTS = {
    "compute": "compute_ns",
    "communication": "exposed_comm_ns",
    "memcpy": "exposed_memcpy_ns",
    "idle": "idle_ns",
}


def steps(subject: Subject) -> Figure | None:
    """A strip of all steps: their length by what the device did, and their regime."""
    drawn = drawn_steps(subject)
    if len(drawn) < 2:
        return None
    rows = pl.DataFrame(
        [
            {"step": period.window.name, "number": number, "part": part,
             "part_ns": getattr(period.gpu, column), "span_ns": period.window.span_ns,
             "regime": period.regime, "bottleneck": period.bottleneck}
            for number, period in enumerate(drawn)
            for part, column in _PARTS.items()
        ]
    )  # fmt: skip
    lengths = sorted(each.window.span_ns for each in drawn)
    regimes = {each.regime for each in drawn}
    same = f"All are {regimes.pop()}" if len(regimes) == 1 else "Their regimes differ"
    return Figure(
        f"{len(drawn)} steps, from {duration(lengths[0])} to {duration(lengths[-1])}. "
        f"{same}. The line above each bar has the colour of its regime. Click on a step to see "
        "only it in what follows.",
        rows,
        _strip(rows),
        {"kind": "steps"},
        "Each step as the host ran it",
        subject.source("partition", kind="step"),
        subject.doubts("partition"),
        wide=len(drawn) > _WIDE,
    )


def drawn_steps(subject: Subject) -> list[Period]:
    """The steps that the strip shows."""
    return [each for each in subject.analysis.steps if each.gpu][:_MOST]


def _strip(rows: pl.DataFrame) -> alt.TopLevelMixin:
    regimes = rows["regime"].unique(maintain_order=True).to_list()
    base = (
        alt.Chart(rows)
        .transform_calculate(**charts.durations(length="span_ns", part_length="part_ns"))
        .encode(
            x=alt.X(
                "step:N",
                sort=charts.safe(rows["step"].unique(maintain_order=True)),
                title="step",
                axis=alt.Axis(
                    labelExpr="replace(datum.value, 'ProfilerStep#', '')",
                    labelOverlap=True,
                    labelAngle=0,
                    labelLimit=120,
                ),
            ),
            color=charts.colour([*_PARTS, *regimes], "device time, regime"),
            opacity=alt.condition(charts.of_chosen_step(), alt.value(1), alt.value(0.35)),
        )
    )
    tips = ("step:N", "length:N", "regime:N", "bottleneck:N")
    bars = (
        base.transform_calculate(colour="datum.part")
        .mark_bar()
        .encode(
            y=alt.Y("part_ns:Q", title="length of the step", axis=charts.time_axis()),
            tooltip=charts.tips(*tips, "part:N", "part_length:N=of it"),
        )
    )
    caps = (
        base.transform_filter("datum.part == 'compute'")
        .transform_calculate(colour="datum.regime")
        .mark_tick(thickness=5, yOffset=-4)
        .encode(y="span_ns:Q", tooltip=charts.tips(*tips))
    )
    return charts.sized((bars + caps).add_params(charts.step_parameter()), 180)


def faster(subject: Subject) -> Figure | None:
    """A map of replays: the window's length and the slower side, by speed of host and device."""
    speeds = subject.judgement.speeds
    if not speeds:
        return None
    rows = pl.DataFrame([to_builtins(each) for each in speeds])
    rows = rows.with_columns(bound_by=pl.Series(slower_sides(speeds, subject.analysis)))
    rows = rows.with_columns(
        colour=pl.col("bound_by").replace({**REGIMES, "network": "communication"})
    )
    [here] = rows.filter(host=1, device=1, network=1).rows(named=True)
    side = here["bound_by"]
    at = {"host": 1, "device": 1, "network": 1} | {side: 2}
    [twice] = rows.filter(**at)["window_ns"]
    command = subject.command("whatif")
    held_up = f"held up by the {side}. With a {side}"
    if subject.analysis.verdict.regime == UNKNOWN:
        held_up = f"and the trace does not tell what holds it up. With a {side}"
    return Figure(
        f"Now the window takes {duration(here['window_ns'])}, {held_up} twice as fast it would "
        f"take {duration(twice)}.",
        rows,
        _map(rows),
        {"kind": "speeds", "command": command},
        "The window at other speeds",
        f"{command} steady",
        shows=["colour"],
    )


def _map(rows: pl.DataFrame) -> alt.TopLevelMixin:
    base = (
        alt.Chart(rows)
        .transform_filter("datum.network == network")
        .transform_calculate(**charts.durations(length="window_ns"))
        .encode(
            x=alt.X("host:O", title="host speed, times as recorded", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("device:O", title="device speed, times as recorded", sort="descending"),
        )
    )
    sides = charts.colour(rows["colour"].to_list(), "slower side")
    tooltip = charts.tips("host:Q", "device:Q", "network:Q", "length:N=window")
    drawn = charts.cells(base, sides, tooltip, "length:N", stroke="white")
    return charts.sized(drawn.add_params(alt.param(name="network", value=1.0)), 220)
