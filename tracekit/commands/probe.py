"""tracekit probe"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands.options import size_options, threshold_option, workload_options


@click.command()
@click.argument("workload")
@size_options
@click.option(
    "--rounds", default=15, show_default=True, help="How often to time each experiment, in turns."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@threshold_option
@workload_options
def probe(
    workload: str, rounds: int, as_json: bool, thresholds: tuple[str, ...], **given: Any
) -> int:
    """Test the verdict on WORKLOAD by experiment.

    WORKLOAD is a name from `tracekit workloads`, or your own module:function. The experiments
    double and halve its device work, slow the host by a known delay, and capture the step as a CUDA
    graph. Each is timed in turns with the unchanged run and compared with what the recorded trace
    predicts. The exit status is 1 if the experiments contradict the verdict.
    """
    from tracekit.capture.workload import Options
    from tracekit.experiments import probing as library
    from tracekit.reporters import probe as reporter
    from tracekit.reporters.progress import probe_bar
    from tracekit.thresholds import Thresholds

    judged = Thresholds().updated(thresholds)
    with probe_bar() as progress:
        found = library.probe(
            workload, Options(**given), rounds=rounds, thresholds=judged, progress=progress
        )
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        reporter.render(found)
    return 1 if found.judgement.agrees is False else 0
