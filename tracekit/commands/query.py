"""Commands that query: query, sql, and schema for the form of their answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.commands import completion, options
from tracekit.commands.options import Request, json_option, option, pairs_option, requesting
from tracekit.errors import TracekitError
from tracekit.text import printable, quoted

if TYPE_CHECKING:
    from tracekit.database.catalog import Query, Value
    from tracekit.database.session import Session


@options.command()
@click.argument(
    "arguments", nargs=-1, metavar="[TRACE|DB] [NAME]", shell_complete=completion.questions
)
@pairs_option("--param parameters", "Set a parameter.", shell_complete=completion.parameters)
@option(
    "--columns",
    "Show only these columns, in this order.",
    metavar="NAME,NAME",
    shell_complete=completion.columns,
)
@option(
    "--list listing", "List the questions, or those that contain the words given.", is_flag=True
)
@option("--explain", "Print the query's SQL and describe its columns.", is_flag=True)
@requesting(*options.which_options("all"), *options.ROWS, *options.RESOURCES)
def query(
    arguments: tuple[str, ...],
    parameters: dict[str, str],
    columns: str | None,
    listing: bool,
    explain: bool,
    request: Request,
) -> None:
    """Ask a trace or database a named question; --list shows them.

    `--list WORD` lists the questions that contain a word. `NAME --explain` works without a trace.
    """

    if listing or not arguments:
        from tracekit.reporters.terminal import show_paged

        show_paged(_listing(" ".join(arguments)))
        return
    source, question = _asked(arguments)
    if explain:
        click.echo(question.sql.rstrip())
        return
    if source is None:
        raise TracekitError(f"query {question.name} needs one trace or database")
    chosen = question.check_columns(
        [column.strip() for column in columns.split(",")] if columns else []
    )
    with request.open(source) as run:
        if (which := request.trace_of(run.session)) is not None:
            parameters = _of_trace(question, which, parameters)
        variables = run.session.for_main_trace(question, parameters)
        if isinstance(trace := variables.get("trace"), int):
            run.session.only(trace)
        statement = run.session.shown_sql(question, variables)
        units = {column.name: column.unit for column in question.columns}
        with run.session.checked(question):
            count = request.render(run.session, statement, variables, chosen, units)
        _explain_doubts(run.session, question, variables, count)


def _of_trace(question: Query, trace: int, parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters, with the trace that --trace-id or --rank chooses.

    Raises:
        TracekitError: when the question is not about one trace, or its parameter is given, too.
    """
    if all(each.name != "trace" for each in question.parameters):
        raise TracekitError(
            f"query {question.name} is about several traces: omit --trace-id and --rank"
        )
    if "trace" in parameters:
        raise TracekitError("choose one of --trace-id, --rank and --param trace=N")
    return {**parameters, "trace": str(trace)}


def _asked(arguments: tuple[str, ...]) -> tuple[str | None, Query]:
    """The trace and the question, in either order.

    Raises:
        TracekitError: when there is no such question, or not exactly one trace.
    """
    from tracekit.database import catalog

    if len(arguments) == 1:
        name = arguments[0]
        if not catalog.is_query(name) and Path(name).exists():
            raise TracekitError(
                f"query {printable(name)}: add a question; `tracekit query --list` shows all"
            )
        return None, catalog.query(name)
    if len(arguments) > 2:
        raise TracekitError(
            f"query takes one trace and one question, not {' '.join(arguments)}: pass parameters "
            "with --param, and `tracekit load` several traces into one database"
        )
    first, last = arguments
    if " " in last:
        raise TracekitError(f"there is no query named {last!r}: `tracekit sql TRACE` runs SQL")
    if catalog.is_query(first) and not catalog.is_query(last):
        return last, catalog.query(first)
    return first, catalog.query(last)


def _listing(word: str) -> str:
    """The questions that contain a word, by topic, one per line."""
    from tracekit.database import catalog

    matches = catalog.matching(word)
    if not matches:
        raise TracekitError(f"no question contains {word!r}; `tracekit query --list` shows all")
    lines = [
        "`tracekit query TRACE NAME` answers one of these questions; --explain shows its SQL,",
        "parameters and columns. Begin with overview, idle_waterfall and top_kernels. Then",
        "try idle_culprits if the device waits, or roofline if it is busy.",
    ]
    for topic, title in catalog.TOPICS.items():
        of_topic = [f"  {each.name:<22} {each.question}" for each in matches if each.topic == topic]
        lines += ["", title, *of_topic] if of_topic else []
    return "\n".join(lines) + "\n"


def _explain_doubts(
    database: Session, question: Query, variables: Mapping[str, Value], count: int
) -> None:
    """Prints to standard error why the answer is doubtful or empty."""
    trace = variables.get("trace")
    rows = database.doubts(question.name, trace if isinstance(trace, int) else None)
    doubts = [row for row in rows if row["severity"] not in ("info", "missing") or not count]
    for row in doubts:
        message = f"{row['severity']}: trace {row['trace_id']}: {row['message']}"
        click.echo(printable(message), err=True)
    if not count:
        why = "" if doubts else ": the trace has no data for this question"
        click.echo(f"0 rows{why}", err=True)


def _print_functions(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from tracekit.database import catalog

        click.echo(catalog.functions(), nl=False)
        context.exit()


@options.command()
@click.argument("source", metavar="TRACE|DB")
@click.argument("statement", nargs=-1)
@option(
    "--functions",
    "Print SQL that makes the questions table functions in any DuckDB client, and exit.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_functions,
)
@pairs_option("--param parameters", "Set a parameter of the questions that STATEMENT calls.")
@requesting(*options.ROWS, *options.RESOURCES)
def sql(
    source: str, statement: tuple[str, ...], parameters: dict[str, str], request: Request
) -> None:
    """Run one read-only SELECT on a trace or database.

    `.schema` lists its tables, `.schema WORD` their columns, with units. A question of `tracekit
    query` is a table function: FROM idle_gaps(). Without STATEMENT, on a terminal, this opens an
    SQL shell on a DB: `duckdb`, or `harlequin`.
    """
    _sql(source, " ".join(statement) if statement else None, parameters, request)


def _sql(source: str, statement: str | None, parameters: dict[str, str], request: Request) -> None:
    if statement is None:
        _open_shell(source)
        return
    if " " in source and _exists(statement) and not _exists(source):
        source, statement = statement, source
    if _exists(statement):
        raise TracekitError(
            f'{statement} is a file; pass its text: tracekit sql {source} "$(cat {statement})"'
        )
    from tracekit.database import catalog, described

    with request.open(source) as run:
        if (words := described.asked(statement)) is not None:
            from tracekit.reporters.terminal import show_paged

            show_paged(described.schema(run.session, words))
            return
        run.session.require_select(statement)
        variables = catalog.variables(catalog.called(statement), parameters)
        if not request.render(run.session, statement, variables):
            click.echo("0 rows", err=True)


def _exists(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except OSError:
        # A statement may be longer than a name can be.
        return False


def _open_shell(source: str) -> None:
    """Runs a read-only SQL shell on a database; exits with its status. In `duckdb`, questions are
    table functions.

    Raises:
        TracekitError: when `source` is not a tracekit database, or no shell is installed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("Missing argument 'STATEMENT' (may be left out only on a terminal).")
    from tracekit.database import catalog
    from tracekit.database.connection import is_database
    from tracekit.files import temporary_folder
    from tracekit.run import open_database
    from tracekit.trace.paths import DATABASES

    is_missing = source.endswith(DATABASES) and not Path(source).exists()
    if not (is_missing or is_database(source)):
        raise TracekitError(
            f"{source}: an SQL shell needs a database: tracekit load {quoted(source)} -o run.duckdb"
        )
    # Refuses a database whose views are not tracekit's.
    open_database(source).close()
    path = str(Path(source).absolute())
    with temporary_folder() as folder:
        if (shell := shutil.which("duckdb")) and _reads(shell, path):
            questions = folder / "questions.sql"
            questions.write_text(catalog.functions(), "utf-8")
            command = [shell, "-readonly", "-cmd", f".read {questions}", path]
        elif shell := shutil.which("harlequin"):
            command = [shell, "--read-only", path]
        else:
            raise TracekitError(
                "an SQL shell needs `harlequin` (pip install harlequin), or a `duckdb` not older "
                "than the database (pip install duckdb-cli)"
            )
        status = subprocess.run(command).returncode
    click.get_current_context().exit(status)


def _reads(shell: str, path: str) -> bool:
    """Whether this version of DuckDB's shell can read the database."""
    tried = [shell, "-readonly", path, "-c", "FROM trace LIMIT 0"]
    return subprocess.run(tried, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


@options.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@json_option
def thresholds(words: tuple[str, ...], as_json: bool) -> None:
    """List the numbers that decide something, or those that contain all WORDs.

    `--threshold NAME=VALUE` sets one for a run; those marked with * are part of what a database
    stores, and cannot be set. Shares are of the window, from 0 to 1.
    """
    from tracekit.database.catalog import contains_all
    from tracekit.thresholds import TABLE

    found = [each for each in TABLE.values() if contains_all(f"{each.name} {each.meaning}", words)]
    if not found:
        raise TracekitError(
            f"no threshold contains {' '.join(words)!r}; `tracekit thresholds` shows all"
        )
    if as_json:
        names = ("name", "default", "unit", "meaning", "source", "is_settable")
        click.echo(json.dumps([{name: getattr(each, name) for name in names} for each in found]))
        return
    from tracekit.reporters.terminal import show_thresholds

    show_thresholds(found)


@options.command()
@click.argument("command", nargs=-1, metavar="[COMMAND] [QUESTION]")
def schema(command: tuple[str, ...]) -> None:
    """Print the JSON Schema of what COMMAND prints with --json.

    With `query` or `lake ask`, QUESTION selects the schema of its rows (--format json). Without
    COMMAND, the commands that have a schema are listed.
    """
    from tracekit import schemas

    commands = schemas.commands()
    if not command:
        for name, option in commands.items():
            click.echo(f"{name:<17} {option}")
        return
    words = 2 if " ".join(command[:2]) in commands else 1
    if len(command) > words + 1:
        raise TracekitError("schema takes one command and, for `query`, one question")
    question = command[words] if len(command) > words else None
    click.echo(json.dumps(schemas.schema(" ".join(command[:words]), question), indent=2))
