"""What is behind a verdict: the critical path, the arithmetic of its sentences, the queries."""

from __future__ import annotations

from dataclasses import fields

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracekit.causes import UNKNOWN_LIMIT
from tracekit.database import catalog
from tracekit.evidence.collect import QUERIES
from tracekit.evidence.model import Evidence
from tracekit.replay.model import Causal
from tracekit.reporters.page import clipped, console, section
from tracekit.text import duration, printable, share
from tracekit.thresholds import Thresholds, is_settable
from tracekit.verdict.model import Analysis
from tracekit.verdict.recorder import unbent
from tracekit.verdict.regime import bound_of
from tracekit.verdict.run_model import RUN_QUERIES


def render(analysis: Analysis, limits: Thresholds) -> None:
    """Prints the arithmetic, critical path and thresholds of one analysis."""
    out = console()
    if analysis.causal is not None:
        _arithmetic(out, analysis, analysis.causal, limits)
        _path(out, analysis.causal)
        _links(out, analysis.causal)
    section(out, "Thresholds (--threshold NAME=VALUE sets one, but not those marked with *)")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for each in fields(limits):
        text = f"{each.metadata['help']} ({each.metadata['source']})"
        mark = "" if is_settable(each) else " *"
        table.add_row(each.name + mark, f"{getattr(limits, each.name):,}", text)
    out.print(table)


def render_queries(*, of_run: bool = False, err: bool = False) -> None:
    """Prints the SQL of the queries that an analysis asks, and the verdict of a run."""
    for name in (*QUERIES, *(RUN_QUERIES if of_run else ())):
        click.echo(f"\n-- tracekit query {name}\n{catalog.query(name).sql.rstrip()}", err=err)


def _arithmetic(out: Console, analysis: Analysis, causal: Causal, limits: Thresholds) -> None:
    """Prints each replayed change with its gain and the length that remains."""
    gains = causal.gains
    name = printable(analysis.judged.window.name)
    section(
        out,
        f"Replays of {name}, recorded {duration(gains.window_ns)} (tracekit whatif TRACE CHANGE)",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("change")
    table.add_column("gain", justify="right")
    table.add_column("length", justify="right")
    changes = {"host*0.5": gains.host, "device*0.5": gains.device}
    changes |= {f"{cause}*0": gain for cause, gain in gains.removed.items()}
    changes |= {
        f"{cause}*0 {UNKNOWN_LIMIT}*0": gain for cause, gain in gains.removed_at_most.items()
    }
    changes["cuda-graph"] = gains.cuda_graph
    changes["without unexplained waits"] = gains.unknown
    for name, gain in changes.items():
        table.add_row(name, share(gain, 1), duration(round((1 - gain) * gains.window_ns)))
    out.print(table)
    judged = analysis.judged
    # The verdict is on the window without what the recorder added.
    found = Evidence(
        window=judged.window, gpu=judged.gpu, idle=judged.idle, causal=causal,
        health=analysis.trace.health,
    )  # fmt: skip
    bound = bound_of(unbent(found), limits)
    if bound.is_capped:
        idle = share(bound.host, 1)
        out.print(
            f"host*0.5 counts up to the device's idle share: {idle} of {share(gains.host, 1)}"
        )
    subtracted = f"{share(bound.device, 1)} - {share(bound.host, 1)}"
    if bound.by_time:
        out.print(
            f"margin = |device*0.5 - host*0.5| = |{subtracted}|: both under small_gain, so time "
            f"gives its sign: {bound.margin:+.3f} of the window: {bound.regime}"
        )
    else:
        out.print(
            f"margin = device*0.5 - host*0.5 = {subtracted} = {bound.margin:+.3f} of the window: "
            f"{bound.regime}"
        )
    if causal.flip is None:
        least = f"K = 1/{limits.fastest:.0f}"
        out.print(f"flip: with {bound.side}*K, the margin keeps its sign down to {least}")
    else:
        at = f"K = 1/{causal.flip:.2f}"
        out.print(f"flip: with {bound.side}*K, the margin changes its sign at {at}")


def _path(out: Console, causal: Causal) -> None:
    section(out, "Critical path (shares add up to the window)")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for cause, part in causal.path.items():
        table.add_row(cause, share(part, 1))
    out.print(table)


def _links(out: Console, causal: Causal) -> None:
    section(out, "Its longest links")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("length", "at"):
        table.add_column(name, justify="right")
    table.add_column("cause")
    table.add_column("what")
    for link in causal.links:
        where = next((link[k] for k in ("module", "python_line", "cpu_op") if link[k]), None)
        what = Text(clipped(link["name"], 44))
        if where and where != link["name"]:
            what.append(" in " + clipped(where, 36), "dim")
        table.add_row(duration(link["dur_ns"]), duration(link["start_ns"]), link["cause"], what)
    out.print(table)
