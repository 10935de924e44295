"""The page that reports are printed on: its width, headings, and long names cut short."""

from __future__ import annotations

import os
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


def console(is_wide: bool = False) -> Console:
    """Standard output: colours and styles only on a terminal, none with NO_COLOR; no markup.

    It is at most 100 columns wide, or with `is_wide` as wide as the terminal. Without a terminal,
    COLUMNS says how wide; otherwise it is 100.
    """
    columns = (
        get_terminal_size((WIDTH, 24)).columns
        if sys.stdout.isatty() or "COLUMNS" in os.environ
        else WIDTH
    )
    width = columns if is_wide else min(columns, WIDTH)
    # With NO_COLOR, rich itself would still print bold text.
    return _Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def clipped(text: str, width: int) -> str:
    """`text` made safe to print, and cut to `width`."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def section(out: Console, title: str) -> None:
    """Prints a heading."""
    out.print()
    out.print(Text(printable(title), "bold"))
