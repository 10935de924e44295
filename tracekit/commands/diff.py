"""Comparisons: of two runs, with a baseline, of a lake's runs, and with HTA: diff, baseline,
history, fleet, crosscheck."""

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
_FOLDER = option("--dir folder", "Where baselines are kept.", default=_OWN_FOLDER)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A [B]")
@json_option
@option("--markdown", "Print Markdown, for a comment on a pull request.", is_flag=True)
@options.gate_options(
    "Exit with 1 if this SQL condition is true. It compares a and b, each with the columns of the "
    "query run_metrics, such as 'b.span_ns > 1.05 * a.span_ns'."
)
@option("--trace-ids", "Traces to compare.", int, nargs=2, default=(1, 2))
@options.resource_options
def diff(
    runs: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    top: int,
    conditions: tuple[str, ...],
    trace_ids: tuple[int, int],
    request: Request,
) -> int:
    """Compare two runs.

    Compares B with A (each a trace or DB), or two traces of the DB A (--trace-ids). Times and
    counts are per step; the waterfall compares the median steps. Given two folders of ranks, or
    runs of lakes, it compares the runs first, then the rank that sets the pace.
    """
    from tracekit.reporters import diff as reporter

    if as_json and markdown:
        raise TracekitError("choose one of --json and --markdown")
    pair = open_pair(runs, trace_ids, request.resources)
    with pair.database:
        found = pair.diff(top)
        failed = [each for each in conditions if pair.fails(each)]
    if markdown:
        click.echo(reporter.markdown(found, top), nl=False)
    else:
        options.show(found, as_json, reporter.render)
    return options.status_of(failed)


def open_pair(runs: tuple[str, ...], trace_ids: tuple[int, int], resources: Resources) -> Pair:
    """Opens what is compared: two traces or runs, or the one database that holds both traces.

    Raises:
        TracekitError: when they are not two, or cannot be read.
    """
    from tracekit.compare.diff import Pair
    from tracekit.lake.layout import may_be_lake

    lakes = [may_be_lake(each) for each in runs]
    if len(runs) > 2:
        raise TracekitError("give two traces to compare, or one database that holds both")
    if len(runs) == 1:
        from tracekit.opening import open_any

        opened = open_any(runs[0], resources)
        if trace_ids == (1, 2) and len(opened.trace_ids()) == 1:
            opened.close()
            raise TracekitError(f"{opened.name}: holds one trace: name another to compare it with")
        return Pair(opened, *trace_ids)
    if any(lakes):
        if not all(lakes):
            raise TracekitError("compare two lakes, or two traces: add the trace to a lake first")
        from tracekit.lake import comparing

        pair = comparing.open_pair(runs[0], runs[1], resources)
    else:
        pair = _open_two(runs[0], runs[1], trace_ids, resources)
    options.tell_notes(pair.database)
    if pair.note:
        options.warn(pair.note)
    return pair


def _open_two(a: str, b: str, trace_ids: tuple[int, int], resources: Resources) -> Pair:
    from tracekit.compare.diff import Pair, common_rank, compare_runs, ranks_in
    from tracekit.opening import load, open_any
    from tracekit.text import shown
    from tracekit.trace.paths import trace_paths

    given = trace_paths([a, b])
    if len(given) == 2:
        both = load([a, b], resources=resources)
        if len(both.trace_ids()) == 2:
            return Pair(both, *trace_ids)
        both.close()
    if trace_ids != (1, 2):
        raise TracekitError("--trace-ids chooses from one database: give only that")
    names = (shown(a), shown(b))
    with open_any(a, resources) as first, open_any(b, resources) as second:
        runs = compare_runs(first, second, names)
        ranks = ranks_in(first), ranks_in(second)
        paths = [row["path"] for each in (first, second) for row in each.ask("overview")]
    one, other, note = common_rank(names, *ranks, runs)
    other += len(ranks[0])
    chosen = [paths[one], paths[other]]
    # The rows of a database may name any file.
    if all(path in given for path in chosen):
        return Pair(load(chosen, resources=resources), 1, 2, note, runs)
    # Members of archives and of databases are numbered in their order.
    return Pair(load([a, b], resources=resources), 1 + one, 1 + other, note, runs)


@click.command()
@click.argument("lake", metavar="LAKE")
@json_option
@options.gate_options(
    "Exit with 1 if this SQL condition is true of the last run (b) and of the one with the median "
    "step among those before (a), such as 'b.span_ns > 1.05 * a.span_ns'."
)
@options.threshold_options
def history(
    lake: str, as_json: bool, top: int, conditions: tuple[str, ...], request: Request
) -> int:
    """Tell how the step of a lake's runs changed over time, and what changed.

    The step of a run is the median over its ranks of their median steps.
    """
    from tracekit.lake import comparing as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import diff as reporter

    with open_lake(lake, request.resources) as opened, opened.judging(request.thresholds):
        options.tell_notes(opened)
        found = library.history(opened, top)
        failed = library.last_failing(opened, conditions)
    options.show(found, as_json, reporter.render_history)
    return options.status_of(failed)


@click.command()
@click.argument("lake", metavar="LAKE")
@json_option
@options.threshold_options
def fleet(lake: str, as_json: bool, request: Request) -> None:
    """Tell what costs most over all runs of a lake, which hosts are slow, and what changed when.

    Each change comes with the labels that changed with it (`tracekit lake add --label`).
    `tracekit report LAKE` writes the same as a page.
    """
    from tracekit.lake.fleet import fleet as library
    from tracekit.lake.reading import open_lake
    from tracekit.reporters import fleet as reporter

    with open_lake(lake, request.resources) as opened, opened.judging(request.thresholds):
        options.tell_notes(opened)
        found = library(opened)
    options.show(found, as_json, reporter.render)


@click.command()
@click.argument("trace")
@json_option
@options.resource_options
def crosscheck(trace: str, as_json: bool, request: Request) -> int:
    """Compare tracekit's numbers with HolisticTraceAnalysis's.

    TRACE is a .json or .json.gz file. The exit status is 1 if HolisticTraceAnalysis's numbers
    differ from those that its own rules give.
    """
    from tracekit.compare import crosscheck as library
    from tracekit.compare import hta
    from tracekit.reporters import diff as reporter

    hta.require(trace)
    with request.open(trace) as run:
        report = library.crosscheck(trace, run.session)
    options.show(report, as_json, reporter.render_crosscheck)
    return 0 if report.agrees else 1


@click.group()
def baseline() -> None:
    """Keep a trace by a name, and compare later ones with it.

    The GitHub Action of the repository (action.yml) does both for pull requests.
    """


@baseline.command()
@click.argument("name")
@click.argument("trace")
@_FOLDER
@options.resource_options
@options.writing
def save(name: str, trace: str, folder: str, request: Request) -> CommandResult:
    """Make TRACE the baseline NAME, in place of an older one."""
    from tracekit.database.export import export
    from tracekit.files import require_unlinked, writing_to
    from tracekit.opening import open_any

    path = require_unlinked(_path(name, folder), "" if folder == _OWN_FOLDER else folder)
    with open_any(trace, request.resources) as opened:
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        count = export(opened, path)
    return CommandResult().add(path, count, "events")


@baseline.command(params=[each for each in diff.params if each.name not in ("runs", "trace_ids")])
@click.argument("name")
@click.argument("trace")
@_FOLDER
@click.pass_context
def compare(context: click.Context, /, name: str, trace: str, folder: str, **given: Any) -> Any:
    """Compare TRACE with the baseline NAME, as `tracekit diff` does."""
    path = _path(name, folder)
    if not path.exists():
        raise TracekitError(f"{path}: no such baseline: `tracekit baseline save {name}` makes one")
    return context.invoke(diff, runs=(str(path), trace), trace_ids=(1, 2), **given)


def _path(name: str, folder: str) -> Path:
    if not _NAME.fullmatch(name):
        raise TracekitError(f"{name!r} names no baseline: take letters, digits, _, . and -")
    return Path(folder) / f"{name}.json.gz"
