"""tracekit query"""

from __future__ import annotations

import click

from tracekit.commands.options import resource_options, resources
from tracekit.errors import TracekitError
from tracekit.reporters import FORMATS


@click.command()
@click.argument("arguments", nargs=-1, metavar="[NAME] [TRACE|DB]")
@click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
@click.option("--list", "listing", is_flag=True, help="List the questions.")
@click.option("--explain", is_flag=True, help="Print the query's SQL and what its columns mean.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("-o", "--output", help="Write there instead of printing.")
@resource_options
def query(
    arguments: tuple[str, ...],
    parameters: tuple[str, ...],
    listing: bool,
    explain: bool,
    form: str,
    output: str | None,
    memory_mb: int | None,
    threads: int | None,
    temp_dir: str | None,
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
    from tracekit.loading import open_any
    from tracekit.reporters import rows

    values = dict(_pair(each) for each in parameters)
    limits = resources(memory_mb, threads, temp_dir)
    with open_any(arguments[1], limits) as database:
        rows.render(database, question.sql, question.checked(values), form, output)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise TracekitError(f"--param takes NAME=VALUE, not {text!r}")
    return name, value
