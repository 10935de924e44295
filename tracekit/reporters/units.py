"""Rows of a named question for people: times, sizes and shares in readable units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import median_high
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.table import Column
from rich.text import Text

from tracekit.reporters.kernel_names import short_name
from tracekit.reporters.terminal import Cell, Name, clipped, clipped_start
from tracekit.text import SIZES, TIMES, figure_of, printable

# The scales of a column's numbers, by the column's unit.
_SCALES = {
    "ns": TIMES,
    "bytes": SIZES,
    "bytes per second": tuple((f"{unit}/s", power) for unit, power in SIZES),
}
# Instants on the trace's clock are not scaled, since users copy them into other questions.
INSTANT = re.compile(r"(^|_)(start|end|at|from|base_time)_ns$")
# What a column of SQL without a name is called.
_AGGREGATED = re.compile(r"^(?:sum|avg|mean|min|max|median|any_value)\((\w+)\)$")
_UNITS = {"ns": "ns", "bytes": "bytes", "bytes_per_s": "bytes per second"}
SUFFIX = re.compile(r"_(ns|bytes|bytes_per_s)$")
_OWN_UNIT = re.compile(r"_(ns|bytes|bytes_per_s)(?=\)?$)")
# The number of digits of a column's median.
_DIGITS = 4
# From this on, digits behind the point say nothing.
_LONG = 1e4
# Up to this, floats represent every integer.
_EXACT = 2.0**53
# Text that is wrapped instead of cut.
_SENTENCES = {"message"}
# The maximum length of names in a list.
_LISTED = 40
# The unit of a column whose rows give their unit in another column.
_OF_METRIC = "the metric's unit"


# Headings are not folded to less than this; text of this length is not cut; the first column of
# longer text takes at least this much, and others.
_HEAD, _SHORT, _FIRST, _OTHER = 7, 14, 20, 12
# At most this many columns are left out before a table is printed row by row, these first.
LEFT_OUT = 4
_MINOR = re.compile(r"(p\d+|min|max|end)\b|(p\d+|min|max|end)_|\w+_at_ns$")


class ReadableTable(Struct, frozen=True):
    """A table for people."""

    columns: list[Column]
    rows: list[list[Cell]]
    shared: list[str]
    """The values that all rows share, shown without columns."""
    spare: int = 0
    """The maximum number of columns to leave out."""
    left_out: Sequence[str] = ()
    least_text: int = 0
    """Text is not cut to less than this."""
    is_folded: bool = False
    """Whether long headings take two lines."""

    @property
    def notes(self) -> list[str]:
        """The lines below the table, on what it does not show."""
        notes = {
            "In all rows": self.shared,
            "Left out at this width (--columns chooses)": self.left_out,
        }
        return [f"{says}: {', '.join(columns)}" for says, columns in notes.items() if columns]

    def within(self, width: int) -> ReadableTable | None:
        """The table at a width, with long text cut and a few columns left out if necessary; None:
        it does not fit."""
        folded = replace(self, shared=[*self.shared])
        while not folded._cut_to(width):
            heads, texts = [_plain(column) for column in folded.columns], folded._texts()
            alike = [at for at, cells in enumerate(texts) if len(cells) > 1 == len({*cells})]
            if not (alike and self.spare) and not folded.is_folded:
                folded = folded._folded()
                continue
            if not self.spare or len(heads) < 3:
                return None
            minor = [at for at, head in enumerate(heads) if _MINOR.match(head)]
            at = (alike or minor or range(len(heads)))[-1]
            if alike:
                folded.shared.append(f"{heads[at]} {texts[at][0] or '-'}")
            elif len(folded.left_out) < self.spare:
                folded = replace(folded, left_out=[heads[at], *folded.left_out])
            else:
                return None
            folded = replace(
                folded,
                columns=[each for place, each in enumerate(folded.columns) if place != at],
                rows=[row[:at] + row[at + 1 :] for row in folded.rows],
            )
        return folded

    def _cut_to(self, width: int) -> bool:
        """Divides the remaining width among the columns of long text; the first gets twice as much
        as each of the others. Returns whether that is enough."""
        widths = [
            max([max(map(cell_len, str(column.header).split("\n"))), *map(cell_len, cells)])
            for column, cells in zip(self.columns, self._texts(), strict=True)
        ]
        free = width - 2 * (len(widths) - 1)
        long = [
            at
            for at, column in enumerate(self.columns)
            if not column.no_wrap and widths[at] > _SHORT
        ]
        free -= sum(each for at, each in enumerate(widths) if at not in long)
        for place, at in reversed(list(enumerate(long))):
            share = free // (place + 2) if place else free
            column = self.columns[at]
            column.width = min(widths[at], share)
            least = max(_OTHER if place else _FIRST, self.least_text)
            if column.width < min(widths[at], least):
                return False
            free -= column.width
        return free >= 0

    def _folded(self) -> ReadableTable:
        """The table with wrapped headings if they are longer than the cells below."""
        columns = []
        for column, cells in zip(self.columns, self._texts(), strict=True):
            head = _folded(str(column.header), max([_HEAD, *map(cell_len, cells)]))
            columns.append(column.copy())
            columns[-1].header = Text(head, "bold")
        return replace(self, columns=columns, is_folded=True)

    def _texts(self) -> list[list[str]]:
        return [[str(row[at]) for row in self.rows] for at in range(len(self.columns))]


def _plain(column: Column) -> str:
    """A heading on one line."""
    return re.sub(r"\n(?!\()", "", str(column.header)).replace("\n", " ")


def record(found: ReadableTable, row: Sequence[Cell]) -> list[tuple[Text, Cell]]:
    """One row as lines, each a heading and its full value."""
    return [
        (Text(_plain(column), "bold"), Text(printable(cell)) if isinstance(cell, Name) else cell)
        for column, cell in zip(found.columns, row, strict=True)
    ]


def by_name(names: Sequence[str]) -> dict[str, str]:
    """The units that columns' names tell: dur_ns, sum(dur_ns)."""
    found = {}
    for name in names:
        inner = _AGGREGATED.sub(r"\1", name)
        if not INSTANT.search(inner) and (end := SUFFIX.search(inner)):
            found[name] = _UNITS[end[1]]
    return found


def shown(
    names: Sequence[str], rows: Sequence[Sequence[Any]], units: Mapping[str, str] | None
) -> ReadableTable:
    """The rows as a table. With the units of a question's columns, numbers are scaled to a readable
    unit in the heading, and an id shared by all rows becomes a note."""
    columns, cells, common = [], [], []
    metrics = next((at for at, name in enumerate(names) if name == "metric"), None)
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        unit = (units or {}).get(name, "")
        if unit == "id" and len(rows) > 1 and len(set(values)) == 1:
            common.append(f"{name} {_id(values[0]) or 'NULL'}")
            continue
        present = [value for value in values if value is not None]
        is_number = all(isinstance(each, int | float | Decimal) for each in present)
        head = name
        made: list[Cell] = [Text(plain_cell(value)) for value in values]
        if is_number and unit == _OF_METRIC and metrics is not None:
            made = [Text(figure_of(row[place], str(row[metrics]))) for row in rows]
        elif is_number:
            head, made = _figures(name, values, present, unit) or (name, made)
        elif name in _SENTENCES:
            made = [Text(printable(value)) for value in values]
        elif units is not None:
            made = [_named(value) for value in values]
        columns.append(Column(
            Text(printable(head), "bold"), justify="right" if is_number else "left",
            no_wrap=units is None or is_number,
            vertical="top" if _SENTENCES.intersection(names) else "bottom",
        ))  # fmt: skip
        cells.append(made)
    by_row = [list(each) for each in zip(*cells, strict=True)] if cells else []
    return ReadableTable(columns, by_row, common)


def _named(value: Any) -> Name:
    """A name; or a list of names, which keeps its end, since call paths differ there."""
    if isinstance(value, list):
        return Name(", ".join(short_name(str(each), _LISTED) for each in value), fit=clipped_start)
    return Name("" if value is None else str(value))


def _folded(head: str, width: int) -> str:
    """A heading, on two lines if it is longer than `width`: the break, at an underscore or before
    its unit, makes the longer line as short as can be."""
    breaks = [found.end() for found in re.finditer(r"_(?=.)| (?=\()", head)]
    if len(head) <= width or not breaks:
        return head
    at = min(breaks, key=lambda each: max(len(head[:each].rstrip()), len(head) - each))
    return f"{head[:at].rstrip()}\n{head[at:]}"


def _figures(
    name: str, values: Sequence[Any], known: Sequence[Any], unit: str
) -> tuple[str, list[Cell]] | None:
    """The heading and cells of a scaled column of numbers; None: the column is not scaled."""
    if unit == "id":
        return name, [Text(_id(value)) for value in values]
    if unit.startswith("fraction of"):
        return f"{name} (%)", [Text(_fixed(value, -2, 1)) for value in values]
    if unit in _SCALES and not INSTANT.search(name):
        short, power, decimals = _scale(known, unit)
        made: list[Cell] = [Text(_fixed(value, power, decimals)) for value in values]
        return f"{_OWN_UNIT.sub('', name)} ({short})", made
    return None


def plain_cell(value: Any) -> str:
    """A value as text, without unit."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) < _EXACT
        return f"{value:,.0f}" if is_whole or abs(value) >= _LONG else f"{value:,.4g}"
    return clipped(str(value), 80)


def _scale(values: Sequence[Any], unit: str) -> tuple[str, int, int]:
    """The unit in which the median is at least 1, its power of ten, and the decimals to show."""
    sizes = [abs(value) for value in values if value]
    usual = median_high(sizes) if sizes else 0
    scales = _SCALES[unit]
    short, power = next((scale for scale in scales if usual >= 10 ** scale[1]), scales[-1])
    whole = len(str(int(usual))) - power
    return short, power, min(power, max(0, _DIGITS - whole))


def _fixed(value: Any, power: int, decimals: int) -> str:
    """A number divided by a power of ten, with `decimals` decimals; a value that would round to 0
    is shown as less than the smallest such number."""
    if not value:
        return "" if value is None else "0"
    scaled = float(value) / 10**power
    if abs(scaled) < 0.5 * 10**-decimals:
        return f"<{10**-decimals:.{decimals}f}"
    return f"{scaled:,.{decimals}f}"


def _id(value: Any) -> str:
    return "" if value is None else str(value)
