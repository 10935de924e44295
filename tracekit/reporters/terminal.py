"""Terminal output: width, pager, headings and tables."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.text import Text

from tracekit.reporters.kernel_names import short_name
from tracekit.text import printable

if TYPE_CHECKING:
    from rich.table import Column, Table

    from tracekit.thresholds import Threshold

WIDTH = 100
# The maximum width of a name in a table, and its minimum width if space is tight.
_LONGEST_NAME, _SHORTEST_NAME = 110, 12
_LONGEST_BAR = 30
# The prefix of names of autograd functions.
AUTOGRAD = "autograd::engine::evaluate_function: "
# Paths, program lines and module paths differ at their end, so the end is shown.
_PLACE = re.compile(r"\.py\b|^[^<(]*/")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves a closed pipe to the command line, which treats it as a normal end."""
        raise BrokenPipeError


def console(is_wide: bool = False) -> Console:
    """Standard output: colors and styles only on a terminal, none with NO_COLOR; no markup.

    It is at most 100 columns wide, or with `is_wide` as wide as the terminal. Without a terminal,
    COLUMNS says how wide; otherwise it is 100.
    """
    columns = WIDTH
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return _Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=columns if is_wide else min(columns, WIDTH),
        # With NO_COLOR, rich itself would still print bold text.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def clipped(text: str, width: int) -> str:
    """`text` made safe to print, and cut to `width`."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def clipped_start(text: str, width: int) -> str:
    """The text cut at its start, since paths differ at their end."""
    text = printable(text)
    return text if len(text) <= width else "..." + text[3 - width :]


def fitted(name: str, width: int) -> str:
    """A name cut to `width`: paths and program lines keep their end, kernels' and operators' names
    their start."""
    name = printable(name)
    if len(name) > width:
        name = name.removeprefix(AUTOGRAD)
    return clipped_start(name, width) if _PLACE.search(name) else short_name(name, width)


def fitted_among(names: Sequence[str]) -> Callable[[str, int], str]:
    """`fitted` for a name in a column: names that would look alike are cut where they are alike, so
    that what differs is shown."""

    @cache
    def told_apart(width: int) -> dict[str, str]:
        groups: dict[str, set[str]] = {}
        for name in names:
            groups.setdefault(fitted(name, width), set()).add(fitted(name, _LONGEST_NAME))
        apart = {}
        for name in names:
            like, whole = groups[fitted(name, width)], fitted(name, _LONGEST_NAME)
            pairs = zip(min(like), max(like), strict=False)
            start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if len(like) > 1 and start < len(whole):
                # Two thirds of the width for what differs.
                rest, most = whole[start:], 2 * width // 3
                rest = rest if len(rest) <= most else f"{rest[: most - 1]}…"
                apart[name] = f"{whole[: width - len(rest) - 1]}…{rest}"
        return apart

    return lambda name, width: told_apart(width).get(name) or fitted(name, width)


class Name:
    """A name in a table cell, which takes the width left by other columns."""

    def __init__(self, name: str, fit: Callable[[str, int], str] = fitted) -> None:
        self.name, self.fit = name, fit

    def __str__(self) -> str:
        return self.name

    def __rich_measure__(self, out: Console, options: ConsoleOptions) -> Measurement:
        longest = len(self.fit(self.name, _LONGEST_NAME))
        return Measurement(min(_SHORTEST_NAME, longest), longest)

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.fit(self.name, options.max_width), no_wrap=True)


class Bar(Name):
    """A bar in a cell, from one fraction of the width to another."""

    def __init__(self, begin: float, end: float, style: str = "") -> None:
        self.begin, self.end, self.style = begin, end, style

    def __rich_measure__(self, out: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_SHORTEST_NAME, _LONGEST_BAR)

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        begin, end = (round(options.max_width * each) for each in (self.begin, self.end))
        begin = min(begin, options.max_width - 1)
        yield Text(" " * begin).append("█" * max(1, end - begin), self.style)


Cell = str | Text | Name


def section(out: Console, title: str, sentences: Iterable[str] = ()) -> None:
    """Prints a heading, and sentences under it."""
    out.print()
    out.print(Text(printable(title), "bold"))
    for sentence in sentences:
        out.print(Text(f"- {printable(sentence)}"))


def table(columns: Sequence[str | Column], rows: Iterable[Sequence[Cell]] = ()) -> Table:
    """A table without lines. A column is given by its heading, prefixed with > for numbers, which
    are right-aligned and never cut. If all headings are empty, the table has none."""
    from rich.table import Column, Table

    def column(head: str) -> Column:
        is_figure = head.startswith(">")
        return Column(head[1:], justify="right", no_wrap=True) if is_figure else Column(head)

    made = [column(each) if isinstance(each, str) else each for each in columns]
    is_headed = any(str(each.header) for each in made)
    grid = Table(*made, box=None, show_header=is_headed, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*row)
    return grid


class _Held(io.StringIO):
    """Text for a terminal that is not there yet."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged() -> Iterator[None]:
    """On a terminal, shows what the block prints through the pager if it does not fit."""
    if not sys.stdout.isatty():
        yield
        return
    with redirect_stdout(_Held()) as held:
        yield
    show_paged(held.getvalue())


def show_paged(text: str) -> None:
    """Prints `text`; through the pager if standard output is a terminal and it does not fit.

    The pager is TRACEKIT_PAGER, else PAGER, else `less -FRX`. An empty value means no pager.
    """
    pager = os.environ.get("TRACEKIT_PAGER", os.environ.get("PAGER", "less")).strip()
    is_long = text.count("\n") >= shutil.get_terminal_size().lines
    if not (pager and is_long and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        sys.stdout.write(text)
        return
    os.environ |= {"LESS": "FRX", "LV": "-c"} | os.environ | {"PAGER": pager}
    click.echo_via_pager(text.removesuffix("\n"), color=True)


def show_thresholds(thresholds: Iterable[Threshold]) -> None:
    """Prints thresholds with their defaults, paged; a * marks those that no run sets."""
    out = console(is_wide=True)
    rows = [
        (each.name + " *" * (not each.is_settable), f"{each.default:,}", each.unit, each.meaning)
        for each in thresholds
    ]
    with out.capture() as printed:
        if out.width >= WIDTH:
            out.print(table(["threshold", ">default", "unit", "meaning"], rows))
        else:
            for name, default, unit, meaning in rows:
                out.print(f"{name}  {default} {unit}".rstrip())
                out.print(Padding(meaning, (0, 0, 0, 4)))
    show_paged(printed.get())
