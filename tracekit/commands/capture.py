"""tracekit capture"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.options import size_options, workload_options
from tracekit.errors import TracekitError
from tracekit.text import duration


@click.command(no_args_is_help=False)
@click.argument("workload")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", help="Where the trace goes.  [default: WORKLOAD.json.gz]")
@size_options
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Record input shapes.")
@click.option(
    "--stacks/--no-stacks", default=False, show_default=True, help="Record Python stacks."
)
@click.option("--memory/--no-memory", default=False, show_default=True, help="Record allocations.")
@workload_options
def capture(workload: str, arguments: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Run WORKLOAD under torch.profiler and write its trace.

    WORKLOAD is a name from `tracekit workloads`, or module:function of your own, called once a
    step. The same steps are also timed without the profiler; the trace says how far they differ.

    Or it is a script: `tracekit capture train.py -o t.json.gz -- ARGUMENTS` runs it unchanged and
    records all of it; in a distributed run each rank writes a file of its own.
    """
    if workload.endswith(".py"):
        from tracekit.profiling import profile_script

        recorded = {name: options[name] for name in ("shapes", "stacks", "memory")}
        to = output or workload.rsplit("/", 1)[-1].removesuffix(".py") + ".json.gz"
        click.echo(f"{profile_script(workload, arguments, to, **recorded)}: recorded")
        return
    if arguments:
        raise TracekitError(f"only a script takes arguments: {' '.join(arguments)}")
    from tracekit.capture import Options
    from tracekit.capture import capture as run

    if output is None:
        output = workload.replace(":", ".") + ".json.gz"
    done = run(workload, output, Options(**options))
    if done.note:
        click.echo(f"note: {done.note}", err=True)
    click.echo(
        f"{done.path}: a step takes {duration(done.unprofiled_step_ns)}, "
        f"under the profiler {duration(done.profiled_step_ns)}"
    )
