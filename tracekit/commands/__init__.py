"""The command line, `tracekit COMMAND`. Each module parses options, calls the library, prints."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from tracekit.errors import TracekitError, is_interrupt
from tracekit.text import printable
from tracekit.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FAILED, _INTERRUPTED = 2, 130
# The commands by the module that has them.
_MODULES = {
    "analyze": "analyze advise whatif", "annotate": "annotate open", "baseline": "baseline",
    "capture": "capture workloads", "completion": "completion", "diff": "crosscheck diff history",
    "lake": "lake", "load": "export load", "mcp": "mcp", "probe": "probe sweep",
    "query": "query schema sql", "report": "demo report", "skill": "skill",
}  # fmt: skip
_COMMANDS = {name: module for module, names in _MODULES.items() for name in names.split()}
_TRACES = (".json", ".gz", ".zst", ".tar", ".tgz", ".zip", ".duckdb", ".db")


class _ReaderGone(Exception):
    """The reader of standard output has closed it."""


class _Commands(click.Group):
    """The commands. The module of each is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module = _COMMANDS[cmd_name]
            for found in vars(import_module(f"tracekit.commands.{module}")).values():
                if isinstance(found, click.Command) and _COMMANDS.get(str(found.name)) == module:
                    self.add_command(found)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """`tracekit TRACE` is `tracekit analyze TRACE`."""
        if self.get_command(ctx, args[0]) is None:
            if _may_be_trace(args[0]):
                return "analyze", self.get_command(ctx, "analyze"), args
            # click suggests only commands that are loaded.
            for name in _COMMANDS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # click would end the process with status 1.
            raise _ReaderGone from error


def _may_be_trace(word: str) -> bool:
    """Whether a word that names no command is a file, or looks like the name of one."""
    return word == "-" or Path(word).exists() or "/" in word or word.endswith(_TRACES)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__)
def cli() -> None:
    """Turn PyTorch profiler traces into a verdict and a database to query.

    TRACE is a .json, .json.gz or .json.zst file that torch.profiler wrote, a directory or tar
    archive of such files, or - for standard input. DB is a database that `tracekit load` wrote.
    `tracekit TRACE` alone means `tracekit analyze TRACE`.
    """


def main() -> None:
    """Runs the command line and exits: 0 for success, 2 for wrong use or bad input.

    Some commands exit with 1 to report a result, such as `diff --fail-if`.
    """
    _occupy_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal's encoding lacks are shown as question marks.
            stream.reconfigure(errors="replace")
    try:
        status = cli.main(standalone_mode=False) or 0
        sys.stdout.flush()
    except TracekitError as error:
        status = _INTERRUPTED if is_interrupt(error) else _complain(str(error), error.status)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 0
    except click.ClickException as error:
        status = _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    except (_ReaderGone, BrokenPipeError):
        _forget_output()
        status = 0
    except OSError as error:
        _forget_output()
        status = _complain(f"cannot write: {error.strerror or error}")
    except Exception as error:
        if not is_interrupt(error):
            raise
        status = _INTERRUPTED
    _exit(status if isinstance(status, int) else 0)


class _Closed(io.RawIOBase):
    """Stands in for a closed standard output: raises at the first write only."""

    _has_said_so = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        if not self._has_said_so:
            self._has_said_so = True
            raise OSError(errno.EBADF, "standard output is closed")
        return memoryview(data).nbytes


def _occupy_closed_streams() -> None:
    """Occupies the file descriptors of closed standard streams.

    Otherwise a file opened later would take one of them, and receive what is printed.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), "utf-8", write_through=True)


def _forget_output() -> None:
    """Discards unwritten output, so that Python does not try to write it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _exit(status: int) -> NoReturn:
    """Ends the process; immediately if a query that could not be stopped is still running."""
    from tracekit.database.interrupt import work_is_left_running

    if work_is_left_running():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _complain(message: str, status: int = _FAILED) -> int:
    click.echo("tracekit: " + printable(" ".join(message.split("\n"))), err=True)
    return status
