"""tracekit advise"""

from __future__ import annotations

from functools import partial

import click

from tracekit.commands import completion
from tracekit.commands.options import Request, json_option, judging_options, show, trace_id_option


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
@trace_id_option("its only one")
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
        fixes = run.advise(trace_id, request.window, request.thresholds)
    show(fixes, as_json, partial(reporter.render, every=every))
