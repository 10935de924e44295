"""What bounds a run, and what to change: analyze, advise."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from tracekit.commands import completion
from tracekit.commands.options import (
    Request,
    json_option,
    judging_options,
    show,
    trace_id_option,
    warn,
)

if TYPE_CHECKING:
    from tracekit.run import Database
    from tracekit.thresholds import Thresholds


@click.command()
@click.argument("trace")
@json_option
@click.option(
    "--explain", is_flag=True, help="Also print the critical path, the arithmetic and the SQL."
)
@click.option("--full", is_flag=True, help="Print all reasons, windows, kernels and caveats.")
@trace_id_option("all")
@judging_options
def analyze(
    trace: str, as_json: bool, explain: bool, full: bool, trace_id: int | None, request: Request
) -> None:
    """Tell whether overhead or compute bounds a run, and why, on one screen.

    TRACE may also be a DB.
    """
    from tracekit.verdict.model import SCHEMA
    from tracekit.verdicts import verdict_together

    thresholds = request.thresholds
    with request.open(trace) as opened, opened.sharing():
        analyses = opened.verdicts(trace_id, request.window, thresholds)
        run, no_run = verdict_together(opened.session, analyses, thresholds)
        if as_json:
            objects = [each.as_dict() for each in analyses]
            listed = {"schema": f"{SCHEMA}+list", "analyses": objects, "run": run and run.as_dict()}
            if no_run:
                listed["no_run"] = no_run
            click.echo(json.dumps(objects[0] if len(objects) == 1 else listed, default=str))
        elif len(analyses) > 1:
            from tracekit.reporters import several

            if run is not None:
                several.render_run(run)
            several.render(analyses, run, no_run)
        elif full or explain:
            from tracekit.reporters import console

            console.render(analyses[0])
        else:
            from tracekit.reporters import first_screen

            first_screen.render(analyses[0])
        if explain:
            from tracekit.reporters import console

            for analysis in [] if as_json else analyses:
                console.explain(analysis, thresholds)
            console.print_queries(of_run=run is not None, err=as_json)


@click.command()
@click.argument("trace", required=False)
@click.option(
    "--how",
    metavar="NAME",
    shell_complete=completion.remedies,
    help="Print how to apply this remedy; needs no TRACE.",
)
@json_option
@click.option("--all", "every", is_flag=True, help="Print every line.  [default: the first ten]")
@trace_id_option("its only one; of the ranks of a run, the one that sets the pace")
@judging_options
def advise(
    trace: str | None,
    how: str | None,
    as_json: bool,
    every: bool,
    trace_id: int | None,
    request: Request,
) -> None:
    """List what to change in a run, where, and what each change would save.

    TRACE may also be a DB. Each line is priced by a replay with that change alone; below them is
    what the best of them save together.
    """
    from tracekit.reporters import advise as reporter

    if how is not None:
        from tracekit.advice.catalogue import remedy

        reporter.render_how(remedy(how))
        return
    if trace is None:
        raise click.UsageError("Missing argument 'TRACE' (or --how NAME).")
    with request.open(trace) as run:
        chosen = _to_advise(run, trace_id, request.thresholds)
        fixes = run.advise(chosen, request.window, request.thresholds)
    show(fixes, as_json, partial(reporter.render, every=every))


def _to_advise(run: Database, trace_id: int | None, thresholds: Thresholds) -> int | None:
    """The trace on which to advise: of the ranks of a run, the one that sets the pace."""
    from tracekit.verdicts import verdict_together

    if trace_id is not None or len(run.trace_ids()) == 1:
        return trace_id
    analyses = run.verdicts(thresholds=thresholds)
    found, _ = verdict_together(run.session, analyses, thresholds)
    if found is None or found.pace_rank is None:
        return None
    warn(f"advice on rank {found.pace_rank}, which sets the pace (--trace-id chooses another)")
    return found.late_ranks[0].trace_id
