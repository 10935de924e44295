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
    """Compare tracekit's numbers with HolisticTraceAnalysis's.

    TRACE is a .json or .json.gz file. The exit status is 1 if HolisticTraceAnalysis's numbers
    differ from those that its own rules give.
    """
    from tracekit.compare import crosscheck as library
    from tracekit.compare import hta
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_given
    from tracekit.reporters import crosscheck as reporter

    hta.require(trace)
    with open_given(trace, Resources(**limits)) as database:
        report = library.crosscheck(trace, database)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
    else:
        reporter.render(report)
    return 0 if report.agrees else 1
