"""Long output on a terminal goes through a pager, as git's does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def show(text: str) -> None:
    """Prints `text`; through the pager if standard output is a terminal and it does not fit.

    The pager is TRACEKIT_PAGER, else PAGER, else `less -FRX`. Empty, or `cat`: none.
    """
    if not _command() or text.count("\n") < shutil.get_terminal_size().lines:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    environment = {"LESS": "FRX", "LV": "-c"} | os.environ
    subprocess.run(_command(), shell=True, input=text, text=True, errors="replace", env=environment)


def _command() -> str:
    """The pager's command line; empty where there is none, or nobody to page."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        return ""
    for name in ("TRACEKIT_PAGER", "PAGER"):
        if (chosen := os.environ.get(name)) is not None:
            return "" if chosen.strip() in ("", "cat") else chosen
    return "less" if shutil.which("less") else ""
