"""Helpers for all charts: axes, colors, units; and charts as static pictures for notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters import colors
from tracekit.reporters.kernel_names import short_name
from tracekit.reporters.terminal import clipped
from tracekit.text import SIZES, TIMES, printable
from tracekit.verdict.model import WindowPart

# Longer text from a trace is cut in a page.
LONGEST_TEXT = 1_000
# The parameter that all charts on a page share (the chosen step, or null), and the filter for its
# rows, or all.
CHOSEN_STEP = alt.param(name="chosen_step", value=None)
OF_CHOSEN_STEP = "chosen_step == null || datum.step == chosen_step"
FAINT_UNLESS_CHOSEN = alt.OpacityValue(
    **alt.condition(OF_CHOSEN_STEP, alt.value(1), alt.value(0.35))
)
# The color of lines without a name, visible on light and dark backgrounds.
PLAIN = colors.of("unknown")
# What takes less than this share has no row of its own in a legend; the name of all that together.
_FOLDED, FOLDED = 0.01, "each under 1 %"
# Labels that are tracekit's own words, such as launch_latency.
WORDS = (
    "{untraced: 'nothing recorded', memcpy: 'copies', cpu_op: 'operator', gpu: 'GPU op', "
    "annotation: 'range'}[datum.label] || replace(datum.label, /_/g, ' ')"
)
_WIDTH = 720
# A short name of a kernel has at most this many characters.
_SHORT = 60
_PYTHON_LINE = re.compile(r"/([^/]+\.pyx?\(\d+\): .*)$")
# Values are not drawn if they are this many times below the median, and their weight is below the
# second number.
_FAR, _LITTLE = 1e3, 0.05


def duration_of(value: str) -> str:
    """The Vega expression that writes the nanoseconds of an expression in a readable unit."""
    return _in_units(value, TIMES)


def size_of(value: str) -> str:
    """The Vega expression that writes the bytes of an expression in a readable unit."""
    return _in_units(value, SIZES)


def _in_units(value: str, units: Sequence[tuple[str, int]]) -> str:
    """The Vega expression for a value in a unit, with three digits."""
    text = f"format({value}, '.3~g') + ' {units[-1][0]}'"
    for unit, power in reversed(units[:-1]):
        scaled = f"format({value} / {10**power}, '.3~g') + ' {unit}'"
        text = f"abs({value}) >= {10**power} ? {scaled} : {text}"
    return f"({text})"


def with_tooltip(base: alt.Chart, *tips: str) -> alt.Chart:
    """The chart with a tooltip, each line `field`, `field=title` or `field|format`. Of a time or a
    size, such as `span_ns=length`, the line is text, which is a column of the chart: span_ns_text.
    """
    lines, texts = [], {}
    for tip in tips:
        rest, _, form = tip.partition("|")
        field, _, title = rest.partition("=")
        for ending, text_of in (("_ns", duration_of), ("_bytes", size_of)):
            if field.endswith(ending):
                texts[f"{field}_text"] = text_of(f"datum.{field}")
                field = f"{field}_text:N"
        unset = alt.Undefined
        lines.append(alt.Tooltip(field, title=title or unset, format=form or unset))
    return (base.transform_calculate(**texts) if texts else base).encode(tooltip=lines)


def x(column: str, title: str | None = None, ticks: Any = alt.Undefined, **options: Any) -> alt.X:
    """Numbers across: a column of times (_ns) or sizes (bytes) is labeled in readable units."""
    return alt.X(f"{column}:Q", title=title, axis=_axis(column, ticks), **options)


def y(column: str, title: str | None = None, ticks: Any = alt.Undefined, **options: Any) -> alt.Y:
    """Numbers upwards, labeled in readable units."""
    return alt.Y(f"{column}:Q", title=title, axis=_axis(column, ticks), **options)


def _axis(column: str, ticks: Any) -> alt.Axis:
    in_units = duration_of if column.endswith("_ns") else size_of
    given = {"values" if isinstance(ticks, list) else "tickCount": ticks}
    return alt.Axis(labelExpr=in_units("datum.value"), **given)


def time(column: str, ticks: Any = alt.Undefined) -> alt.X:
    """Instants across, from the first to the last."""
    scale = alt.Scale(zero=False, nice=False)
    return x(column, "since the trace's start", ticks, scale=scale)


def bars(
    base: alt.Chart, x: alt.X, y: alt.Y, color: Any, height: int, *tips: str, **more: Any
) -> alt.TopLevelMixin:
    """Bars across, with a tooltip."""
    drawn = with_tooltip(base, *tips).mark_bar().encode(x=x, y=y, color=color, **more)
    return sized(drawn, height)


def color(names: Iterable[str], title: str | None = None, **legend: Any) -> alt.Color:
    """Colors by the column `color`, where each name has its usual color."""
    legend = {"labelExpr": WORDS} | legend
    return shades("color", {name: colors.of(name) for name in names}, title, **legend)


def shades(
    column: str, shade_of: Mapping[str, str], title: str | None = None, **legend: Any
) -> alt.Color:
    """Colors by a column: a color for each of its values."""
    scale = alt.Scale(domain=list(shade_of), range=list(shade_of.values()))
    top = alt.Legend(orient="top", **legend)
    return alt.Color(f"{column}:N", title=title, scale=scale, legend=top)


def cells(
    base: alt.Chart,
    color: alt.Color,
    tips: Sequence[str],
    label: str | alt.Text | None = None,
    on: str = "color",
    opacity: Any = alt.Undefined,
    **mark: Any,
) -> list[alt.Chart]:
    """A matrix in layers: cells, colored by the column `on`, and labels where there are some."""
    base = with_tooltip(base, *tips)
    drawn = base.mark_rect(**mark).encode(color=color, opacity=opacity)
    if label is None:
        return [drawn]
    text = alt.Text(label) if isinstance(label, str) else label
    return [drawn, base.mark_text(color=on_color(on)).encode(text=text)]


def lowest_drawn(values: pl.Series, weights: pl.Series) -> float:
    """The lowest value that a logarithmic axis should show: values far below most of the weight,
    and of little weight themselves, would flatten all others."""
    ordered = pl.DataFrame({"value": values, "weight": weights}).sort("value")
    total = float(ordered["weight"].sum())
    is_upper = pl.col("weight").cum_sum() >= total / 2
    edge = float(ordered.filter(is_upper)["value"][0]) / _FAR
    is_little = ordered.filter(pl.col("value") < edge)["weight"].sum() < _LITTLE * total
    return edge if is_little else float(ordered["value"][0])


def safe(names: Iterable[str]) -> list[str]:
    """Names from a trace in the form of the page's rows."""
    return [clipped(name, LONGEST_TEXT) for name in names]


@lru_cache(4096)
def shown_name(name: str) -> str:
    """A name as a page shows it: a kernel's function, and a Python line without its folders."""
    name = printable(name)
    if line := _PYTHON_LINE.search(name):
        return line[1]
    # Names of another form would only be cut, which the browser does better.
    is_whole = short_name(name, LONGEST_TEXT) == name
    return clipped(name, LONGEST_TEXT) if is_whole else short_name(name, _SHORT)


def names(column: str, order: list[str], sort: str | None = None) -> alt.Y:
    """A row for each name, in this order or by `sort`, labeled with its short name; the tooltip has
    the full one."""
    short = {name: shown for name in safe(order) if (shown := shown_name(name)) != name}
    shown = f"({json.dumps(short)}[datum.value] || datum.value)"
    axis = alt.Axis(labelExpr=shown)
    return alt.Y(f"{column}:N", sort=sort or safe(order), title=None, axis=axis)


def on_color(column: str) -> alt.ExprRef:
    """The color of text (black or white) over a mark colored by this column."""
    return alt.ExprRef(f"luminance(scale('color', datum.{column})) > 0.2 ? 'black' : 'white'")


def few(amounts: Mapping[str, int]) -> set[str]:
    """The names that take hardly anything of the whole, if there are several: they need no rows of
    their own."""
    found = {name for name, amount in amounts.items() if amount < _FOLDED * sum(amounts.values())}
    return found if len(found) > 1 else set()


def listed(rows: pl.DataFrame, column: str, amount: pl.Expr) -> list[str]:
    """The values of a column that a legend lists, by their amounts."""
    summed = rows.group_by(column, maintain_order=True).agg(amount.sum())
    amounts = dict(summed.iter_rows())
    return [name for name in amounts if name not in few(amounts)]


def sized(chart: Any, height: int, *params: alt.Parameter) -> alt.TopLevelMixin:
    """A chart, or the layers of one as a list, with parameters; as wide as the page, and `height`
    pixels high."""
    first, *others = chart if isinstance(chart, list) else [chart]
    size = {"width": "container", "height": height}
    first = first.add_params(*params)
    # Altair copies all layers at every change to a layered chart.
    layered: alt.TopLevelMixin = (
        alt.layer(first, *others, **size) if others else first.properties(**size)
    )
    return layered


def svg(chart: alt.TopLevelMixin) -> str:
    """The chart as SVG on a white background, which is readable in notebooks of any color."""
    import vl_convert

    spec = chart.properties(width=_WIDTH).to_dict()
    picture: str = vl_convert.vegalite_to_svg(spec, config={"background": "white"})
    return picture


def parts_chart(parts: Sequence[WindowPart]) -> alt.TopLevelMixin:
    """A bar of the window's parts."""
    names = safe(part.name for part in parts)
    lengths, places = [part.dur_ns for part in parts], range(len(parts))
    rows = pl.DataFrame({"part": names, "part_ns": lengths, "place": places})
    shades = [colors.of(part.kind) for part in parts]
    bar = alt.Chart(rows).mark_bar(stroke="white").encode(
        x=x("part_ns", stack="zero"),
        color=alt.Color("part:N", title=None, sort=names,
                        scale=alt.Scale(domain=names, range=shades),
                        legend=alt.Legend(orient="top", columns=4)),
        order=alt.Order("place:Q"),
    )  # fmt: skip
    return sized(bar, 30)
