"""The page that reports are printed on: its width, headings, and long names cut short."""

from __future__ import annotations

import sys
from shutil import get_terminal_size

from rich.console import Console
from rich.text import Text

from tracekit.text import printable

WIDTH = 100


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves a closed pipe to the command line, which treats it as a normal end."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output, at most 100 columns wide; colours only on a terminal, no markup."""
    width = min(get_terminal_size().columns, WIDTH) if sys.stdout.isatty() else WIDTH
    return _Console(highlight=False, markup=False, emoji=False, width=width)


def clipped(text: str, width: int) -> str:
    """`text` made safe to print, and cut to `width`."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def section(out: Console, title: str) -> None:
    """Prints a heading."""
    out.print()
    out.print(Text(printable(title), "bold"))
