"""tracekit capture"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from tracekit.commands import completing
from tracekit.commands.options import size_options, workload_options
from tracekit.errors import TracekitError
from tracekit.text import duration


@click.command(no_args_is_help=False)
@click.argument("workload", shell_complete=completing.programs)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", help="The trace to write.  [default: WORKLOAD.json.gz]")
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
    unchanged and records all of it. In a distributed run each rank writes its own file.
    """
    from tracekit.capture.usercode import no_unseen_end

    if arguments and not workload.endswith(".py"):
        raise TracekitError(f"only a script takes arguments: {' '.join(arguments)}")
    with no_unseen_end(lambda call: _refuse(workload, call)):
        if workload.endswith(".py"):
            _capture_script(workload, arguments, output, options)
        else:
            _capture_steps(workload, output, options)


def _capture_script(
    script: str, arguments: tuple[str, ...], output: str | None, options: dict[str, Any]
) -> None:
    from tracekit.capture.profile import profile_script

    recorded = {name: options[name] for name in ("shapes", "stacks", "memory")}
    to = output or script.rsplit("/", 1)[-1].removesuffix(".py") + ".json.gz"
    click.echo(f"{profile_script(script, arguments, to, **recorded)}: recorded")


def _capture_steps(workload: str, output: str | None, options: dict[str, Any]) -> None:
    from tracekit.capture.workload import Options, capture

    done = capture(workload, output or workload.replace(":", ".") + ".json.gz", Options(**options))
    if done.note:
        click.echo(f"note: {done.note}", err=True)
    click.echo(
        f"{done.path}: a step takes {duration(done.unprofiled_step_ns)}, "
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
