"""tracekit completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete tracekit's commands, questions and files.

    \b
    bash: echo 'eval "$(tracekit completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(tracekit completion zsh)"' >> ~/.zshrc
    fish: tracekit completion fish > ~/.config/fish/completions/tracekit.fish
    """
    root = click.get_current_context().find_root()
    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(root.command, {}, "tracekit", "_TRACEKIT_COMPLETE").source())
