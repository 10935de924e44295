"""The history of a lake's runs, for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.reporters import diff
from tracekit.reporters.terminal import console, section, table
from tracekit.text import duration, printable, share

if TYPE_CHECKING:
    from tracekit.lake.comparing import History, RunFigures, StepChange


def render(history: History) -> None:
    """Prints a row for each run, the changes, and what changed last."""
    out = console()
    changed = {each.run: each for each in history.changes}
    rows = [
        (printable(each.run), _when(each), f"{each.ranks:,}", duration(each.step_ns),
         share(each.figures["busy_ns"], each.step_ns),
         share(each.figures["host_late_ns"], each.step_ns), _mark(changed.get(each.run)))
        for each in history.runs
    ]  # fmt: skip
    columns = ["run", "began (UTC)", ">ranks", ">step", ">busy", ">host late", ""]
    out.print(table(columns, rows))
    out.print(Text(summary(history)))
    if history.diff and history.compared:
        a, b = (printable(run) for run in history.compared)
        runs = history.diff.runs
        on = f"rank {runs.rank}" if runs and runs.rank is not None else "the first rank of both"
        section(out, f"What changed from {a} (a) to {b} (b), then on {on}")
        diff.render(history.diff)


def summary(history: History) -> str:
    """One sentence about the changes."""
    count = f"{len(history.runs):,} runs"
    if history.order == "name":
        count += ", ordered by name since their traces do not tell the time"
    if not history.changes:
        return f"{count}: the step did not change."
    last = history.changes[-1]
    became = "longer" if last.ratio > 1 else "shorter"
    return (
        f"{count}: the step became {became} with run {printable(last.run)}, from "
        f"{duration(last.before_ns)} to {duration(last.after_ns)}."
    )


def _mark(change: StepChange | None) -> str:
    return f"{change.ratio - 1:+.1%} from here on" if change else ""


def _when(run: RunFigures) -> str:
    if run.started_ns is None:
        return "-"
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
