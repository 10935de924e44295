"""tracekit mcp"""

from __future__ import annotations

import sys

import click

from tracekit.commands.options import Request, option, resource_options, warn
from tracekit.errors import TracekitError


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option(
    "--keep",
    "Keep at most this many traces or databases open between calls.",
    click.IntRange(min=1),
    default=4,
)
@option(
    "--timeout timeout_s",
    "End a query after this many seconds.",
    click.FloatRange(min=0, min_open=True),
    default=60,
)
@option(
    "--max-characters", "Limit the text of an answer.", click.IntRange(min=2_000), default=20_000
)
@resource_options
def mcp(
    folders: tuple[str, ...], keep: int, timeout_s: float, max_characters: int, request: Request
) -> None:
    """Serve traces in FOLDERs to an agent, by the Model Context Protocol.

    The agent starts this command and speaks with it over standard input and output. It can read
    traces, databases and lakes in these folders, and nothing else; it cannot write.
    """
    from tracekit.agents.traces import Folders, Opened

    try:
        from tracekit.agents.server import serve
        from tracekit.agents.tools import Tools
    except ModuleNotFoundError as error:
        missing = (error.name or "its package").partition(".")[0]
        raise TracekitError(f"mcp needs {missing}: pip install 'tracekit[mcp]'") from error
    opened = Opened(keep, request.resources)
    tools = Tools(Folders(folders), opened, characters=max_characters, timeout_s=timeout_s)
    if sys.stdin.isatty():
        warn("waiting for an agent on standard input; Ctrl-C ends")
    serve(tools)
