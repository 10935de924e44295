"""A comparison of two runs, for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracekit.compare.diff import Diff, Rows
from tracekit.reporters.page import clipped, console, section
from tracekit.text import duration, figure_of, printable

_BAR = 30


def render(found: Diff) -> None:
    """Prints figures, waterfall, and what changed most."""
    out = console()
    out.print(Text(f"a: {printable(found.a)}\nb: {printable(found.b)}"))
    _summary(out, found.summary)
    _waterfall(out, found.waterfall)
    _changes(out, "Kernels, GPU time per step", found.kernels, "kernel", "count", ("",))
    _changes(out, "Operators, per step", found.operators, "operator", "count", ("self_", "gpu_"))
    _changes(out, "Modules, per step", found.modules, "module", "calls", ("host_", "gpu_"))
    if found.doubts:
        section(out, "Caveats")
    for row in found.doubts:
        side = printable(f"{row['severity']}: trace {row['trace_id']}: {row['message']}")
        out.print(Text(side))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right")
    return table


def _summary(out: Console, rows: Rows) -> None:
    table = _table("", "a", "b", "change", "b / a")
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        figures = [figure_of(row[name], row["metric"]) for name in ("a", "b", "change")]
        table.add_row(row["metric"].removesuffix("_ns").removesuffix("_bytes"), *figures, ratio)
    section(out, "Figures (of the median step, if both runs have steps, then of the whole trace)")
    if rows:
        out.print(table)
    else:
        out.print("none: one of the runs has no GPU ops")


def _waterfall(out: Console, rows: Rows) -> None:
    if not rows:
        return
    section(out, f"From a to b: {rows[0]['window']}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for place in range(4):
        table.add_column(justify="right" if place in (1, 2) else "left")
    longest = max(row["until_ns"] for row in rows) or 1
    for row in rows:
        if row["change_ns"] is None:
            length = _BAR * row["until_ns"] / longest
            table.add_row(row["part"], "", duration(row["until_ns"]), "█" * round(length))
        elif row["change_ns"]:
            start = min(row["until_ns"], row["until_ns"] - row["change_ns"])
            left = round(_BAR * start / longest)
            width = max(1, round(_BAR * abs(row["change_ns"]) / longest))
            colour = "red" if row["change_ns"] > 0 else "green"
            bar = Text(" " * left).append("█" * width, colour)
            table.add_row(row["part"], _signed(row["change_ns"]), duration(row["until_ns"]), bar)
    out.print(table)


def _changes(
    out: Console, title: str, rows: Rows, key: str, count: str, parts: tuple[str, ...]
) -> None:
    changed = [row for row in rows if row["change_ns"] or row.get("change", "same") != "same"]
    if not changed:
        return
    section(out, title)
    names = [part.rstrip("_") for part in parts]
    headings = [f"{name} {side}".strip() for name in names for side in ("a", "b")]
    table = _table("change", f"{count} a", f"{count} b", *headings, key)
    table.columns[-1].justify = "left"
    for row in changed:
        times = [duration(row[f"{side}_{part}ns"]) for part in parts for side in ("a", "b")]
        table.add_row(
            _signed(row["change_ns"]),
            _count(row[f"a_{count}"]),
            _count(row[f"b_{count}"]),
            *times,
            clipped(str(row[key]), 44),
        )
    out.print(table)


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + duration(ns)


def _count(value: Any) -> str:
    return f"{value:,.1f}".removesuffix(".0")
