"""tracekit mcp"""

from __future__ import annotations

import sys
from typing import Any

import click

from tracekit.commands.options import resource_options
from tracekit.errors import TracekitError


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Keep at most this many traces or databases open between calls.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="End a query after this many seconds.",
)
@click.option(
    "--max-characters",
    type=click.IntRange(min=2_000),
    default=20_000,
    show_default=True,
    help="Limit the text of an answer.",
)
@resource_options
def mcp(
    folders: tuple[str, ...], keep: int, timeout_s: float, max_characters: int, **limits: Any
) -> None:
    """Serve traces in FOLDERs to an agent, by the Model Context Protocol.

    The agent starts this command and speaks with it over standard input and output. It can read
    traces, databases and lakes in these folders, and nothing else; it cannot write.
    """
    from tracekit.agents.traces import Folders, Opened
    from tracekit.ingest.resources import Resources

    try:
        from tracekit.agents.server import serve
        from tracekit.agents.tools import Tools
    except ModuleNotFoundError as error:
        missing = (error.name or "its package").partition(".")[0]
        raise TracekitError(f"mcp needs {missing}: pip install 'tracekit[mcp]'") from error
    opened = Opened(keep, Resources(**limits))
    tools = Tools(Folders(folders), opened, characters=max_characters, timeout_s=timeout_s)
    if sys.stdin.isatty():
        click.echo("tracekit: waiting for an agent on standard input; Ctrl-C ends", err=True)
    serve(tools)
