"""tracekit lake"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands.options import resource_options, row_options
from tracekit.errors import TracekitError
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.ingest.resources import Resources
    from tracekit.lake.workers import Workers
    from tracekit.lake.writing import Outcome
    from tracekit.reporters.progress import SweepBar


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say who does the work on files or ranks."""
    for option in (
        click.option(
            "--ray",
            metavar="ADDRESS",
            help="Work on a Ray cluster: its address, auto for the one that runs here, or local.",
        ),
        click.option(
            "--workers", type=int, help="Processes to work with.  [default: one per core]"
        ),
    ):
        command = option(command)
    return command


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
@worker_options
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
    ray: str | None,
    without_verdicts: bool,
    **limits: Any,
) -> None:
    """Add traces to a lake: files, folders, patterns, tar archives, or URLs of these.

    Only what is new or changed is read, so an interrupted addition is resumed by the same command.
    A bad trace does not stop the others: it is reported, with exit status 2.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.lake.adding import add_traces
    from tracekit.reporters.progress import sweep_bar

    resources = Resources(**limits)
    with _workers(workers, ray, resources) as pool, sweep_bar() as bar:
        found = add_traces(
            sources,
            target,
            pool,
            run=run,
            replace_others=replace,
            resources=resources,
            judges=not without_verdicts,
            on_start=bar.start if bar else None,
            on_outcome=lambda outcome: _tell(outcome, bar),
        )
    done = len(found.outcomes) - len(found.failed)
    click.echo(
        f"{printable(target)}: {done:,} traces read, {found.unread:,} files unchanged, "
        f"{len(found.failed):,} failed"
    )
    click.get_current_context().exit(2 if found.failed else 0)


@lake.command()
@click.argument("question", metavar="NAME")
@click.argument("target", metavar="LAKE")
@click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
@worker_options
@row_options
@resource_options
def ask(
    question: str,
    target: str,
    parameters: tuple[str, ...],
    workers: int | None,
    ray: str | None,
    form: str,
    output: str | None,
    timeout_s: float,
    max_rows: int | None,
    **limits: Any,
) -> None:
    """Ask each rank by itself a named question, many at a time, and show all answers.

    `tracekit query` asks all ranks together: that is for questions that compare ranks.
    """
    from tracekit.commands.query import pair
    from tracekit.files import require_no_input, work_folder
    from tracekit.ingest.resources import Resources
    from tracekit.lake.reading import ask_ranks
    from tracekit.lake.sources import WORK_PREFIX
    from tracekit.opening import files_named
    from tracekit.reporters import rows

    asked = rows.Limits(timeout_s, max_rows)
    resources = Resources(**limits)
    if output is not None:
        require_no_input(output, files_named([target], resources))
    given = dict(pair(each) for each in parameters)
    with (
        work_folder(Path(resources.temp_dir or gettempdir()), WORK_PREFIX) as folder,
        _workers(workers, ray, resources) as pool,
        ask_ranks(target, question, given, pool, folder, resources) as answers,
    ):
        rows.render(answers, "FROM answers", {}, form, output, limits=asked)


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
    """Remove the files of ranks that were replaced or not finished, and tell their names.

    Links are not followed, and files that a lake does not name so are left.
    """
    from tracekit.lake.adding import clean as library

    done = library(target, hours)
    young = f"; {done.kept_young:,} are too young to remove" if done.kept_young else ""
    for path in done.removed:
        click.echo(f"removed  {printable(path)}")
    click.echo(f"{printable(target)}: removed {len(done.removed):,} files{young}")


@lake.command()
@click.argument("target", metavar="LAKE")
@click.argument("table")
def files(target: str, table: str) -> None:
    """List the Parquet files of a table, for other engines to read: those that readers see now."""
    from tracekit.lake.layout import selection
    from tracekit.lake.reading import selected_ranks
    from tracekit.lake.storage import storage

    where = selection(target)
    store = storage(where.root)
    ranks = selected_ranks(where)
    known = sorted({name for each in ranks for name in each.files})
    if table not in known:
        raise TracekitError(f"{target}: has no table {table!r}; its tables are {', '.join(known)}")
    for rank in ranks:
        if table in rank.files:
            click.echo(store.uri(rank.path(table)))


@contextmanager
def _workers(workers: int | None, address: str | None, resources: Resources) -> Iterator[Workers]:
    """What does the work: a Ray cluster, or processes of this machine."""
    if address is None:
        from tracekit.lake.workers import Processes, ended_by_signals

        with ended_by_signals():
            yield Processes(workers)
        return
    from tracekit.lake.workers import Cluster

    def told(line: str) -> None:
        click.echo(f"tracekit: {printable(line)}", err=True)

    with Cluster(address, workers, resources.memory_mb, told) as cluster:
        yield cluster


def _tell(outcome: Outcome, bar: SweepBar | None) -> None:
    if bar is not None:
        bar.done(1)
    if outcome.status == "failed":
        click.echo(f"tracekit: not added: {printable(outcome.message)}", err=True)
        return
    click.echo(
        printable(
            f"{outcome.status}  run={outcome.run} {outcome.name}: {outcome.events:,} events, "
            f"{outcome.took_s:.1f} s"
        )
    )
