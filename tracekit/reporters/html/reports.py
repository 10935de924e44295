"""Writes reports on a trace, a comparison, a sweep, a job's ranks, or a lake."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePath

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode
from msgspec import to_builtins
from msgspec.structs import replace

from tracekit.compare.diff import Diff
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.examine import examine
from tracekit.experiments.points import sweep_in
from tracekit.files import written_whole
from tracekit.lake.fleet import Fleet, fleet
from tracekit.lake.reading import Lake
from tracekit.reporters import fleet as words
from tracekit.reporters.html import charts
from tracekit.reporters.html.diff import diff_view
from tracekit.reporters.html.figure import Figure, without_empty
from tracekit.reporters.html.page import Part, View, page, told_view
from tracekit.reporters.html.rank_figures import ranks_view
from tracekit.reporters.html.ranks import in_order_of_interest
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.sweep import sweep_view
from tracekit.reporters.html.trace import trace_view
from tracekit.reporters.works import name_of
from tracekit.stages import stage
from tracekit.text import quoted
from tracekit.verdict.model import Analysis

# The maximum size of a page.
MOST_BYTES = 3_000_000
# The maximum number of ranks with their own page.
_MOST_PAGES = 12
_FLEET_TABLES = {
    "changes": "When runs became longer or shorter, the most expensive first",
    "slow_hosts": "Hosts that are late more often than others",
    "slow_runs": "Runs that were slower than those around them",
    "causes": "Causes of lost device time",
}


def write_any(
    database: Session,
    output: str | Path,
    trace_id: int | None = None,
    window: str | None = None,
) -> list[Analysis]:
    """Writes the page of a database: of its only trace or a chosen one, a sweep, a lake's runs, or
    several traces, such as a job's ranks. Returns the verdicts, in the order of trace_ids.

    The page of several ranks contains pages of single ranks, as many as fit: the first rank, then
    those for which the others wait longest.

    Raises:
        TracekitError: as `Database.verdict` does, for the window of a sweep or of several runs, or
            when `output` cannot be written.
    """
    are_all = trace_id is None and len(database.trace_ids()) > 1
    with database.sharing(together=are_all), debug_mode(False):
        text, analyses = _drawn(database, trace_id, window)
    _write(database, output, text)
    return analyses


def _drawn(
    database: Session, trace_id: int | None, window: str | None
) -> tuple[str, list[Analysis]]:
    analyses: list[Analysis] = []
    if trace_id is not None or len(database.trace_ids()) == 1:
        subject = Subject(database, database.only(trace_id), window)
        analyses.append(subject.analysis)
        with stage("drawing the page"):
            view = trace_view(subject)
            text = page(f"{subject.analysis.verdict.regime}: {view.title}", [view])
    elif isinstance(database, Lake) and len(database.parts) > 1:
        if window:
            raise TracekitError("--window does not apply to the page of several runs")
        runs = fleet(database)
        text = page(words.headline(runs), [_fleet_view(runs)])
    elif sweep := sweep_in(database):
        if window:
            raise TracekitError("--window does not apply to the page of a sweep")
        text = page(f"Sweep: {sweep.database}", [sweep_view(sweep)])
    else:
        order = in_order_of_interest(database)
        first = {each: Subject(database, each, window) for each in order[:_MOST_PAGES]}
        for each in sorted(order):
            judged = first.get(each) or examine(database, each, window)
            analyses.append(judged.analysis)
        with stage("drawing the page"):
            text = with_pages(ranks_view(database, analyses), first.values())
    return text, analyses


def write_diff(database: Session, a: int, b: int, output: str | Path) -> Diff:
    """Writes the page that compares run b with run a, with the page of each; returns the
    comparison.

    Raises:
        TracekitError: when the database has no such trace, or when `output` cannot be written.
    """
    runs = [Subject(database, database.only(run)) for run in (a, b)]
    are_all = len(database.trace_ids()) == len(runs)
    with database.sharing(together=are_all), debug_mode(False), stage("drawing the page"):
        comparison, view = diff_view(database, a, b, [run.analysis for run in runs])
        pages = {}
        for side, run in zip("ab", runs, strict=True):
            label = f"{side}: {PurePath(run.analysis.trace.path).name}"
            pages[run.trace_id] = replace(trace_view(run), label=label)
        text = page(f"{comparison.a} and {comparison.b}", [view, *pages.values()])
    _write(database, output, text)
    return comparison


def _write(database: Session, output: str | Path, text: str) -> None:
    with written_whole(output, database.inputs) as beside:
        beside.write_text(text, encoding="utf-8")


def with_pages(first: View, subjects: Iterable[Subject]) -> str:
    """The page of all ranks, with as many pages of single ranks as fit."""
    title, names = first.facts["ranks"].headline, first.facts["ranks"].names
    views, least = {}, first.least_bytes
    for subject in subjects:
        view = replace(trace_view(subject), label=names[subject.trace_id])
        views[subject.trace_id] = view
        least += view.least_bytes
        if least > MOST_BYTES:
            break
    while True:
        first.facts["paged"] = {trace: view.name for trace, view in views.items()}
        text = page(title, [first, *views.values()])
        if not views or len(text.encode()) <= MOST_BYTES:
            return text
        views.popitem()


def _fleet_view(fleet: Fleet) -> View:
    """The steps of all runs, and tables of the findings."""
    source = f"tracekit fleet {quoted(fleet.lake)}"
    places = range(len(fleet.runs))
    rows = without_empty(pl.DataFrame({
        "place": places, "run": fleet.runs, "unit": fleet.units, "step_ns": fleet.step_ns,
        "tokens_per_s": fleet.tokens_per_s, "samples_per_s": fleet.samples_per_s,
    }, infer_schema_length=None))  # fmt: skip
    rows = rows.with_columns(unit=pl.col("unit").replace({e: name_of(e) for e in fleet.units}))
    with_tips = charts.with_tooltip(alt.Chart(rows), "run:N", "unit:N", "step_ns=length")
    names = f"{json.dumps(charts.safe(fleet.runs))}[datum.value]"
    axis = alt.Axis(labelExpr=names, tickMinStep=1)
    place = alt.X("place:Q", title=f"runs in order of {fleet.order}", axis=axis)
    kinds = list(dict.fromkeys(rows["unit"]))
    chart = with_tips.mark_line(point=True).encode(
        x=place, y=charts.y("step_ns", kinds[0] if len(kinds) == 1 else "length"),
        **({"color": alt.Color("unit:N", title=None)} if len(kinds) > 1 else {}),
    )  # fmt: skip
    caption, drawn = "The median over the ranks of their medians.", charts.sized(chart, 220)
    steps = Figure(caption, rows, drawn, title="Lengths", source=source, name="steps", wide=True)
    says, tables = "Times are of all devices together, shares of all their recorded time.", []
    for name, title in _FLEET_TABLES.items():
        if section_rows := to_builtins(getattr(fleet, name)):
            if name == "changes":
                section_rows = [
                    row | {"labels": words.labels(row["labels"])} for row in section_rows
                ]
            frame = without_empty(pl.DataFrame(section_rows, infer_schema_length=None))
            tables.append(Figure(says, frame, title=title, source=source, name=name, wide=True))
    sentences = [row for section_rows in words.findings(fleet).values() for row in section_rows]
    parts = [
        Part("steps", "What each run is compared by", [steps]),
        Part("found", "Findings", tables),
    ]
    return told_view(
        "fleet", fleet.lake, words.headline(fleet), words.summary(fleet), sentences, parts
    )
