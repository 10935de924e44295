"""tracekit history"""

from __future__ import annotations

import click

from tracekit.commands.options import (
    Request,
    gate_options,
    json_option,
    show,
    status_of,
    threshold_options,
)


@click.command()
@click.argument("lake", metavar="LAKE")
@json_option
@gate_options(
    "Exit with 1 if this SQL condition is true of the last run (b) and of the one with the median "
    "step among those before (a), such as 'b.span_ns > 1.05 * a.span_ns'."
)
@threshold_options
def history(
    lake: str, as_json: bool, top: int, conditions: tuple[str, ...], request: Request
) -> int:
    """Tell how the step of a lake's runs changed over time, and what changed.

    The step of a run is the median over its ranks of their median steps.
    """
    from tracekit.lake import comparing as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import history as reporter

    with open_lake(lake, request.resources) as opened:
        found = library.history(opened, request.thresholds, top)
        failed = [each for each in conditions if library.last_fails(opened, each)]
    show(found, as_json, reporter.render)
    return status_of(failed)
