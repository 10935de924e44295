"""tracekit capture, and tracekit workloads"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from tracekit.commands import completion, options
from tracekit.commands.options import json_option, option, seconds
from tracekit.errors import TracekitError
from tracekit.reporters.written import CommandResult
from tracekit.text import counted, duration, quoted, shown, size
from tracekit.workloads import WORKLOADS

_of_servers = partial(option, group=options.SERVERS)


class _Capture(options.Command):
    """A command that says where the options of a script go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        script = next((each for each in args if each.endswith(".py")), None)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if script is None:
                raise
            raise click.UsageError(
                f"No such option {error.option_name!r}. Options of {script} go behind --: "
                f"tracekit capture {script} -- {error.option_name} ...",
                ctx,
            ) from error


@options.command(cls=_Capture, no_args_is_help=False)
@click.argument("workload", required=False, shell_complete=completion.programs)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@option(
    "-o --output",
    "What to write: a trace (.json, .json.gz, .json.zst), a database (.duckdb), or - for a trace "
    "on standard output; with --server, the folder that it writes to.  [default: WORKLOAD.json.gz]",
)
@option(
    "--with profiler",
    "Record a program with this profiler instead of torch.profiler. It must be installed.",
    click.Choice(("nsys", "rocprofv3")),
)
@_of_servers("--server", "Profile a running server, such as vLLM or SGLang, at this URL.")
@_of_servers("--steps", "Number of steps to record, if the server counts steps.", int, default=5)
@_of_servers("--seconds", "Stop the server's profiler after this time.", seconds, default=1)
@_of_servers(
    "--timeout timeout_s",
    "Wait up to this many seconds for the server's traces.",
    seconds,
    default=1800,
)
@options.size_options
@option("--shapes/--no-shapes", "Record input shapes.", default=True)
@option("--stacks/--no-stacks", "Record Python stacks.", default=False)
@option("--memory/--no-memory", "Record allocations.", default=False)
@options.label_option
@options.workload_options
@options.writing
@click.pass_context
def capture(
    context: click.Context,
    /,
    workload: str | None,
    arguments: tuple[str, ...],
    output: str | None,
    profiler: str | None,
    server: str | None,
    **how: Any,
) -> CommandResult:
    """Run WORKLOAD under torch.profiler and write its trace.

    WORKLOAD is a name from `tracekit workloads`, or your own module:function, called once per step.
    The same steps are also timed without the profiler, and both times go into the trace.

    WORKLOAD can also be a script: `tracekit capture train.py -o t.json.gz -- ARGUMENTS` runs it
    unchanged and records all of it. If it fails, its exit status is passed on and nothing is
    written. In a distributed run each rank writes its own file.

    With --with nsys or --with rocprofv3, any program can be recorded:
    `tracekit capture --with nsys -o run.duckdb -- python train.py ARGUMENTS`. The profiler
    starts the program; its recording is loaded when the program ends or Ctrl-C stops it.

    With --server URL, a server that is answering requests is profiled for a few steps. The command
    ends when the traces of all its ranks are complete.
    """
    _require_meant(context, workload, is_server=server is not None)
    other = profiler if server is None else "a server"
    if how["labels"] and other:
        raise TracekitError(f"{other} writes its own traces: pass --label to `lake add` instead")
    when = [how.pop(each) for each in ("steps", "seconds", "timeout_s")]
    if server is not None:
        return _of_server(server, output, when, how)
    if workload is None:
        raise click.UsageError("Missing argument 'WORKLOAD' (or --server URL).")
    if profiler is not None:
        return _by_other(profiler, [workload, *arguments], output, how)
    from tracekit.capture.output import to_standard_output
    from tracekit.capture.profile import profile_script
    from tracekit.capture.usercode import refuse_unseen_ends
    from tracekit.capture.workload import Options, capture
    from tracekit.files import named_or_own

    is_script = workload.endswith(".py")
    if arguments and not is_script:
        raise TracekitError(f"only a script can take arguments: {' '.join(arguments)}")
    name = workload.rsplit("/", 1)[-1].removesuffix(".py") if is_script else shown(workload)
    to = named_or_own(output, name.replace(":", ".") + ".json.gz")
    is_piped = to == "-"
    with (
        refuse_unseen_ends(lambda call: _refuse(workload, call)),
        to_standard_output() if is_piped else nullcontext(to) as path,
    ):
        if is_script:
            recorded = {name: how[name] for name in ("shapes", "stacks", "memory", "labels")}
            written: str | Path = profile_script(workload, arguments, path, **recorded)
            done = "recorded"
        else:
            # The user's own code may print, and its text would run into the line.
            with options.stage_line() if workload in WORKLOADS else nullcontext():
                timed = capture(workload, path, Options(**how))
            if timed.note:
                click.echo(f"note: {timed.note}", err=True)
            written = timed.path
            alone, profiled = map(duration, (timed.unprofiled_step_ns, timed.profiled_step_ns))
            done = f"a step takes {alone}, and {profiled} under the profiler"
    to = "-" if is_piped else str(written)
    return _then_analyze(CommandResult().add(to, says=done))


def _then_analyze(written: CommandResult) -> CommandResult:
    """Adds the command to run next."""
    paths = [each.path for each in written.outputs]
    if "-" not in paths:
        written.lines.append(f"next: tracekit analyze {' '.join(map(quoted, paths))}")
    return written


def _require_meant(context: click.Context, workload: str | None, *, is_server: bool) -> None:
    """Raises click.UsageError for an option that what is recorded does not have: a script may have
    one of the same name."""
    is_script = str(workload).endswith(".py")
    groups = {options.SERVERS} if is_server else {options.BUILT_IN, options.FUNCTIONS}
    if is_script or (workload is not None and ":" in workload):
        groups -= {options.BUILT_IN} | ({options.FUNCTIONS} if is_script else set())
    for parameter in context.command.params:
        group, name = options.group_of(parameter), str(parameter.name)
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and group != "Options" and group not in groups:
            flag = parameter.opts[0]
            hint = f"; give it to {workload} behind --: tracekit capture {workload} -- {flag} ..."
            said = f"{flag} is for {group[0].lower()}{group[1:]}{hint if is_script else ''}"
            raise click.UsageError(said, context)


def _by_other(
    profiler: str, program: list[str], output: str | None, how: dict[str, Any]
) -> CommandResult:
    from tracekit.capture.others import record
    from tracekit.files import named_or_own

    written = named_or_own(output, f"{Path(program[0]).stem}.{profiler}.duckdb")
    traces, is_ended = record(profiler, program, written, how)
    with traces:
        events = sum(row["events"] for row in traces.traces())
    until = "until interrupted" if is_ended else "to its end"
    says = f"recorded by {profiler} {until}, {counted(events, 'event')}"
    return _then_analyze(CommandResult().add(written, events, "events", says=says))


def _of_server(url: str, output: str | None, when: list[Any], how: dict[str, Any]) -> CommandResult:
    from tracekit.capture.server import Server

    given = (output, *map(os.environ.get, ("VLLM_TORCH_PROFILER_DIR", "SGLANG_TORCH_PROFILER_DIR")))
    folder = next(filter(None, given), None)
    if folder is None or not Path(folder).is_dir():
        raise TracekitError("--server needs the folder that the server writes traces to: -o FOLDER")
    traces = Server(url, Path(folder)).capture(*when, stacks=how["stacks"], shapes=how["shapes"])
    written = CommandResult()
    for path in traces:
        written.add(path, says=size(path.stat().st_size))
    return _then_analyze(written)


def _refuse(workload: str, call: str) -> int:
    what = "replaces" if "exec" in call else "ends"
    instead = "capture the program that it starts" if "exec" in call else "return, or use sys.exit"
    line = f"tracekit: {workload}: {call} {what} the process before a trace is written: {instead}"
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        # The code may have replaced sys.stderr.
        os.write(2, f"{line}\n".encode())
    return 2


@options.command()
@json_option
def workloads(as_json: bool) -> None:
    """List the built-in workloads."""
    if as_json:
        rows = [{"name": name, "summary": each.summary} for name, each in WORKLOADS.items()]
        click.echo(json.dumps(rows))
        return
    width = max(map(len, WORKLOADS))
    for name, entry in WORKLOADS.items():
        click.echo(f"{name:<{width}}  {entry.summary}")
