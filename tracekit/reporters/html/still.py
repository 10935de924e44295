"""Charts as pictures that need no script, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl
import vl_convert

from tracekit.reporters import colours
from tracekit.reporters.html import charts, encode
from tracekit.reporters.parts import WindowPart

_WIDTH = 720


def svg(chart: alt.TopLevelMixin) -> str:
    """The chart as SVG on a white ground, with which notebooks of any colour can read it."""
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
            x=alt.X("part_ns:Q", title=None, stack="zero", axis=charts.time_axis()),
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
    return charts.sized(bar, 30)
