"""What limits a run, and what to change: analyze, advise; and pages of charts: report, demo."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import click

from tracekit.commands import completion, options
from tracekit.commands.options import Request, json_option, option
from tracekit.errors import TracekitError, needing
from tracekit.reporters.written import CommandResult, print_outputs
from tracekit.text import printable, size

_DEMO = Path(__file__).parents[1] / "demo.json.gz"


@options.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@json_option
@click.option(
    "--explain",
    is_flag=True,
    help="Also print the critical path, the arithmetic and the SQL of the first screen; with "
    "--full, all SQL and thresholds.",
)
@click.option("--full", is_flag=True, help="Print all reasons, windows, kernels and caveats.")
@options.judging_options("all")
def analyze(
    traces: tuple[str, ...],
    as_json: bool,
    explain: bool,
    full: bool,
    request: Request,
) -> None:
    """Diagnose whether a run is overhead- or compute-bound, and why.

    TRACE may also be a DB or a folder. Given the traces of all ranks of a run, it also shows which
    ranks wait for which.
    """
    from tracekit.reporters.terminal import paged
    from tracekit.verdict.model import SCHEMA
    from tracekit.verdicts import verdict_together

    paging = paged() if full or explain else nullcontext()
    with request.open(*traces) as opened, opened.sharing(), paging:
        analyses = opened.verdicts(request.trace_of(opened.session), request.window)
        analyses, run, no_run = verdict_together(opened.session, analyses)
        if as_json:
            objects = [each.as_dict() for each in analyses]
            listed = {"schema": f"{SCHEMA}+list", "analyses": objects, "run": run and run.as_dict()}
            if no_run:
                listed["no_run"] = no_run
            click.echo(json.dumps(objects[0] if len(objects) == 1 else listed, default=str))
        elif len(analyses) > 1:
            from tracekit.reporters import several

            if run is not None:
                several.render_run(run)
            several.render(analyses, run, no_run)
        elif full or explain:
            from tracekit.reporters import console

            console.render(analyses[0])
        else:
            from tracekit.reporters import first_screen

            first_screen.render(analyses[0])
        if explain:
            from tracekit.reporters import console

            for analysis in [] if as_json else analyses:
                console.explain(analysis, every=full)
            console.print_queries(every=full or as_json, of_run=run is not None, err=as_json)


@options.command()
@click.argument("traces", nargs=-1, metavar="[TRACE]...")
@click.option(
    "--how",
    metavar="NAME",
    shell_complete=completion.remedies,
    help="Print how to apply this remedy; needs no TRACE.",
)
@json_option
@click.option("--all", "every", is_flag=True, help="Print every line.  [default: the first ten]")
@options.judging_options("its only one; of the ranks of a run, the one that sets the pace")
def advise(
    traces: tuple[str, ...],
    how: str | None,
    as_json: bool,
    every: bool,
    request: Request,
) -> None:
    """List what to change in a run, where, and what each change would save.

    TRACE may also be a DB, or the traces of several ranks. Each saving is estimated by replaying
    the run with that change alone; the last line is what the best changes save together.
    """
    from tracekit.database.remedies import all_remedies, remedy
    from tracekit.reporters import advise as reporter
    from tracekit.verdicts import to_advise

    if how is not None:
        reporter.render_how(remedy(how))
        return
    if not traces:
        raise click.UsageError("Missing argument 'TRACE' (or --how NAME).")
    if (last := traces[-1]) in all_remedies() and not Path(last).exists():
        raise TracekitError(f"{last}: is a remedy; `tracekit advise --how {last}` describes it")
    with request.open(*traces) as run:
        chosen, why = to_advise(run.session, request.trace_of(run.session))
        if why:
            options.warn(f"advice on {why} (--rank chooses another)")
        fixes = run.advise(chosen, request.window)
    options.show(fixes, as_json, partial(reporter.render, every=every))


@options.command()
@click.argument("runs", nargs=-1, required=True, metavar="TRACE|DB...")
@option("-o --output", "The HTML file to write.  [default: TRACE.html, beside the first TRACE]")
@option("--open opening", "Open the page in a browser.", is_flag=True)
@option("--trace-ids", "Compare these traces of the database.", int, nargs=2, metavar="A B")
@options.judging_options("all")
@options.writing
def report(
    runs: tuple[str, ...],
    output: str | None,
    opening: bool,
    trace_ids: tuple[int, int] | None,
    request: Request,
) -> CommandResult:
    """Write a page of charts for any browser.

    For one trace, the page shows its verdict and where the time went. For two, or for two traces
    of a DB (--trace-ids), it shows what changed from the first to the second. For several, such as
    the ranks of a job, it shows which ranks wait for which, and has a page for as many as fit. For
    a lake, it shows what costs most over all runs; for a sweep's DB, the bound and the fastest
    variant by size. The page is one file and needs no network. Needs the extra `report`.
    """
    from tracekit.commands.diff import open_pair
    from tracekit.files import named_or_own, require_writable
    from tracekit.opening import files_named, open_any

    with needing("reports need", "report"), _without_unused_formats():
        from tracekit.reporters.html import reports
    resources, window, thresholds = request.resources, request.window, request.thresholds
    output = named_or_own(output, _beside(runs[0]))
    require_writable(output, files_named(runs, resources))
    if len(runs) == 2 or trace_ids:
        if window or request.given["trace_id"] is not None:
            raise TracekitError("--window and --trace-id are for the page of one trace")
        pair = open_pair(runs, trace_ids, request.given["rank"], resources)
        with pair.database as database, database.judging(thresholds):
            reports.write_diff(database, pair.a, pair.b, output)
    else:
        opened = open_any(runs, resources, skips_bad=True)
        options.tell_notes(opened)
        with opened as database, database.judging(thresholds):
            reports.write_any(database, output, request.trace_of(database), window)
    return _written(output, opening)


def _beside(run: str) -> str:
    """The default path of the page of a trace, a folder or a database."""
    from tracekit.trace.paths import stem

    name = "report" if run == "-" or "://" in run else run.rstrip("/")
    path = Path(name)
    if path.name in ("", ".", ".."):
        return str(path / "report.html")
    return str(path.with_name(stem(path.name) + ".html"))


def _written(output: str, opening: bool) -> CommandResult:
    import webbrowser

    written = CommandResult().add(output, says=size(Path(output).stat().st_size))
    if opening and not webbrowser.open(Path(output).resolve().as_uri()):
        written.lines.append("No browser was found: open the file yourself.")
    return written


@options.command()
@option("-o --output", "The HTML file to write.  [default: tracekit-demo.html]")
@option("--no-open is_quiet", "Do not open the page in a browser.", is_flag=True)
def demo(output: str | None, is_quiet: bool) -> None:
    """Analyze the bundled example trace.

    It was recorded by `tracekit capture train-step` on an NVIDIA H100, at a small size. The demo
    needs no GPU and no PyTorch. The page of charts needs the extra `report`.
    """
    from tracekit.files import named_or_own, require_writable
    from tracekit.opening import load
    from tracekit.reporters import first_screen
    from tracekit.run import Database

    output = named_or_own(output, "tracekit-demo.html")
    require_writable(output, [])
    click.echo(f"A small training step, captured on an NVIDIA H100: {printable(_DEMO)}\n")
    with Database(load(str(_DEMO))) as run:
        first_screen.render(run.verdict())
        click.echo()
        try:
            run.report(output)
        except TracekitError as error:
            if not isinstance(error.__cause__, ImportError):
                raise
            click.echo(f"The page of charts was not written: {error}")
            return
    print_outputs(_written(output, not is_quiet), as_json=False)


@contextmanager
def _without_unused_formats() -> Iterator[None]:
    """Keeps jsonschema, which Altair imports, from loading format checks that reports do not use.

    If this package is installed, as with Jupyter, importing its grammar of addresses takes longer
    than a report. jsonschema works without it:
    https://github.com/python-jsonschema/jsonschema/blob/main/jsonschema/_format.py
    """
    name = "rfc3987_syntax"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
