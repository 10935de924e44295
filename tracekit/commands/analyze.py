"""tracekit analyze"""

from __future__ import annotations

import json

import click

from tracekit.commands.options import Request, json_option, judging_options, trace_id_option


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
    from tracekit.examine import verdict_together
    from tracekit.verdict.model import SCHEMA

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
            several.render(analyses, run)
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
