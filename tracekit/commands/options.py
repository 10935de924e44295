"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tracekit.reporters import FORMATS

_Command = Callable[..., Any]


def _all_of(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# The fields of `tracekit.loading.Resources`.
resource_options = _all_of(
    click.option(
        "--memory-mb",
        type=int,
        help="Keep to about this much memory, and spill to disk.",
    ),
    click.option("--threads", type=int, help="Load with so many threads.  [default: one a core]"),
    click.option("--temp-dir", help="Where to spill.  [default: the system's temporary directory]"),
    click.option(
        "--hardware", help="A file of device peaks (TOML), tried before those that tracekit knows."
    ),
)

row_options = _all_of(
    click.option(
        "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True
    ),
    click.option("-o", "--output", help="Write there instead of printing."),
)

threshold_option = click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a threshold (tracekit/thresholds.py lists them).",
)
