"""Experiments on a terminal: a sweep's points as tables, with maps of what bounds each; a probe's
predictions beside measurements, and whether the verdict holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tracekit.experiments.points import Point, Shape, Sweep
from tracekit.reporters import colours
from tracekit.reporters.terminal import Cell, clipped, console, section, table
from tracekit.text import duration, percent, printable, share, size

if TYPE_CHECKING:
    from tracekit.experiments.probing import Applied, AppliedAdvice, Experiment, Probe
    from tracekit.experiments.timing import StepRatio

_MARKDOWN_WIDTH = 1000
_Place = tuple[Any, ...]


def render_sweep(sweep: Sweep, markdown: bool = False) -> None:
    """Prints the tables and the maps; with `markdown`, as Markdown."""
    out = console()
    if markdown:
        out.width = _MARKDOWN_WIDTH
    page = _Page(out, sweep, markdown)
    run = len(sweep.points)
    page.text(f"{sweep.database}: {run:,} points on {sweep.device}, {sweep.captured:,} of them new")
    page.points(
        "Without the profiler: median of the rounds; spread is the distance between their "
        "quartiles, as a share of the step",
        _MEASURED,
    )
    page.points(
        "From each point's trace: operators, launches and traffic per step; busy and gains (host "
        "or device work halved, a graph) as shares of the active span; compute as a share of the "
        "steps",
        _TRACED,
    )
    page.maps()


class _Page:
    """Prints a sweep."""

    def __init__(self, out: Console, sweep: Sweep, markdown: bool) -> None:
        self.out, self.sweep, self.markdown = out, sweep, markdown
        self.axes = sweep.axes
        self.family = {name: name for name in sweep.variants}
        if len(sweep.variants) > 1:
            prefix = sweep.variants[0].split("-")[0] + "-"
            self.family = {name: name.removeprefix(prefix) for name in sweep.variants}

    def text(self, line: str) -> None:
        self.out.print(Text(printable(line)))

    def points(self, title: str, columns: dict[str, Callable[[Point], Cell]]) -> None:
        """Prints one row per point; leaves out empty columns."""
        rows = [[cell(point) for cell in columns.values()] for point in self.sweep.points]
        filled = [
            place
            for place in range(len(columns))
            if any(str(row[place]) not in ("", "-") for row in rows)
        ]
        cells = [
            (
                *(_value(getattr(point, axis)) for axis in self.axes),
                self.family[point.workload],
                *(row[each] for each in filled),
            )
            for point, row in zip(self.sweep.points, rows, strict=True)
        ]
        self._print(title, [*self.axes, "variant"], [list(columns)[each] for each in filled], cells)

    def maps(self) -> None:
        """Prints by size what bounds the baseline, what is fastest, and each variant's speed-up."""
        base = self.sweep.baseline
        shapes = {_place(shape, self.axes): shape for shape in self.sweep.shapes}
        self._map(f"What bounds {base}", {"": {at: _regime(s.regime) for at, s in shapes.items()}})
        if len(self.sweep.variants) == 1:
            return
        self._map(
            f"The fastest variant, and its speed-up over {base}",
            {"": {at: self._fastest(shape) for at, shape in shapes.items()}},
        )
        speedups: dict[str, dict[_Place, Cell]] = {}
        for point in self.sweep.points:
            if point.workload != base and point.step_ns:
                row = speedups.setdefault(self.family[point.workload], {})
                row[_place(point, self.axes)] = _speedup(point)
        if speedups:
            self._map(f"Speed-up over {base} (~: within the spread)", speedups)

    def _map(self, title: str, rows: dict[str, dict[_Place, Cell]]) -> None:
        """Prints a map: the last axis runs across, the other axes and the variants run down."""
        *down, across = self.axes
        columns = list(dict.fromkeys(place[-1] for cells in rows.values() for place in cells))
        names = ["variant"] if any(rows) else []
        lines = [
            (
                *([name] if names else []),
                *map(_value, place),
                *(cells.get((*place, each), "-") for each in columns),
            )
            for name, cells in rows.items()
            for place in dict.fromkeys(each[:-1] for each in cells)
        ]
        self._print(title, [*names, *down], [f"{across} {_value(each)}" for each in columns], lines)

    def _fastest(self, shape: Shape) -> Cell:
        if shape.fastest is None:
            return "-"
        name = self.family[shape.fastest]
        if shape.fastest == self.sweep.baseline or shape.speedup is None:
            return name
        return Text(f"{name} {shape.speedup:.2f}", "green")

    def _print(
        self, title: str, left: Sequence[str], right: Sequence[str], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Prints a table; the columns `right` are figures, but for some words."""
        section(self.out, title)
        columns = [*left, *(name if name in _WORDS else f">{name}" for name in right)]
        if not self.markdown:
            self.out.print(table(columns, rows))
            return
        self.out.print()
        cells = ([c.replace("|", "/") if isinstance(c, str) else c for c in row] for row in rows)
        sweep = table(columns, cells)
        sweep.box, sweep.pad_edge, sweep.padding = box.MARKDOWN, True, (0, 1)
        self.out.print(sweep)


def _place(at: Point | Shape, axes: Sequence[str]) -> _Place:
    return tuple(getattr(at, axis) for axis in axes)


def _value(value: object) -> str:
    return "-" if value is None else printable(value)


def _regime(regime: str | None) -> Text:
    if regime is None:
        return Text("-")
    return Text(regime.removesuffix("-bound"), colours.REGIME.get(regime, ""))


def _speedup(point: Point) -> Cell:
    if point.speedup is None:
        return "-"
    if (point.speedup_low or 0) > 1:
        return Text(f"{point.speedup:.2f}", "bold green" if point.speedup >= 1.5 else "green")
    if (point.speedup_high or 0) < 1:
        return Text(f"{point.speedup:.2f}", "red")
    return f"~{point.speedup:.2f}"


def _gain(point: Point, side: str) -> str:
    return percent(max(getattr(point.gains, side), 0.0)) if point.gains else "-"


def _share(part: float | None) -> str:
    return "-" if part is None else share(part, 1)


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.3g}"


def _ran(point: Point) -> Cell:
    if point.reason is None:
        return clipped(point.variant or "-", 28)
    wrong = "wrong answer: " if point.is_wrong else ""
    return Text(printable(wrong + point.reason).replace("|", "/"), "red" if wrong else "yellow")


_WORDS = ("what ran", "bound by")
_MEASURED: dict[str, Callable[[Point], Cell]] = {
    "step": lambda p: duration(p.step_ns),
    "spread": lambda p: _share(p.spread),
    "speed-up": lambda p: "1" if p.speedup == p.speedup_low == 1 else _speedup(p),
    "rows/s": lambda p: "-" if p.rows_per_s is None else f"{p.rows_per_s:,.0f}",
    "host": lambda p: duration(p.host_ns),
    "what ran": _ran,
}
_TRACED: dict[str, Callable[[Point], Cell]] = {
    "operators": lambda p: _count(p.operators),
    "launches": lambda p: _count(p.launches),
    "busy": lambda p: _share(p.share_busy),
    "compute": lambda p: _share(p.share_compute),
    "traffic": lambda p: size(p.traffic_bytes),
    "bound by": lambda p: _regime(p.regime).append(f", {p.bottleneck}" if p.bottleneck else ""),
    "half host": lambda p: _gain(p, "host"),
    "half device": lambda p: _gain(p, "device"),
    "graph": lambda p: _gain(p, "cuda_graph"),
    "dilation": lambda p: "-" if p.dilation is None else f"{p.dilation:.2f}",
}


def render_probe(probe: Probe) -> None:
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
    """Prints the workload, its device and its sizes, and how long its step takes."""
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
