"""A probe on a terminal: predictions beside measurements, and whether the verdict holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tracekit.experiments.probing import Applied, AppliedAdvice, Experiment, Probe
from tracekit.experiments.timing import StepRatio
from tracekit.reporters import colours
from tracekit.reporters.terminal import Cell, console, section, table
from tracekit.text import duration, printable, share


def render(probe: Probe) -> None:
    """Prints the verdict, the experiments, how they were predicted, and the judgement."""
    out = console()
    out.print(_headline(probe))
    host = f"; the host issues it in {duration(probe.host_ns)}" if probe.host_ns else ""
    _about(out, probe, host)
    section(out, "Experiments (length of a step without the profiler)")
    out.print(_table("predicted", [row for each in probe.experiments for row in _rows(each)]))
    made = [
        f"{each.what}: {f'not run: {each.reason}' if each.reason else each.arithmetic}"
        for each in probe.experiments
    ]
    if probe.replayed_ns is not None:
        unchanged = (
            f"unchanged: replayed without the profiler's cost, {duration(probe.replayed_ns)} a "
            "step. A prediction is the measured step times the ratio of its replay to this one."
        )
        made.insert(0, unchanged)
    section(out, "How the predictions were made, and what was not run", made)
    section(out, "Conclusion", probe.judgement.why)


def render_advice(probe: AppliedAdvice) -> None:
    """Prints each remedy that was applied, promised beside measured, and the promises' sources."""
    out = console()
    out.print(Text(printable(probe.workload), "bold"))
    _about(out, probe)
    section(out, "Remedies that need no edit (length of a step without the profiler)")
    rows = [_row(each, duration(each.promised_ns)) for each in probe.advice]
    out.print(_table("promised", rows))
    sources = [f"{each.what}: {_source(each)}" for each in probe.advice]
    section(out, "Where the promises are from, and what was not run", sources)
    out.print(
        "A promise is the measured step less the share that the fix list says is saved. The list "
        "is of a run with the profiler, which slows the host."
    )
    if probe.others:
        out.print(Text(printable(f"Also advised, by an edit: {', '.join(probe.others)}.")))


def _source(each: Applied) -> str:
    return "; ".join(
        part for part in (each.arithmetic, each.reason and f"not run: {each.reason}") if part
    )


def _about(out: Console, probe: Probe | AppliedAdvice, host: str = "") -> None:
    """What ran where, and how long its step takes."""
    sizes = ", ".join(f"{name} {value}" for name, value in probe.parameters.items())
    about = f"{probe.workload} on {probe.device}" + (f": {sizes}" if sizes else "")
    out.print(Text(printable(about), "dim"))
    out.print(
        f"A step takes {duration(probe.step_ns)} without the profiler (spread "
        f"{share(probe.spread, 1)}){host}. With the profiler it takes {probe.dilation:.2f} times "
        "as long."
    )


def _table(expected: str, rows: Iterable[Sequence[Cell]]) -> Table:
    names = (expected, "measured", "error", "times as long")
    figures = (Column(name, justify="right", no_wrap=True) for name in names)
    return table([Column("change", overflow="fold"), *figures], rows)


def _headline(probe: Probe) -> Text:
    line = Text(probe.regime, f"bold {colours.of(probe.regime)}")
    if probe.bottleneck:
        line.append(f", by {probe.bottleneck}", "bold")
    judged = probe.judgement
    if judged.agrees is None:
        return line.append("   the experiments are inconclusive", "yellow")
    if judged.agrees:
        return line.append("   the experiments agree", "green")
    return line.append(f"   the experiments disagree: {judged.regime}", "red")


def _rows(each: Experiment) -> Iterator[Sequence[Cell]]:
    if each.reason is not None:
        yield printable(each.what), "-", "-", "-", "-"
        return
    yield _row(each, "unknown" if each.predicted_ns is None else duration(each.predicted_ns))
    if each.given_ns is not None:
        what = f"  with the work that was recorded, x {each.work_factor:.2f}"
        yield what, duration(each.given_ns), "", _error(each.given_error), ""


def _row(each: Experiment | Applied, expected: str) -> Sequence[Cell]:
    measured = duration(each.measured_ns)
    return printable(each.what), expected, measured, _error(each.error), _ratio(each.moved)


def _ratio(moved: StepRatio | None) -> str:
    return f"{moved.ratio:.2f} ({moved.low:.2f} to {moved.high:.2f})" if moved else "-"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.1f} %"
