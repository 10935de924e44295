"""tracekit schema"""

from __future__ import annotations

import json

import click

from tracekit.errors import TracekitError


@click.command()
@click.argument("command", nargs=-1, metavar="[COMMAND] [QUESTION]")
def schema(command: tuple[str, ...]) -> None:
    """Print the JSON Schema of what COMMAND prints with --json.

    With `query` or `lake ask`, a QUESTION's name gives the schema of its rows (--format json).
    Without COMMAND, the commands that have a schema are listed.
    """
    from tracekit import schemas

    known = schemas.commands()
    if not command:
        for name, option in known.items():
            click.echo(f"{name:<12} {option}")
        return
    words = 2 if " ".join(command[:2]) in known else 1
    if len(command) > words + 1:
        raise TracekitError("schema takes one command, and for `query` one question")
    question = command[words] if len(command) > words else None
    found = schemas.schema(" ".join(command[:words]), question)
    click.echo(json.dumps(found, indent=2))
