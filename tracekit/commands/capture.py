"""tracekit capture"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click

from tracekit.commands import completing
from tracekit.commands.options import size_options, workload_options
from tracekit.errors import TracekitError
from tracekit.text import duration, printable


@click.command(no_args_is_help=False)
@click.argument("workload", shell_complete=completing.programs)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-o",
    "--output",
    help="What to write: a trace (.json, .json.gz, .json.zst), a database (.duckdb), or - for a "
    "trace on standard output.  [default: WORKLOAD.json.gz]",
)
@size_options
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Record input shapes.")
@click.option(
    "--stacks/--no-stacks", default=False, show_default=True, help="Record Python stacks."
)
@click.option("--memory/--no-memory", default=False, show_default=True, help="Record allocations.")
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
    from tracekit.capture.usercode import refuse_unseen_ends

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
            written, done = _capture_script(workload, arguments, path, options)
        else:
            written, done = _capture_steps(workload, path, options)
    click.echo(f"{'-' if is_piped else printable(written)}: {done}", err=is_piped)


def _capture_script(
    script: str, arguments: tuple[str, ...], output: str | Path, options: dict[str, Any]
) -> tuple[str | Path, str]:
    from tracekit.capture.profile import profile_script

    recorded = {name: options[name] for name in ("shapes", "stacks", "memory")}
    return profile_script(script, arguments, output, **recorded), "recorded"


def _capture_steps(
    workload: str, output: str | Path, options: dict[str, Any]
) -> tuple[str | Path, str]:
    from tracekit.capture.workload import Options, capture

    done = capture(workload, output, Options(**options))
    if done.note:
        click.echo(f"note: {done.note}", err=True)
    return done.path, (
        f"a step takes {duration(done.unprofiled_step_ns)}, "
        f"under the profiler {duration(done.profiled_step_ns)}"
    )


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
