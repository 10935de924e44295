"""tracekit sweep"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands.options import Listed, workload_options
from tracekit.errors import is_interrupt
from tracekit.text import printable


@click.command()
@click.argument("workload")
@click.option("-o", "--output", default="sweep.duckdb", show_default=True, help="The database.")
@click.option("--batch", type=Listed(int), help="Sequences in a batch: 1,8,64.")
@click.option("--seq", type=Listed(int), help="Tokens in a sequence.")
@click.option("--dim", type=Listed(int), help="Features in and out.")
@click.option("--hidden", type=Listed(int), help="Features within.")
@click.option("--dtype", type=Listed(str), help="Any of fp32, fp16 and bf16.")
@click.option("--variants", type=Listed(str), default=(), help="Only these: eager,compiled.")
@click.option("--baseline", help="The variant to compare with.  [default: the first]")
@click.option(
    "--rounds", default=15, show_default=True, help="How often to time each variant, in turns."
)
@click.option("--retry", is_flag=True, help="Retry the points that could not run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@workload_options
def sweep(
    workload: str,
    output: str,
    as_json: bool,
    markdown: bool,
    **given: Any,
) -> int:
    """Time and capture WORKLOAD at every size of a grid.

    WORKLOAD is a name from `tracekit workloads`, or a family: mlp means all mlp-*. The variants of
    a size are timed in turns without the profiler; then each is captured once. When called again,
    the sweep runs only the missing points. The exit status is 1 if a variant gives a wrong answer.
    """
    from tracekit.capture.workload import Options
    from tracekit.experiments import sweeping as library
    from tracekit.experiments.points import AXES
    from tracekit.reporters import sweep as reporter
    from tracekit.reporters.progress import sweep_bar

    axes = {axis: values for axis in AXES if (values := given.pop(axis))}
    asked = {name: given.pop(name) for name in ("variants", "baseline", "rounds", "retry")}
    try:
        with sweep_bar() as progress:
            found = library.sweep(
                workload, output, axes, options=Options(**given), progress=progress, **asked
            )
    except BaseException as error:
        if is_interrupt(error):
            kept = f"tracekit: {output} keeps the finished points: run the same command to resume"
            click.echo(printable(kept), err=True)
        raise
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        reporter.render(found, markdown)
    return 0 if found.is_right else 1
