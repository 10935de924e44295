"""The page of all runs of a lake: what changed when, which hosts are slow, and what costs most."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from tracekit.lake.fleet import Fleet
from tracekit.records import plain
from tracekit.reporters import fleet as text
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, Section
from tracekit.reporters.html.page import View, part_of
from tracekit.text import printable


def fleet_view(fleet: Fleet) -> View:
    """The steps of all runs, and tables of what was found."""
    sections: tuple[Section[Fleet], ...] = (
        Section("steps", "The step of each run", (steps,)),
        Section("found", "What was found", (changes, slow_hosts, slow_runs, causes)),
    )
    facts = {
        "headline": text.headline(fleet),
        "summary": text.summary(fleet),
        "sentences": [
            (sentence, text.see(fleet, run))
            for sentence, run in (
                *((text.change_sentence(each), each.run) for each in fleet.changes),
                *((text.host_sentence(each), each.worst_run) for each in fleet.slow_hosts),
                *((text.run_sentence(each), each.run) for each in fleet.slow_runs),
            )
        ],
    }
    parts = [part_of(fleet, section) for section in sections]
    return View("fleet", fleet.lake, "fleet.html", facts, parts)


def steps(fleet: Fleet) -> Figure:
    rows = pl.DataFrame(
        {"place": range(len(fleet.runs)), "run": fleet.runs, "step_ns": fleet.step_ns}
    )
    chart = (
        alt.Chart(rows)
        .transform_calculate(**charts.durations(length="step_ns"))
        .mark_line(point=True)
        .encode(
            x=alt.X("place:Q", title=f"runs in order of {fleet.order}"),
            y=alt.Y("step_ns:Q", title="step", axis=charts.time_axis()),
            tooltip=["run:N", "length:N"],
        )
    )
    says = "The median over the ranks of their median steps."
    return _figure(fleet, "Steps", says, rows, charts.sized(chart, 220))


def changes(fleet: Fleet) -> Figure | None:
    rows: list[dict[str, Any]] = [
        plain(each) | {"labels": text.labels(each.labels)} for each in fleet.changes
    ]
    return _table(fleet, "Changes of the step, what cost most first", rows)


def slow_hosts(fleet: Fleet) -> Figure | None:
    return _table(fleet, "Hosts that are late more often than others", plain(fleet.slow_hosts))


def slow_runs(fleet: Fleet) -> Figure | None:
    return _table(fleet, "Runs that were slower than those around them", plain(fleet.slow_runs))


def causes(fleet: Fleet) -> Figure | None:
    return _table(fleet, "What device time is lost to", plain(fleet.causes))


def _table(fleet: Fleet, title: str, rows: Sequence[dict[str, Any]]) -> Figure | None:
    if not rows:
        return None
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return _figure(fleet, title, "Times are of all devices together.", frame)


def _figure(
    fleet: Fleet, title: str, says: str, rows: pl.DataFrame, chart: alt.TopLevelMixin | None = None
) -> Figure:
    source = f"tracekit fleet {shlex.quote(printable(fleet.lake))}"
    return Figure(says, rows, chart, title=title, source=source, wide=True)
