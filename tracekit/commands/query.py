"""tracekit query"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands import completing
from tracekit.commands.options import resource_options, row_options
from tracekit.errors import TracekitError
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.database.catalog import Query, Value
    from tracekit.database.session import Session


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="[NAME] [TRACE|DB]", shell_complete=completing.questions
)
@click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter.",
    shell_complete=completing.parameters,
)
@click.option(
    "--columns",
    metavar="NAME,NAME",
    help="Show only these columns, in this order.",
    shell_complete=completing.columns,
)
@click.option("--list", "listing", is_flag=True, help="List the questions.")
@click.option("--explain", is_flag=True, help="Print the query's SQL and what its columns mean.")
@row_options
@resource_options
def query(
    arguments: tuple[str, ...],
    parameters: tuple[str, ...],
    columns: str | None,
    listing: bool,
    explain: bool,
    form: str,
    output: str | None,
    timeout_s: float,
    max_rows: int | None,
    **limits: Any,
) -> None:
    """Ask a trace or database a named question; --list shows them."""
    from tracekit.database import catalog
    from tracekit.opening import open_given

    if listing or not arguments:
        from tracekit.reporters import paging

        paging.show(_listing())
        return
    question = catalog.query(arguments[0])
    if explain:
        click.echo(question.sql.rstrip())
        return
    if len(arguments) != 2:
        raise TracekitError(f"query {question.name} needs one trace or database")
    from tracekit.ingest.resources import Resources
    from tracekit.reporters import rows

    asked = rows.Limits(timeout_s, max_rows)
    values = dict(pair(each) for each in parameters)
    chosen = question.chosen([each.strip() for each in columns.split(",")] if columns else [])
    with open_given(arguments[1], Resources(**limits), output) as database:
        variables = question.checked(values)
        statement = database.shown_sql(question, variables)
        count = rows.render(database, statement, variables, form, output, chosen, asked)
        _explain_doubts(database, question, variables, count)


def _listing() -> str:
    """All questions by topic, one a line."""
    from tracekit.database import catalog

    lines = [
        "tracekit query NAME TRACE answers one of these questions; --explain shows its SQL,",
        "parameters and columns. Begin with overview, idle_waterfall and top_kernels. Then",
        "ask idle_culprits if the device waits, or roofline if it is busy.",
    ]
    for topic, title in catalog.TOPICS.items():
        lines += ["", title]
        lines += [
            f"  {each.name:<22} {each.question}"
            for each in catalog.queries().values()
            if each.topic == topic
        ]
    return "\n".join(lines) + "\n"


def _explain_doubts(
    database: Session, question: Query, variables: Mapping[str, Value], count: int
) -> None:
    """Prints to standard error what makes the answer doubtful, or why it is empty."""
    trace = variables.get("trace")
    found = database.doubts(question.name, trace if isinstance(trace, int) else None)
    told = [row for row in found if row["severity"] not in ("info", "missing") or not count]
    for row in told:
        message = f"{row['severity']}: trace {row['trace_id']}: {row['message']}"
        click.echo(printable(message), err=True)
    if not count and not told:
        click.echo("no rows: the trace holds nothing that answers this question", err=True)


def pair(text: str) -> tuple[str, str]:
    """A parameter given as NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise TracekitError(f"--param takes NAME=VALUE, not {text!r}")
    return name, value
