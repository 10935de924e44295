"""Commands that store traces: load (in a database) and lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands import options
from tracekit.commands.options import Request, option
from tracekit.errors import TracekitError, is_interrupt
from tracekit.reporters.written import CommandResult, Output
from tracekit.reporters.written import output as output_of
from tracekit.text import counted, printable

if TYPE_CHECKING:
    from tracekit.lake.upkeep import Cleaned
    from tracekit.lake.workers import Workers
    from tracekit.lake.writing import Outcome

_WORKERS = (
    option("--workers", "Number of processes.  [default: one per core]", int),
    option(
        "--ray",
        "Run on a Ray cluster: its address, auto for the one running here, or local.",
        metavar="ADDRESS",
    ),
)


@options.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@option("-o --output", "The database file; overwritten if it exists.", required=True)
@option("--append", "Add to the database instead of replacing it.", is_flag=True)
@option(
    "--resume",
    "Keep an interrupted load as OUTPUT.partial, and resume it on the next call.",
    is_flag=True,
)
@option(
    "--no-verdict",
    "Skip verdicts: leave the tables verdict, evidence, one_off, advice and host_wait empty.",
    is_flag=True,
)
@options.resource_options
@options.writing
def load(
    traces: tuple[str, ...], output: str, no_verdict: bool, request: Request, **how: Any
) -> CommandResult:
    """Load traces into a database that any DuckDB client can open.

    A TRACE may also be a directory, a quoted pattern, or a tar archive of traces. A bad trace does
    not stop the others: it is reported at the end, with exit status 2.
    """
    from tracekit import opening
    from tracekit.reporters.progress import loading_bar

    before = _state_of(output)
    waits = f"waiting for another load to finish writing {output}"
    written, bad = CommandResult(), list[TracekitError]()
    try:
        with loading_bar(traces) as progress:
            database = opening.load(
                traces, output, request.resources, on_bad=bad.append,
                on_wait=partial(options.warn, waits),
                progress=progress, verdicts=not no_verdict, **how,
            )  # fmt: skip
        with database:
            rows = database.traces()
            written.outputs.append(output_of(output, len(rows), "traces"))
            written.lines += [
                f"{row['trace_id']}  {row['path']}: {counted(row['events'], 'event')}, "
                f"{counted(row['kernels'], 'kernel')}, {counted(row['cpu_ops'], 'operator')}"
                for row in rows
            ]
            options.tell_errors(database)
            for path, times in Counter(row["path"] for row in rows).items():
                if times > 1:
                    options.warn(f"{path} is in {output} {times} times: sums count it each time")
    except BaseException as ended:
        if is_interrupt(ended):
            if _state_of(output) != before:
                options.warn(f"{output} is complete")
            elif how["resume"] and Path(f"{output}.partial").exists():
                options.warn(
                    f"{output}.partial keeps the traces loaded so far: run the same command to "
                    "resume"
                )
        raise
    for error in bad:
        options.warn(f"not loaded: {error}")
    written.status = 2 if bad else 0
    return written


def _state_of(output: str) -> tuple[int, int] | None:
    """Inode and modification time, which tell apart files of the same name."""
    try:
        status = Path(output).stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns


@click.group(cls=options.CommandGroup)
def lake() -> None:
    """Store the traces of many ranks and runs as Parquet files, and query them together.

    A LAKE is a folder or a URL. Other commands take it where they take a database; LAKE/run=NAME
    and LAKE/run=NAME/rank=N are parts of it.
    """


@lake.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@option("--to target", "The lake; created if missing.", required=True, metavar="LAKE")
@options.json_option
@option("--run", "The run's name.  [default: each trace's folder or archive]")
@options.label_option
@option("--replace", "Replace an existing trace of the same rank.", is_flag=True)
@options.requesting(
    *_WORKERS,
    option(
        "--without-verdicts", "Skip verdicts (most of the time for small traces).", is_flag=True
    ),
    *options.RESOURCES,
)
def add(
    sources: tuple[str, ...],
    target: str,
    as_json: bool,
    run: str | None,
    labels: dict[str, str],
    replace: bool,
    request: Request,
) -> None:
    """Add traces to a lake. SOURCE is a file, folder, pattern, tar archive, or a URL of one.

    Only new and changed traces are read, so the same command resumes an interrupted one. A bad
    trace does not stop the others: it is reported, with exit status 2.
    """
    from tracekit.lake.adding import add_traces
    from tracekit.reporters.progress import work_bar

    with _workers(request) as pool, work_bar("parts") as bar:
        added = add_traces(
            sources, target, pool, run=run, replace_others=replace, labels=labels,
            resources=request.resources, judges=not request.given["without_verdicts"],
            on_outcome=lambda outcome: _tell(outcome, as_json), progress=bar,
        )  # fmt: skip
    done = len(added.outcomes) - len(added.failed)
    text = (
        f"{printable(target)}: {counted(done, 'trace')} read, "
        f"{counted(added.unread, 'file')} unchanged, "
        f"{len(added.failed):,} failed"
    )
    options.show(added, as_json, lambda _: click.echo(text))
    click.get_current_context().exit(2 if added.failed else 0)


@lake.command()
@click.argument("target", metavar="LAKE")
@click.argument("question", metavar="NAME")
@options.pairs_option("--param parameters", "Set a parameter.")
@options.requesting(*_WORKERS, *options.ROWS, *options.RESOURCES)
def ask(target: str, question: str, parameters: dict[str, str], request: Request) -> None:
    """Ask every rank a named question, in parallel.

    For questions that compare ranks, `tracekit query` asks all ranks together.
    """
    from tracekit.database import catalog
    from tracekit.files import require_no_input
    from tracekit.lake.reading import ask_ranks
    from tracekit.opening import files_named

    resources = request.resources
    if request.output is not None:
        require_no_input(request.output, files_named([target], resources))
    with _workers(request) as pool:
        asked = ask_ranks(target, question, parameters, pool, resources)
        units = {column.name: column.unit for column in catalog.query(question).columns}
        with asked as answers:
            request.render(answers, "FROM answers", units=units | {"rank": "id"})


@lake.command()
@click.argument("target", metavar="LAKE")
@options.requesting(*_WORKERS, *options.RESOURCES)
@options.writing
def compact(target: str, request: Request) -> CommandResult:
    """Merge the files of each run into one per table. Queries are faster then.

    LAKE/run=NAME compacts one run. `lake add` compacts a run automatically once it has many files.
    The old files stay for readers that have them open; `lake clean` removes them.
    """
    from tracekit.lake.layout import selection
    from tracekit.lake.reading import selected_parts
    from tracekit.lake.upkeep import compact_runs, mergeable

    where = selection(target)
    names = [part.name for part in selected_parts(where) if mergeable(part.whole or part)]
    with _workers(request) as pool:
        count = compact_runs(where.root, pool, names, request.resources)
    runs, groups = counted(len(names), "run"), counted(count, "group")
    says = f"{runs} compacted, of {groups} of ranks"
    return CommandResult().add(target, count, "groups of ranks", says=says)


@lake.command()
@click.argument("target", metavar="LAKE")
@options.resource_options
@options.writing
def publish(target: str, request: Request) -> CommandResult:
    """Publish the small tables as Delta tables. Spark, Trino, ClickHouse, DuckDB, Polars read them.

    Each table is LAKE/tables/NAME. From then on, `lake add` also publishes new traces, in one
    commit per table. Needs the extra `lake`.
    """
    from tracekit.lake.upkeep import publish as library

    written = CommandResult()
    for table, count in library(target, request.resources).items():
        written.add(f"{target}/tables/{table}", count, "files")
    return written


@lake.command()
@click.argument("target", metavar="LAKE")
@options.json_option
@option(
    "--older-than hours",
    "Leave files younger than this many hours: a running `lake add` may need them.",
    float,
    default=24.0,
)
def clean(target: str, as_json: bool, hours: float) -> None:
    """Remove the files of replaced or unfinished ranks. It prints their names.

    Links are not followed, and files that are not named like a lake's are left alone.
    """
    from tracekit.lake.upkeep import clean as library

    def render(done: Cleaned) -> None:
        young = f"; {done.kept_young:,} too recent to remove" if done.kept_young else ""
        for path in done.removed:
            click.echo(f"removed  {printable(path)}")
        click.echo(f"{printable(target)}: removed {counted(len(done.removed), 'file')}{young}")

    options.show(library(target, hours), as_json, render)


@lake.command()
@click.argument("target", metavar="LAKE")
@click.argument("table")
@options.writing
def files(target: str, table: str) -> CommandResult:
    """List the Parquet files of a table that readers see now."""
    from tracekit.lake.layout import selection
    from tracekit.lake.reading import selected_parts
    from tracekit.lake.storage import Storage

    where = selection(target)
    store = Storage(where.root)
    groups = [group for part in selected_parts(where) for group in part.groups]
    tables = sorted({name for each in groups for name in each.files})
    if table not in tables:
        raise TracekitError(f"{target} has no table {table!r}; its tables are {', '.join(tables)}")
    sizes = [(store.table_uri(each.path(table)), each.files.get(table)) for each in groups]
    found = [Output(path, size) for path, size in sizes if size is not None]
    return CommandResult(found, [each.path for each in found])


@contextmanager
def _workers(request: Request) -> Iterator[Workers]:
    """A Ray cluster, or processes of this machine."""
    from tracekit.lake.workers import Cluster, Processes, ended_by_signals

    count, address = request.given["workers"], request.given["ray"]
    if address is None:
        with ended_by_signals():
            yield Processes(count)
        return
    with Cluster(address, count, request.resources.memory_mb, options.warn) as cluster:
        yield cluster


def _tell(outcome: Outcome, as_json: bool) -> None:
    if outcome.status == "failed":
        options.warn(f"not added: {outcome.message}")
    elif not as_json:
        took = f"{counted(outcome.events, 'event')}, {outcome.took_s:.1f} s"
        click.echo(printable(f"{outcome.status}  run={outcome.run} {outcome.name}: {took}"))
