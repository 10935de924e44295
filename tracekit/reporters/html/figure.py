"""A figure: rows of a question, drawn as a chart or shown as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair
    import polars


@dataclass(frozen=True)
class Figure:
    """What a page shows at one place.

    `rows` are drawn by `chart`, an Altair chart made from the same rows; without one, they are a
    table. Columns that end in `_ns`, `_bytes` and `share` are shown as times, sizes and percent.
    """

    name: str
    """Names the figure in the page, and its chart in `run.plot`."""
    title: str
    says: str
    """One sentence: what there is to see."""
    rows: polars.DataFrame
    source: str
    """The command that prints the same rows."""
    chart: altair.TopLevelMixin | None = None
    doubts: Sequence[str] = ()
    """What makes these numbers doubtful."""
    control: dict[str, Any] = field(default_factory=dict)
    """What the page's script needs to control the figure: see templates/page.js."""

    @property
    def question(self) -> str | None:
        """The named question that the rows answer; None where another command prints them."""
        command = self.source.split()
        return command[2] if command[:2] == ["tracekit", "query"] else None


def table(rows: polars.DataFrame) -> polars.DataFrame:
    """The columns of a question that tell something in a table of one trace: neither the trace nor
    the only device, and no column that is empty."""
    told = [
        column.name
        for column in rows
        if column.null_count() < len(rows)
        and column.name not in ("trace_id", "rank")
        and not (column.name in ("device_id", "device_type") and column.n_unique() == 1)
    ]
    return rows.select(told)
