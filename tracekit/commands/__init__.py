"""The command line, `tracekit COMMAND`. Modules parse options, call the library and print."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click

from tracekit.errors import TracekitError, is_interrupt
from tracekit.text import ended, printable, shown
from tracekit.version import DISTRIBUTION, __version__

_FAILED, _INTERRUPTED = 2, 130
# Longest description of a command in `tracekit --help`, in characters.
_MOST_TEXT = 100
# The commands, grouped by the user's purpose, with the module of each and an example.
_GROUPS = {
    "See": {
        "analyze": ("analyze", "run.json.gz"),
        "report": ("analyze", "run.json.gz --open"),
        "open": ("export", "run.json.gz"),
        "demo": ("analyze", ""),
    },
    "Fix": {
        "advise": ("analyze", "run.json.gz"),
        "whatif": ("probe", "run.json.gz cuda-graph 'kernel:gemm*0.5'"),
        "probe": ("probe", "mlp-eager"),
        "sweep": ("probe", "mlp --batch 1,8,64"),
    },
    "Compare": {
        "diff": ("diff", "before.json.gz after.json.gz"),
        "history": ("diff", "lake"),
        "fleet": ("diff", "lake"),
        "baseline": ("diff", "save main run.json.gz"),
        "crosscheck": ("diff", "run.json.gz"),
    },
    "Ask": {
        "query": ("query", "run.json.gz top_kernels --param top=5"),
        "sql": ("query", "run.json.gz 'SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC'"),
        "thresholds": ("query", "launch"),
        "schema": ("query", "analyze"),
    },
    "Record": {
        "capture": ("capture", "train.py -o run.json.gz -- --epochs 1"),
        "workloads": ("capture", ""),
    },
    "Keep": {
        "load": ("lake", "'runs/*.json.gz' -o runs.duckdb"),
        "lake": ("lake", "add runs/*.json.gz --to lake --run monday"),
    },
    "Share": {
        "export": ("export", "run.json.gz --step 12 -o step12.json.gz"),
        "annotate": ("export", "run.json.gz -o annotated.json.gz"),
        "mcp": ("agents", "traces"),
        "skill": ("agents", "install"),
        "completion": ("completion", "bash"),
    },
}
_COMMANDS = {name: each for group in _GROUPS.values() for name, each in group.items()}
# Commands that run users' programs, or start processes that do.
_RUNS_PROGRAMS = ("capture", "probe", "sweep")


class _ReaderGone(Exception):
    """Standard output was closed by its reader."""


class _Commands(click.Group):
    """The commands. Each command's help ends with an example; its module is imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _GROUPS.items():
            commands = [self.get_command(ctx, name) for name in names]
            rows = [
                (str(command.name), command.get_short_help_str(_MOST_TEXT))
                for command in commands
                if command
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module, example = _COMMANDS[cmd_name]
            members = vars(import_module(f"tracekit.commands.{module}")).values()
            commands = (member for member in members if isinstance(member, click.Command))
            command = next(each for each in commands if each.name == cmd_name)
            line = f"tracekit {cmd_name} {example}".rstrip()
            command.epilog = "\n\n".join(filter(None, (command.epilog, f"\b\nExample:\n  {line}")))
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """`tracekit TRACE` is `tracekit analyze TRACE`."""
        if args[0] not in _RUNS_PROGRAMS:
            # NumPy would start a thread for each core, and each is busy for 0.07 s until it sleeps.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
    """Whether a word that is not a command is a file, or looks like a file name."""
    from tracekit.trace.paths import stem

    return word == "-" or Path(word).exists() or "/" in word or stem(word) != word


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="tracekit")
def cli() -> None:
    """Turn PyTorch profiler traces into a verdict and a database to query.

    TRACE is a .json, .json.gz or .json.zst file that torch.profiler wrote, a directory or tar
    archive of such files, or - for standard input. DB is a database that `tracekit load` wrote.
    `tracekit TRACE` alone means `tracekit analyze TRACE`.
    """


def main() -> None:
    """Runs the command line and exits: 0 for success, 2 for usage errors or bad input.

    Some commands exit with 1 to report a result, such as `diff --fail-if`.
    """
    _occupy_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters missing from the terminal's encoding are shown as question marks.
            stream.reconfigure(errors="replace")
    for other in foreign_packages(Path(__file__).parents[2]):
        _complain(
            f"{other} is another project, which installs its own `tracekit` here, over this one: "
            f"pip uninstall {other.partition(' ')[0]} {DISTRIBUTION}, then pip install "
            f"{DISTRIBUTION}"
        )
    try:
        status = cli.main(standalone_mode=False) or 0
        sys.stdout.flush()
    except TracekitError as error:
        status = _INTERRUPTED if is_interrupt(error) else _complain(str(error), error.status)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 0
    except click.ClickException as error:
        status = _complain(_usage(error))
    except (click.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    except io.UnsupportedOperation:
        status = _complain("cannot write: standard output is closed")
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
    sys.exit(status if isinstance(status, int) else 0)


def foreign_packages(folder: Path) -> list[str]:
    """Names and versions of other distributions that installed files into the package
    `tracekit` in this site-packages folder."""
    packages = []
    for metadata in sorted(folder.glob("tracekit*.dist-info")):
        with suppress(OSError, ValueError):
            if "\ntracekit/__init__.py," in "\n" + (metadata / "RECORD").read_text("utf-8"):
                packages.append(metadata.stem.replace("-", " ").replace("_", "-"))
    return packages


def _occupy_closed_streams() -> None:
    """Occupies the file descriptors of closed standard streams.

    Otherwise a file opened later could get one of them and receive printed output.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdout is None:
        # Raises io.UnsupportedOperation if written to.
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull))


def _forget_output() -> None:
    """Discards unwritten output, so that Python does not write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _usage(error: click.ClickException) -> str:
    """The usage error, and where to find help."""
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return message
    return f"{ended(message)} See `{error.ctx.command_path} --help`."


def _complain(message: str, status: int = _FAILED) -> int:
    click.echo("tracekit: " + printable(shown(re.sub(r"\n\s*", " ", message))), err=True)
    return status
