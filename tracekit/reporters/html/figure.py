"""A figure: the answer to a question, drawn as a chart or shown as a table."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.text import printable

if TYPE_CHECKING:
    import altair
    import polars

    from tracekit.database.catalog import Value
    from tracekit.database.session import Session


class PageSubject(ABC):
    """The traces that the figures of a page are about: one, two runs, or several ranks."""

    def __init__(self, database: Session) -> None:
        self.database = database
        self._answers: dict[str, polars.DataFrame] = {}

    @property
    def quoted_name(self) -> str:
        """The database or trace, as a shell takes it."""
        return shlex.quote(printable(self.database.name))

    def rows(self, question: str, **parameters: Value) -> polars.DataFrame:
        """The answer to a named question, which is asked once."""
        key = f"{question} {parameters}"
        if key not in self._answers:
            self._answers[key] = self.database.query(question, **parameters)
        return self._answers[key]

    def source(self, question: str, **parameters: Value) -> str:
        """The command that prints these rows."""
        given = "".join(
            f" --param {shlex.quote(f'{name}={value}')}"
            for name, value in parameters.items()
            if value is not None
        )
        return f"tracekit query {self.quoted_name} {question}{given}"

    @abstractmethod
    def doubts(self, question: str) -> list[str]:
        """The doubts about an answer."""

    def findings_against(self, question: str, trace: int | None = None) -> list[dict[str, Any]]:
        """The findings that could change what one reads in the answer, about one trace or all."""
        among = [row for row in self.findings if trace in (None, row["trace_id"])]
        return [
            row
            for row in self.database.doubts(question, trace, among)
            if row["severity"] not in ("info", "missing") and self._share(row) >= _SLIGHT
        ]

    def _share(self, finding: dict[str, Any]) -> float:
        """The share of the GPU ops or events that a finding concerns; 1: all, or unknown."""
        counted = _COUNTED.get(finding["code"])
        if counted is None:
            return 1
        of = self._counts[finding["trace_id"]][counted]
        return float(finding["count"] / of) if of else 1

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """The doubts about the traces, and the data that was not recorded."""
        return self.database.findings()

    @cached_property
    def _counts(self) -> dict[int, dict[str, Any]]:
        return {row["trace_id"]: row for row in self.database.ask("overview")}


# The column of `overview` that counts the same as a finding. A finding about a smaller share than
# _SLIGHT stands in the section Health alone.
_COUNTED = {
    "unlinked_gpu_ops": "gpu_ops", "starts_before_launch": "gpu_ops",
    "ambiguous_correlation": "gpu_ops", "negative_duration": "events", "no_time": "events",
    "begin_end_events": "events", "no_category": "events",
}  # fmt: skip
_SLIGHT = 0.01
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
        of one colour, or a single bar."""
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
