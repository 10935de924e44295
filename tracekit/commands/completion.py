"""tracekit completion, and the completers. Imports must stay light: they run at each Tab."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from tracekit.commands import options

if TYPE_CHECKING:
    from tracekit.database.catalog import Query


@options.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for SHELL.

    \b
    bash: echo 'eval "$(tracekit completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(tracekit completion zsh)"' >> ~/.zshrc
    fish: tracekit completion fish > ~/.config/fish/completions/tracekit.fish
    """
    root = click.get_current_context().find_root()
    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(root.command, {}, "tracekit", "_TRACEKIT_COMPLETE").source())


def questions(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """A file, then the names of questions; before `--explain`, only a question."""
    from tracekit.database import catalog

    if _question(ctx) or not (typed or _given(ctx)):
        return _file(typed)
    named = _starting(typed, ((query.name, query.question) for query in catalog.queries().values()))
    return named or _file(typed)


def parameters(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The parameters of the named question."""
    question = _question(ctx)
    return _starting(
        typed, ((f"{each.name}=", each.help) for each in question.parameters) if question else ()
    )


def columns(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The columns of the named question that are not typed yet."""
    question = _question(ctx)
    before = typed[: typed.rfind(",") + 1]
    return _starting(
        typed,
        ((before + column.name, column.help) for column in question.columns) if question else (),
    )


def programs(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The workloads, and scripts."""
    from tracekit.workloads import WORKLOADS

    items = _starting(typed, ((name, entry.summary) for name, entry in WORKLOADS.items()))
    return items or _file(typed)


def remedies(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    return _starting(typed, ((name, "") for name in _remedies()))


def changes(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The changes that a replay can make; a factor follows the `*`."""
    from tracekit.causes import CAUSES
    from tracekit.replay.grammar import PATTERNS

    known = [f"{each}*" for each in ("host", "device", *CAUSES[:-1], "batch", "straggler")]
    known += ["cuda-graph", "steady", "fuse", *(f"{each}:" for each in PATTERNS)]
    known += [f"remedy:{name}" for name in _remedies()]
    before, typed = _before_colon(ctx, typed)
    behind = (each.removeprefix(before) for each in known if each.startswith(before))
    return _starting(typed, ((each, "") for each in behind))


def _before_colon(ctx: click.Context, typed: str) -> tuple[str, str]:
    """The part of the typed word up to its last colon: bash splits `a:b` into three words."""
    words = [*(ctx.params.get("changes") or ()), typed]
    if typed == ":" and len(words) > 1:
        return f"{words[-2]}:", ""
    if len(words) > 2 and words[-2] == ":":
        return f"{words[-3]}:", typed
    return "", typed


def _remedies() -> list[str]:
    from tracekit.database.remedies import all_remedies

    return list(all_remedies())


def _given(ctx: click.Context) -> tuple[str, ...]:
    """The arguments typed so far. click leaves them in `args` after an option without a value."""
    return tuple(ctx.params.get("arguments") or ctx.args)


def _question(ctx: click.Context) -> Query | None:
    from tracekit.database import catalog

    return next((catalog.query(each) for each in _given(ctx) if catalog.is_query(each)), None)


def _starting(typed: str, known: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    return [CompletionItem(name, help=help) for name, help in known if name.startswith(typed)]


def _file(typed: str) -> list[CompletionItem]:
    return [CompletionItem(typed, type="file")]
