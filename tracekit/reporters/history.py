"""The history of a lake's runs, for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tracekit.reporters import diff
from tracekit.reporters.page import console, section
from tracekit.text import duration, printable, share

if TYPE_CHECKING:
    from tracekit.lake.comparing import History, RunFigures, StepChange


def render(found: History) -> None:
    """Prints a row for each run, the changes, and what changed last."""
    out = console()
    changed = {each.run: each for each in found.changes}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(("run", "began (UTC)", "ranks", "step", "busy", "host late", "")):
        table.add_column(name, justify="right" if place in (2, 3, 4, 5) else "left")
    for each in found.runs:
        step = each.step_ns
        table.add_row(
            printable(each.run),
            _when(each),
            f"{each.ranks:,}",
            duration(step),
            share(each.figures["busy_ns"], step),
            share(each.figures["host_late_ns"], step),
            _mark(changed.get(each.run)),
        )
    out.print(table)
    out.print(Text(summary(found)))
    if found.diff and found.compared:
        a, b = (printable(run) for run in found.compared)
        section(out, f"What changed from {a} (a) to {b} (b), on the first rank that both have")
        diff.render(found.diff)


def summary(found: History) -> str:
    """One sentence about the changes."""
    count = f"{len(found.runs):,} runs"
    if found.order == "name":
        count += ", ordered by name since their traces do not tell the time"
    if not found.changes:
        return f"{count}: the step did not change."
    last = found.changes[-1]
    return (
        f"{count}: the step {_verb(last)} with run {printable(last.run)}, from "
        f"{duration(last.before_ns)} to {duration(last.after_ns)}."
    )


def _verb(change: StepChange) -> str:
    return "became longer" if change.ratio > 1 else "became shorter"


def _mark(change: StepChange | None) -> str:
    return f"{change.ratio - 1:+.1%} from here on" if change else ""


def _when(run: RunFigures) -> str:
    if run.started_ns is None:
        return "-"
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
