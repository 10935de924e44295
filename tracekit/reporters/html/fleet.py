"""The page of all runs of a lake: what changed when, which hosts are slow, and what costs most."""

from __future__ import annotations

import shlex

import altair as alt
import polars as pl

from tracekit.lake.fleet import Fleet
from tracekit.records import plain
from tracekit.reporters import fleet as text
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.page import Part, View
from tracekit.text import printable

_TABLES = {
    "changes": "Changes of the step, the most expensive first",
    "slow_hosts": "Hosts that are late more often than others",
    "slow_runs": "Runs that were slower than those around them",
    "causes": "Causes of lost device time",
}


def fleet_view(fleet: Fleet) -> View:
    """The steps of all runs, and tables of the findings."""
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
    tables = [_table(fleet, name, title) for name, title in _TABLES.items() if getattr(fleet, name)]
    parts = [
        Part("steps", "The step of each run", [_steps(fleet)]),
        Part("found", "Findings", tables),
    ]
    return View("fleet", fleet.lake, "fleet.html", facts, parts)


def _steps(fleet: Fleet) -> Figure:
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
    says, drawn = "The median over the ranks of their median steps.", charts.sized(chart, 220)
    source = _source(fleet)
    return Figure(says, rows, drawn, title="Steps", source=source, name="steps", wide=True)


def _table(fleet: Fleet, name: str, title: str) -> Figure:
    rows = plain(getattr(fleet, name))
    if name == "changes":
        rows = [row | {"labels": text.labels(row["labels"])} for row in rows]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    says = "Times are of all devices together."
    return Figure(says, frame, title=title, source=_source(fleet), name=name, wide=True)


def _source(fleet: Fleet) -> str:
    return f"tracekit fleet {shlex.quote(printable(fleet.lake))}"
