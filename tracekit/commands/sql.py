"""tracekit sql"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from tracekit.commands.options import Request, row_options
from tracekit.errors import TracekitError


@click.command()
@click.argument("source", metavar="TRACE|DB")
@click.argument("statement", required=False)
@row_options
def sql(source: str, statement: str | None, request: Request) -> None:
    """Run one read-only SELECT on a trace or database.

    Without STATEMENT, on a terminal, this opens an SQL shell on a DB: `duckdb`, or `harlequin`.
    """
    if statement is None:
        _open_shell(source)
        return
    with request.open(source) as run:
        run.session.require_select(statement)
        request.render(run.session, statement)


def _open_shell(source: str) -> None:
    """Runs an SQL shell on a database, which it can only read; exits with its status.

    Raises:
        TracekitError: when `source` is not a database of tracekit's, or there is no shell.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("Missing argument 'STATEMENT' (without one, it needs a terminal).")
    if not _is_database(source):
        raise TracekitError(
            f"{source}: an SQL shell needs a database: tracekit load {source} -o run.duckdb"
        )
    from tracekit.run import open_database

    # It refuses a database whose views are not tracekit's.
    open_database(source).close()
    path = str(Path(source).absolute())
    if (shell := shutil.which("duckdb")) and _reads(shell, path):
        command = [shell, "-readonly", path]
    elif shell := shutil.which("harlequin"):
        command = [shell, "--read-only", path]
    else:
        raise TracekitError(
            "an SQL shell needs `harlequin` (pip install harlequin), or a `duckdb` not older "
            "than the database (pip install duckdb-cli)"
        )
    click.get_current_context().exit(subprocess.run(command).returncode)


def _is_database(path: str) -> bool:
    # https://duckdb.org/docs/stable/internals/storage
    try:
        with Path(path).open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return Path(path).suffix in (".duckdb", ".db")


def _reads(shell: str, path: str) -> bool:
    """Whether this version of DuckDB's shell can read the database."""
    asked = [shell, "-readonly", path, "-c", "FROM trace LIMIT 0"]
    return subprocess.run(asked, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
