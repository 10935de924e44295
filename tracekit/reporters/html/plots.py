"""The charts of a trace's page, one by one, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import altair

from tracekit.errors import TracekitError
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.trace import SECTIONS

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.thresholds import Thresholds

_FIGURES = {make.__name__: make for section in SECTIONS for make in section.figures}


class Plots:
    """A method for each figure of the page of a trace, which returns its Altair chart.

    The chart holds its rows and can be restyled: `run.plot.timeline().properties(height=400)`. All
    take `trace` (a trace_id), `window` and `thresholds`, as `Database.verdict` does.
    """

    def __init__(self, database: Session) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Callable[..., altair.TopLevelMixin]:
        if name not in _FIGURES:
            raise AttributeError(f"no figure has the name {name!r}: {', '.join(_FIGURES)}")

        def plot(
            trace: int | None = None,
            window: str | None = None,
            thresholds: Thresholds | None = None,
        ) -> altair.TopLevelMixin:
            database = self._database
            subject = Subject(database, database.only(trace), window, thresholds)
            figure = _FIGURES[name](subject)
            if figure is None:
                raise TracekitError(f"{database.name}: has nothing to show as {name}")
            if figure.chart is None:
                raise TracekitError(
                    f"{name} is a table, not a chart; `{figure.source}` prints its rows"
                )
            chart: Any = figure.chart
            # Altair refuses frames of more than 5,000 rows, but not their values.
            chart.data = altair.InlineData(values=figure.rows.to_dicts())
            drawn: altair.TopLevelMixin = chart
            return drawn

        plot.__name__ = name
        plot.__doc__ = _FIGURES[name].__doc__
        return plot

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *_FIGURES])
