"""Prints comparisons: of two runs (also as GitHub Markdown), and of tracekit's numbers with
HTA's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.table import Column
from rich.text import Text

from tracekit.compare.diff import Diff, Rows
from tracekit.reporters.terminal import (
    WIDTH,
    Bar,
    Cell,
    Name,
    console,
    fitted,
    fitted_among,
    section,
    table,
)
from tracekit.text import (
    duration,
    figure_of,
    printable,
    signed,
    signed_figure,
    size,
)
from tracekit.verdict.parts import plain_part

if TYPE_CHECKING:
    from tracekit.compare.crosscheck import CheckedFigure, Report, Value

# Figures in plain words: of the compared windows, and of the whole traces.
FIGURES = {
    "In these windows": {
        "span_ns": "length", "busy_ns": "busy", "compute_ns": "compute",
        "exposed_comm_ns": "communication, exposed", "exposed_memcpy_ns": "copies, exposed",
        "idle_ns": "idle", "host_late_ns": "idle, waiting for the host",
    },
    "In the whole traces": {
        "steps": "steps", "active_ns": "GPU-active span", "kernels": "kernels",
        "kernel_ns": "time in kernels", "launches": "launches", "operators": "operators",
        "dispatch_ns": "operators' own time", "sync_ns": "waits for the device",
        "copied_bytes": "copied",
    },
}  # fmt: skip
# Tables of changes: title, rows, the columns of names and counts, and the prefixes of the columns
# of times.
_TABLES = (
    ("Kernels, GPU time per step", "kernels", "kernel", "count", ("",)),
    ("Operators, per step", "operators", "operator", "count", ("self_", "gpu_")),
    ("Modules, per step", "modules", "module", "calls", ("host_", "gpu_")),
    ("Parts of the program, per step", "parts", "part", "count", ("host_", "gpu_")),
)
# Added to the title of a table of kernels in whose names `#` stands for a number.
FOLDED = " (# in names: any number)"
# The maximum length of a comment on GitHub.
_MOST_CHARACTERS = 65_536
_NAME_CHARACTERS = 120
# In fewer columns, names would be cut to a few letters.
_TIGHT = 60
# `$` begins a formula: https://docs.github.com/get-started/writing-on-github. A colon or a dot is
# part of an emoji or an address only before a letter.
_LIVE = re.compile(r"[\\`*_{}\[\]<>&|~@#$]|[:.](?=\S)")


# A table of a comparison: its title, columns and rows.
_Changes = tuple[str, Sequence[str], list[Sequence[Cell]]]


def render(comparison: Diff) -> None:
    """Prints a sentence on what changed, then waterfall, figures, and the largest changes."""
    out = console()
    out.print(Text(headline(comparison), "bold"))
    for side in "ab":
        out.print(Text(f"{side}: {fitted(getattr(comparison, side), out.width - 3)}", "dim"))
    if comparison.runs is not None:
        section(out, "The runs", comparison.runs.why)
    if comparison.units_differ:
        out.print(comparison.units_differ)
    for title, columns, rows in _changes(comparison, is_narrow=out.width < WIDTH):
        section(out, title)
        out.print(table(*(_named(columns, rows) if out.width < _TIGHT else (columns, rows))))
    if comparison.doubts:
        section(out, "Caveats")
    for row in comparison.doubts:
        out.print(Text(printable(_doubt(row))))


def _named(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> tuple[list[str], list[list[Cell]]]:
    """A table of times and names: without bars, ratios and counts, which leaves room for names."""
    kept = [
        at
        for at, head in enumerate(columns)
        if not head.startswith((">b / a", ">count", ">calls", ">allocations"))
        and not any(isinstance(row[at], Bar) for row in rows)
    ]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def has_folded(rows: Rows) -> bool:
    """Whether `#` stands for a number in the kernels' names, which none of their own has."""
    return any(
        "#" in row["kernel"] and "#" not in (row["a_name"] or row["b_name"] or "") for row in rows
    )


def headline(comparison: Diff) -> str:
    """A sentence on b's length compared with a's, and on the largest part of the difference."""
    if comparison.is_mixed:
        return "Only one of the runs has GPU ops, so their devices cannot be compared"
    changed = [row for row in plain_waterfall(comparison) if row["change_ns"]]
    is_of_parts = comparison.other_work or comparison.unequal_units
    if not changed or comparison.span is None or is_of_parts:
        return comparison.title
    in_all, leads = comparison.span["b"] - comparison.span["a"], "most of all"
    most = max(changed, key=lambda row: row["change_ns"] * (1 if in_all >= 0 else -1))
    if comparison.ratio == 1:
        leads = "the largest change is in"
        most = max(changed, key=lambda row: abs(row["change_ns"]))
    return f"{comparison.title}; {leads} {most['part']}: {signed(most['change_ns'])}"


def plain_waterfall(comparison: Diff) -> Rows:
    """The rows of the waterfall, with the parts in plain words."""
    # Neither run has GPU ops.
    of_host = all(row["metric"] != "active_ns" for row in comparison.summary)
    return [
        row | {"part": plain_part(row["part"], of_host=of_host)} for row in comparison.waterfall
    ]


def _changes(comparison: Diff, is_narrow: bool = False) -> Iterator[_Changes]:
    """What changed, table by table, without empty ones."""
    if comparison.units:
        yield _units(comparison)
    if comparison.other_work:
        return
    if comparison.waterfall:
        yield _waterfall(comparison)
    figures = {row["metric"]: row for row in comparison.summary if row["a"] or row["b"]}
    for title, names in FIGURES.items():
        rows: list[Sequence[Cell]] = [
            (name, *(figure_of(figures[metric][each], metric) for each in "ab"),
             signed_figure(figures[metric]["change"], metric),
             "-" if figures[metric]["ratio"] is None else f"{figures[metric]['ratio']:.2f}")
            for metric, name in names.items()
            if metric in figures
        ]  # fmt: skip
        if rows:
            yield title, ("", ">a", ">b", ">change", ">b / a"), rows
    for title, name, key, count, parts in _TABLES:
        changed = [
            row
            for row in getattr(comparison, name)
            if row["change_ns"] or row.get("change", "same") != "same"
        ]
        if changed and (name != "parts" or comparison.has_places):
            if name == "kernels" and has_folded(changed):
                title += FOLDED
            yield _largest(title, changed, key, count, parts, is_narrow)
    memory: list[Sequence[Cell]] = [
        (signed_figure(row["change_bytes"], "change_bytes"),
         *(size(row[f"{side}_bytes"]) for side in "ab"),
         *(f"{row[f'{side}_allocations']:,}" for side in "ab"), Name(row["place"]))
        for row in comparison.memory
        if row["change_bytes"]
    ]  # fmt: skip
    if memory:
        heads = ("change", "bytes a", "bytes b", "allocations a", "allocations b")
        columns = (*(f">{head}" for head in heads), "place")
        yield f"{comparison.memory_title}, by call site", columns, memory


def _units(comparison: Diff) -> _Changes:
    rows: list[Sequence[Cell]] = [
        (row["kind"], *(f"{row[f'{side}_count']:,}" for side in "ab"),
         *("-" if row[f"{side}_median_ns"] is None else duration(row[f"{side}_median_ns"])
           for side in "ab"), "-" if row["ratio"] is None else f"{row['ratio']:.2f}")
        for row in comparison.units
    ]  # fmt: skip
    return (
        "Units of work, the median of those after a slow start",
        ("", ">a", ">b", ">one in a", ">one in b", ">b / a"),
        rows,
    )


def _waterfall(comparison: Diff) -> _Changes:
    rows = plain_waterfall(comparison)
    longest = max(row["until_ns"] for row in rows) or 1
    cells: list[Sequence[Cell]] = []
    for row in rows:
        until, change = row["until_ns"] / longest, row["change_ns"]
        if change is None:
            cells.append((row["part"], "", duration(row["until_ns"]), Bar(0, until)))
        elif change:
            before = until - change / longest
            bar = Bar(min(before, until), max(before, until), _color(change))
            cells.append((row["part"], signed(change), duration(row["until_ns"]), bar))
    return f"From a to b: {rows[0]['window']}", ("", ">change", ">length so far", ""), cells


def _largest(
    title: str, rows: Rows, key: str, count: str, parts: Sequence[str], is_narrow: bool
) -> _Changes:
    """Kernels, operators, modules or parts that changed."""
    kinds = [
        each for each in parts if any(row[f"{side}_{each}ns"] for row in rows for side in "ab")
    ]
    # If space is tight, names matter more than the parts of a time.
    sums = [kinds] if is_narrow and len(kinds) > 1 else [[each] for each in kinds]
    fit = fitted_among([str(row[key]) for row in rows])
    cells: list[Sequence[Cell]] = [
        (Text(signed(row["change_ns"]), _color(row["change_ns"])),
         *(f"{row[f'{side}_{count}']:,.1f}".removesuffix(".0") for side in "ab"),
         *(duration(sum(row[f"{side}_{each}ns"] for each in some))
           for some in sums for side in "ab"),
         Name(row[key], fit))
        for row in rows
    ]  # fmt: skip
    times = [
        f"{some[0].rstrip('_') if len(some) == 1 else 'both'} {side}".strip()
        for some in sums
        for side in "ab"
    ]
    heads = ("change", f"{count} a", f"{count} b", *times)
    return title, [*(f">{head}" for head in heads), key], cells


def _color(change: int) -> str:
    """The color of a part that takes more, or less, in b."""
    return "red" if change > 0 else "green"


def _doubt(row: dict[str, Any]) -> str:
    return f"{row['severity']}: trace {row['trace_id']}: {row['message']}"


def markdown(comparison: Diff, top: int) -> str:
    """The comparison as https://github.github.com/gfm, within GitHub's length limit: long names
    mean fewer rows."""
    while True:
        text = "\n".join(_lines(comparison, top)) + "\n"
        if len(text) <= _MOST_CHARACTERS or top == 0:
            return text
        top //= 2


def _lines(comparison: Diff, top: int) -> Iterator[str]:
    names = f"a: {_code(comparison.a)}, b: {_code(comparison.b)}"
    yield from (f"### {headline(comparison)}", "", names)
    if comparison.units_differ:
        yield from ("", _escaped(comparison.units_differ))
    for title, columns, rows in _changes(comparison):
        is_long = isinstance(rows[0][-1], Name) and not isinstance(rows[0][-1], Bar)
        if is_long and not (rows := rows[:top]):
            continue
        summary = f"<details><summary>{_escaped(title)}</summary>"
        yield from ("", summary if is_long else f"**{_escaped(title)}**", "")
        heads = columns if is_long else columns[: sum(not isinstance(e, Bar) for e in rows[0])]
        yield f"| {' | '.join(heading.removeprefix('>') for heading in heads)} |"
        yield "|" + "|".join("--:" if heading.startswith(">") else "---" for heading in heads) + "|"
        for row in rows:
            cells = (_code(e) if isinstance(e, Name) else str(e) for e in row[: len(heads)])
            yield f"| {' | '.join(cells)} |"
        if is_long:
            yield from ("", "</details>")
    if comparison.doubts:
        yield from ("", "**Caveats**", "")
    for doubt in comparison.doubts:
        yield f"- {_doubt(doubt | {'message': _escaped(doubt['message'])})}"


def _code(text: object) -> str:
    """Text from a trace, as code, so that GitHub does not link names and addresses."""
    cut = printable(str(text))
    if len(cut) > _NAME_CHARACTERS:
        cut = cut[: _NAME_CHARACTERS - 1] + "…"
    # In backticks, these characters would end the code, or the cell.
    ends = set("`|\\") & {*cut} or cut != " ".join(cut.split())
    return f"<code>{_escaped(cut)}</code>" if ends or not cut else f"`{cut}`"


def _escaped(text: str) -> str:
    """The text, escaped against Markdown, HTML, links and user names."""
    return " ".join(_LIVE.sub(lambda found: f"&#{ord(found[0])};", text).split())


_BY = ("HTA", "by its rules", "tracekit")
_AGREES = {True: ("equal", "green"), False: ("DIFFERS", "red"), None: ("-", "dim")}


def render_crosscheck(report: Report) -> None:
    """Prints the report; times in microseconds, as HTA does, down to the nanosecond."""
    from tracekit.compare.crosscheck import ANALYSES

    out = console()
    out.print(Text(f"HTA {report.hta_version} compared with tracekit", "bold"))
    out.print(Text(printable(f"{report.path}: times in microseconds"), "dim"))
    for analysis in ANALYSES:
        figures = [figure for figure in report.figures if figure.analysis == analysis.name]
        failure = report.failures.get(analysis.name)
        if not figures and failure is None:
            continue
        out.print()
        title = Text(analysis.name, "bold")
        values = (Column(name, justify="right", min_width=12) for name in _BY)
        columns: list[str | Column] = [Column(title, min_width=40), *values, "HTA, rules"]
        out.print(table(columns, map(_checked, figures)) if figures else title)
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


def _checked(figure: CheckedFigure) -> Sequence[Cell]:
    name = printable(figure.name.lower().replace(" overlapping ", " + "))
    label = name if figure.unit in ("ns", "count") else f"{name}, {figure.unit}"
    values = (figure.hta, figure.by_hta_rules, figure.tracekit)
    return [label, *(_cell(value, figure.unit) for value in values), Text(*_AGREES[figure.agrees])]


def _cell(value: Value, unit: str) -> str:
    if value is None:
        return "-"
    is_time = unit == "ns" and not isinstance(value, float)
    return f"{Decimal(value) / 1000 if is_time else value:,}"
