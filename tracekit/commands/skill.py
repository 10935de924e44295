"""tracekit skill: what a coding agent has to know about tracekit, as a file that it reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.commands.options import writing

if TYPE_CHECKING:
    from tracekit.reporters.written import Steps


@click.group()
def skill() -> None:
    """Teach a coding agent to use tracekit.

    The skill says which command answers what, how to read a verdict, and how to go on from a
    diagnosis to a fix that is checked. (`tracekit mcp` lets an agent ask without a shell.)
    """


@skill.command()
@click.argument("folder", metavar="[DIR]", default=".claude/skills")
@writing
def install(folder: str) -> Steps:
    """Write DIR/tracekit/SKILL.md, where agents look for skills.  [default: .claude/skills]"""
    from importlib.resources import files

    from tracekit.errors import TracekitError
    from tracekit.files import written_whole
    from tracekit.reporters import written

    path = Path(folder) / "tracekit" / "SKILL.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TracekitError(f"{path}: cannot be written: {error.strerror}") from error
    with written_whole(path) as beside:
        beside.write_bytes(files("tracekit.agents").joinpath("SKILL.md").read_bytes())
    yield written.output(path)
    yield str(path)
