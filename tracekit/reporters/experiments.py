"""Prints experiments: a sweep's points as tables and maps of regimes; a probe's predictions with
measurements, and whether the verdict holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tracekit.experiments.points import Point, Shape, Sweep
from tracekit.reporters import colors
from tracekit.reporters.terminal import Cell, clipped, console, section, table
from tracekit.text import counted, duration, percent, printable, share, size

if TYPE_CHECKING:
    from tracekit.experiments.probing import Applied, AppliedAdvice, Experiment, Probe

_MARKDOWN_WIDTH = 1000
_Place = tuple[Any, ...]
# A title, the headings of the columns on the left and of those on the right, and the rows.
_Table = tuple[str, Sequence[str], Sequence[str], Sequence[Sequence[Cell]]]


def render_sweep(sweep: Sweep, markdown: bool = False) -> None:
    """Prints the tables and the maps; with `markdown`, as Markdown."""
    out = console()
    if markdown:
        out.width = _MARKDOWN_WIDTH
    about = f"{sweep.database}: {counted(len(sweep.points), 'point')} on {sweep.device}"
    out.print(Text(printable(f"{about}, {sweep.captured:,} of them new")))
    for title, left, right, rows in (*_points(sweep), *_maps(sweep)):
        section(out, title)
        # Columns of figures are aligned to the right; a few of the columns here hold words.
        columns = [*left, *(name if name in _WORDS else f">{name}" for name in right)]
        if not markdown:
            out.print(table(columns, rows))
            continue
        out.print()
        cells = ([c.replace("|", "/") if isinstance(c, str) else c for c in row] for row in rows)
        made = table(columns, cells)
        made.box, made.pad_edge, made.padding = box.MARKDOWN, True, (0, 1)
        out.print(made)


def _points(sweep: Sweep) -> Iterator[_Table]:
    """Tables with one row per point, without empty columns."""
    names = _variants(sweep)
    for title, columns in _OF_POINTS.items():
        cells = {name: [cell(point) for point in sweep.points] for name, cell in columns.items()}
        filled = {name: own for name, own in cells.items() if {*map(str, own)} - {"", "-"}}
        rows = [
            (*map(_value, _place(point, sweep.axes)), names[point.workload], *row)
            for point, *row in zip(sweep.points, *filled.values(), strict=True)
        ]
        yield title, [*sweep.axes, "variant"], list(filled), rows


def _maps(sweep: Sweep) -> Iterator[_Table]:
    """Maps of the baseline's regime, the fastest variant, and each variant's speed-up by size."""
    base, names = sweep.baseline, _variants(sweep)
    shapes = {_place(shape, sweep.axes): shape for shape in sweep.shapes}
    bounds = {at: _regime(shape.regime) for at, shape in shapes.items()}
    yield _map(sweep, f"What bounds {base}", {"": bounds})
    if len(sweep.variants) == 1:
        return
    fastest = {at: _fastest(shape, base, names) for at, shape in shapes.items()}
    clear = (
        f"The fastest variant, and its speed-up over {base} ({base} where none is clearly faster)"
    )
    yield _map(sweep, clear, {"": fastest})
    speedups: dict[str, dict[_Place, Cell]] = {}
    for point in sweep.points:
        if point.workload != base and point.step_ns:
            row = speedups.setdefault(names[point.workload], {})
            row[_place(point, sweep.axes)] = _speedup(point)
    if speedups:
        yield _map(sweep, f"Speed-up over {base} (~: within the spread)", speedups)


def _map(sweep: Sweep, title: str, rows: Mapping[str, Mapping[_Place, Cell]]) -> _Table:
    """A map: the last axis runs across, the other axes and the variants run down."""
    *down, across = sweep.axes
    columns = list(dict.fromkeys(place[-1] for cells in rows.values() for place in cells))
    names = ["variant"] if any(rows) else []
    lines: list[Sequence[Cell]] = [
        (
            *[name] * len(names),
            *map(_value, at),
            *(cells.get((*at, column), "-") for column in columns),
        )
        for name, cells in rows.items()
        for at in dict.fromkeys(cell[:-1] for cell in cells)
    ]
    return title, [*names, *down], [f"{across} {_value(each)}" for each in columns], lines


def _variants(sweep: Sweep) -> dict[str, str]:
    """The short names of variants: without their common prefix."""
    prefix = sweep.variants[0].split("-")[0] + "-" if len(sweep.variants) > 1 else ""
    return {name: name.removeprefix(prefix) for name in sweep.variants}


def _fastest(shape: Shape, base: str, names: Mapping[str, str]) -> Cell:
    if shape.fastest is None:
        return "-"
    name = names[shape.fastest]
    if shape.fastest == base or shape.speedup is None:
        return name
    return Text(f"{name} {shape.speedup:.2f}", "green")


def _place(at: Point | Shape, axes: Sequence[str]) -> _Place:
    return tuple(getattr(at, axis) for axis in axes)


def _value(value: object) -> str:
    return "-" if value is None else printable(value)


def _regime(regime: str | None) -> Text:
    if regime is None:
        return Text("-")
    return Text(regime.removesuffix("-bound"), colors.REGIME.get(regime, ""))


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


def _or_dash(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)


def _ran(point: Point) -> Cell:
    if point.reason is None:
        return clipped(point.variant or "-", 28)
    wrong = "wrong answer: " if point.is_wrong else ""
    return Text(printable(wrong + point.reason).replace("|", "/"), "red" if wrong else "yellow")


_WORDS = ("what ran", "bound by")
# From this on, an error is a factor.
_MOST_ERROR = 10
_MEASURED: dict[str, Callable[[Point], Cell]] = {
    "step": lambda p: duration(p.step_ns),
    "spread": lambda p: _or_dash(p.spread, percent),
    "speed-up": lambda p: "1" if p.speedup == p.speedup_low == 1 else _speedup(p),
    "rows/s": lambda p: _or_dash(p.rows_per_s, "{:,.0f}".format),
    "host": lambda p: duration(p.host_ns),
    "what ran": _ran,
}
_TRACED: dict[str, Callable[[Point], Cell]] = {
    "operators": lambda p: _or_dash(p.operators, "{:,.3g}".format),
    "launches": lambda p: _or_dash(p.launches, "{:,.3g}".format),
    "busy": lambda p: _or_dash(p.share_busy, percent),
    "compute": lambda p: _or_dash(p.share_compute, percent),
    "traffic": lambda p: size(p.traffic_bytes),
    "bound by": lambda p: _regime(p.regime).append(f", {p.bottleneck}" if p.bottleneck else ""),
    "half host": lambda p: _gain(p, "host"),
    "half device": lambda p: _gain(p, "device"),
    "graph": lambda p: _gain(p, "cuda_graph"),
    "dilation": lambda p: _or_dash(p.dilation, "{:.2f}".format),
}
_OF_POINTS = {
    "Without the profiler: step is the median of the rounds, spread the distance between their "
    "quartiles as a share of it, speed-up the median of each round's ratio (~: 1 is within the "
    "spread, so the medians of the steps may say the opposite)": _MEASURED,
    "From each point's trace: operators, launches and traffic per step; busy and gains (host or "
    "device work halved, a graph) as shares of the active span; compute as a share of the "
    "steps": _TRACED,
}


def render_probe(probe: Probe) -> None:
    """Prints the verdict, the experiments, how they were predicted, and the judgement."""
    out = console()
    out.print(_headline(probe))
    host = f"; the host issues it in {duration(probe.host_ns)}" if probe.host_ns else ""
    _about(out, probe, host)
    section(out, "Experiments (step time without the profiler)")
    out.print(
        _table("predicted", [row for experiment in probe.experiments for row in _rows(experiment)])
    )
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
    """Prints each applied remedy with its promised and measured time, and the promises'
    sources."""
    out = console()
    out.print(Text(printable(probe.workload), "bold"))
    _about(out, probe)
    section(out, "Remedies that need no code change (step time without the profiler)")
    out.print(_table("promised", [_row(e, duration(e.promised_ns)) for e in probe.advice]))
    sources = []
    for remedy in probe.advice:
        reason = remedy.reason and f"not run: {remedy.reason}"
        sources.append(f"{remedy.what}: {'; '.join(filter(None, (remedy.arithmetic, reason)))}")
    section(out, "Sources of the promises, and what was not run", sources)
    out.print(
        "A promise is the measured step minus the share that the fix list saves. The list "
        "is for a run with the profiler, which slows the host."
    )
    if probe.others:
        out.print(Text(printable(f"Also advised, with a code change: {', '.join(probe.others)}.")))


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
    line = Text(probe.regime, f"bold {colors.of(probe.regime)}")
    if probe.bottleneck:
        line.append(f", by {probe.bottleneck}", "bold")
    outcome, style = {
        None: ("are inconclusive", "yellow"),
        True: ("agree", "green"),
        False: (f"disagree: {probe.judgement.regime}", "red"),
    }[probe.judgement.agrees]
    return line.append(f"   the experiments {outcome}", style)


def _rows(each: Experiment) -> Iterator[Sequence[Cell]]:
    if each.reason is not None:
        yield printable(each.what), "-", "-", "-", "-"
        return
    yield _row(each, "unknown" if each.predicted_ns is None else duration(each.predicted_ns))
    if each.given_ns is not None:
        what = f"  with the work that was recorded, x {each.work_factor:.2f}"
        yield what, duration(each.given_ns), "", _or_dash(each.given_error, _error), ""


def _row(each: Experiment | Applied, expected: str) -> Sequence[Cell]:
    measured = duration(each.measured_ns)
    moved = each.moved
    ratio = f"{moved.ratio:.2f} ({moved.low:.2f} to {moved.high:.2f})" if moved else "-"
    return printable(each.what), expected, measured, _or_dash(each.error, _error), ratio


def _error(error: float) -> str:
    return f"{100 * error:+.1f} %" if error < _MOST_ERROR else f"{1 + error:,.0f} times"
