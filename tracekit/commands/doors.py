"""Traces for other programs: export, Perfetto (annotate, open), and agents (mcp, skill)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracekit.commands import options
from tracekit.commands.options import Request, option, seconds
from tracekit.errors import TracekitError, explained, needing
from tracekit.reporters import written
from tracekit.reporters.written import Written
from tracekit.stages import stage
from tracekit.text import counted, printable

_SKILLS = ".claude/skills"
# A skill is shorter; of a larger file, the difference shows no more.
_MOST_COMPARED = 1 << 20


@click.command()
@click.argument("source", metavar="TRACE|DB")
@option(
    "-o --output",
    "The file to write; a trace that ends in .gz or .zst is compressed. FILE.xlsx is a workbook "
    "of Excel: verdict, advice, kernels, operators, launches, gaps, and, for several traces, "
    "ranks.",
    required=True,
)
@option(
    "--format form",
    "The trace itself, or its flame graph: for speedscope, or as folded stacks.",
    click.Choice(["trace", "speedscope", "collapsed"]),
    default="trace",
)
@option(
    "--weight", "Whose time a flame graph shows.  [default: host]", click.Choice(["host", "gpu"])
)
@options.requesting(*options.PART)
@options.writing
def export(source: str, output: str, form: str, weight: str | None, request: Request) -> Written:
    """Write a trace as JSON, as it was loaded, its flame graph for other tools, or a workbook.

    A part of a large trace, such as --step 12, opens in Perfetto where the whole does not.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_any
    from tracekit.reporters import stacks

    part = request.part
    if form == "trace" and weight is not None:
        raise click.UsageError("--weight is for a flame graph: --format speedscope or collapsed")
    if form != "trace" and not part.is_whole:
        raise click.UsageError("a part is written as a trace: omit --format")
    is_book = output.endswith(".xlsx")
    if is_book and (form != "trace" or not part.is_whole):
        raise click.UsageError("a workbook is about whole traces: omit --format and the part")
    unit = "events" if form == "trace" else "stacks"
    with open_any(source, Resources(), output) as opened:
        if output.endswith((".csv", ".parquet", ".html")):
            raise TracekitError(
                f"{output}: export writes traces and workbooks; `report` writes .html, `query` "
                "and `sql` .csv and .parquet (--format)"
            )
        if is_book:
            with needing("a workbook needs", "excel"):
                from tracekit.reporters import workbook
            sheets = workbook.write(opened, output)
            options.tell_errors(opened)
            return Written().add(output, len(sheets), "sheets", says=", ".join(sheets))
        if form == "trace":
            count = part.write(opened, output)
        else:
            with stage("writing"):
                count = stacks.write(opened, form, output, weight or "host", part.trace_of(opened))
    return Written().add(output, count, unit)


@click.command()
@click.argument("trace")
@option("-o --output", "The trace to write; .gz and .zst are compressed.", required=True)
@options.resource_options
@options.writing
def annotate(trace: str, output: str, request: Request) -> Written:
    """Write TRACE with tracekit's findings drawn in, for Perfetto.

    Added are tracks of queue depth, busy share, copy bandwidth, idle gaps by cause, the critical
    path with arrows, and where the fix list would change the program, at which price. The trace's
    own events stay as they are, byte for byte, and tracekit leaves out the added ones when it loads
    the file. The traces of a directory, an archive or a DB become one file, on one clock.
    """
    from tracekit.files import require_writable
    from tracekit.opening import files_named
    from tracekit.perfetto.annotate import annotate

    require_writable(output, files_named([trace], request.resources))
    events, traces = annotate(trace, output, request.resources)
    of = "" if traces == 1 else f" to {traces} traces"
    says = f"{counted(events, 'event')} added{of}; open it in https://ui.perfetto.dev"
    return Written().add(output, events, "events added", says=says)


@click.command("open")
@click.argument("trace")
@option("--plain", "Open the trace as it is, without tracekit's tracks.", is_flag=True)
@option("--print-url", "Print the address instead of starting a browser.", is_flag=True)
@option(
    "--timeout timeout_s",
    "End if Perfetto's page does not ask for the trace for this many seconds.",
    seconds,
    default=600,
)
@options.requesting(*options.PART, *options.RESOURCES)
def open_trace(
    trace: str, plain: bool, print_url: bool, timeout_s: float, request: Request
) -> None:
    """Open TRACE, or a part of it, in Perfetto, with tracekit's findings drawn in.

    The trace does not leave this machine: Perfetto's page (https://ui.perfetto.dev) runs in the
    browser and reads it from 127.0.0.1, for which the browser may ask permission. The command ends
    when the page has read the trace, or has not asked for it for a while.
    """
    import webbrowser

    from tracekit.files import temporary_folder
    from tracekit.opening import open_any
    from tracekit.perfetto.annotate import annotate
    from tracekit.perfetto.serving import HOST, PORT, TraceServer

    resources, part = request.resources, request.part
    with temporary_folder(resources.folder) as folder:
        name = Path(trace).name.partition(".")[0] or "trace"
        is_made = part.is_chosen or not plain
        file = folder / f"{name}.json.gz" if is_made else Path(trace)
        if not is_made and (not file.is_file() or file.suffix not in (".json", ".gz")):
            raise TracekitError(f"{trace}: Perfetto reads .json and .json.gz files: omit --plain")
        # Before the long work: the port may be taken.
        with TraceServer(file) as server:
            if part.is_chosen:
                shown = file if plain else folder / f"part-{file.name}"
                with open_any(trace, resources) as opened:
                    part.write(opened, shown)
                trace = str(shown)
            if not plain:
                annotate(trace, file, resources)
            if print_url or not webbrowser.open(server.url):
                click.echo(server.url)
                click.echo(
                    f"Open this address in a browser. If it runs on another machine, first run "
                    f"there: ssh -L {PORT}:{HOST}:{PORT} THIS_MACHINE"
                )
            click.echo(
                "Waiting for Perfetto's page to read the trace. If the browser asks whether the "
                "page may reach this device, allow it."
            )
            server.serve_once(timeout_s)
        click.echo("Perfetto has read the trace.")


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option(
    "--keep",
    "Keep at most this many traces or databases open between calls.",
    click.IntRange(min=1),
    default=4,
)
@option("--timeout timeout_s", "End a query after this many seconds.", seconds, default=60)
@option(
    "--max-characters", "Limit the text of an answer.", click.IntRange(min=2_000), default=20_000
)
@options.resource_options
def mcp(
    folders: tuple[str, ...], keep: int, timeout_s: float, max_characters: int, request: Request
) -> None:
    """Serve traces in FOLDERs to an agent, by the Model Context Protocol.

    The agent starts this command and speaks with it over standard input and output. It can read
    traces, databases and lakes in these folders, and nothing else; it cannot write.
    """
    from tracekit.agents.traces import Folders, Opened

    with needing("mcp needs", "mcp"):
        from tracekit.agents.server import serve
        from tracekit.agents.tools import Tools
    served = Folders(folders)
    opened = Opened(keep, request.resources, served)
    tools = Tools(served, opened, characters=max_characters, timeout_s=timeout_s)
    if sys.stdin.isatty():
        options.warn("waiting for an agent on standard input; Ctrl-C ends")
    serve(tools)


@click.group()
def skill() -> None:
    """Teach a coding agent to use tracekit.

    The skill says which command answers what, how to read a verdict, and how to go on from a
    diagnosis to a fix that is checked. (`tracekit mcp` lets an agent ask without a shell.)
    """


@skill.command()
@click.argument("folder", metavar="[DIR]", default=_SKILLS)
@option("--force", "Replace a SKILL.md that differs.", is_flag=True)
@options.writing
def install(folder: str, force: bool) -> Written:
    """Write DIR/tracekit/SKILL.md, where agents look for skills.  [default: .claude/skills]

    If another text is there, this shows the difference, and writes only with --force.
    """
    from importlib.resources import files

    from tracekit.files import require_unlinked, writing_to, written_whole

    path = Path(folder) / "tracekit" / "SKILL.md"
    require_unlinked(path, "" if folder == _SKILLS else folder)
    text = files("tracekit.skills").joinpath("tracekit/SKILL.md").read_text(encoding="utf-8")
    if not force:
        _require_same(path, text)
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return Written([written.output(path)], [str(path)])


def _require_same(path: Path, text: str) -> None:
    """Shows how a file differs from the text that is to replace it.

    Raises:
        TracekitError: when it does.
    """
    from difflib import unified_diff

    if not path.is_file():
        return
    with explained(f"{path}: cannot be read", OSError), path.open("rb") as file:
        there = file.read(_MOST_COMPARED).decode("utf-8", "replace")
    if there == text:
        return
    pair = (str(path), "tracekit's")
    for line in unified_diff(there.splitlines(), text.splitlines(), *pair, lineterm=""):
        click.echo(printable(line), err=True)
    raise TracekitError(f"{path}: differs from tracekit's, as shown: --force replaces it")
