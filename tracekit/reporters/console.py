"""All of a verdict on a terminal (`analyze --full`)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracekit.evidence.model import Period
from tracekit.reporters import colours
from tracekit.reporters.advise import brief
from tracekit.reporters.page import clipped, console, section
from tracekit.reporters.parts import devices_of, lists_of, parts_of
from tracekit.text import duration, percent, printable, share, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.steady import is_hardly_longer

_BAR = 34
_ADVISED = 5


def render(analysis: Analysis) -> None:
    """Prints one analysis."""
    out = console()
    _headline(out, analysis)
    section(out, "Why")
    for sentence in analysis.verdict.why:
        out.print(Text("- " + printable(sentence)))
    _time(out, analysis)
    _windows(out, analysis)
    _phases(out, analysis)
    _kernels(out, analysis)
    _traffic(out, analysis)
    _health(out, analysis)
    recurring = "What to change (what each saves alone; `tracekit advise` tells more)"
    lists = lists_of(analysis.advice, recurring)
    for heading, listed in lists:
        section(out, heading)
        brief(out, listed[:_ADVISED], analysis.verdict.bottleneck)
    if lists:
        return
    if analysis.verdict.try_next:
        section(out, "What to try next")
        for sentence in analysis.verdict.try_next:
            out.print(Text("- " + sentence))


def _headline(out: Console, analysis: Analysis) -> None:
    verdict, trace = analysis.verdict, analysis.trace
    out.print(Text(printable(verdict.headline), "bold"))
    line = Text(verdict.regime, f"bold {colours.of(verdict.regime)}")
    if verdict.bottleneck:
        line.append(f", by {verdict.bottleneck}", "bold")
    if verdict.margin is not None:
        line.append(
            f"   confidence {verdict.confidence}, margin {abs(verdict.margin):.0%} of the window"
        )
    out.print(line)
    rank = "" if trace.rank is None else f", rank {trace.rank} of {trace.world_size or '?'}"
    told = f"{trace.path}: {devices_of(analysis)}{rank}, {trace.events:,} events"
    out.print(Text(printable(told), "dim"))


def _time(out: Console, analysis: Analysis) -> None:
    """A bar for each part of the window; the parts add up to the window."""
    parts = parts_of(analysis)
    if not parts:
        return
    window, span = analysis.judged.window, analysis.judged.window.span_ns
    section(out, f"Where the time went ({window.name}: {duration(span)} = 100 %)")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    for part in parts:
        bar = Text("█" * round(_BAR * part.ns / span) or "▏", colours.of(part.kind))
        table.add_row(part.name, duration(part.ns), share(part.ns, span), bar)
    out.print(table)


def _windows(out: Console, analysis: Analysis) -> None:
    """The same shares for the other windows, which can disagree, with what halving each side's work
    gains there."""
    periods = sorted(
        (each for each in (*analysis.windows, *analysis.steps[:8]) if _tells(each, analysis)),
        key=lambda p: (not p.window.kind.endswith("_active"), p.window.start_ns),
    )
    if len(periods) < 2:
        return
    is_steady = any(each.gains.one_offs_ns for each in periods if each.gains)
    without = "; gains: of it without one-offs" if is_steady else ""
    section(out, f"Window by window (shares of each window{without})")
    figures = ["length", "busy", "host late"] if analysis.gpu else ["length", "compute"]
    is_replayed = any(period.gains for period in periods)
    figures += ["half host", "half device"] if is_replayed else []
    table = _table_of("window", figures, ["regime", "bottleneck"])
    for period in periods:
        span = period.window.span_ns
        gains = [_gain(period, "host"), _gain(period, "device")] if is_replayed else []
        table.add_row(
            clipped(period.window.name, 24),
            duration(span),
            _busy(period),
            *([share(period.idle.host_late_ns, span)] if period.idle else []),
            *gains,
            *_judged(period),
        )
    out.print(table)
    if len(analysis.steps) > 8:
        out.print(f"... and {len(analysis.steps) - 8} more steps")


def _tells(period: Period, analysis: Analysis) -> bool:
    """Whether a row tells more than that of the verdict's window: the whole trace may be hardly
    longer, and one step may be all of the host's steps."""
    window, main = period.window, analysis.judged.window
    if window.kind == "step":
        alone = main.kind == "host_active" and len(analysis.steps) == 1
        return not (alone and (window.start_ns, window.end_ns) == (main.start_ns, main.end_ns))
    same = period.regime == analysis.verdict.regime
    return not (same and is_hardly_longer(window, main, Thresholds()))


def _table_of(first: str, figures: Sequence[str], words: Sequence[str] = ()) -> Table:
    """An empty table with a column for the row's subject, then figures, then words."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in figures:
        table.add_column(name, justify="right")
    for name in words:
        table.add_column(name)
    return table


def _gain(period: Period, side: str) -> str:
    """What halving a side's work gains."""
    if period.gains is None:
        return "-"
    return percent(max(period.gains.host if side == "host" else period.gains.device, 0.0))


def _judged(period: Period) -> list[str | Text]:
    return [Text(period.regime, colours.of(period.regime)), period.bottleneck or "-"]


def _phases(out: Console, analysis: Analysis) -> None:
    """The longest outermost ranges of a trace without steps."""
    if not analysis.phases:
        return
    if analysis.judged.window.kind == "range":
        section(out, "Ranges of this name (from the begin of their work to its completion)")
    else:
        section(out, "Phases (the trace marks no steps; ranges from one completion to the next)")
    table = _table_of("range", ["length", "half host", "half device"])
    longest = sorted(analysis.phases, key=lambda phase: -phase.window_ns)
    for phase in longest[:5]:
        table.add_row(
            clipped(phase.name, 50),
            duration(phase.window_ns),
            percent(max(phase.host_gain, 0.0)),
            percent(max(phase.device_gain, 0.0)),
        )
    out.print(table)
    if len(longest) > 5:
        out.print(f"... and {len(longest) - 5} shorter ones")


def _busy(period: Period) -> str:
    if period.gpu is not None:
        return share(period.gpu.busy_ns, period.window.span_ns)
    return share(period.host.compute_ns, period.window.span_ns) if period.host else "-"


def _kernels(out: Console, analysis: Analysis) -> None:
    if not analysis.top_kernels:
        return
    section(out, "Top kernels (share of summed kernel time)")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("share", "total", "count", "mean"):
        table.add_column(name, justify="right")
    table.add_column("kernel")
    for row in analysis.top_kernels[:5]:
        table.add_row(
            f"{row['share_of_kernel_time']:.1%}",
            duration(row["total_ns"]),
            f"{row['count']:,}",
            duration(row["mean_ns"]),
            clipped(row["name"], 62),
        )
    out.print(table)


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
    colour = {"error": "red", "warning": "yellow", "info": "dim"}
    for finding in analysis.trace.health:
        count = f" ({finding.count:,})" if finding.count > 1 else ""
        line = Text(f"{finding.severity}: ", colour[finding.severity])
        out.print(line.append(printable(finding.message) + count))
