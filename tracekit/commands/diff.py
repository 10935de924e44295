"""Commands that compare: diff, baseline, history, fleet, crosscheck."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.commands import options
from tracekit.commands.options import Request, json_option, option
from tracekit.errors import TracekitError
from tracekit.reporters.written import CommandResult

if TYPE_CHECKING:
    from tracekit.compare.diff import Pair
    from tracekit.ingest.resources import Resources

_NAME = re.compile(r"\w[\w.-]*")
_OWN_FOLDER = ".tracekit/baselines"
_FOLDER = option("--dir folder", "The folder of baselines.", default=_OWN_FOLDER)


@options.command()
@click.argument("runs", nargs=-1, required=True, metavar="A [B]")
@json_option
@option("--markdown", "Print Markdown for a pull request comment.", is_flag=True)
@options.gate_options(
    "Exit with status 1 if this SQL condition is true, such as 'b.span_ns > 1.05 * a.span_ns'. a "
    "and b "
    "have the columns of the query run_metrics."
)
@option(
    "--trace-ids",
    "The traces of the database A to compare.  [default: 1 2]",
    int,
    nargs=2,
    metavar="A B",
)
@option("--rank", "The rank of both runs to compare.  [default: the one that sets the pace]", int)
@options.resource_options
def diff(
    runs: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    top: int,
    conditions: tuple[str, ...],
    trace_ids: tuple[int, int] | None,
    rank: int | None,
    request: Request,
) -> int:
    """Compare two runs.

    Compare B with A (each a trace or DB), or two traces in the DB A (--trace-ids). Times and
    counts are per step; the waterfall compares the median steps. For two folders of ranks, or two
    runs in lakes, the runs are compared first, then the rank that sets the pace, or --rank.
    """
    from tracekit.reporters import diff as reporter

    if as_json and markdown:
        raise TracekitError("choose one of --json and --markdown")
    pair = open_pair(runs, trace_ids, rank, request.resources)
    with pair.database:
        changes = pair.diff(top)
        failed = [condition for condition in conditions if pair.fails(condition)]
    if markdown:
        click.echo(reporter.markdown(changes, top), nl=False)
    else:
        options.show(changes, as_json, reporter.render)
    return options.status_of(failed)


def open_pair(
    runs: tuple[str, ...],
    trace_ids: tuple[int, int] | None,
    rank: int | None,
    resources: Resources,
) -> Pair:
    """Opens the two traces or runs to compare, or the one database that holds both traces.

    Raises:
        TracekitError: when there are not exactly two, or one cannot be read.
    """
    from tracekit.compare.diff import Pair
    from tracekit.lake.layout import may_be_lake

    lakes = [may_be_lake(run) for run in runs]
    if len(runs) > 2:
        raise TracekitError("give two traces to compare, or one database with two traces")
    if len(runs) == 1:
        if rank is not None:
            raise TracekitError("--rank is for two runs: --trace-ids chooses from one database")
        from tracekit.opening import open_any

        opened = open_any(runs[0], resources)
        if trace_ids in (None, (1, 2)) and len(opened.trace_ids()) == 1:
            opened.close()
            raise TracekitError(
                f"{opened.name} holds only one trace: give a second one to compare it with"
            )
        return Pair(opened, *(trace_ids or (1, 2)))
    if any(lakes):
        if not all(lakes):
            raise TracekitError(
                "a lake and a trace cannot be compared: add the trace to a lake first"
            )
        if rank is not None:
            raise TracekitError("choose a rank of a run in a lake as LAKE/run=NAME/rank=N")
        from tracekit.lake import comparing

        pair = comparing.open_pair(runs[0], runs[1], resources)
    else:
        pair = _open_two(runs[0], runs[1], trace_ids, rank, resources)
    options.tell_notes(pair.database)
    if pair.note:
        options.warn(pair.note)
    return pair


def _open_two(
    a: str, b: str, trace_ids: tuple[int, int] | None, rank: int | None, resources: Resources
) -> Pair:
    from tracekit.compare.diff import (
        Pair,
        common_rank,
        compare_runs,
        ranks_in,
        require_common_rank,
    )
    from tracekit.opening import load, open_any
    from tracekit.text import shown
    from tracekit.trace.paths import trace_paths

    given = trace_paths([a, b])
    if len(given) == 2 and rank is None:
        both = load([a, b], resources=resources)
        if len(both.trace_ids()) == 2:
            return Pair(both, *(trace_ids or (1, 2)))
        both.close()
    if trace_ids not in (None, (1, 2)):
        raise TracekitError("--trace-ids chooses from one database: give only that")
    names = (shown(a), shown(b))
    with open_any(a, resources) as first, open_any(b, resources) as second:
        ranks = ranks_in(first), ranks_in(second)
        require_common_rank(names, *ranks, rank)
        runs = compare_runs(first, second, names)
        paths = [row["path"] for each in (first, second) for row in each.ask("overview")]
    one, other, note = common_rank(names, *ranks, runs, rank)
    other += len(ranks[0])
    chosen = [paths[one], paths[other]]
    # The rows of a database may name any file.
    if all(path in given for path in chosen):
        return Pair(load(chosen, resources=resources), 1, 2, note, runs)
    # Members of archives and of databases are numbered in their order.
    return Pair(load([a, b], resources=resources), 1 + one, 1 + other, note, runs)


@options.command()
@click.argument("lake", metavar="LAKE")
@json_option
@options.gate_options(
    "Exit with status 1 if this SQL condition is true, such as 'b.unit_ns > 1.05 * a.unit_ns'. b "
    "is the last run, a the one of median length among the earlier runs that do the same work."
)
@options.threshold_options
def history(
    lake: str, as_json: bool, top: int, conditions: tuple[str, ...], request: Request
) -> int:
    """Show when the steps, prefills or decodes of a lake's runs changed, and what changed then.

    A run is compared by what it repeats: the median over its ranks of their median unit of work.
    Only runs that do the same work are compared: the same kind of unit, with as many tokens or
    samples.
    """
    from tracekit.lake import comparing as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import history as reporter

    with open_lake(lake, request.resources) as opened, opened.judging(request.thresholds):
        options.tell_notes(opened)
        changes = library.history(opened, top)
        failed = library.last_failing(opened, conditions)
    options.show(changes, as_json, reporter.render_history)
    return options.status_of(failed)


@options.command()
@click.argument("lake", metavar="LAKE")
@json_option
@options.threshold_options
def fleet(lake: str, as_json: bool, request: Request) -> None:
    """Show what costs most across a lake's runs, which hosts are slow, and when things changed.

    Each change is listed with the labels that changed at the same time (`tracekit lake add
    --label`). `tracekit report LAKE` writes the same as an HTML page.
    """
    from tracekit.lake.fleet import fleet as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import fleet as reporter

    with open_lake(lake, request.resources) as opened, opened.judging(request.thresholds):
        options.tell_notes(opened)
        findings = library(opened)
    options.show(findings, as_json, reporter.render)


@options.command()
@click.argument("trace")
@json_option
@options.resource_options
def crosscheck(trace: str, as_json: bool, request: Request) -> int:
    """Compare tracekit's numbers with HolisticTraceAnalysis's.

    TRACE is a .json or .json.gz file. The exit status is 1 if HolisticTraceAnalysis's numbers
    differ from what its own rules give.
    """
    from tracekit.compare import crosscheck as library
    from tracekit.compare import hta
    from tracekit.reporters import diff as reporter

    hta.require(trace)
    with request.open(trace) as run:
        report = library.crosscheck(trace, run.session)
    options.show(report, as_json, reporter.render_crosscheck)
    return 0 if report.agrees else 1


@click.group(cls=options.CommandGroup)
def baseline() -> None:
    """Save a trace as a named baseline, and compare later traces with it.

    tracekit's GitHub Action (action.yml) does both for pull requests.
    """


@baseline.command()
@click.argument("name")
@click.argument("trace")
@_FOLDER
@options.requesting(*options.which_options(), *options.RESOURCES)
@options.writing
def save(name: str, trace: str, folder: str, request: Request) -> CommandResult:
    """Save TRACE as the baseline NAME, replacing an older one."""
    from tracekit.database.export import export
    from tracekit.files import require_unlinked, writing_to
    from tracekit.opening import open_any

    path = require_unlinked(_path(name, folder), "" if folder == _OWN_FOLDER else folder)
    with open_any(trace, request.resources) as opened:
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        count = export(opened, path, request.trace_of(opened))
    return CommandResult().add(path, count, "events")


@baseline.command(
    params=[parameter for parameter in diff.params if parameter.name not in ("runs", "trace_ids")]
)
@click.argument("name")
@click.argument("trace")
@_FOLDER
@click.pass_context
def compare(context: click.Context, /, name: str, trace: str, folder: str, **given: Any) -> Any:
    """Compare TRACE with the baseline NAME, as `tracekit diff` does."""
    path = _path(name, folder)
    if not path.exists():
        raise TracekitError(
            f"{path}: no such baseline: create it with `tracekit baseline save {name}`"
        )
    return context.invoke(diff, runs=(str(path), trace), trace_ids=None, **given)


def _path(name: str, folder: str) -> Path:
    if not _NAME.fullmatch(name):
        raise TracekitError(
            f"{name!r} is not a valid baseline name: use letters, digits, _, . and -"
        )
    return Path(folder) / f"{name}.json.gz"
