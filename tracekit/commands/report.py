"""Pages of charts: report, and demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tracekit.commands.options import (
    Request,
    judging_options,
    option,
    tell_notes,
    trace_id_option,
    writing,
)
from tracekit.errors import TracekitError
from tracekit.reporters.written import Steps, tell, wrote
from tracekit.text import printable, size

_DEMO = Path(__file__).parents[1] / "demo.json.gz"


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="TRACE|DB...")
@option("-o --output", "The HTML file to write.  [default: TRACE.html, beside the first TRACE]")
@option("--open opening", "Open the page in a browser.", is_flag=True)
@trace_id_option("all")
@option("--trace-ids", "Compare these traces of the database.", int, nargs=2, metavar="A B")
@judging_options
@writing
def report(
    runs: tuple[str, ...],
    output: str | None,
    opening: bool,
    trace_id: int | None,
    trace_ids: tuple[int, int] | None,
    request: Request,
) -> Steps:
    """Write a page of charts that needs nothing but a browser.

    Of one trace: its verdict and where the time went. Of two, or of two traces of a DB
    (--trace-ids): what changed from the first to the second. Of several, such as the ranks of a
    job: who waits for whom, and a page for each, as many as fit. Of a lake: what costs most over
    all runs. Of a sweep's DB: what bounds and what is fastest, by size. The page can be mailed and
    opened without a network. Needs the extra `report`.
    """
    from tracekit.commands.diff import open_pair
    from tracekit.files import require_writable
    from tracekit.opening import files_named, load, open_any

    try:
        with _without_unused_formats():
            from tracekit.reporters.html import reports
    except ImportError as error:
        raise TracekitError(f"reports need {error.name}: pip install 'tracekit[report]'") from error

    resources, window, judged = request.resources, request.window, request.thresholds
    output = output or _beside(runs[0])
    require_writable(output, files_named(runs, resources))
    if len(runs) == 2 or trace_ids:
        if window or trace_id is not None:
            raise TracekitError("--window and --trace-id are for the page of one trace")
        pair = open_pair(runs, trace_ids or (1, 2), resources)
        with pair.database as database, database.judging(judged):
            reports.write_diff(database, pair.a, pair.b, output, judged)
    else:
        one = len(runs) == 1
        opened = open_any(runs[0], resources) if one else load(runs, resources=resources)
        tell_notes(opened)
        with opened as database, database.judging(judged):
            reports.write_any(database, output, trace_id, window, judged)
    yield from _written(output, opening)


def _beside(run: str) -> str:
    """The default path of the page of a trace, a folder or a database."""
    name = "report" if run == "-" or "://" in run else run.rstrip("/")
    path = Path(name)
    if path.name in ("", ".", ".."):
        return str(path / "report.html")
    for ending in (".gz", ".zst", ".json", ".tar", ".tgz", ".zip", ".duckdb", ".db"):
        path = path.with_name(path.name.removesuffix(ending) or path.name)
    return str(path.with_name(path.name + ".html"))


def _written(output: str, opening: bool) -> Steps:
    import webbrowser

    yield from wrote(output, says=size(Path(output).stat().st_size))
    if opening and not webbrowser.open(Path(output).resolve().as_uri()):
        yield "No browser was found: open the file yourself."


@click.command()
@option("-o --output", "The HTML file to write.", default="tracekit-demo.html")
@option("--no-open is_quiet", "Do not open the page in a browser.", is_flag=True)
def demo(output: str, is_quiet: bool) -> None:
    """Show what tracekit says of a trace that comes with it.

    It is a training loop on an A100, simulated: no GPU was involved. Needs no PyTorch, and no
    trace of yours. The page of charts needs the extra `report`.
    """
    from tracekit.files import require_writable
    from tracekit.opening import load
    from tracekit.reporters import first_screen
    from tracekit.run import Database

    require_writable(output, [])
    click.echo(f"A simulated training loop on an A100 (no GPU was involved): {printable(_DEMO)}\n")
    with Database(load(str(_DEMO))) as run:
        first_screen.render(run.verdict())
        click.echo()
        try:
            run.report(output)
        except TracekitError as error:
            if not isinstance(error.__cause__, ImportError):
                raise
            click.echo(f"The page of charts is left out: {error}")
            return
    tell(_written(output, not is_quiet), as_json=False)


@contextmanager
def _without_unused_formats() -> Iterator[None]:
    """Keeps jsonschema, which Altair imports, from preparing checks that no report needs.

    Where the package is installed, as with Jupyter, importing its grammar of addresses takes
    longer than a report. jsonschema does without it:
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
