"""tracekit query"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.options import resource_options, row_options
from tracekit.errors import TracekitError


@click.command()
@click.argument("arguments", nargs=-1, metavar="[NAME] [TRACE|DB]")
@click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
@click.option("--list", "listing", is_flag=True, help="List the questions.")
@click.option("--explain", is_flag=True, help="Print the query's SQL and what its columns mean.")
@row_options
@resource_options
def query(
    arguments: tuple[str, ...],
    parameters: tuple[str, ...],
    listing: bool,
    explain: bool,
    form: str,
    output: str | None,
    **limits: Any,
) -> None:
    """Ask a trace or database a named question."""
    from tracekit import catalog

    if listing or not arguments:
        for name, each in catalog.queries().items():
            click.echo(f"{name:<16} {each.question}")
        return
    question = catalog.query(arguments[0])
    if explain:
        click.echo(question.sql.rstrip())
        return
    if len(arguments) != 2:
        raise TracekitError(f"give one trace or database to ask {question.name!r} of")
    from tracekit.loading import Resources, open_any
    from tracekit.reporters import rows

    values = dict(_pair(each) for each in parameters)
    with open_any(arguments[1], Resources(**limits)) as database:
        rows.render(database, question.sql, question.checked(values), form, output)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise TracekitError(f"--param takes NAME=VALUE, not {text!r}")
    return name, value
