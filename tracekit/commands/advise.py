"""tracekit advise"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands import completing
from tracekit.commands.options import resource_options, threshold_option, window_option


@click.command()
@click.argument("trace", required=False)
@click.option(
    "--how",
    metavar="NAME",
    shell_complete=completing.remedies,
    help="Print how to apply this remedy; needs no TRACE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--all", "every", is_flag=True, help="Print every line.  [default: the first ten]")
@click.option("--trace-id", type=int, help="Which trace of a database.  [default: its only one]")
@window_option
@threshold_option
@resource_options
def advise(
    trace: str | None,
    how: str | None,
    as_json: bool,
    every: bool,
    trace_id: int | None,
    window: str | None,
    thresholds: tuple[str, ...],
    **limits: Any,
) -> None:
    """List what to change in a run, where, and what each change would save.

    TRACE may also be a DB. Each line is priced by a replay with that change alone; below them is
    what the best of them save together.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.reporters import advise as reporter
    from tracekit.run import open_any
    from tracekit.thresholds import Thresholds

    if how is not None:
        from tracekit.advice.catalogue import remedy

        reporter.render_how(remedy(how))
        return
    if trace is None:
        raise click.UsageError("Missing argument 'TRACE' (or --how NAME).")
    judged = Thresholds().updated(thresholds)
    with open_any(trace, Resources(**limits)) as database:
        fixes = database.advise(trace=trace_id, window=window, thresholds=judged)
    if as_json:
        click.echo(json.dumps(fixes.as_dict()))
    else:
        reporter.render(fixes, every=every)
