"""tracekit sql"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.opening import open_given
from tracekit.commands.options import resource_options, row_options


@click.command()
@click.argument("source", metavar="TRACE|DB")
@click.argument("statement")
@row_options
@resource_options
def sql(
    source: str,
    statement: str,
    form: str,
    output: str | None,
    timeout_s: float,
    max_rows: int | None,
    **limits: Any,
) -> None:
    """Run one read-only SELECT on a trace or database."""
    from tracekit.ingest.resources import Resources
    from tracekit.reporters import rows

    asked = rows.Limits(timeout_s, max_rows)
    with open_given(source, Resources(**limits)) as database:
        database.require_select(statement)
        rows.render(database, statement, {}, form, output, limits=asked)
