"""tracekit probe"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.options import (
    Request,
    json_option,
    option,
    show,
    size_options,
    threshold_option,
    workload_options,
)


@click.command()
@click.argument("workload")
@size_options
@option("--rounds", "How often to time each experiment, in turns.", default=15)
@option(
    "--advice",
    "Apply what `tracekit advise` lists instead, and compare promised with measured times.",
    is_flag=True,
)
@json_option
@threshold_option
@workload_options
def probe(
    workload: str, rounds: int, advice: bool, as_json: bool, request: Request, **given: Any
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
    from tracekit.experiments import applying
    from tracekit.experiments import probing as library
    from tracekit.reporters import probe as reporter
    from tracekit.reporters.progress import probe_bar

    options = Options(**given)
    with probe_bar() as bar:
        how: dict[str, Any] = {"rounds": rounds, "thresholds": request.thresholds, "progress": bar}
        if advice:
            show(applying.probe_advice(workload, options, **how), as_json, reporter.render_advice)
            return 0
        found = library.probe(workload, options, **how)
    show(found, as_json, reporter.render)
    return 1 if found.judgement.agrees is False else 0
