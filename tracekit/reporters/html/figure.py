"""A figure: the answer to a question, drawn as a chart or shown as a table."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import altair
import polars
from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.database.catalog import Value

# Columns that say how an operator, a module or a line is known.
_KNOWN_FROM = ("known_from", "module_from", "line_from")
# A table of more columns needs the whole width of the page.
_NARROW = 7


class Figure(Struct, frozen=True):
    """A chart or a table of a page.

    `rows` are drawn by `chart`, an Altair chart made from the same rows; without one, they are a
    table. Columns that end in `_ns`, `_bytes` and `share` are shown as times, sizes and percent.
    """

    says: str
    """One sentence on what a reader sees."""
    rows: polars.DataFrame
    chart: altair.TopLevelMixin | None = None
    control: dict[str, Any] = field(default_factory=dict)
    """Settings for the page's script: see templates/controls.js."""
    title: str = ""
    source: str = ""
    """The command that prints the same rows."""
    doubts: Sequence[str] = ()
    """The doubts about these numbers."""
    name: str = ""
    """Names the figure in the page: the name of the function that makes it."""
    wide: bool = False
    """Whether the chart needs the whole width of the page."""
    shows: Sequence[str] = ()
    """Columns of which the chart shows how they differ."""

    @property
    def is_drawn(self) -> bool:
        """Whether it has a chart that tells more than its sentence: not a line at one value, a map
        of one color, or a single bar."""
        return self.chart is not None and (
            not self.shows or self.rows.select(self.shows).n_unique() > 1
        )

    @property
    def is_half(self) -> bool:
        """Whether half of a wide page is enough for it."""
        if self.chart is not None:
            return not self.wide
        hidden = len(self.control.get("hidden", ())) + (self.control.get("step") == "own")
        return 0 < self.rows.width - hidden <= _NARROW

    @property
    def question(self) -> str | None:
        """The named question that the rows answer; None where another command prints them."""
        command = shlex.split(self.source)
        return command[3] if command[:2] == ["tracekit", "query"] else None


# Makes a figure of the subject of a page; None: it has nothing to show.
Maker = Callable[[Any], Figure | None]


def figure(
    question: str,
    title: str = "",
    given: Callable[[Any], Mapping[str, Value] | None] | None = None,
    *,
    unless: str = "",
    of_device: bool = False,
    where: polars.Expr | None = None,
    **parameters: Value,
) -> Callable[[Callable[[Any, polars.DataFrame], Figure | None]], Maker]:
    """A figure of the answer to a question, or of its rows of the verdict's device and for which
    `where` holds, as the function draws it; the title may be its own.

    It is None when the trace has the finding `unless`, when `given`, which may add parameters,
    returns None, when the answer has no rows, or when the function returns None.
    """

    def decorate(draw: Callable[[Any, polars.DataFrame], Figure | None]) -> Maker:
        @wraps(draw)
        def make(subject: Any) -> Figure | None:
            more = given(subject) if given else {}
            if more is None or (unless and unless in {row["code"] for row in subject.findings}):
                return None
            values = parameters | dict(more)
            rows = subject.rows(question, **values)
            if of_device:
                number = subject.device_id
                rows = rows.clear() if number is None else rows.filter(device_id=number)
            if where is not None and len(rows):
                rows = rows.filter(where)
            drawn = draw(subject, rows) if len(rows) else None
            if drawn is None:
                return None
            return replace(
                drawn,
                title=drawn.title or title,
                source=drawn.source or subject.source(question, **values),
                doubts=subject.doubts(question),
            )

        return make

    return decorate


def informative(rows: polars.DataFrame) -> polars.DataFrame:
    """The columns that tell something in a table of one trace: neither the trace nor the only
    device, not how something is known if that is a call in all rows, and no column that is
    empty."""
    return without_empty(rows).select(
        column.name
        for column in without_empty(rows)
        if column.name not in ("trace_id", "rank")
        and not (column.name in ("device_id", "device_type") and column.n_unique() == 1)
        and not (column.name in _KNOWN_FROM and column.drop_nulls().unique().to_list() == ["call"])
    )


def without_empty(rows: polars.DataFrame) -> polars.DataFrame:
    """The columns that are not empty."""
    return rows.select(column for column in rows if column.null_count() < len(rows))
