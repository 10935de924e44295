"""The outputs of a command, as lines for people or as one JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import click
from msgspec import Struct, field

from tracekit.records import Record
from tracekit.text import counted, printable, shown


class Output(Struct, frozen=True):
    """A file or folder that a command wrote, or one that it lists."""

    path: str
    """Its path or URL; -: standard output."""
    bytes: int | None
    """Its size (bytes); null: it is not a file on this machine."""
    count: int | None = None
    """How many of `unit` it contains, or were added to it (count); null: not counted."""
    unit: str | None = None
    """The unit of `count`, such as events, traces, stacks or files."""


class Outputs(Record, frozen=True):
    """The outputs of a command."""

    form: ClassVar[str] = "tracekit/written/1"

    outputs: list[Output]
    """In the order in which they were written."""


class CommandResult(Struct):
    """The result of a command: its outputs, lines for people, and its exit status."""

    outputs: list[Output] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    status: int = 0

    def add(
        self, path: str | Path, count: int | None = None, unit: str | None = None, *, says: str = ""
    ) -> CommandResult:
        """Adds a file that the command wrote, and a line on its content."""
        self.outputs.append(output(path, count, unit))
        self.lines.append(f"{path}: {says or counted(count or 0, str(unit)[:-1])}")
        return self


def output(path: str | Path, count: int | None = None, unit: str | None = None) -> Output:
    """The file or folder at a path."""
    file = Path(path)
    is_file = str(path) != "-" and file.is_file()
    return Output(shown(path), file.stat().st_size if is_file else None, count, unit)


def print_outputs(written: CommandResult, as_json: bool) -> int:
    """Prints the result of a command and returns its exit status. If an output is standard output,
    this prints to standard error."""
    lines = [printable(shown(each)) for each in written.lines]
    if as_json:
        lines = [json.dumps(Outputs(written.outputs).as_dict())]
    for line in lines:
        click.echo(line, err=any(each.path == "-" for each in written.outputs))
    return written.status
