"""tracekit lake"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracekit.commands.options import resource_options
from tracekit.errors import TracekitError
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.lake.writing import Outcome


@click.group()
def lake() -> None:
    """Keep the traces of many ranks and runs as Parquet files, and ask them together.

    A LAKE is a folder or a URL. Other commands take it where they take a database; LAKE/run=NAME
    and LAKE/run=NAME/rank=N are parts of it.
    """


@lake.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--to", "target", required=True, metavar="LAKE", help="The lake; made if new.")
@click.option("--run", help="The run's name.  [default: each trace's folder or archive]")
@click.option("--replace", is_flag=True, help="Let a trace take the place of another of its rank.")
@click.option("--workers", type=int, help="Processes to work with.  [default: one per core]")
@click.option(
    "--without-verdicts", is_flag=True, help="Judge no trace: most of the time of small ones."
)
@resource_options
def add(
    sources: tuple[str, ...],
    target: str,
    run: str | None,
    replace: bool,
    workers: int | None,
    without_verdicts: bool,
    **limits: Any,
) -> None:
    """Add traces to a lake: files, folders, patterns, tar archives, or URLs of these.

    Only what is new or changed is read, so an interrupted addition is resumed by the same command.
    A bad trace does not stop the others: it is reported, with exit status 2.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.lake.adding import add_traces
    from tracekit.lake.pools import Processes

    found = add_traces(
        sources,
        target,
        Processes(workers),
        run=run,
        replace_others=replace,
        resources=Resources(**limits),
        judges=not without_verdicts,
        on_outcome=_tell,
    )
    done = len(found.outcomes) - len(found.failed)
    click.echo(
        f"{printable(target)}: {done:,} traces read, {found.unread:,} files unchanged, "
        f"{len(found.failed):,} failed"
    )
    click.get_current_context().exit(2 if found.failed else 0)


@lake.command()
@click.argument("target", metavar="LAKE")
@click.option(
    "--older-than",
    "hours",
    type=float,
    default=24.0,
    show_default=True,
    help="Leave files younger than this many hours: an addition that still runs may need them.",
)
def clean(target: str, hours: float) -> None:
    """Remove the files of ranks that were replaced or not finished."""
    from tracekit.lake.cleaning import clean as library

    done = library(target, hours)
    young = f"; {done.kept_young:,} are too young to remove" if done.kept_young else ""
    click.echo(f"{printable(target)}: removed {done.files:,} files{young}")


@lake.command()
@click.argument("target", metavar="LAKE")
@click.argument("table")
def files(target: str, table: str) -> None:
    """List the Parquet files of a table, for other engines to read: those that readers see now."""
    from tracekit.lake.layout import selection
    from tracekit.lake.reading import selected
    from tracekit.lake.storage import storage

    where = selection(target)
    store = storage(where.root)
    ranks = selected(where)
    known = sorted({name for each in ranks for name in each.files})
    if table not in known:
        raise TracekitError(f"{target}: has no table {table!r}; its tables are {', '.join(known)}")
    for rank in ranks:
        if table in rank.files:
            click.echo(store.uri(rank.path(table)))


def _tell(outcome: Outcome) -> None:
    if outcome.status == "failed":
        click.echo(f"tracekit: not added: {printable(outcome.message)}", err=True)
        return
    click.echo(
        printable(
            f"{outcome.status}  run={outcome.run} {outcome.name}: {outcome.events:,} events, "
            f"{outcome.took_s:.1f} s"
        )
    )
