"""tracekit baseline: a trace that later ones are compared with, kept by a name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands.diff import diff
from tracekit.commands.options import Request, option, resource_options, writing
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.reporters.written import Steps

_NAME = re.compile(r"\w[\w.-]*")
_FOLDER = option("--dir folder", "Where baselines are kept.", default=".tracekit/baselines")


@click.group()
def baseline() -> None:
    """Keep a trace by a name, and compare later ones with it.

    The GitHub Action of the repository (action.yml) does both for pull requests.
    """


@baseline.command()
@click.argument("name")
@click.argument("trace")
@_FOLDER
@resource_options
@writing
def save(name: str, trace: str, folder: str, request: Request) -> Steps:
    """Make TRACE the baseline NAME, in place of an older one."""
    from tracekit.database.export import export
    from tracekit.opening import open_given
    from tracekit.reporters import written

    path = _path(name, folder)
    with open_given(trace, request.resources) as opened:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = export(opened, path)
    yield written.output(path, count, "events")
    yield f"{path}: {count:,} events"


@baseline.command(params=[each for each in diff.params if each.name not in ("runs", "trace_ids")])
@click.argument("name")
@click.argument("trace")
@_FOLDER
@click.pass_context
def compare(context: click.Context, /, name: str, trace: str, folder: str, **given: Any) -> Any:
    """Compare TRACE with the baseline NAME, as `tracekit diff` does."""
    path = _path(name, folder)
    if not path.exists():
        raise TracekitError(f"{path}: no such baseline: `tracekit baseline save {name}` makes one")
    return context.invoke(diff, runs=(str(path), trace), trace_ids=(1, 2), **given)


def _path(name: str, folder: str) -> Path:
    if not _NAME.fullmatch(name):
        raise TracekitError(f"{name!r} names no baseline: take letters, digits, _, . and -")
    return Path(folder) / f"{name}.json.gz"
