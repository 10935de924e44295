"""What a change would gain, on a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tracekit.replay.whatif import RunWhatIf, StepLength, WhatIf
from tracekit.reporters.page import console, section
from tracekit.text import duration, printable, share

_BAR = 34


def render(found: WhatIf) -> None:
    """Prints one prediction."""
    out = console()
    line = Text(f"{_change(found.window_ns, found.predicted_ns)}", "bold")
    line.append(
        f"   {printable(found.window)}: {duration(found.window_ns)} -> "
        f"{duration(found.predicted_ns)}, {found.speedup:.2f} times as fast"
    )
    out.print(line)
    out.print(Text(printable(f"{found.trace}, with {', '.join(found.changes)}"), "dim"))
    if found.saves_ns > 0 and found.saves_ns != found.window_ns - found.predicted_ns:
        price = duration(found.saves_ns)
        out.print(f"Its price, as `tracekit advise` counts it: {price}.")
    section(out, "What would bound it then (shares of the critical path)")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for cause, part in found.bound_by.items():
        table.add_row(cause, share(part, 1), "█" * round(_BAR * part) or "▏")
    out.print(table)
    if found.unknown_ns:
        out.print(
            f"{duration(found.unknown_ns)} of it is waiting that the trace does not explain: the "
            "replay keeps it as recorded."
        )
    if found.doubts:
        section(out, "Caveats")
        for doubt in found.doubts:
            out.print(Text(printable(doubt)))
    if len(found.steps) > 1:
        section(out, "Step by step (each from the previous step's completion to its own)")
        _steps(found.steps)


def render_run(found: RunWhatIf) -> None:
    """Prints one prediction of a run of several ranks."""
    out = console()
    line = Text(f"{_change(found.window_ns, found.predicted_ns)}", "bold")
    line.append(
        f"   {printable(found.window)}: {duration(found.window_ns)} -> "
        f"{duration(found.predicted_ns)}, {found.speedup:.2f} times as fast"
    )
    out.print(line)
    told = f"{found.traces}, {len(found.ranks)} ranks together, with {', '.join(found.changes)}"
    out.print(Text(printable(told), "dim"))
    out.print(
        f"The ranks wait for each other for {duration(found.predicted_waited_ns)} in collectives "
        f"(recorded: {duration(found.waited_ns)})."
    )
    for doubt in found.doubts:
        out.print(Text(printable(doubt)))
    if len(found.steps) > 1:
        section(out, "Step by step (until all ranks have completed each)")
        _steps(found.steps)


def _steps(steps: list[StepLength]) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("step")
    for name in ("recorded", "predicted", "change"):
        table.add_column(name, justify="right")
    for each in steps[:8]:
        table.add_row(
            printable(each.name),
            duration(each.window_ns),
            duration(each.predicted_ns),
            _change(each.window_ns, each.predicted_ns),
        )
    out.print(table)
    if len(steps) > 8:
        out.print(f"... and {len(steps) - 8} more")


def _change(before_ns: int, after_ns: int) -> str:
    if before_ns == after_ns:
        return "no change"
    word = "shorter" if after_ns < before_ns else "longer"
    return f"{share(abs(before_ns - after_ns), before_ns)} {word}"
