"""tracekit crosscheck"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands.options import resource_options


@click.command()
@click.argument("trace")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@resource_options
def crosscheck(trace: str, as_json: bool, **limits: Any) -> int:
    """Compare with HolisticTraceAnalysis on TRACE, a .json or .json.gz.

    The exit status is 1 where HTA's numbers are not those that its rules give.
    """
    from tracekit.compare import crosscheck as library
    from tracekit.compare import hta
    from tracekit.ingest.resources import Resources
    from tracekit.reporters import crosscheck as reporter
    from tracekit.run import open_any

    hta.require(trace)
    with open_any(trace, Resources(**limits)) as database:
        report = library.crosscheck(trace, database)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
    else:
        reporter.render(report)
    return 0 if report.agrees else 1
