"""tracekit history"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands.options import resource_options, threshold_option
from tracekit.text import printable


@click.command()
@click.argument("lake", metavar="LAKE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--top", default=10, show_default=True, help="How many kernels, operators and modules to show."
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if this SQL condition is true of the last run (b) and of the one with the "
    "median step among those before (a), such as 'b.span_ns > 1.05 * a.span_ns'.",
)
@threshold_option
@resource_options
def history(
    lake: str,
    as_json: bool,
    top: int,
    conditions: tuple[str, ...],
    thresholds: tuple[str, ...],
    **limits: Any,
) -> int:
    """Tell how the step of a lake's runs changed over time, and what changed.

    The step of a run is the median over its ranks of their median steps.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.lake import comparing as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import history as reporter
    from tracekit.thresholds import Thresholds

    judged = Thresholds().updated(thresholds)
    with open_lake(lake, Resources(**limits)) as opened:
        found = library.history(opened, judged, top)
        failed = [each for each in conditions if library.last_fails(opened, each)]
    if as_json:
        click.echo(json.dumps(found.as_dict(), default=str))
    else:
        reporter.render(found)
    for condition in failed:
        click.echo(f"tracekit: failed: {printable(condition)}", err=True)
    return 1 if failed else 0
