"""tracekit diff"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracekit.commands.options import (
    Request,
    gate_options,
    json_option,
    option,
    resource_options,
    show,
    status_of,
    warn,
)
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.ingest.resources import Resources


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A [B]")
@json_option
@option("--markdown", "Print Markdown, for a comment on a pull request.", is_flag=True)
@gate_options(
    "Exit with 1 if this SQL condition is true. It compares a and b, each with the columns of the "
    "query run_metrics, such as 'b.span_ns > 1.05 * a.span_ns'."
)
@option("--trace-ids", "Traces to compare.", int, nargs=2, default=(1, 2))
@resource_options
def diff(
    runs: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    top: int,
    conditions: tuple[str, ...],
    trace_ids: tuple[int, int],
    request: Request,
) -> int:
    """Compare two runs.

    Compares B with A (each a trace or DB), or two traces of the DB A (--trace-ids). Times and
    counts are per step; the waterfall compares the median steps.
    """
    from tracekit.compare import diff as library
    from tracekit.reporters import diff as reporter

    if as_json and markdown:
        raise TracekitError("choose one of --json and --markdown")
    opened, trace_ids = _open_two(runs, trace_ids, request.resources)
    with opened as database:
        found = library.diff(database, *trace_ids, top=top)
        failed = [each for each in conditions if library.fails(database, each, *trace_ids)]
    if markdown:
        click.echo(reporter.markdown(found, top), nl=False)
    else:
        show(found, as_json, reporter.render)
    return status_of(failed)


def _open_two(
    runs: tuple[str, ...], trace_ids: tuple[int, int], resources: Resources
) -> tuple[Session, tuple[int, int]]:
    """Opens what is compared, and chooses the two traces.

    Raises:
        TracekitError: when they are not two, or cannot be read.
    """
    from tracekit.lake.layout import may_be_lake

    lakes = [may_be_lake(each) for each in runs]
    if len(runs) != 2 or not any(lakes):
        return open_pair(runs, resources), trace_ids
    if not all(lakes):
        raise TracekitError("compare two lakes, or two traces: add the trace to a lake first")
    from tracekit.lake import comparing

    pair = comparing.open_pair(*runs, resources)
    if pair.note:
        warn(pair.note)
    return pair.lake, (pair.a, pair.b)


def open_pair(runs: tuple[str, ...], resources: Resources) -> Session:
    """Opens the two traces to compare, or the one database that holds both.

    Raises:
        TracekitError: when they are not two, or cannot be read.
    """
    from tracekit.opening import load, open_given

    if len(runs) > 2:
        raise TracekitError("give two traces to compare, or one database that holds both")
    if len(runs) == 1:
        return open_given(runs[0], resources)
    database = load(runs, resources=resources)
    if (count := len(database.trace_ids())) != 2:
        database.close()
        raise TracekitError(
            f"A and B hold {count} traces: load them into one database, give only that, and "
            "choose two with --trace-ids"
        )
    return database
