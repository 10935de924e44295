"""The page of all commands, from their own definitions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generate.markdown import code, fence, page, prose, table
from tracekit.commands import cli


def all_commands(
    command: click.Command = cli, parent: click.Context | None = None, name: str = "tracekit"
) -> Iterator[tuple[click.Context, click.Command]]:
    """A command and its sub-commands, each with the context for its help."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context, command
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from all_commands(found, context, inner)


def _words(help: str) -> str:
    """A command's help; paragraphs behind a \\b are kept line by line."""
    parts = []
    for paragraph in inspect.cleandoc(help).split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append(fence(inspect.cleandoc(paragraph.removeprefix("\b").lstrip("\n")), "text"))
        else:
            parts.append(prose(paragraph))
    return page(*parts).strip()


def _section(context: click.Context, command: click.Command) -> str:
    options = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None and record[1]
    ]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return page(
        f"## {context.command_path}",
        fence(usage, "text"),
        _words(command.help or ""),
        table(("option", "what it does"), [(code(name), prose(help)) for name, help in options]),
    ).strip()


def commands_page() -> str:
    return page(
        "# Commands",
        "The same text as `tracekit COMMAND --help`.",
        *(_section(context, command) for context, command in all_commands()),
    )
