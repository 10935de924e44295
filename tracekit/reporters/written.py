"""The outputs of a command, as lines for people or as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import click
from msgspec import Struct

from tracekit.records import Record
from tracekit.text import counted, printable, shown


class Output(Struct, frozen=True):
    """A file or folder that a command wrote, or one that it lists."""

    path: str
    """Its path or URL; -: standard output."""
    bytes: int | None
    """Its size (bytes); null: it is not a file of this machine."""
    count: int | None = None
    """How many of `unit` it holds, or were put into it (count); null: they are not counted."""
    unit: str | None = None
    """What is counted, such as events, traces, stacks or files."""


class Outputs(Record, frozen=True):
    """The outputs of a command."""

    form: ClassVar[str] = "tracekit/written/1"

    outputs: list[Output]
    """In the order in which they were written."""


# The steps of a command: its outputs, lines for people, and its exit status, if that is not 0.
Steps = Iterator[Output | str | int]


def output(path: str | Path, count: int | None = None, unit: str | None = None) -> Output:
    """The file or folder that is at a path now."""
    file = Path(path)
    is_file = str(path) != "-" and file.is_file()
    return Output(shown(path), file.stat().st_size if is_file else None, count, unit)


def wrote(
    path: str | Path, count: int | None = None, unit: str | None = None, *, says: str = ""
) -> Steps:
    """A file that a command wrote, and a line that says what is in it."""
    yield output(path, count, unit)
    yield f"{path}: {says or counted(count or 0, str(unit)[:-1])}"


def tell(found: Steps, as_json: bool) -> int:
    """Prints what a command does; returns its exit status. Where an output is standard output, it
    prints to standard error."""
    outputs: list[Output] = []

    def say(text: str) -> None:
        click.echo(text, err=any(each.path == "-" for each in outputs))

    status = 0
    for each in found:
        if isinstance(each, Output):
            outputs.append(each)
        elif isinstance(each, int):
            status = each
        elif not as_json:
            say(printable(shown(each)))
    if as_json:
        say(json.dumps(Outputs(outputs).as_dict()))
    return status
