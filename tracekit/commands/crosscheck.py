"""tracekit crosscheck"""

from __future__ import annotations

import click

from tracekit.commands.options import Request, json_option, resource_options, show


@click.command()
@click.argument("trace")
@json_option
@resource_options
def crosscheck(trace: str, as_json: bool, request: Request) -> int:
    """Compare tracekit's numbers with HolisticTraceAnalysis's.

    TRACE is a .json or .json.gz file. The exit status is 1 if HolisticTraceAnalysis's numbers
    differ from those that its own rules give.
    """
    from tracekit.compare import crosscheck as library
    from tracekit.compare import hta
    from tracekit.reporters import crosscheck as reporter

    hta.require(trace)
    with request.open(trace) as run:
        report = library.crosscheck(trace, run.session)
    show(report, as_json, reporter.render)
    return 0 if report.agrees else 1
