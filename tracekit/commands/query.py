"""tracekit query"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tracekit.commands import completion
from tracekit.commands.options import Request, option, pair, row_options
from tracekit.errors import TracekitError
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.database.catalog import Query, Value
    from tracekit.database.session import Session


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="[NAME] [TRACE|DB]", shell_complete=completion.questions
)
@option(
    "--param parameters",
    "Set a parameter.",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=completion.parameters,
)
@option(
    "--columns",
    "Show only these columns, in this order.",
    metavar="NAME,NAME",
    shell_complete=completion.columns,
)
@option("--list listing", "List the questions.", is_flag=True)
@option("--explain", "Print the query's SQL and what its columns mean.", is_flag=True)
@row_options
def query(
    arguments: tuple[str, ...],
    parameters: tuple[str, ...],
    columns: str | None,
    listing: bool,
    explain: bool,
    request: Request,
) -> None:
    """Ask a trace or database a named question; --list shows them."""
    from tracekit.database import catalog

    if listing or not arguments:
        from tracekit.reporters.terminal import show_paged

        show_paged(_listing())
        return
    question = catalog.query(arguments[0])
    if explain:
        click.echo(question.sql.rstrip())
        return
    if len(arguments) != 2:
        raise TracekitError(f"query {question.name} needs one trace or database")
    values = dict(pair(each) for each in parameters)
    chosen = question.chosen([each.strip() for each in columns.split(",")] if columns else [])
    with request.open(arguments[1]) as run:
        variables = question.checked(values)
        statement = run.session.shown_sql(question, variables)
        count = request.render(run.session, statement, variables, chosen)
        _explain_doubts(run.session, question, variables, count)


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
