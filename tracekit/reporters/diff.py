"""Comparisons on a terminal: of two runs, also as GitHub's Markdown for a pull request; of a lake's
runs over time; and of tracekit's numbers with HTA's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tracekit.compare.diff import Diff, Rows
from tracekit.reporters.parts import plain_part
from tracekit.reporters.terminal import WIDTH, Bar, Cell, Name, console, fitted, section, table
from tracekit.text import duration, figure_of, printable, share, signed, signed_figure, size

if TYPE_CHECKING:
    from tracekit.compare.crosscheck import CheckedFigure, Report, Value
    from tracekit.lake.comparing import History, RunFigures, StepChange

FIGURES = ("", "a", "b", "change", "b / a")
# The figures of the windows that are compared, in plain words, then those of the whole traces.
_OF_STEP = {
    "span_ns": "length", "busy_ns": "busy", "compute_ns": "compute",
    "exposed_comm_ns": "communication, exposed", "exposed_memcpy_ns": "copies, exposed",
    "idle_ns": "idle", "host_late_ns": "idle, waiting for the host",
}  # fmt: skip
_OF_TRACE = {
    "steps": "steps", "active_ns": "GPU-active span", "kernels": "kernels",
    "kernel_ns": "time in kernels", "launches": "launches", "operators": "operators",
    "dispatch_ns": "operators' own time", "sync_ns": "waits for the device",
    "copied_bytes": "copied",
}  # fmt: skip
# Tables of changes: title, which rows, the column of names and that of counts, and the beginnings
# of the columns of times.
_TABLES = (
    ("Kernels, GPU time per step", "kernels", "kernel", "count", ("",)),
    ("Operators, per step", "operators", "operator", "count", ("self_", "gpu_")),
    ("Modules, per step", "modules", "module", "calls", ("host_", "gpu_")),
    ("Parts of the program, per step", "parts", "part", "count", ("host_", "gpu_")),
)
_MEMORY = ("change", "bytes a", "bytes b", "allocations a", "allocations b", "place")
# GitHub refuses a longer comment.
_MOST_CHARACTERS = 65_536
_NAME_CHARACTERS = 120
# `$` begins a formula: https://docs.github.com/get-started/writing-on-github.
_LIVE = "\\`*_{}[]<>&|~@#:.$"


def render(comparison: Diff) -> None:
    """Prints what changed in one sentence, then waterfall, figures, and what changed most."""
    out = console()
    out.print(Text(headline(comparison), "bold"))
    for side in "ab":
        out.print(Text(f"{side}: {fitted(getattr(comparison, side), out.width - 3)}", "dim"))
    if comparison.runs is not None:
        section(out, "The runs", comparison.runs.why)
    _waterfall(out, comparison)
    for title, names in (("In these windows", _OF_STEP), ("In the whole traces", _OF_TRACE)):
        if figures := figures_of(comparison, names):
            section(out, title)
            out.print(table([FIGURES[0], *(f">{head}" for head in FIGURES[1:])], figures))
    for title, name, key, count, parts in _TABLES:
        rows = _changed(comparison, name)
        if not rows:
            continue
        section(out, title)
        known = [each for each in parts if any(row[f"{s}_{each}ns"] for row in rows for s in "ab")]
        # Where there is little room, names are worth more than the parts of a time.
        sums = [[each] for each in known] if out.width >= WIDTH or len(known) < 2 else [known]
        cells: list[Sequence[Cell]] = [
            (Text(signed(row["change_ns"]), _colour(row["change_ns"])), *_counts(row, count),
             *(duration(sum(row[f"{side}_{each}ns"] for each in some))
               for some in sums for side in "ab"), Name(row[key]))
            for row in rows
        ]  # fmt: skip
        times = [
            f"{some[0].rstrip('_') if len(some) == 1 else 'both'} {side}".strip()
            for some in sums
            for side in "ab"
        ]
        heads = ("change", f"{count} a", f"{count} b", *times)
        out.print(table([*(f">{head}" for head in heads), key], cells))
    if memory := _memory(comparison):
        section(out, f"{comparison.memory_title}, by place")
        places: list[Sequence[Cell]] = [(*row[:-1], Name(row[-1])) for row in memory]
        out.print(table([*(f">{head}" for head in _MEMORY[:-1]), _MEMORY[-1]], places))
    if comparison.doubts:
        section(out, "Caveats")
    for row in comparison.doubts:
        out.print(Text(printable(_doubt(row))))


def headline(comparison: Diff) -> str:
    """How long b takes, compared with a, and what most of the difference is."""
    if comparison.is_mixed:
        return "Only one of the runs has GPU ops: what their devices did does not compare"
    changed = [row for row in comparison.waterfall if row["change_ns"]]
    if not changed or comparison.span is None:
        return comparison.title
    in_all = comparison.span["b"] - comparison.span["a"]
    most = max(changed, key=lambda row: row["change_ns"] * (1 if in_all >= 0 else -1))
    part = plain_part(most["part"], of_host=_is_of_host(comparison))
    return f"{comparison.title}; most of all {part}: {signed(most['change_ns'])}"


def figures_of(
    comparison: Diff, names: Mapping[str, str] = _OF_STEP | _OF_TRACE
) -> list[Sequence[str]]:
    """The figures of both runs that have these names, in the columns FIGURES; without those that
    are 0 in both."""
    figures = {row["metric"]: row for row in comparison.summary if row["a"] or row["b"]}
    return [
        (
            name,
            *(figure_of(figures[metric][each], metric) for each in "ab"),
            signed_figure(figures[metric]["change"], metric),
            "-" if figures[metric]["ratio"] is None else f"{figures[metric]['ratio']:.2f}",
        )
        for metric, name in names.items()
        if metric in figures
    ]


def _is_of_host(comparison: Diff) -> bool:
    """Whether neither run has GPU ops."""
    return all(row["metric"] != "active_ns" for row in comparison.summary)


def _waterfall(out: Console, comparison: Diff) -> None:
    rows = comparison.waterfall
    if not rows:
        return
    section(out, f"From a to b: {rows[0]['window']}")
    longest = max(row["until_ns"] for row in rows) or 1
    cells: list[Sequence[Cell]] = []
    for row in rows:
        until, change = row["until_ns"] / longest, row["change_ns"]
        if change is None:
            cells.append((row["part"], "", duration(row["until_ns"]), Bar(0, until)))
        elif change:
            before = until - change / longest
            bar = Bar(min(before, until), max(before, until), _colour(change))
            part = plain_part(row["part"], of_host=_is_of_host(comparison))
            cells.append((part, signed(change), duration(row["until_ns"]), bar))
    out.print(table(["", ">change", ">length so far", ""], cells))


def _changed(comparison: Diff, name: str) -> Rows:
    """The rows of a table that changed."""
    if name == "parts" and not comparison.has_places:
        return []
    return [
        row
        for row in getattr(comparison, name)
        if row["change_ns"] or row.get("change", "same") != "same"
    ]


def _colour(change: int) -> str:
    """The colour of what takes more, or less, in b."""
    return "red" if change > 0 else "green"


def _counts(row: dict[str, Any], count: str) -> tuple[str, ...]:
    """The counts of both runs."""
    return tuple(f"{row[f'{side}_{count}']:,.1f}".removesuffix(".0") for side in "ab")


def _memory(comparison: Diff) -> list[Sequence[str]]:
    """What places hold more or less memory, in the columns _MEMORY."""
    return [
        (
            signed_figure(row["change_bytes"], "change_bytes"),
            *(size(row[f"{side}_bytes"]) for side in "ab"),
            *(f"{row[f'{side}_allocations']:,}" for side in "ab"),
            row["place"],
        )
        for row in comparison.memory
        if row["change_bytes"]
    ]


def _doubt(row: dict[str, Any]) -> str:
    return f"{row['severity']}: trace {row['trace_id']}: {row['message']}"


def render_history(history: History) -> None:
    """Prints a row for each run, the changes, and what changed last."""
    out = console()
    changed = {each.run: each for each in history.changes}
    parts = {
        name: head
        for name, head in (("busy_ns", ">busy"), ("host_late_ns", ">host late"))
        if any(each.figures[name] is not None for each in history.runs)
    }
    rows = [
        (printable(each.run), _when(each), f"{each.ranks:,}", duration(each.step_ns),
         *(_part(each, name) for name in parts), _mark(changed.get(each.run)))
        for each in history.runs
    ]  # fmt: skip
    out.print(table(["run", "began (UTC)", ">ranks", ">step", *parts.values(), ""], rows))
    out.print(Text(summary(history)))
    if history.diff and history.compared:
        a, b = (printable(run) for run in history.compared)
        runs = history.diff.runs
        on = f"rank {runs.rank}" if runs and runs.rank is not None else "the first rank of both"
        section(out, f"What changed from {a} (a) to {b} (b), then on {on}")
        render(history.diff)


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


def _part(run: RunFigures, name: str) -> str:
    """A figure as a share of the step."""
    figure = run.figures[name]
    return "-" if figure is None else share(figure, run.step_ns)


def _mark(change: StepChange | None) -> str:
    return f"{100 * (change.ratio - 1):+.1f} % from here on" if change else ""


def _when(run: RunFigures) -> str:
    if run.started_ns is None:
        return "-"
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def markdown(comparison: Diff, top: int) -> str:
    """The comparison as https://github.github.com/gfm, at most as long as GitHub takes: with fewer
    rows where names are long."""
    while True:
        text = "\n".join(_lines(comparison, top)) + "\n"
        if len(text) <= _MOST_CHARACTERS or top == 0:
            return text
        top //= 2


def _lines(comparison: Diff, top: int) -> Iterator[str]:
    yield from (
        f"### {headline(comparison)}",
        "",
        f"a: {_code(comparison.a)}, b: {_code(comparison.b)}",
        "",
    )
    if comparison.summary:
        yield from _markdown_table(FIGURES, figures_of(comparison))
    changed = [row for row in comparison.waterfall if row["change_ns"]]
    if changed:
        yield from ("", f"**From a to b: {_code(comparison.waterfall[0]['window'])}**", "")
        parts = (
            (_code(row["part"]), signed(row["change_ns"]), duration(row["until_ns"]))
            for row in changed
        )
        yield from _markdown_table(("part", "change", "length so far"), parts)
    for title, name, key, count, _ in _TABLES:
        rows = _changed(comparison, name)[:top]
        if rows:
            yield from ("", f"<details><summary>{title}</summary>", "")
            heads = ("change", f"{count} a", f"{count} b", key)
            lines = ((signed(r["change_ns"]), *_counts(r, count), _code(r[key])) for r in rows)
            yield from _markdown_table(heads, lines)
            yield from ("", "</details>")
    if memory := _memory(comparison)[:top]:
        yield from ("", f"<details><summary>{comparison.memory_title}, by place</summary>", "")
        yield from _markdown_table(_MEMORY, ((*row[:-1], _code(row[-1])) for row in memory))
        yield from ("", "</details>")
    if comparison.doubts:
        yield from ("", "**Caveats**", "")
    for row in comparison.doubts:
        yield f"- {_doubt(row | {'message': _escaped(row['message'])})}"


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "|".join("---" for _ in columns) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _code(text: object) -> str:
    """Text from a trace: in <code>, GitHub links no name and no address."""
    cut = printable(str(text))
    if len(cut) > _NAME_CHARACTERS:
        cut = cut[: _NAME_CHARACTERS - 1] + "…"
    return f"<code>{_escaped(cut)}</code>"


def _escaped(text: str) -> str:
    """Text that means nothing in Markdown or HTML, and that is no address and no name of a user."""
    plain = "".join(f"&#{ord(each)};" if each in _LIVE else each for each in text)
    return " ".join(plain.split())


_BY = ("HTA", "by its rules", "tracekit")
_AGREES = {True: ("equal", "green"), False: ("DIFFERS", "red"), None: ("-", "dim")}


def render_crosscheck(report: Report) -> None:
    """Prints the report; times in microseconds, as HTA does, down to the nanosecond."""
    from tracekit.compare.crosscheck import ANALYSES

    out = console()
    out.print(Text(f"HTA {report.hta_version} beside tracekit", "bold"))
    out.print(Text(printable(f"{report.path}: times in microseconds"), "dim"))
    for analysis in ANALYSES:
        figures = [figure for figure in report.figures if figure.analysis == analysis.name]
        failure = report.failures.get(analysis.name)
        if not figures and failure is None:
            continue
        out.print()
        out.print(_checks(analysis.name, figures) if figures else Text(analysis.name, "bold"))
        if failure is not None:
            out.print(Text(f"HTA fails: {printable(failure)}", "red"))
        reasons = dict.fromkeys(reason for figure in figures for reason in figure.reasons)
        if reasons:
            out.print("tracekit's figures differ because HTA")
        for reason in reasons:
            out.print(Text(f"- {printable(reason)}"))
    out.print()
    agrees = [figure.agrees for figure in report.figures]
    out.print(
        f"{agrees.count(True)} figures agree with HTA's rules, {agrees.count(False)} do not; "
        f"HTA fails in {len(report.failures)} of its analyses."
    )


def _checks(analysis: str, figures: list[CheckedFigure]) -> Table:
    rows: list[Sequence[Cell]] = [
        [
            _label(each),
            *(_cell(value, each.unit) for value in (each.hta, each.by_hta_rules, each.tracekit)),
            Text(*_AGREES[each.agrees]),
        ]
        for each in figures
    ]
    first = Column(Text(analysis, "bold"), min_width=40)
    values = (Column(name, justify="right", min_width=12) for name in _BY)
    return table([first, *values, "HTA, rules"], rows)


def _label(figure: CheckedFigure) -> str:
    name = printable(figure.name.lower().replace(" overlapping ", " + "))
    return name if figure.unit in ("ns", "count") else f"{name}, {figure.unit}"


def _cell(value: Value, unit: str) -> str:
    if value is None:
        return "-"
    if unit != "ns" or isinstance(value, float):
        return f"{value:,}"
    sign, ns = "-" if value < 0 else "", abs(value)
    fraction = f".{ns % 1000:03}".rstrip("0") if ns % 1000 else ""
    return f"{sign}{ns // 1000:,}{fraction}"
