"""Prints several verdicts side by side, and the verdict on the run whose ranks they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.text import Text

from tracekit.causes import words
from tracekit.database.remedies import marked
from tracekit.evidence.model import Collectives, Pipeline
from tracekit.reporters.parts import best_of, bound_text, devices_of, short_bound
from tracekit.reporters.terminal import WIDTH, Cell, Name, clipped_start, console, section, table
from tracekit.text import counted, duration, lowered, percent, printable, share, size
from tracekit.verdict.model import Analysis, RunSaving, RunVerdict
from tracekit.verdict.regime import UNKNOWN, split_bound
from tracekit.verdict.run_words import no_verdict, whole

_SIDE_BY_SIDE = 3
_FIGURES = ("rank", "window", "busy")
_SAVINGS, _SIZES, _STAGES = 6, 8, 16
# The maximum number of ranks to name in a group.
_RANKS = 4
# The minimum number of equal rows to merge.
_ALIKE = 4
_NUMBER = re.compile(r"\d[\d,]*\.?\d*")


def render(analyses: Sequence[Analysis], run: RunVerdict | None = None, no_run: str = "") -> None:
    """Prints several analyses as one table; for a run's ranks, also which rank each waits for.

    `no_run` is the reason why they have no common verdict."""
    out = console()
    for line in no_verdict(no_run, analyses):
        out.print(Text(line))
    if len(analyses) <= _SIDE_BY_SIDE:
        _columns(out, analyses, run)
    else:
        _rows(out, analyses, run)
        out.print(summary(analyses))


def titles(analyses: Sequence[Analysis]) -> list[str]:
    """A short name for each: the distinguishing part of its path, with the trace_id if
    necessary."""
    from tracekit.trace.paths import stem

    paths = [PurePath(analysis.trace.path) for analysis in analyses]
    folders = [list(path.parts[:-1]) for path in paths]
    while all(folders) and len({parts[0] for parts in folders}) == 1:
        folders = [parts[1:] for parts in folders]
    stems = [stem(path.name) for path in paths]
    names = ["/".join([*parts, name]) for name, parts in zip(stems, folders, strict=True)]
    counts = Counter(names)
    return [
        printable(f"{name} ({each.trace.trace_id})" if counts[name] > 1 else name)
        for each, name in zip(analyses, names, strict=True)
    ]


def summary(analyses: Sequence[Analysis]) -> str:
    """One line about all traces: the number in each regime, and the lengths of their windows."""
    bounds: dict[str, Counter[str]] = {}
    for each in analyses:
        regime, _ = split_bound(each.verdict.regime, each.verdict.bottleneck)
        causes = bounds.setdefault(regime, Counter())
        causes[each.verdict.bottleneck or "unknown cause"] += 1
    regimes = []
    for regime, causes in sorted(bounds.items(), key=lambda item: -item[1].total()):
        of = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
        by = f" by {next(iter(causes))}" if len(causes) == 1 else f" (by {of})"
        regimes.append(f"{causes.total()} {regime}{by if regime != UNKNOWN else ''}")
    spans = sorted(analysis.judged.window.span_ns for analysis in analyses)
    least, most = duration(spans[0]), duration(spans[-1])
    lengths = f"windows from {least} to {most}, median {duration(median(spans))}"
    if least == most:
        lengths = f"windows of {most}"
    return f"{len(analyses)} traces: {'; '.join(regimes)}; {lengths}."


def _rows(out: Console, analyses: Sequence[Analysis], run: RunVerdict | None) -> None:
    waits = _waits(run)
    cells: dict[str, Sequence[Cell]] = {
        "trace": [Name(title, fit=clipped_start) for title in titles(analyses)],
        "rank": ["-" if a.trace.rank is None else str(a.trace.rank) for a in analyses],
        "window": [duration(a.judged.window.span_ns) for a in analyses],
        "busy": [_share(a, a.judged.gpu, "busy_ns") for a in analyses],
        "waits for": [waits.get(a.trace.trace_id, "-") for a in analyses],
        "verdict": [short_bound(a.verdict) for a in analyses],
        "worth most": [Name(_best(a, is_brief=True)) for a in analyses],
    }
    ranks = {a.trace.rank for a in analyses}
    if ranks == {None}:
        del cells["rank"]
    elif len(ranks) == len(analyses) and None not in ranks and out.width < WIDTH:
        # The rank distinguishes them.
        del cells["trace"]
    if not waits:
        del cells["waits for"]
    names = [f">{name}" if name in _FIGURES else name for name in cells]
    columns = [Column(name, no_wrap=True) if name == "waits for" else name for name in names]
    rows = zip(*cells.values(), strict=True)
    out.print(table(columns, rows if run is None else _grouped(list(cells), rows)))


def _grouped(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    """The rows of ranks. Rows that agree to two digits are merged: the first, with a count."""
    own_columns = {names.index(each) for each in ("trace", "rank") if each in names}
    listed = list(rows)
    keys = [
        # Two digits of each number.
        tuple(
            _NUMBER.sub(lambda number: f"{float(number[0].replace(',', '')):.2g}", str(cell))
            for place, cell in enumerate(row)
            if place not in own_columns
        )
        for row in listed
    ]
    counts = Counter(keys)
    for number, (key, row) in enumerate(zip(keys, listed, strict=True)):
        if counts[key] < _ALIKE:
            yield row
        elif keys.index(key) == number:
            first, *rest = row
            yield [f"{counts[key]:,} like {first}", *rest]


def _waits(run: RunVerdict | None) -> dict[int, str]:
    """The rank for which each one waits longest, and its total wait, by trace_id."""
    if run is None or run.collectives is None or not run.collectives.waited_ns:
        return {}
    return {
        each.trace_id: f"{each.awaited_rank}, {duration(each.waited_ns)}"
        for each in run.waiting
        if each.awaited_rank is not None
    }


def _best(analysis: Analysis, *, is_brief: bool = False) -> str:
    best = best_of(analysis.advice)
    if best is None:
        return "-"
    named = marked(best.remedy) if is_brief else printable(lowered(best.title))
    return f"{percent(best.share or 0)} {named}"


def _share(analysis: Analysis, part: object, column: str) -> str:
    """A part of the window's time as its share; a dash where that is nothing, or not known."""
    ns = getattr(part, column) if part else 0
    return share(ns, analysis.judged.window.span_ns) if ns else "-"


def _columns(out: Console, analyses: Sequence[Analysis], run: RunVerdict | None) -> None:
    rows: dict[str, Sequence[Cell]] = {
        "verdict": [bound_text(a.verdict) for a in analyses],
        "in words": [printable(a.verdict.headline) for a in analyses],
        "confidence": [a.verdict.confidence for a in analyses],
        "doubtful": [printable(_doubt(a)) for a in analyses],
        "runs": [printable((a.trace.capture or {}).get("variant", "-")) for a in analyses],
        "device": [printable(devices_of(a)) for a in analyses],
        "window": [f"{w.name}, {duration(w.span_ns)}" for w in (a.judged.window for a in analyses)],
        "compute, of window": [
            _share(a, a.judged.gpu or a.judged.host, "compute_ns") for a in analyses
        ],
        "communication, exposed": [_share(a, a.judged.gpu, "exposed_comm_ns") for a in analyses],
        "copies, exposed": [_share(a, a.judged.gpu, "exposed_memcpy_ns") for a in analyses],
        "host late, of window": [_share(a, a.judged.idle, "host_late_ns") for a in analyses],
        "waits for": [_waits(run).get(a.trace.trace_id, "-") for a in analyses],
        "worth most": [_best(a) for a in analyses],
        "kernels": [f"{a.gpu.kernels:,}" if a.gpu else "-" for a in analyses],
        "operators": [f"{a.host.operators:,}" if a.host else "-" for a in analyses],
        "step, unprofiled": [_step(a, "unprofiled_step_ns") for a in analyses],
        "step, profiled": [_step(a, "profiled_step_ns") for a in analyses],
    }
    filled = [(name, *cells) for name, cells in rows.items() if {*map(str, cells)} != {"-"}]
    heads = (Column(title, overflow="fold") for title in titles(analyses))
    out.print(table([Column(), *heads], filled))


def _doubt(analysis: Analysis) -> str:
    """The doubt that lowers the confidence most."""
    verdict = analysis.verdict
    is_doubtful = verdict.lowered_by and verdict.confidence not in ("high", "none")
    return verdict.lowered_by[0].sentence if is_doubtful else "-"


def _step(analysis: Analysis, key: str) -> str:
    value = (analysis.trace.capture or {}).get(key)
    return duration(value) if isinstance(value, int) else "-"


def render_run(run: RunVerdict) -> None:
    """Prints the verdict on a run."""
    out = console()
    line = Text(run.headline, "bold")
    if run.step_ns is not None:
        line.append(f"   {_length(run)}", "default")
    out.print(line)
    if run.why:
        section(out, "Why", run.why)
    if run.unknown:
        section(out, "What these traces do not show", run.unknown)
    # Nobody can do without the kernels' work.
    if savings := [each for each in run.savings if each.remove not in words("limited")]:
        how = " (all ranks replayed together)" if run.span_ns is not None else ""
        section(out, f"What would shorten {whole(run)}{how}")
        _savings(out, savings[:_SAVINGS])
    if run.pipeline is not None:
        section(out, "Stages of the pipeline, in an average step")
        _stages(out, run.pipeline)
    if run.collectives is not None:
        section(out, "Collectives")
        _collectives(out, run, run.collectives)
    out.print()


def _length(run: RunVerdict) -> str:
    if run.steps > 1:
        return f"a step takes {duration(run.step_ns)} (median of {run.steps:,})"
    return f"the {'step' if run.steps else 'run'} takes {duration(run.step_ns)}"


def _savings(out: Console, savings: Sequence[RunSaving]) -> None:
    rows, shortens = [], words("saving")
    for saving in savings:
        ranks = f"rank {saving.rank}" if saving.rank is not None else "all ranks"
        what = shortens.get(saving.remove, f"no {saving.remove} on {ranks}").format(saving.rank)
        rows.append((percent(saving.share), duration(saving.saves_ns), what))
    out.print(table([">", ">", ""], rows))


def _stages(out: Console, pipeline: Pipeline) -> None:
    """A row for each stage: means of its ranks, as parts of a step."""
    parts = ("work_ns", "fill_ns", "between_ns", "drain_ns", "rest_ns")
    rows = []
    for _, ranks in groupby(pipeline.ranks, key=lambda each: each.stage):
        own = list(ranks)
        named = ", ".join(str(each.rank) for each in own[:_RANKS]) + ", ..." * (len(own) > _RANKS)
        means = (sum(getattr(each, part) for each in own) / len(own) for part in parts)
        rows.append((named, *(f"{duration(ns)} ({share(ns, pipeline.step_ns)})" for ns in means)))
    shown = rows if len(rows) <= _STAGES else [*rows[: _STAGES - 1], rows[-1]]
    names = (">works", ">not begun", ">waits between", ">done", ">the rest")
    out.print(table(["ranks" if len(pipeline.ranks) > len(rows) else "rank", *names], shown))
    if len(shown) < len(rows):
        out.print(f"... and {len(rows) - len(shown):,} stages between the first and the last")


def _collectives(out: Console, run: RunVerdict, done: Collectives) -> None:
    by = ", ".join(f"{count:,} by {name}" for name, count in done.matched_by.items())
    exchanges = f" and {counted(done.exchanges, 'send')}" if done.exchanges else ""
    out.print(Text(f"{counted(done.count, 'collective')}{exchanges} matched: {by}"))
    if done.left_out:
        out.print(Text(f"{done.left_out:,} could not be matched without contradiction"))
    if run.clocks is not None:
        clocks = run.clocks
        out.print(
            f"clocks of {counted(clocks.compared, 'rank')} compared: {duration(clocks.apart_ns)} "
            f"apart, once aligned ends differ by about {duration(clocks.residual_ns)}"
        )
    if run.start_skew_ns:
        out.print(f"the recordings begin {duration(run.start_skew_ns)} apart")
    rows = [row for row in done.bandwidth if row["message_bytes"]]
    # Without a common replay, they may not be the same collectives: their times say nothing.
    if not rows or run.span_ns is None:
        return
    most = sorted(rows, key=lambda row: -row["wire_ns"] * row["count"])
    # Meetings that could not be matched without contradiction are in these rows alone.
    listed_ns = sum(row["wait_ns"] for row in rows)
    all_ns = max(1, listed_ns, done.waited_ns + run.bubble_ns)
    waits = [f"{duration(ns)} ({share(ns, all_ns)})" for ns in (row["wait_ns"] for row in most)]
    cells = [
        (printable(row["type"]), _among(row, run), size(row["message_bytes"]), f"{row['count']:,}",
         duration(row["wire_ns"]),
         f"{row['bus_gb_per_s']:.3g} GB/s" if row["bus_gb_per_s"] else "-", waited)
        for row, waited in zip(most[:_SIZES], waits, strict=False)
    ]  # fmt: skip
    figures = (">message", ">calls", ">on the wire", ">bus bandwidth", ">waited (of all waiting)")
    out.print(table(["type", "ranks", *figures], cells))
    others = [(f"{len(most) - _SIZES:,} more", sum(row["wait_ns"] for row in most[_SIZES:]))]
    if len(most) <= _SIZES:
        others = []
    if unlisted_ns := all_ns - max(1, listed_ns):
        others.append(("messages of unknown size", unlisted_ns))
    if others:
        named = " and ".join(f"{what}, {duration(ns)} ({share(ns, all_ns)})" for what, ns in others)
        out.print(f"... and {named}: `tracekit query link_bandwidth`")


def _among(row: dict[str, Any], run: RunVerdict) -> str:
    """The ranks that exchange these messages; for a send, its source and destination."""
    ranks, sender = row["ranks"], row["sender"]
    if sender is not None and len(ranks) == 2:
        return f"{sender} to {ranks[ranks[0] == sender]}"
    if len(ranks) == len(run.ranks):
        return "all"
    return ", ".join(map(str, ranks[:_RANKS])) + ", ..." * (len(ranks) > _RANKS)
