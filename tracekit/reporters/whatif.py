"""What a change would gain, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tracekit.replay.whatif import RunWhatIf, StepLength, WhatIf
from tracekit.reporters.terminal import console, section, table
from tracekit.text import duration, printable, share

_BAR = 34


def render(prediction: WhatIf) -> None:
    """Prints one prediction."""
    out = console()
    _headline(out, prediction, prediction.trace)
    if 0 < prediction.saves_ns != prediction.window_ns - prediction.predicted_ns:
        price = duration(prediction.saves_ns)
        out.print(f"Its price, as `tracekit advise` counts it: {price}.")
    section(out, "What would bound it then (shares of the critical path)")
    shares = prediction.bound_by.items()
    rows = [(cause, share(part, 1), "█" * round(_BAR * part) or "▏") for cause, part in shares]
    out.print(table(["", ">", ""], rows))
    if prediction.unknown_ns:
        waiting = f"{duration(prediction.unknown_ns)} of it is waiting"
        out.print(f"{waiting} that the trace does not explain: the replay keeps it as recorded.")
    if prediction.doubts:
        section(out, "Caveats")
    for doubt in prediction.doubts:
        out.print(Text(printable(doubt)))
    _steps(out, prediction.steps, "each from the previous step's completion to its own")


def render_run(prediction: RunWhatIf) -> None:
    """Prints one prediction of a run of several ranks."""
    out = console()
    _headline(out, prediction, f"{prediction.traces}, {len(prediction.ranks)} ranks together")
    waits = f"The ranks wait for each other for {duration(prediction.predicted_waited_ns)}"
    out.print(f"{waits} in collectives (recorded: {duration(prediction.waited_ns)}).")
    for doubt in prediction.doubts:
        out.print(Text(printable(doubt)))
    _steps(out, prediction.steps, "until all ranks have completed each")


def _headline(out: Console, prediction: WhatIf | RunWhatIf, traces: str) -> None:
    line = Text(_change(prediction.window_ns, prediction.predicted_ns), "bold")
    lengths = f"{duration(prediction.window_ns)} -> {duration(prediction.predicted_ns)}"
    line.append(
        f"   {printable(prediction.window)}: {lengths}, {prediction.speedup:.2f} times as fast"
    )
    out.print(line)
    out.print(Text(printable(f"{traces}, with {', '.join(prediction.changes)}"), "dim"))


def _steps(out: Console, steps: list[StepLength], counted: str) -> None:
    if len(steps) < 2:
        return
    section(out, f"Step by step ({counted})")
    rows = [
        (printable(each.name), duration(each.window_ns), duration(each.predicted_ns),
         _change(each.window_ns, each.predicted_ns))
        for each in steps[:8]
    ]  # fmt: skip
    out.print(table(["step", ">recorded", ">predicted", ">change"], rows))
    if len(steps) > 8:
        out.print(f"... and {len(steps) - 8} more")


def _change(before_ns: int, after_ns: int) -> str:
    if before_ns == after_ns:
        return "no change"
    word = "shorter" if after_ns < before_ns else "longer"
    return f"{share(abs(before_ns - after_ns), before_ns)} {word}"
