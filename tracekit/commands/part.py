"""Options that choose a part of a trace, for commands that write one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tracekit.commands.options import all_of, option

_OPTIONS = all_of(
    option("--trace-id", "Which trace, if the database holds several.", int),
    option("--rank", "The same, by its rank.", int),
    option("--step", "Only this step of the profiler, with all that its events refer to.", int),
    option("--window", "Only this window: gpu_active, a step's or a range's name, or NAME@2."),
    option("--from from_ms", "Only from here on, in ms since the trace's start.", float),
    option("--to to_ms", "Only up to here.", float),
    option("--max-mb", "End earlier where the JSON text would be larger than this.", float),
)


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options, whose values the command receives as one `part`."""

    @wraps(command)
    def call(**given: Any) -> Any:
        from tracekit.perfetto.part import PartChoice

        names = PartChoice.__dataclass_fields__
        chosen = PartChoice(**{name: given.pop(name) for name in names})
        return command(**given, part=chosen)

    return _OPTIONS(call)
