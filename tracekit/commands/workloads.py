"""tracekit workloads"""

import click

from tracekit.workloads import WORKLOADS


@click.command()
def workloads() -> None:
    """List the built-in workloads."""
    width = max(map(len, WORKLOADS))
    for name, entry in WORKLOADS.items():
        click.echo(f"{name:<{width}}  {entry.summary}")
