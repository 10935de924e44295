"""tracekit analyze"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands.options import resource_options, threshold_option, window_option


@click.command()
@click.argument("trace")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--explain", is_flag=True, help="Also print the critical path, the arithmetic and the SQL."
)
@click.option("--full", is_flag=True, help="Print all reasons, windows, kernels and caveats.")
@click.option("--trace-id", type=int, help="Which trace of a database.  [default: all]")
@window_option
@threshold_option
@resource_options
def analyze(
    trace: str,
    as_json: bool,
    explain: bool,
    full: bool,
    trace_id: int | None,
    window: str | None,
    thresholds: tuple[str, ...],
    **limits: Any,
) -> None:
    """Tell whether overhead or compute bounds a run, and why, on one screen.

    TRACE may also be a DB.
    """
    from tracekit.examine import verdict_together, verdicts
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_given
    from tracekit.reporters import console, first_screen, several
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import SCHEMA

    judged = Thresholds().updated(thresholds)
    with (
        open_given(trace, Resources(**limits)) as database,
        database.judging(judged),
        database.sharing(),
    ):
        analyses = verdicts(database, trace_id, window, judged)
        run, no_run = verdict_together(database, analyses, judged)
        if as_json:
            objects = [each.as_dict() for each in analyses]
            listed = {"schema": f"{SCHEMA}+list", "analyses": objects, "run": run and run.as_dict()}
            if no_run:
                listed["no_run"] = no_run
            click.echo(json.dumps(objects[0] if len(objects) == 1 else listed, default=str))
        elif len(analyses) == 1:
            (console if full or explain else first_screen).render(analyses[0])
        else:
            if run is not None:
                several.render_run(run)
            several.render(analyses, run)
        if explain:
            from tracekit.reporters import explain as explaining

            for analysis in [] if as_json else analyses:
                explaining.render(analysis, judged)
            explaining.render_queries(of_run=run is not None, err=as_json)
