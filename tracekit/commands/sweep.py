"""tracekit sweep"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from tracekit.commands.options import Listed, json_option, option, show, warn, workload_options
from tracekit.errors import is_interrupt


@click.command()
@click.argument("workload")
@option("-o --output", "The database.", default="sweep.duckdb")
@option("--batch", "Sequences in a batch: 1,8,64.", Listed(int))
@option("--seq", "Tokens in a sequence.", Listed(int))
@option("--dim", "Features in and out.", Listed(int))
@option("--hidden", "Features within.", Listed(int))
@option("--dtype", "Any of fp32, fp16 and bf16.", Listed(str))
@click.option("--variants", type=Listed(str), default=(), help="Only these: eager,compiled.")
@option("--baseline", "The variant to compare with.  [default: the first]")
@option("--rounds", "How often to time each variant, in turns.", default=15)
@option("--retry", "Retry the points that could not run.", is_flag=True)
@json_option
@option("--markdown", "Print tables in Markdown.", is_flag=True)
@workload_options
def sweep(workload: str, output: str, as_json: bool, markdown: bool, **given: Any) -> int:
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
    chosen = {name: given.pop(name) for name in ("variants", "baseline", "rounds", "retry")}
    try:
        with sweep_bar() as progress:
            found = library.sweep(
                workload, output, axes, options=Options(**given), progress=progress, **chosen
            )
    except BaseException as error:
        if is_interrupt(error):
            warn(f"{output} keeps the finished points: run the same command to resume")
        raise
    show(found, as_json, partial(reporter.render, markdown=markdown))
    return 0 if found.is_right else 1
