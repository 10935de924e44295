"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tracekit.loading import Resources

_OPTIONS = (
    click.option(
        "--memory-mb",
        type=int,
        help="Keep to about this much memory while loading, and spill to disk.",
    ),
    click.option("--threads", type=int, help="Load with so many threads.  [default: one a core]"),
    click.option("--temp-dir", help="Where to spill.  [default: the system's temporary directory]"),
)


def resource_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What loading may use, as the parameters `memory_mb`, `threads` and `temp_dir`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def resources(memory_mb: int | None, threads: int | None, temp_dir: str | None) -> Resources:
    from tracekit.loading import Resources

    return Resources(memory_mb, threads, temp_dir)
