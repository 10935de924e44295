"""HTA's numbers beside tracekit's on a terminal: one table per analysis, and why they differ."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from tracekit.compare.crosscheck import ANALYSES, CheckedFigure, Report, Value
from tracekit.reporters.terminal import Cell, console, table
from tracekit.text import printable

_COLUMNS = ("HTA", "by its rules", "tracekit")
_AGREES = {True: ("equal", "green"), False: ("DIFFERS", "red"), None: ("-", "dim")}


def render(report: Report) -> None:
    """Prints the report; times in microseconds, as HTA does, down to the nanosecond."""
    out = console()
    out.print(Text(f"HTA {report.hta_version} beside tracekit", "bold"))
    out.print(Text(printable(f"{report.path}: times in microseconds"), "dim"))
    for analysis in ANALYSES:
        figures = [figure for figure in report.figures if figure.analysis == analysis.name]
        failure = report.failures.get(analysis.name)
        if not figures and failure is None:
            continue
        out.print()
        out.print(_table(analysis.name, figures) if figures else Text(analysis.name, "bold"))
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


def _table(analysis: str, figures: list[CheckedFigure]) -> Table:
    rows: list[Sequence[Cell]] = [
        [
            _label(each),
            *(_cell(value, each.unit) for value in (each.hta, each.by_hta_rules, each.tracekit)),
            Text(*_AGREES[each.agrees]),
        ]
        for each in figures
    ]
    first = Column(Text(analysis, "bold"), min_width=40)
    values = (Column(name, justify="right", min_width=12) for name in _COLUMNS)
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
