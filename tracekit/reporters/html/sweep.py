"""The page of a sweep: regimes and fastest variants by size, and the growth of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import altair as alt
import polars as pl
from msgspec import to_builtins

from tracekit.experiments.points import AXES, Sweep
from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, without_empty
from tracekit.reporters.html.page import View, part_of, told_view
from tracekit.text import counted, quoted
from tracekit.verdict.regime import UNKNOWN

# Columns of the table of points.
_COLUMNS = (
    "workload", "batch", "seq", "dim", "hidden", "dtype", "step_ns", "spread", "speedup",
    "rows_per_s", "host_ns", "regime", "bottleneck", "launches", "operators", "kernels",
    "traffic_bytes", "share_busy", "share_compute", "dilation", "reason",
)  # fmt: skip
# The maximum number of failed points on the first screen.
_FAILED = 5


def sweep_view(sweep: Sweep) -> View:
    """Maps of regimes, fastest variants and speed-ups, lines over size, and all points."""
    page, figures = _SweepFigures(sweep), _SweepFigures
    sections = (
        ("maps", "By size", (figures.regimes, figures.fastest, figures.speedups)),
        ("lines", "Over size", (figures.times,)),
        ("points", "All points", (figures.points,)),
    )
    ran = sum(1 for point in sweep.points if point.step_ns)
    about = f"{counted(len(sweep.points), 'point')} on {sweep.device}, {ran} of them ran"
    parts = [part_of(page, section) for section in sections]
    headline = f"Sweep of {', '.join(sweep.variants)}"
    return told_view("sweep", sweep.database, headline, about, page.sentences(), parts)


def regimes_chart(sweep: Sweep) -> alt.TopLevelMixin | None:
    """The map of the baseline's regime, as a separate chart."""
    return _SweepFigures(sweep).regimes().chart


class _SweepFigures:
    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.axes = sweep.axes
        *self.down, self.across = self.axes
        given = (sweep.database, f"baseline={sweep.baseline}")
        name, baseline = map(quoted, given)
        self.source = f"tracekit query {name} sweep_points --param {baseline}"
        rows = [
            {key: value for key, value in to_builtins(point).items() if key != "gains"}
            | {
                "size": ", ".join(f"{axis} {getattr(point, axis)}" for axis in self.axes),
                "across": str(getattr(point, self.across)),
                "down": ", ".join(f"{axis} {getattr(point, axis)}" for axis in self.down) or "all",
                "regime": point.regime or UNKNOWN,
            }
            for point in sweep.points
        ]
        self.rows = pl.DataFrame(rows, infer_schema_length=None)

    def sentences(self) -> list[str]:
        """Sentences on the baseline's regimes, the fastest variants, and failed points."""
        shapes = self.sweep.shapes
        regimes = Counter(shape.regime or UNKNOWN for shape in shapes)
        fastest = Counter(shape.fastest for shape in shapes if shape.fastest)
        sizes = "size" if len(shapes) == 1 else "sizes"
        counts = [(f"{self.sweep.baseline} is {name}", n) for name, n in regimes.most_common()]
        counts += [(f"{name} is fastest", n) for name, n in fastest.most_common()]
        failed = [
            f"{point.workload} {'gave a wrong answer' if point.is_wrong else 'did not run'}: "
            f"{point.reason}"
            for point in self.sweep.points
            if point.reason
        ]
        sentences = [f"{what} at {count} of {len(shapes)} {sizes}." for what, count in counts]
        return [*sentences, *failed[:_FAILED]]

    def regimes(self) -> Figure:
        """A map of the baseline's regime."""
        rows = self.rows.filter(workload=self.sweep.baseline).select(
            "across", "down", "size", color="regime", bottleneck="bottleneck", step_ns="step_ns"
        )
        shades = charts.color(rows["color"].to_list(), "regime")
        tips = ("size:N", "color:N", "bottleneck:N", "step_ns=length")
        return self._figure(
            f"What bounds {self.sweep.baseline}",
            "Each cell is a size; the word in it is the bottleneck.",
            rows,
            self._map(rows, shades, tips, "bottleneck:N"),
        )

    def fastest(self) -> Figure | None:
        """A map of the fastest variant at each size, with its speed-up."""
        if len(self.sweep.variants) < 2:
            return None
        named = {tuple(getattr(shape, axis) for axis in AXES): shape for shape in self.sweep.shapes}
        of = [named[point.size] for point in self.sweep.points]
        fastest = pl.Series([each.fastest for each in of], dtype=pl.String)
        speedup = pl.Series([each.speedup for each in of], dtype=pl.Float64)
        rows = self.rows.with_columns(fastest=fastest, speedup=speedup)
        rows = rows.unique("size", maintain_order=True)
        rows = rows.select("across", "down", "size", "fastest", "speedup")
        text = "datum.speedup == null ? '' : format(datum.speedup, '.2f') + 'x'"
        tips = ("size:N", "fastest:N", "label:N=speed-up")
        return self._figure(
            "The fastest variant",
            f"The number is its speed-up over {self.sweep.baseline}, which counts as fastest "
            "unless three quarters of another variant's rounds were faster.",
            rows,
            self._map(rows, self._variants("fastest"), tips, "label:N", "fastest", label=text),
        )

    def speedups(self) -> Figure | None:
        """A map of speed-ups for each variant except the baseline."""
        rows = self.rows.filter(
            pl.col("speedup").is_not_null() & (pl.col("workload") != self.sweep.baseline)
        ).select("across", "down", "size", "workload", "speedup", "speedup_low", "speedup_high")
        if not len(rows):
            return None
        rows = rows.with_columns(down=pl.concat_str(["workload", "down"], separator=", "))
        scale: dict[str, Any] = {"type": "log", "scheme": colors.DIFFERENCES, "reverse": True}
        if rows["speedup"].min() < 1 < rows["speedup"].max():  # type: ignore[operator]
            scale["domainMid"] = 1
        title, legend = f"speed-up over {self.sweep.baseline}", alt.Legend(orient="top")
        shades = alt.Color("speedup:Q", title=title, scale=alt.Scale(**scale), legend=legend)
        quartiles = (f"{name}:Q|.2f" for name in ("speedup", "speedup_low", "speedup_high"))
        tips = ("size:N", "workload:N", *quartiles)
        label = alt.Text("speedup:Q", format=".2f")
        return self._figure(
            f"Speed-up over {self.sweep.baseline}",
            "Above 1 the variant is faster; the tooltip gives the quartiles of its rounds.",
            rows,
            self._map(rows, shades, tips, label, "speedup"),
        )

    def times(self) -> Figure | None:
        """Step time over the last varying size, with a line for each variant."""
        rows = self.rows.filter(pl.col("step_ns").is_not_null()).select(
            *("workload", "down", "across", "size", "step_ns", "host_ns", "rows_per_s"),
            at=pl.col(self.across),
        )
        if rows["across"].n_unique() < 2 or not rows["at"].dtype.is_numeric():
            return None
        with_tips = charts.with_tooltip(alt.Chart(rows), "workload:N", "size:N", "step_ns=length")
        dashes = alt.Legend(orient="bottom", symbolType="stroke")
        lines = with_tips.mark_line(point=True).encode(
            x=alt.X("at:Q", title=self.across, scale=alt.Scale(type="log", base=2),
                    axis=alt.Axis(values=sorted(set(rows["at"])), format="d")),
            y=charts.y("step_ns", "step", scale=alt.Scale(type="log")),
            color=self._variants("workload"),
            strokeDash=alt.StrokeDash("down:N", title=", ".join(self.down) or None,
                                      legend=dashes if self.down else None),
        )  # fmt: skip
        return self._figure(
            f"A step over {self.across}",
            "Without the profiler: the median of the rounds. Both axes are logarithmic.",
            rows,
            charts.sized(lines, 290),
        )

    def points(self) -> Figure:
        """All points as a table."""
        return self._figure(
            "Points",
            "Times are medians without the profiler; launches, traffic and shares are from the "
            "point's trace.",
            without_empty(self.rows.select(_COLUMNS)),
        )

    def _map(
        self,
        rows: pl.DataFrame,
        shades: alt.Color,
        tips: Sequence[str],
        text: str | alt.Text,
        on: str = "color",
        **computed: str,
    ) -> alt.TopLevelMixin:
        """Cells by size, colored by the column `on`; the page computes more columns."""
        across = list(dict.fromkeys(self.rows["across"]))
        base = alt.Chart(rows).transform_calculate(**computed).encode(
            x=alt.X("across:O", title=self.across, sort=across, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("down:O", title=None, sort=charts.safe(dict.fromkeys(rows["down"]))),
        )  # fmt: skip
        drawn = charts.cells(base, shades, tips, text, on, stroke="white")
        return charts.sized(drawn, 30 * rows["down"].n_unique() + 20)

    def _variants(self, column: str) -> alt.Color:
        names = charts.safe(self.sweep.variants)
        shades = dict(zip(names, cycle(colors.VARIANTS), strict=False))
        return charts.shades(column, shades, "variant")

    def _figure(
        self, title: str, says: str, rows: pl.DataFrame, chart: alt.TopLevelMixin | None = None
    ) -> Figure:
        return Figure(says, rows, chart, title=title, source=self.source, wide=True)
