"""Commands that predict or measure the gain of a change: whatif, probe, sweep."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from tracekit.commands import completion, options
from tracekit.commands.options import Request, json_option, list_option, option
from tracekit.errors import is_interrupt
from tracekit.replay.grammar import HELP


@options.command(epilog="\b\n" + HELP)
@click.argument("trace")
@click.argument(
    "changes",
    nargs=-1,
    required=True,
    metavar="[TRACE]... CHANGES...",
    shell_complete=completion.changes,
)
@json_option
@options.judging_options("all, as one run")
def whatif(trace: str, changes: tuple[str, ...], as_json: bool, request: Request) -> None:
    """Predict how long a run would take with CHANGES.

    All CHANGES apply at once; TRACE may also be a DB or a folder. The run is replayed as a graph
    of host and device work. The traces of a run's ranks are replayed together, unless --rank or
    --trace-id chooses one. Waits that the trace does not explain keep their recorded length.
    """
    from tracekit.reporters import advise as reporter

    others = tuple(takewhile(lambda each: Path(each).is_file(), changes))
    changes = changes[len(others) :]
    if not changes:
        raise click.UsageError("Missing argument 'CHANGES', such as 'host*0.5'.")
    window = request.window
    with request.open(trace, *others) as run:
        trace_id = request.trace_of(run.session)
        if trace_id is None and window is None and len(run.trace_ids()) > 1:
            options.show(run.whatif_together(*changes), as_json, reporter.render_run)
            return
        prediction = run.whatif(*changes, trace=trace_id, window=window)
    options.show(prediction, as_json, reporter.render_whatif)


@options.command()
@click.argument("workload")
@options.size_options
@option("--rounds", "Number of times to time each experiment, in turns.", default=15)
@option(
    "--advice",
    "Apply the fixes that `tracekit advise` lists instead, and compare promised with measured "
    "times.",
    is_flag=True,
)
@json_option
@options.requesting(options.THRESHOLD)
@options.workload_options
def probe(
    workload: str, rounds: int, advice: bool, as_json: bool, request: Request, **given: Any
) -> int:
    """Test the verdict on WORKLOAD by experiment.

    WORKLOAD is a name from `tracekit workloads`, or your own module:function. The experiments
    double and halve its device work, slow the host by a known delay, and capture the step as a CUDA
    graph. Each is timed in turns with the unchanged run and compared with what the recorded trace
    predicts. The exit status is 1 if the experiments contradict the verdict.

    With --advice, the remedies that need no code change are applied instead, each in turns with
    the unchanged run: the step as a CUDA graph, torch.compile, TF32, a larger batch, and worker
    processes. The last two work with your own function if it has a parameter with a default:
    batch or batch_size, num_workers or workers. The verdict is not tested, and the exit status is
    0.
    """
    from tracekit.capture.workload import Options
    from tracekit.experiments import probing as library
    from tracekit.reporters import experiments as reporter
    from tracekit.reporters.progress import work_bar

    chosen = Options(**given)
    options.warn_if_busy()
    with work_bar("work") as bar:
        how: dict[str, Any] = {"rounds": rounds, "thresholds": request.thresholds}
        how |= {"say": bar.at} if bar else {}
        if advice:
            applied = library.probe_advice(workload, chosen, **how)
            options.show(applied, as_json, reporter.render_advice)
            return 0
        result = library.probe(workload, chosen, **how)
    options.show(result, as_json, reporter.render_probe)
    return 1 if result.judgement.agrees is False else 0


@options.command()
@click.argument("workload")
@option("-o --output", "The database.  [default: sweep.duckdb]")
@list_option("--batch", "Sequences per batch: 1,8,64.", int)
@list_option("--seq", "Tokens per sequence.", int)
@list_option("--dim", "Input and output features.", int)
@list_option("--hidden", "Features within.", int)
@list_option("--dtype", "Any of fp32, fp16 and bf16.")
@list_option("--variants", "Only these variants: eager,compiled.")
@option("--baseline", "The variant that the others are compared with.  [default: the first]")
@option("--rounds", "Number of times to time each variant, in turns.", default=15)
@option("--retry", "Retry points that failed.", is_flag=True)
@json_option
@option("--markdown", "Print tables in Markdown.", is_flag=True)
@options.workload_options
def sweep(workload: str, output: str | None, as_json: bool, markdown: bool, **given: Any) -> int:
    """Time and capture WORKLOAD at every size in a grid.

    WORKLOAD is a name from `tracekit workloads`, or a family: mlp means all mlp-*. The variants at
    each size are timed in turns without the profiler; then each is captured once. When called
    again, the sweep runs only the missing points. The exit status is 1 if a variant gives a wrong
    answer.
    """
    from tracekit.capture.workload import Options
    from tracekit.experiments import sweeping as library
    from tracekit.experiments.points import AXES
    from tracekit.files import named_or_own
    from tracekit.reporters import experiments as reporter
    from tracekit.reporters.progress import work_bar

    output = named_or_own(output, "sweep.duckdb")
    options.warn_if_busy()
    axes = {axis: values for axis in AXES if (values := given.pop(axis))}
    names = ("variants", "baseline", "rounds", "retry")
    chosen: dict[str, Any] = {name: given.pop(name) for name in names}
    chosen["variants"] = chosen["variants"] or ()
    try:
        with work_bar("points") as bar:
            if bar is not None:
                chosen |= {"on_start": bar.start, "on_done": bar.done, "say": bar.at}
            result = library.sweep(workload, output, axes, options=Options(**given), **chosen)
    except BaseException as error:
        if is_interrupt(error):
            options.warn(f"{output} keeps the finished points: run the same command to resume")
        raise
    options.show(result, as_json, partial(reporter.render_sweep, markdown=markdown))
    return 0 if result.is_right else 1
