"""tracekit report"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from tracekit.commands.options import Request, judging_options, option, trace_id_option
from tracekit.errors import TracekitError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="TRACE|DB...")
@option("-o --output", "The HTML file to write.", required=True)
@trace_id_option("all")
@option("--trace-ids", "Compare these traces of the database.", int, nargs=2, metavar="A B")
@judging_options
def report(
    runs: tuple[str, ...],
    output: str,
    trace_id: int | None,
    trace_ids: tuple[int, int] | None,
    request: Request,
) -> None:
    """Write a page of charts that needs nothing but a browser.

    Of one trace: its verdict and where the time went. Of two, or of two traces of a DB
    (--trace-ids): what changed from the first to the second. Of several, such as the ranks of a
    job: who waits for whom, and a page for each, as many as fit. Of a lake: what costs most over
    all runs. Of a sweep's DB: what bounds and what is fastest, by size. The page can be mailed and
    opened without a network. Needs the extra `report`.
    """
    from tracekit.commands.diff import open_pair
    from tracekit.experiments.points import sweep_in
    from tracekit.files import require_writable
    from tracekit.lake.fleet import fleet
    from tracekit.lake.reading import Lake
    from tracekit.opening import files_named, load, open_given

    try:
        with _without_unused_formats():
            from tracekit.reporters.html import reports
    except ImportError as error:
        raise TracekitError(f"reports need {error.name}: pip install 'tracekit[report]'") from error

    resources, window, judged = request.resources, request.window, request.thresholds
    require_writable(output, files_named(runs, resources))
    if len(runs) == 2 or trace_ids:
        if window or trace_id is not None:
            raise TracekitError("--window and --trace-id are for the page of one trace")
        pair = open_pair(runs, trace_ids or (1, 2), resources)
        with pair.database as database, database.judging(judged):
            reports.write_diff(database, pair.a, pair.b, output, judged)
        return
    one = len(runs) == 1
    opened = open_given(runs[0], resources) if one else load(runs, resources=resources)
    with opened as database, database.judging(judged):
        if trace_id is not None or len(database.trace_ids()) == 1:
            reports.write_trace(database, output, trace_id, window, judged)
        elif isinstance(database, Lake) and len(database.parts) > 1:
            if window:
                raise TracekitError("--window is not for the page of several runs")
            reports.write_fleet(fleet(database, judged), output, database.inputs)
        elif sweep := sweep_in(database):
            if window:
                raise TracekitError("--window is not for the page of a sweep")
            reports.write_sweep(sweep, output)
        else:
            reports.write_ranks(database, output, window, judged)


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
