"""What the charts of all pages share: their axes, their colours, and how times are written; and
charts as pictures that need no script, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import polars as pl

from tracekit.reporters import colours
from tracekit.reporters.html import encode
from tracekit.reporters.parts import WindowPart

# As `tracekit.text.duration` writes them; in a chart, a number needs no more than three digits.
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))

# As `tracekit.text.size` writes them.
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))

# The parameter that all charts of a page share: the step that a reader chose, or null.
STEP = "chosen_step"
_WIDTH = 720


def duration_of(value: str) -> str:
    """The Vega expression that writes the nanoseconds of an expression in a readable unit."""
    text = f"format({value}, '.3~g') + ' ns'"
    for size, unit in reversed(_UNITS):
        scaled = f"format({value} / {size:.0f}, '.3~g') + ' {unit}'"
        text = f"abs({value}) >= {size:.0f} ? {scaled} : {text}"
    return f"({text})"


def size_of(value: str) -> str:
    """The Vega expression that writes the bytes of an expression in a readable unit."""
    text = f"format({value}, '.3~g') + ' B'"
    for size, unit in reversed(_SIZES):
        scaled = f"format({value} / {size:.0f}, '.3~g') + ' {unit}'"
        text = f"abs({value}) >= {size:.0f} ? {scaled} : {text}"
    return f"({text})"


def size_axis(**options: Any) -> alt.Axis:
    """An axis of bytes, labelled in readable units."""
    return alt.Axis(labelExpr=size_of("datum.value"), **options)


def time_axis(**options: Any) -> alt.Axis:
    """An axis of nanoseconds, labelled in readable units."""
    return alt.Axis(labelExpr=duration_of("datum.value"), **options)


def time(column: str, title: str) -> alt.X:
    """Instants across, as wide as there are some."""
    return alt.X(
        f"{column}:Q", title=title, axis=time_axis(), scale=alt.Scale(zero=False, nice=False)
    )


def colour(names: list[str], title: str | None = None, **legend: Any) -> alt.Color:
    """Colours by the column `colour`: each name has the colour that it has everywhere."""
    domain, shades = colours.scale(names)
    return alt.Color(
        "colour:N",
        title=title,
        scale=alt.Scale(domain=domain, range=shades),
        legend=alt.Legend(orient="top", columns=8, **legend),
    )


def safe(names: Iterable[str]) -> list[str]:
    """Names from a trace as the page's rows have them."""
    return [encode.safe(name) for name in names]


def names(column: str, order: list[str]) -> alt.Y:
    """A row for each name, in this order; of long names, the end."""
    end = "'...' + substring(datum.value, length(datum.value) - 44)"
    shown = f"length(datum.value) > 46 ? {end} : datum.value"
    return alt.Y(
        f"{column}:N", sort=safe(order), title=None, axis=alt.Axis(labelLimit=320, labelExpr=shown)
    )


def on_colour(column: str) -> alt.ExprRef:
    """The colour of text over a mark that is coloured by this column: black or white."""
    return alt.ExprRef(f"luminance(scale('color', datum.{column})) > 0.2 ? 'black' : 'white'")


def told(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without the columns of which the trace tells nothing."""
    return rows.select(column for column in rows if column.null_count() < len(rows))


def shade(name: str) -> str:
    """The colour of a mark that stands for one name alone."""
    return colours.of(name)


def plain() -> str:
    """The colour of lines that stand for no name: seen on light and dark ground."""
    return colours.of("unknown")


def of_chosen_step() -> str:
    """The Vega filter that keeps the rows of the chosen step; all, if none is chosen."""
    return f"{STEP} == null || datum.step == {STEP}"


def step_parameter() -> alt.Parameter:
    return alt.param(name=STEP, value=None)


def sized(chart: Any, height: int) -> alt.TopLevelMixin:
    """The chart as wide as the page, and `height` pixels high."""
    found: alt.TopLevelMixin = chart.properties(width="container", height=height)
    return found


def svg(chart: alt.TopLevelMixin) -> str:
    """The chart as SVG on a white ground, with which notebooks of any colour can read it."""
    import vl_convert

    spec = chart.properties(width=_WIDTH).to_dict()
    found: str = vl_convert.vegalite_to_svg(spec, config={"background": "white"})
    return found


def parts_chart(parts: Sequence[WindowPart]) -> alt.TopLevelMixin:
    """A bar of where the window's time went."""
    rows = pl.DataFrame(
        [
            {"part": encode.safe(part.name), "part_ns": part.ns, "place": place}
            for place, part in enumerate(parts)
        ]
    )
    names = rows["part"].to_list()
    shades = [colours.of(part.kind) for part in parts]
    bar = (
        alt.Chart(rows)
        .mark_bar(stroke="white")
        .encode(
            x=alt.X("part_ns:Q", title=None, stack="zero", axis=time_axis()),
            color=alt.Color(
                "part:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=shades),
                legend=alt.Legend(orient="top", columns=4),
            ),
            order="place:Q",
        )
    )
    return sized(bar, 30)
