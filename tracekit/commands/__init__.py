"""The command line: `tracekit COMMAND`. Each module parses options, calls the library, prints."""

from __future__ import annotations

import io
import os
import sys

import click

from tracekit import __version__
from tracekit.commands.analyze import analyze
from tracekit.commands.capture import capture
from tracekit.commands.crosscheck import crosscheck
from tracekit.commands.diff import diff
from tracekit.commands.export import export
from tracekit.commands.load import load
from tracekit.commands.probe import probe
from tracekit.commands.query import query
from tracekit.commands.sql import sql
from tracekit.commands.sweep import sweep
from tracekit.commands.whatif import whatif
from tracekit.commands.workloads import workloads
from tracekit.errors import TracekitError, is_interrupt
from tracekit.text import printable

_FAILED, _INTERRUPTED = 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def cli() -> None:
    """PyTorch profiler traces: a verdict, and a database to ask.

    TRACE is a .json, .json.gz or .json.zst that torch.profiler wrote, a tar archive or directory of
    them, or - for a pipe; DB is what `tracekit load` made of traces.
    """


_COMMANDS = (
    analyze, capture, crosscheck, diff, export, load, probe, query, sql, sweep, whatif, workloads,
)  # fmt: skip
for command in _COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Runs the command line and exits: 0 done, 2 wrong use or bad input, said in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks is shown as a question mark.
            stream.reconfigure(errors="replace")
    try:
        status = cli.main(standalone_mode=False) or 0
        sys.stdout.flush()
    except TracekitError as error:
        status = _INTERRUPTED if is_interrupt(error) else _complain(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 0
    except click.ClickException as error:
        status = _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    except OSError as error:
        # A reader that has gone is no error. Either way Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        gone = isinstance(error, BrokenPipeError)
        status = 0 if gone else _complain(f"cannot write: {error.strerror or error}")
    except Exception as error:
        if not is_interrupt(error):
            raise
        status = _INTERRUPTED
    sys.exit(status if isinstance(status, int) else 0)


def _complain(message: str) -> int:
    click.echo("tracekit: " + printable(" ".join(message.split("\n"))), err=True)
    return _FAILED
