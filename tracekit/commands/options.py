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


class Listed(click.ParamType):  # type: ignore[type-arg]
    """Comma-separated values; duplicates count once."""

    name = "list"

    def __init__(self, kind: type[int] | type[str]) -> None:
        self.kind = kind

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "A,B,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = [self.kind(each.strip()) for each in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of integers, such as 1,8,64", param, ctx)
        if "" in found:
            self.fail(f"{value!r} has an empty value between commas", param, ctx)
        return tuple(dict.fromkeys(found))


# The sizes in `tracekit.capture.workload.Options`.
size_options = _all_of(
    click.option("--batch", type=int, help="Sequences in a batch.  [default: 64, on a CPU 4]"),
    click.option("--seq", type=int, help="Tokens in a sequence.  [default: 128, on a CPU 32]"),
    click.option("--dim", type=int, help="Features in and out.  [default: 768, on a CPU 256]"),
    click.option("--hidden", type=int, help="Features within.  [default: 3072, on a CPU 1024]"),
    click.option(
        "--dtype",
        type=click.Choice(["fp32", "fp16", "bf16"]),
        help="[default: bf16, on a CPU fp32]",
    ),
)

# The other fields of `Options`.
workload_options = _all_of(
    click.option(
        "--activation",
        type=click.Choice(["gelu-tanh", "gelu", "silu", "relu"]),
        default="gelu-tanh",
        show_default=True,
        help="The activation of the MLPs.",
    ),
    click.option(
        "--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True
    ),
    click.option(
        "--warmup", type=int, default=5, show_default=True, help="Steps to run before recording."
    ),
    click.option("--active", type=int, default=5, show_default=True, help="Steps to record."),
)

# The fields of `tracekit.ingest.resources.Resources`.
resource_options = _all_of(
    click.option(
        "--memory-mb",
        type=int,
        help="Use about this much memory, and spill the rest to disk.",
    ),
    click.option("--threads", type=int, help="Threads to load with.  [default: one per core]"),
    click.option("--temp-dir", help="Where to spill.  [default: the system's temporary directory]"),
    click.option(
        "--spill-mb",
        type=int,
        help="How much queries may spill to disk.  [default: 10,000; for a DB, 0 unless "
        "--memory-mb is given]",
    ),
    click.option(
        "--hardware", help="A TOML file of device peaks, looked up before tracekit's own."
    ),
)

row_options = _all_of(
    click.option(
        "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True
    ),
    click.option("-o", "--output", help="Write to this file instead of printing."),
    click.option(
        "--timeout",
        "timeout_s",
        type=float,
        default=600,
        show_default=True,
        help="End the query after this many seconds.",
    ),
    click.option(
        "--max-rows",
        type=int,
        help="Show or write at most this many rows.  [default: 1,000 in a table; otherwise all, if "
        "they are at most 100,000,000]",
    ),
)

threshold_option = click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a threshold (queries/thresholds.csv lists them).",
)

window_option = click.option(
    "--window",
    help="gpu_active, trace, a step's name, or the name of annotated ranges (the one of median "
    "length; NAME@2: the second).  [default: the step of median length; without steps, gpu_active]",
)
