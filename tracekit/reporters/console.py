"""Prints a full verdict (`analyze --full`) and its derivation (`--explain`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Column
from rich.text import Text

from tracekit.causes import UNKNOWN_LIMIT
from tracekit.database import catalog
from tracekit.evidence.collect import QUERIES
from tracekit.evidence.model import Period
from tracekit.replay.model import Causal
from tracekit.reporters import colors
from tracekit.reporters.advise import print_list
from tracekit.reporters.kernel_names import short_name
from tracekit.reporters.parts import (
    bound_text,
    devices_of,
    lists_of,
    next_of,
    short_bound,
    short_words,
)
from tracekit.reporters.terminal import (
    WIDTH,
    Cell,
    Name,
    clipped,
    clipped_start,
    console,
    section,
    table,
)
from tracekit.text import counted, duration, percent, printable, share, size
from tracekit.thresholds import TABLE
from tracekit.verdict import screen
from tracekit.verdict.model import RUN_QUERIES, Analysis
from tracekit.verdict.recorder import bound_of_verdict
from tracekit.verdict.windows import is_hardly_longer

_BAR = 34
_ADVISED = 5
# Groups of units that have a row.
_GROUPS = 6

# The questions that the lines of the first screen come from.
_OF_FIRST_SCREEN = ("partition", "idle_causes", "cpu_time", "top_kernels", "launch_stats", "units")


def render(analysis: Analysis) -> None:
    """Prints one analysis."""
    out = console()
    _headline(out, analysis)
    section(out, "Why", analysis.verdict.why)
    _time(out, analysis)
    _units(out, analysis)
    _windows(out, analysis)
    _kernels(out, analysis)
    _traffic(out, analysis)
    _health(out, analysis)
    recurring = "What to change (savings of single changes; `tracekit advise` for details)"
    lists = lists_of(analysis.advice, recurring)
    for heading, listed in lists:
        section(out, heading)
        print_list(out, listed[:_ADVISED])
    if not lists and next_of(analysis):
        section(out, "What to try next", next_of(analysis))


def _headline(out: Console, analysis: Analysis) -> None:
    verdict, trace = analysis.verdict, analysis.trace
    out.print(Text(printable(verdict.headline), "bold"))
    line = bound_text(verdict)
    line.stylize("bold")
    if verdict.bottleneck is not None:
        line.append(f"   confidence {verdict.confidence}", "default")
    if verdict.margin is not None:
        line.append(f", margin {percent(abs(verdict.margin))} of the window", "default")
    out.print(line)
    rank = "" if trace.rank is None else f", rank {trace.rank} of {trace.world_size or '?'}"
    about = f"{trace.path}: {devices_of(analysis)}{rank}, {counted(trace.events, 'event')}"
    for note in verdict.notes:
        out.print(Text(printable(note)))
    out.print(Text(printable(about), "dim"))
    rows: list[Sequence[Cell]] = [
        (Text("" if place else label, "dim"), printable(sentence))
        for label, sentences in [*screen.head(analysis), *screen.sides(analysis)]
        for place, sentence in enumerate(sentences)
    ]
    out.print(table(["", ""], rows))


def _time(out: Console, analysis: Analysis) -> None:
    """A bar for each part of the window; the parts add up to the window."""
    parts = analysis.parts
    if not parts:
        return
    window, span = analysis.judged.window, analysis.judged.window.span_ns
    whole = f"{window.name}: {duration(span)} = 100 %{screen.without_profiler(analysis)}"
    section(out, f"Where the time went ({whole})")
    rows = []
    for part in parts:
        bar = Text("█" * round(_BAR * part.dur_ns / span) or "▏", colors.of(part.kind))
        rows.append((part.name, duration(part.dur_ns), share(part.dur_ns, span), bar))
    out.print(table(["", ">", ">", ""], rows))


def _units(out: Console, analysis: Analysis) -> None:
    """The groups of units of work; nothing if nothing repeats."""
    groups = [each for each in analysis.units if each.count > 1 or len(analysis.units) > 1]
    if not groups:
        return
    section(out, "Units of work (lengths from one completion on the device to the next)")
    has_floor = any(each.floor_ns for each in groups[:_GROUPS])
    rows: list[Sequence[Cell]] = [
        (each.counted + (f", {each.cold} cold" if each.cold else ""), duration(each.first_ns),
         duration(each.min_ns), duration(each.median_ns), duration(each.max_ns),
         *([duration(each.floor_ns) if each.floor_ns else "-"] if has_floor else []),
         each.trend or "-",
         "-" if each.verdict is None else short_words(each.verdict, each.bottleneck))
        for each in groups[:_GROUPS]
    ]  # fmt: skip
    floor = [">floor"] if has_floor else []
    columns = ["", ">first", ">min", ">median", ">max", *floor, "trend"]
    out.print(table([*columns, Column("verdict", no_wrap=True)], rows))
    if len(groups) > _GROUPS:
        out.print(f"... and {counted(len(groups) - _GROUPS, 'smaller group')}")


def _windows(out: Console, analysis: Analysis) -> None:
    """The same shares for other windows, which may disagree, with the gains from halving each
    side's work."""
    judged = analysis.judged
    periods = sorted(
        (
            # The verdict's window has its own gains, without one-offs.
            judged if _key(each) == _key(judged) else each
            for each in (*analysis.windows, *analysis.steps[:8])
            if _has_row(each, analysis)
        ),
        key=lambda p: (not p.window.kind.endswith("_active"), p.window.start_ns),
    )
    if len(periods) < 2:
        return
    is_steady = any(each.gains.one_offs_ns for each in periods if each.gains)
    without = "; gains: of it without one-offs" if is_steady else ""
    section(out, f"Window by window (shares of each window{without})")
    fold = " " if out.width >= WIDTH else "\n"
    figures = [">length", ">busy", f">host{fold}late"] if analysis.gpu else [">length", ">compute"]
    is_replayed = any(period.gains for period in periods)
    figures += [f">half{fold}host", f">half{fold}device"] if is_replayed else []
    rows: list[Sequence[Cell]] = []
    for period in periods:
        span = period.window.span_ns
        late = [share(period.idle.host_late_ns, span)] if period.idle else []
        sides = (period.gains.host, period.gains.device) if period.gains else ()
        gains = [percent(max(side, 0.0)) for side in sides] or ["-"] * 2 * is_replayed
        rows.append((
            Name(period.window.name, fit=clipped_start), duration(span), _busy(period), *late,
            *gains, short_bound(period),
        ))  # fmt: skip
    out.print(table(["window", *figures, Column("verdict", no_wrap=True)], rows))
    if len(analysis.steps) > 8:
        out.print(f"... and {len(analysis.steps) - 8} more steps")


def _key(period: Period) -> tuple[str, str]:
    return period.window.kind, period.window.name


def _has_row(period: Period, analysis: Analysis) -> bool:
    """Whether a window differs enough from the verdict's for a separate row: the whole trace may be
    hardly longer, and one step may cover all of the host's steps."""
    window, main = period.window, analysis.judged.window
    if window.kind == "step":
        alone = main.kind == "host_active" and len(analysis.steps) == 1
        return not (alone and (window.start_ns, window.end_ns) == (main.start_ns, main.end_ns))
    same = period.regime == analysis.verdict.regime
    return not (same and is_hardly_longer(window, main, analysis.thresholds))


def _busy(period: Period) -> str:
    if period.gpu is not None:
        return share(period.gpu.busy_ns, period.window.span_ns)
    return share(period.host.compute_ns, period.window.span_ns) if period.host else "-"


def _kernels(out: Console, analysis: Analysis) -> None:
    if not analysis.top_kernels:
        return
    section(out, "Top kernels (share of summed kernel time)")
    places = [_place_in_graph(row) for row in analysis.top_kernels[:5]]
    # Both would leave no room for names.
    last, told = "of (known from)", places
    if not any(places):
        last, told = ">achieved, of limit", [screen.achieved(row) for row in analysis.top_kernels]
    rows: list[Sequence[str | Name]] = [
        (percent(row["share_of_kernel_time"]), duration(row["total_ns"]), f"{row['count']:,}",
         duration(row["mean_ns"]), Name(row["name"]), *[each] * any(told))
        for row, each in zip(analysis.top_kernels[:5], told, strict=False)
    ]  # fmt: skip
    out.print(table([">share", ">total", ">count", ">mean", "kernel", *[last] * any(told)], rows))


def _place_in_graph(row: Mapping[str, Any]) -> str:
    """The module, else the operator, of a kernel that a graph ran, and the source of that."""
    sources = [(row["module"], row["module_from"]), (row["cpu_op"], row["known_from"])]
    names = (f"{printable(name)} ({how})" for name, how in sources if how not in (None, "call"))
    return next(names, "")


def _traffic(out: Console, analysis: Analysis) -> None:
    copies = [row for row in analysis.memory_traffic if row["bytes"]]
    if not copies:
        return
    section(out, "Memory traffic")
    for row in copies[:4]:
        rate = f", {size(row['bytes_per_s'])}/s" if row["bytes_per_s"] else ""
        ops = "op" if row["count"] == 1 else "ops"
        out.print(
            f"{printable(row['copy_kind'])}: {row['count']:,} {ops}, {size(row['bytes'])} "
            f"in {duration(row['total_ns'])}{rate}"
        )


def _health(out: Console, analysis: Analysis) -> None:
    if not analysis.trace.health:
        return
    section(out, "Caveats")
    color = {"error": "red", "warning": "yellow", "info": "dim"}
    for finding in analysis.trace.health:
        count = f" ({finding.count:,})" if finding.count > 1 else ""
        line = Text(f"{finding.severity}: ", color[finding.severity])
        out.print(line.append(printable(finding.message) + count))


def explain(analysis: Analysis, *, every: bool) -> None:
    """Prints the arithmetic and critical path of one analysis, and with `every` all thresholds."""
    out = console()
    if analysis.causal is not None:
        _arithmetic(out, analysis, analysis.causal)
        _path(out, analysis.causal)
    if not every:
        return
    section(out, "Thresholds (--threshold NAME=VALUE sets one, but not those marked with *)")
    rows = []
    for threshold in TABLE.values():
        text = f"{threshold.meaning} ({threshold.source})"
        mark = "" if threshold.is_settable else " *"
        rows.append(
            (threshold.name + mark, f"{getattr(analysis.thresholds, threshold.name):,}", text)
        )
    out.print(table(["", ">", Column(overflow="fold")], rows))


def print_queries(*, every: bool, of_run: bool = False, err: bool = False) -> None:
    """Prints the SQL behind the first screen, or with `every` behind all of an analysis and the
    verdict on a run."""
    for name in (*QUERIES, *(RUN_QUERIES if of_run else ())) if every else _OF_FIRST_SCREEN:
        click.echo(f"\n-- tracekit query {name}\n{catalog.query(name).sql.rstrip()}", err=err)
    if not every:
        rest = len(QUERIES) - len(_OF_FIRST_SCREEN)
        click.echo(
            f"\n{rest} more questions and all thresholds: --explain --full; of one question: "
            "tracekit query NAME --explain",
            err=err,
        )


def _arithmetic(out: Console, analysis: Analysis, causal: Causal) -> None:
    """Prints each replayed change with its gain and the remaining length."""
    gains, thresholds = causal.gains, analysis.thresholds
    name = printable(analysis.judged.window.name)
    how = "without the profiler" if gains.recorder_ns else "as recorded"
    length = f"{duration(gains.window_ns)} {how}"
    section(out, f"Replays of {name}, {length} (tracekit whatif TRACE CHANGE)")
    changes = {"host*0.5": gains.host, "device*0.5": gains.device}
    changes |= {f"{cause}*0": gain for cause, gain in gains.removed.items()}
    at_most = gains.removed_at_most.items()
    changes |= {f"{cause}*0 {UNKNOWN_LIMIT}*0": gain for cause, gain in at_most}
    changes |= {"cuda-graph": gains.cuda_graph, "without unexplained waits": gains.unknown}
    rows = [
        (change, share(gain, 1), duration(round((1 - gain) * gains.window_ns)))
        for change, gain in changes.items()
    ]
    out.print(table(["change", ">gain", ">length"], rows))
    bound = bound_of_verdict(analysis)
    if bound.is_capped:
        idle = share(bound.host, 1)
        out.print(
            f"host*0.5 counts up to the device's idle share: {idle} of {share(gains.host, 1)}"
        )
    subtracted = f"{share(bound.device, 1)} - {share(bound.host, 1)}"
    judged = f"{bound.margin:+.3f} of the window: {bound.regime}"
    if bound.by_time:
        out.print(
            f"margin = |device*0.5 - host*0.5| = |{subtracted}|: both under small_gain, so time "
            f"gives its sign: {judged}"
        )
    else:
        out.print(f"margin = device*0.5 - host*0.5 = {subtracted} = {judged}")
    if causal.flip is None:
        sign = f"keeps its sign down to K = 1/{thresholds.fastest:.0f}"
    else:
        sign = f"changes its sign at K = 1/{causal.flip:.2f}"
    out.print(f"flip: with {bound.side}*K, the margin {sign}")


def _path(out: Console, causal: Causal) -> None:
    section(out, "Critical path (shares add up to the window)")
    out.print(table(["", ">"], [(cause, share(part, 1)) for cause, part in causal.path.items()]))
    section(out, "Its longest links")
    rows = []
    for link in causal.links:
        where = next((link[k] for k in ("module", "python_line", "cpu_op") if link[k]), None)
        what = Text(short_name(printable(link["name"]), 44))
        if where and where != link["name"]:
            what.append(" in " + clipped(where, 36), "dim")
        rows.append((duration(link["dur_ns"]), duration(link["start_ns"]), link["cause"], what))
    out.print(table([">length", ">at", "cause", "what"], rows))
