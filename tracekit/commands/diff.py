"""tracekit diff"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands.options import resource_options
from tracekit.errors import TracekitError
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.database.session import Session


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A [B]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a comment on a pull request.")
@click.option(
    "--top", default=10, show_default=True, help="How many kernels, operators and modules to show."
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if this SQL condition is true. It compares a and b, each with the columns of "
    "the query run_metrics, such as 'b.span_ns > 1.05 * a.span_ns'.",
)
@click.option(
    "--trace-ids", type=int, nargs=2, default=(1, 2), show_default=True, help="Traces to compare."
)
@resource_options
def diff(
    runs: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    top: int,
    conditions: tuple[str, ...],
    trace_ids: tuple[int, int],
    **limits: Any,
) -> int:
    """Compare two runs.

    Compares B with A (each a trace or DB), or two traces of the DB A (--trace-ids). Times and
    counts are per step; the waterfall compares the median steps.
    """
    from tracekit.compare import diff as library
    from tracekit.reporters import diff as reporter

    if as_json and markdown:
        raise TracekitError("choose one of --json and --markdown")
    opened, trace_ids = open_two(runs, trace_ids, **limits)
    with opened as database:
        found = library.diff(database, *trace_ids, top=top)
        failed = [each for each in conditions if library.fails(database, each, *trace_ids)]
    if markdown:
        from tracekit.reporters.markdown import render

        click.echo(render(found, top), nl=False)
    elif as_json:
        click.echo(json.dumps(found.as_dict(), default=str))
    else:
        reporter.render(found)
    for condition in failed:
        click.echo(f"tracekit: failed: {printable(condition)}", err=True)
    return 1 if failed else 0


def open_two(
    runs: tuple[str, ...], trace_ids: tuple[int, int], **limits: Any
) -> tuple[Session, tuple[int, int]]:
    """Opens what is compared, and chooses the two traces.

    Raises:
        TracekitError: when they are not two, or cannot be read.
    """
    from tracekit.lake.layout import may_be_lake

    lakes = [may_be_lake(each) for each in runs]
    if len(runs) != 2 or not any(lakes):
        return open_pair(runs, **limits), trace_ids
    if not all(lakes):
        raise TracekitError("compare two lakes, or two traces: add the trace to a lake first")
    from tracekit.ingest.resources import Resources
    from tracekit.lake import comparing

    pair = comparing.open_pair(*runs, Resources(**limits))
    if pair.note:
        click.echo(f"tracekit: {printable(pair.note)}", err=True)
    return pair.lake, (pair.a, pair.b)


def open_pair(runs: tuple[str, ...], **limits: Any) -> Session:
    """Opens the two traces to compare, or the one database that holds both.

    Raises:
        TracekitError: when they are not two, or cannot be read.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.opening import load, open_given

    if len(runs) > 2:
        raise TracekitError("give two traces to compare, or one database that holds both")
    if len(runs) == 1:
        return open_given(runs[0], Resources(**limits))
    database = load(runs, resources=Resources(**limits))
    if (count := len(database.trace_ids())) != 2:
        database.close()
        raise TracekitError(
            f"A and B hold {count} traces: load them into one database, give only that, and "
            "choose two with --trace-ids"
        )
    return database
