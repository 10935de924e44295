"""tracekit fleet"""

from __future__ import annotations

import click

from tracekit.commands import options
from tracekit.commands.options import Request, json_option


@click.command()
@click.argument("lake", metavar="LAKE")
@json_option
@options.threshold_options
def fleet(lake: str, as_json: bool, request: Request) -> None:
    """Tell what costs most over all runs of a lake, which hosts are slow, and what changed when.

    Each change comes with the labels that changed with it (`tracekit lake add --label`).
    `tracekit report LAKE` writes the same as a page.
    """
    from tracekit.lake.fleet import fleet as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import fleet as reporter

    with open_lake(lake, request.resources) as opened:
        options.tell_notes(opened)
        found = library(opened, request.thresholds)
    options.show(found, as_json, reporter.render)
