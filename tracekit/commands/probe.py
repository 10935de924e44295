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
@click.option(
    "--advice",
    is_flag=True,
    help="Apply what `tracekit advise` lists instead, and compare promised with measured times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@threshold_option
@workload_options
def probe(
    workload: str,
    rounds: int,
    advice: bool,
    as_json: bool,
    thresholds: tuple[str, ...],
    **given: Any,
) -> int:
    """Test the verdict on WORKLOAD by experiment.

    WORKLOAD is a name from `tracekit workloads`, or your own module:function. The experiments
    double and halve its device work, slow the host by a known delay, and capture the step as a CUDA
    graph. Each is timed in turns with the unchanged run and compared with what the recorded trace
    predicts. The exit status is 1 if the experiments contradict the verdict.

    With --advice the verdict is not tested, and the exit status is 0. Instead the remedies that
    need no edit of the code are applied, each in turns with the unchanged run: the step as a CUDA
    graph, torch.compile, TF32, a larger batch, and worker processes. Of your own function, the
    last two need a parameter with a default: batch or batch_size, num_workers or workers.
    """
    from tracekit.capture.workload import Options
    from tracekit.experiments import probing as library
    from tracekit.reporters import probe as reporter
    from tracekit.reporters.progress import probe_bar
    from tracekit.thresholds import Thresholds

    judged = Thresholds().updated(thresholds)
    options = Options(**given)
    with probe_bar() as progress:
        if advice:
            applied = library.probe_advice(
                workload, options, rounds=rounds, thresholds=judged, progress=progress
            )
        else:
            found = library.probe(
                workload, options, rounds=rounds, thresholds=judged, progress=progress
            )
    if as_json:
        click.echo(json.dumps((applied if advice else found).as_dict()))
    elif advice:
        reporter.render_advice(applied)
    else:
        reporter.render(found)
    return 1 if not advice and found.judgement.agrees is False else 0
