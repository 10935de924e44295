"""The verdict of a run of several ranks, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracekit.reporters.page import console, section
from tracekit.text import counted, duration, percent, printable, share, size
from tracekit.verdict.run_model import Collectives, RunVerdict

_SAVINGS, _SIZES = 6, 6


def headline(run: RunVerdict) -> str:
    """How many ranks there are, and which sets the pace."""
    world = f" of {run.world_size:,}" if run.world_size and run.world_size > len(run.ranks) else ""
    ranks = f"{len(run.ranks):,}{world} ranks"
    if run.pace_rank is not None:
        cause = run.late_ranks[0].cause
        return f"{ranks}: rank {run.pace_rank} sets the pace{f', by {cause}' if cause else ''}"
    if any(each.remove == "pipeline-bubble" for each in run.savings):
        return f"{ranks}: the stages of the pipeline wait for each other (pipeline-bubble)"
    if run.span_ns is None:
        return f"{ranks}: who waits for whom is not known"
    return f"{ranks}: no rank holds up the others"


def render(run: RunVerdict) -> None:
    """Prints the verdict of a run."""
    out = console()
    line = Text(headline(run), "bold")
    if run.step_ns is not None:
        line.append(f"   {_length(run)}", "default")
    out.print(line)
    if run.why:
        section(out, "Why")
        for sentence in run.why:
            out.print(Text(f"- {printable(sentence)}"))
    if run.unknown:
        section(out, "What these traces do not tell")
        for sentence in run.unknown:
            out.print(Text(f"- {printable(sentence)}"))
    if run.savings:
        section(out, "What would shorten a step of the run (all ranks replayed together)")
        _savings(out, run)
    if run.collectives is not None:
        section(out, "Collectives")
        _collectives(out, run, run.collectives)
    out.print()


def _length(run: RunVerdict) -> str:
    if not run.steps:
        return f"the run takes {duration(run.step_ns)}"
    if run.steps == 1:
        return f"the step takes {duration(run.step_ns)}"
    return f"a step takes {duration(run.step_ns)} (median of {run.steps:,})"


def _savings(out: Console, run: RunVerdict) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(justify="right")
    table.add_column()
    for each in run.savings[:_SAVINGS]:
        on = f"rank {each.rank}" if each.rank is not None else "all ranks"
        what = {
            "straggler": f"rank {each.rank} takes as long as the others",
            "stragglers": "every rank takes as long as the others",
            "pipeline-bubble": "no stage of the pipeline waits for another one",
            "slow-link": "the slow link is as fast as the others",
            "network": "collectives take no time once all ranks have come",
        }.get(each.remove, f"no {each.remove} on {on}")
        table.add_row(percent(each.share), duration(each.saves_ns), what)
    out.print(table)


def _collectives(out: Console, run: RunVerdict, done: Collectives) -> None:
    by = ", ".join(f"{count:,} by {name}" for name, count in done.matched_by.items())
    exchanges = f" and {counted(done.exchanges, 'send')}" if done.exchanges else ""
    out.print(Text(f"{counted(done.count, 'collective')}{exchanges} matched: {by}"))
    if done.left_out:
        out.print(Text(f"{done.left_out:,} could not be matched without contradiction"))
    if run.clocks is not None:
        clocks = run.clocks
        out.print(
            f"clocks of {clocks.compared:,} ranks compared: {duration(clocks.apart_ns)} apart, "
            f"once aligned ends differ by about {duration(clocks.residual_ns)}"
        )
    if run.start_skew_ns:
        out.print(f"the recordings begin {duration(run.start_skew_ns)} apart")
    rows = [row for row in done.bandwidth if row["message_bytes"]]
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("type")
    for name in ("message", "calls", "on the wire", "bus bandwidth", "waited, all ranks"):
        table.add_column(name, justify="right")
    most = sorted(rows, key=lambda row: -row["wire_ns"] * row["count"])
    for row in most[:_SIZES]:
        rate = row["bus_gb_per_s"]
        table.add_row(
            printable(row["type"]), size(row["message_bytes"]), f"{row['count']:,}",
            duration(row["wire_ns"]), f"{rate:.3g} GB/s" if rate else "-",
            f"{duration(row['wait_ns'])} ({share(row['wait_ns'], max(1, done.waited_ns))})",
        )  # fmt: skip
    out.print(table)
    if len(rows) > _SIZES:
        out.print(f"... and {len(rows) - _SIZES:,} more: `tracekit query link_bandwidth`")
