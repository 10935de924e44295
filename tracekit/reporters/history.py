"""Prints the runs of a lake over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.text import Text

from tracekit.lake.comparing import History, RunFigures
from tracekit.reporters import diff
from tracekit.reporters.terminal import Cell, console, section, table
from tracekit.reporters.works import (
    compared,
    different,
    name_of,
    per_s,
    rates_before_and_since,
    spread_of,
    the,
)
from tracekit.text import counted, duration, ended, printable, share, signed

# Parts of the compared window, by the headings of their shares of it.
_PARTS = {"busy": "busy_ns", "host late": "host_late_ns"}
_RATES = {"tokens/s": "tokens_per_s", "samples/s": "samples_per_s"}


def render_history(history: History) -> None:
    """Prints a row for each run, the changes, and the last change."""
    out = console()
    out.print(table(*_table(history)))
    for sentence in sentences(history):
        out.print(Text(sentence))
    if history.left_out:
        out.print(Text(printable(f"Left out: {history.left_out}.")))
    if history.diff and history.compared:
        a, b = (printable(run) for run in history.compared)
        runs = history.diff.runs
        on = f"rank {runs.rank}" if runs and runs.rank is not None else "the first rank of both"
        section(out, f"What changed from {a} (a) to {b} (b), then on {on}")
        diff.render(history.diff)
    elif history.changes:
        a, b = (
            printable(run) for run in (history.changes[-1].last_before, history.changes[-1].run)
        )
        section(out, f"What changed from {a} (a) to {b} (b): medians over the ranks")
        out.print(table(["", ">a", ">b", ">change"], _medians(history)))


def _table(history: History) -> tuple[list[str], list[Sequence[Cell]]]:
    """The columns and rows of the runs."""
    marks = {each.run: f"{100 * (each.ratio - 1):+.1f} % from here on" for each in history.changes}
    units = {each.unit for each in history.runs}
    parts = {head: name for head, name in _PARTS.items() if _are_known(history, name)}
    rates = {
        head: name
        for head, name in _RATES.items()
        if any(getattr(each, name) for each in history.runs)
    }
    rows: list[Sequence[Cell]] = []
    for each in history.runs:
        began = each.started_ns and datetime.fromtimestamp(each.started_ns / 1e9, UTC)
        kind = [name_of(each.unit)] if len(units) > 1 else []
        per_second = (getattr(each, name) for name in rates.values())
        rows.append((
            printable(each.run), f"{began:%Y-%m-%d %H:%M}" if began else "-", f"{each.ranks:,}",
            *kind, duration(each.unit_ns),
            *map(per_s, per_second),
            *(_share(each, name) for name in parts.values()), marks.get(each.run, ""),
        ))  # fmt: skip
    length = ["unit", ">takes"] if len(units) > 1 else [f">{name_of(*units)}"]
    heads = [f">{head}" for head in (*rates, *parts)]
    return ["run", "began (UTC)", ">ranks", *length, *heads, ""], rows


def _are_known(history: History, figure: str) -> bool:
    return any(each.figures[figure] is not None for each in history.runs)


def _share(run: RunFigures, figure: str) -> str:
    ns = run.figures[figure]
    return "-" if ns is None else share(ns, run.figures["span_ns"] or 0)


def sentences(history: History) -> list[str]:
    """The runs, what they do if that differs, and the last change or the spread."""
    count = counted(len(history.runs), "run")
    if history.order == "name":
        count += ", ordered by name since their traces do not record the date"
    apart = different(history.works)
    if not apart:
        said = _last(history) if history.changes else spread_of(history.works[0])
        return [ended(f"{count}: {said}")]
    told = [_last(history)] if history.changes else compared(history.works)
    return [ended(f"{count}. {apart}"), *(ended(f"{each[0].upper()}{each[1:]}") for each in told)]


def _last(history: History) -> str:
    """The last change, in a sentence."""
    last = history.changes[-1]
    became = "longer" if last.ratio > 1 else "shorter"
    return (
        f"{the(last.unit)} became {became} with run {printable(last.run)}, from "
        f"{duration(last.before_ns)} to {duration(last.after_ns)}"
        f"{rates_before_and_since(history.works, last)}"
        f"{'; with so few runs, this may be noise' if history.are_few else ''}"
    )


def _medians(history: History) -> list[Sequence[Cell]]:
    names = diff.FIGURES["In these windows"]
    return [
        (names[row.metric], duration(row.a), duration(row.b), signed(round(row.b - row.a)))
        for row in history.medians
        if row.metric in names and row.a is not None and row.b is not None and (row.a or row.b)
    ]
