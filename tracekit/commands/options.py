"""Options that several commands share, and helpers that open traces and print results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any

import click

from tracekit.reporters.written import print_outputs
from tracekit.text import printable, shown

if TYPE_CHECKING:
    from tracekit.database.catalog import Value
    from tracekit.database.session import Session
    from tracekit.ingest.resources import Resources
    from tracekit.perfetto.part import PartChoice
    from tracekit.run import Database
    from tracekit.thresholds import Thresholds

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], _Command]
# The heading of options that seldom matter; a command's help ends with it.
_RESOURCES = "Resources"


class GroupedOption(click.Option):
    """An option; a command's help lists those with a `group` under that heading."""

    def __init__(self, *given: Any, group: str = "Options", **more: Any) -> None:
        self.group = group
        super().__init__(*given, **more)


def group_of(parameter: click.Parameter) -> str:
    return getattr(parameter, "group", "Options")


class GroupedCommand(click.Command):
    """A command whose help lists options by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            lines = parameter.get_help_record(ctx)
            if lines is not None and isinstance(parameter, click.Option):
                groups.setdefault(group_of(parameter), []).append(lines)
        resources = groups.pop(_RESOURCES, [])
        for title, rows in (*groups.items(), (_RESOURCES, resources)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class CommandGroup(click.Group):
    """A command that has commands."""

    command_class = GroupedCommand


def command(
    name: str | None = None, cls: type[GroupedCommand] = GroupedCommand, **more: Any
) -> Callable[[_Command], GroupedCommand]:
    """click's decorator, for commands of this kind."""
    return click.command(name, cls, **more)


class Request:
    """The options for opening and judging traces, choosing a part, and writing rows."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.window: str | None = given.get("window")
        self.output: str | None = given.get("output")

    @cached_property
    def resources(self) -> Resources:
        from tracekit.ingest.resources import Resources

        names = (name for name in Resources.__struct_fields__ if name in self.given)
        return Resources(**{name: self.given[name] for name in names})

    @cached_property
    def thresholds(self) -> Thresholds:
        from tracekit.thresholds import Thresholds

        return Thresholds().updated(self.given.get("thresholds", ()))

    @cached_property
    def part(self) -> PartChoice:
        from tracekit.perfetto.part import PartChoice

        return PartChoice(**{name: self.given[name] for name in PartChoice.__struct_fields__})

    def trace_of(self, opened: Session) -> int | None:
        """The trace_id that --trace-id or --rank chooses; None: neither was given."""
        return opened.chosen(self.given["trace_id"], self.given["rank"])

    @contextmanager
    def open(self, *paths: str) -> Iterator[Database]:
        """Opens traces, a database or a lake with the given thresholds."""
        from tracekit.opening import open_any
        from tracekit.run import Database

        # tracekit does not use BLAS: NumPy would start one BLAS thread per core.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        opened = open_any(paths, self.resources, self.output, skips_bad=True)
        tell_notes(opened)
        with Database(opened) as run, opened.judging(self.thresholds):
            yield run

    def render(
        self,
        database: Session,
        query: str,
        variables: Mapping[str, Value] | None = None,
        columns: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
    ) -> int:
        """Prints or writes the rows of one SELECT; returns their number. `units` are those of a
        question's columns."""
        from tracekit.reporters import rows

        form, given = self.given["form"], variables or {}
        limits = {"most": self.given["max_rows"], "timeout_s": self.given["timeout_s"]}
        return rows.render(database, query, given, form, self.output, columns, units, **limits)


def warn(text: str) -> None:
    """Prints a line to standard error."""
    click.echo(f"tracekit: {printable(shown(text))}", err=True)


def warn_if_busy() -> None:
    """On a terminal, prints a warning if other programs keep the machine's cores busy, since times
    then vary."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    try:
        load, cores = os.getloadavg()[0], os.cpu_count()
    except (AttributeError, OSError):
        return
    if cores and load > cores:
        warn(f"this machine is busy (load {load:.1f} on {cores} cores): times will vary")


def tell_notes(opened: Session) -> None:
    """Prints notes about missing or incomplete traces."""
    for note in opened.notes:
        warn(f"{opened.name}: {note}")


def tell_errors(database: Session) -> None:
    """Prints to standard error findings that make a whole trace doubtful, such as a cut file."""
    trace_ids = database.trace_ids()
    for finding in database.ask("health", severity="error"):
        # The trace of a capture has no replays.
        if finding["trace_id"] in trace_ids:
            click.echo(f"{finding['trace_id']}  {printable(finding['message'])}", err=True)


def show(found: Any, as_json: bool, render: Callable[[Any], object]) -> None:
    """Prints a result as one JSON object, or as `render` does."""
    if as_json:
        click.echo(json.dumps(found.as_dict(), default=str))
    else:
        render(found)


def status_of(failed: Sequence[str]) -> int:
    """Prints the conditions of --fail-if that hold; returns the exit status."""
    for condition in failed:
        warn(f"failed: {condition}")
    return 1 if failed else 0


def option(names: str, help: str = "", type: Any = None, **more: Any) -> _Decorator:
    """An option whose help shows its default; `names` are separated by spaces."""
    shows = more.get("default") is not None
    return click.option(
        *names.split(), cls=GroupedOption, help=help, type=type, show_default=shows, **more
    )


def seconds(text: str) -> float:
    """A length of time."""
    number = float(text)
    if not 0 < number < 1e9:
        raise click.BadParameter("must be a number of seconds above 0")
    return number


def all_of(*options: _Decorator) -> _Decorator:
    """Adds options in the given order."""

    def decorate(command: _Command) -> _Command:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


def list_option(names: str, help: str, kind: type[int] | type[str] = str) -> _Decorator:
    """An option of comma-separated values; duplicates count once."""

    def listed(text: str) -> tuple[int | str, ...]:
        try:
            values = [kind(each.strip()) for each in text.split(",")]
        except ValueError:
            raise click.BadParameter(
                f"{text!r} is not a list of integers, such as 1,8,64"
            ) from None
        if "" in values:
            raise click.BadParameter(f"{text!r} has an empty value between commas")
        return tuple(dict.fromkeys(values))

    return option(names, help, listed, metavar="A,B,...")


def pairs_option(names: str, help: str, **more: Any) -> _Decorator:
    """An option that may be given several times as NAME=VALUE; its value is a dictionary."""

    def paired(_: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
        from tracekit.thresholds import pairs

        return pairs(given, param.opts[0])

    return option(names, help, multiple=True, metavar="NAME=VALUE", callback=paired, **more)


def requesting(*options: _Decorator) -> _Decorator:
    """Adds options that the command receives as one `request`. On a terminal, such a command shows
    its current stage."""
    add = all_of(*options)
    # Two options may set one value.
    names = {str(each.name) for each in vars(add(lambda: None))["__click_params__"]}

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def call(**given: Any) -> Any:
            request = Request({name: given.pop(name) for name in names})
            with stage_line():
                return command(**given, request=request)

        return add(call)

    return decorate


def stage_line() -> AbstractContextManager[None]:
    """While the block runs, a terminal shows the current stage of the work."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    from tracekit import stages
    from tracekit.reporters.progress import StageLine

    return stages.heard_by(StageLine().hear)


label_option = pairs_option(
    "--label labels",
    "Label the run, such as commit=1f3a9. In a lake, labels are columns of the table trace.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def writing(command: _Command) -> _Command:
    """Adds --json to a command that returns what it wrote (`tracekit.reporters.written`)."""

    @json_option
    @wraps(command)
    def call(as_json: bool, **given: Any) -> int:
        return print_outputs(command(**given), as_json)

    return call


_resource = partial(option, group=_RESOURCES)
# Options of `capture`, by what they are for.
SERVERS, BUILT_IN, FUNCTIONS = (
    "Servers",
    "Built-in workloads",
    "Built-in workloads and module:function",
)
_workload = partial(option, group=BUILT_IN)
_timed = partial(option, group=FUNCTIONS)

# The sizes in `tracekit.capture.workload.Options`.
size_options = all_of(
    _workload("--batch", "Sequences per batch.  [default: 64; on a CPU, 4]", int),
    _workload("--seq", "Tokens per sequence.  [default: 128; on a CPU, 32]", int),
    _workload("--dim", "Input and output features.  [default: 768; on a CPU, 256]", int),
    _workload("--hidden", "Hidden features.  [default: 3072; on a CPU, 1024]", int),
    _workload("--dtype", "[default: bf16; on a CPU, fp32]", click.Choice(["fp32", "fp16", "bf16"])),
)

# The other fields of `Options`.
workload_options = all_of(
    _workload(
        "--activation",
        "The activation of the MLPs.",
        click.Choice(["gelu-tanh", "gelu", "silu", "relu"]),
        default="gelu-tanh",
    ),
    _timed("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto"),
    _timed("--warmup", "Warm-up steps before recording.", int, default=5),
    _timed("--active", "Steps to record.", int, default=5),
)

RESOURCES = (
    _resource("--memory-mb", "Memory limit (approximate); the rest spills to disk.", int),
    _resource(
        "--threads", "Threads for loading.  [default: one per core; one for a small trace]", int
    ),
    _resource("--temp-dir", "Where to spill.  [default: the system's temporary directory]"),
    _resource(
        "--spill-mb",
        "How much queries may spill to disk.  [default: 10,000; for a DB, 0 unless --memory-mb is "
        "given]",
        int,
    ),
    _resource(
        "--hardware", "A TOML file of device peaks, which takes precedence over tracekit's own."
    ),
    _resource(
        "--annotations",
        "Annotations of the nodes of CUDA graphs: JSON, or a pickle of dictionaries.  "
        "[default: kernel_annotations* beside the trace]",
        multiple=True,
        metavar="FILE",
    ),
)
THRESHOLD = option(
    "--threshold thresholds",
    "Set a threshold (`tracekit thresholds` lists them).",
    multiple=True,
    metavar="NAME=VALUE",
)
_WINDOW = option(
    "--window",
    "gpu_active, trace, a step's name, or the name of a range or of a kind of units (NAME: the one "
    "of median length; NAME@2: the second).  [default: a typical step; without steps, gpu_active]",
)
_RANK = option("--rank", "The trace, by its rank.", int)
_FORMS = click.Choice(("table", "csv", "json", "parquet"))
ROWS = (
    option("--format form", type=_FORMS, default="table"),
    click.option("--json", "form", flag_value="json", help="Same as --format json."),
    option("-o --output", "Write to this file instead of standard output."),
    option("--timeout timeout_s", "Stop the query after this many seconds.", seconds, default=600),
    option(
        "--max-rows",
        "Show or write at most this many rows.  [default: 1,000 in a table; otherwise all, up to "
        "100,000,000]",
        click.IntRange(min=1),
    ),
)

resource_options = requesting(*RESOURCES)
threshold_options = requesting(THRESHOLD, *RESOURCES)


def which_options(default: str = "its only one") -> tuple[_Decorator, _Decorator]:
    """--trace-id and --rank, with the default."""
    return option("--trace-id", f"The trace, by its trace_id.  [default: {default}]", int), _RANK


def judging_options(default: str) -> _Decorator:
    """Those that choose a trace and its window, and judge it."""
    return requesting(*which_options(default), _WINDOW, THRESHOLD, *RESOURCES)


def gate_options(help: str) -> _Decorator:
    """--top and --fail-if of a comparison."""
    return all_of(
        option(
            "--top",
            "Number of kernels, operators and modules to show.",
            click.IntRange(min=1),
            default=10,
        ),
        option("--fail-if conditions", help, multiple=True, metavar="CONDITION"),
    )


PART = (
    *which_options(),
    option("--step", "Only this profiler step, with all events that it refers to.", int),
    option("--window", "Only this window: gpu_active, a step's or a range's name, or NAME@2."),
    option(
        "--from from_ms", "Only events from this time on, in ms since the trace's start.", float
    ),
    option("--to to_ms", "Only events up to this time.", float),
    option("--max-mb", "Stop early if the JSON text would exceed this size.", float),
)
