"""tracekit capture, and tracekit workloads"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click

from tracekit.commands import completion
from tracekit.commands.options import option, size_options, stage_line, workload_options
from tracekit.errors import TracekitError
from tracekit.text import duration, printable
from tracekit.workloads import WORKLOADS


@click.command(no_args_is_help=False)
@click.argument("workload", shell_complete=completion.programs)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@option(
    "-o --output",
    "What to write: a trace (.json, .json.gz, .json.zst), a database (.duckdb), or - for a trace "
    "on standard output.  [default: WORKLOAD.json.gz]",
)
@size_options
@option("--shapes/--no-shapes", "Record input shapes.", default=True)
@option("--stacks/--no-stacks", "Record Python stacks.", default=False)
@option("--memory/--no-memory", "Record allocations.", default=False)
@workload_options
def capture(workload: str, arguments: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Run WORKLOAD under torch.profiler and write its trace.

    WORKLOAD is a name from `tracekit workloads`, or your own module:function, called once per step.
    The same steps are also timed without the profiler, and both times go into the trace.

    WORKLOAD can also be a script: `tracekit capture train.py -o t.json.gz -- ARGUMENTS` runs it
    unchanged and records all of it; a status other than 0 is passed on, and nothing is written. In
    a distributed run each rank writes its own file.
    """
    from tracekit.capture.output import to_standard_output
    from tracekit.capture.profile import profile_script
    from tracekit.capture.usercode import refuse_unseen_ends
    from tracekit.capture.workload import Options, capture

    is_script = workload.endswith(".py")
    if arguments and not is_script:
        raise TracekitError(f"only a script takes arguments: {' '.join(arguments)}")
    name = workload.rsplit("/", 1)[-1].removesuffix(".py") if is_script else workload
    to = output or name.replace(":", ".") + ".json.gz"
    is_piped = to == "-"
    with (
        refuse_unseen_ends(lambda call: _refuse(workload, call)),
        to_standard_output() if is_piped else nullcontext(to) as path,
    ):
        if is_script:
            recorded = {name: options[name] for name in ("shapes", "stacks", "memory")}
            written: str | Path = profile_script(workload, arguments, path, **recorded)
            done = "recorded"
        else:
            # What the user's own code prints would run into the line.
            with stage_line() if workload in WORKLOADS else nullcontext():
                steps = capture(workload, path, Options(**options))
            if steps.note:
                click.echo(f"note: {steps.note}", err=True)
            written = steps.path
            done = (
                f"a step takes {duration(steps.unprofiled_step_ns)}, "
                f"under the profiler {duration(steps.profiled_step_ns)}"
            )
    click.echo(f"{'-' if is_piped else printable(written)}: {done}", err=is_piped)


def _refuse(workload: str, call: str) -> int:
    what = "replaces" if "exec" in call else "ends"
    instead = "capture the program it starts" if "exec" in call else "return, or use sys.exit"
    line = f"tracekit: {workload}: {call} {what} the process before a trace is written: {instead}"
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        # The code may have replaced sys.stderr.
        os.write(2, f"{line}\n".encode())
    return 2


@click.command()
def workloads() -> None:
    """List the built-in workloads."""
    width = max(map(len, WORKLOADS))
    for name, entry in WORKLOADS.items():
        click.echo(f"{name:<{width}}  {entry.summary}")
