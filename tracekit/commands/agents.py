"""Commands for agents: mcp serves traces to an agent, skill teaches it tracekit."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracekit.commands import options
from tracekit.commands.options import Request, option, seconds
from tracekit.errors import TracekitError, explained, needing
from tracekit.reporters import written
from tracekit.reporters.written import CommandResult
from tracekit.text import printable

_SKILLS = ".claude/skills"
# At most this many bytes of an existing file are compared; a skill is shorter.
_MOST_COMPARED = 1 << 20


@options.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option(
    "--keep",
    "Keep at most this many traces or databases open between calls.",
    click.IntRange(min=1),
    default=4,
)
@option("--timeout timeout_s", "End a query after this many seconds.", seconds, default=60)
@option(
    "--max-characters", "Limit the text of an answer.", click.IntRange(min=2_000), default=20_000
)
@options.resource_options
def mcp(
    folders: tuple[str, ...], keep: int, timeout_s: float, max_characters: int, request: Request
) -> None:
    """Serve the traces in FOLDERs to an agent over the Model Context Protocol.

    The agent starts this command and talks to it over standard input and output. It can only read
    traces, databases and lakes in these folders.
    """
    from tracekit.agents.traces import Folders, Opened

    with needing("mcp needs", "mcp"):
        from tracekit.agents.server import serve
        from tracekit.agents.tools import Tools
    served = Folders(folders)
    opened = Opened(keep, request.resources, served)
    tools = Tools(served, opened, characters=max_characters, timeout_s=timeout_s)
    if sys.stdin.isatty():
        options.warn("waiting for an agent on standard input; Ctrl-C ends")
    serve(tools)


@click.group(cls=options.Group)
def skill() -> None:
    """Teach a coding agent to use tracekit.

    The skill says which command answers which question, how to read a verdict, and how to get from
    a diagnosis to a verified fix. (`tracekit mcp` serves agents that have no shell.)
    """


@skill.command()
@click.argument("folder", metavar="[DIR]", default=_SKILLS)
@option("--force", "Replace a SKILL.md that differs.", is_flag=True)
@options.writing
def install(folder: str, force: bool) -> CommandResult:
    """Write DIR/tracekit/SKILL.md, where agents look for skills.  [default: .claude/skills]

    If a different file exists, this shows the difference, and replaces it only with --force.
    """
    from importlib.resources import files

    from tracekit.files import require_unlinked, writing_to, written_whole

    path = Path(folder) / "tracekit" / "SKILL.md"
    require_unlinked(path, "" if folder == _SKILLS else folder)
    text = files("tracekit.skills").joinpath("tracekit/SKILL.md").read_text(encoding="utf-8")
    if not force:
        _require_same(path, text)
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return CommandResult([written.output(path)], [str(path)])


def _require_same(path: Path, text: str) -> None:
    """Shows how a file differs from the text that will replace it.

    Raises:
        TracekitError: when they differ.
    """
    from difflib import unified_diff

    if not path.is_file():
        return
    with explained(f"{path}: cannot be read", OSError), path.open("rb") as file:
        existing = file.read(_MOST_COMPARED).decode("utf-8", "replace")
    if existing == text:
        return
    pair = (str(path), "tracekit's")
    for line in unified_diff(existing.splitlines(), text.splitlines(), *pair, lineterm=""):
        click.echo(printable(line), err=True)
    raise TracekitError(f"{path}: differs from tracekit's, as shown: --force replaces it")
