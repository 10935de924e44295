"""Results as notebooks show them: HTML with a chart that needs no script."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING

from tracekit.compare.diff import Diff
from tracekit.experiments.points import Sweep
from tracekit.reporters.diff import FIGURES, figures_of
from tracekit.reporters.parts import parts_of
from tracekit.text import duration, percent, printable
from tracekit.verdict.model import Analysis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import altair

# Longer text from a trace is cut.
_LONGEST_TEXT = 200


@singledispatch
def html(found: object) -> str:
    """A result as HTML: its words or its table, and a chart where the extra `report` is installed.

    Raises:
        TypeError: for what notebooks do not show.
    """
    raise TypeError(f"notebooks do not show a {type(found).__name__}")


@html.register
def _analysis(found: Analysis) -> str:
    verdict = found.verdict
    by = f", by {verdict.bottleneck}" if verdict.bottleneck else ""
    margin = "" if verdict.margin is None else f", margin {percent(abs(verdict.margin))}"
    span = duration(found.judged.window.span_ns)
    return _joined(
        f"<b>{_text(verdict.headline)}</b>",
        f"<b>{_text(verdict.regime + by)}</b> (confidence {_text(verdict.confidence)}{margin})",
        _text(f"{found.trace.path}: {found.judged.window.name}, {span}"),
        _list(verdict.why),
        _drawn(found),
    )


@html.register
def _diff(found: Diff) -> str:
    rows = figures_of(found)
    return _joined(
        _text(f"a: {found.a}"),
        _text(f"b: {found.b}"),
        _table(FIGURES, rows) if rows else "One of the runs has no GPU ops.",
        _list(f"trace {row['trace_id']}: {row['message']}" for row in found.doubts),
        _drawn(found),
    )


@html.register
def _sweep(found: Sweep) -> str:
    columns = ["workload", "batch", "seq", "dim", "hidden", "dtype"]
    rows = [
        [str(getattr(point, name)) for name in columns]
        + [
            duration(point.step_ns),
            "-" if point.speedup is None else f"{point.speedup:.2f}",
            point.reason or ", ".join(filter(None, [point.regime, point.bottleneck])),
        ]
        for point in found.points
    ]
    return _joined(
        _text(f"{found.database}: {len(rows)} points on {found.device}"),
        _table([*columns, "step", f"speed-up over {found.baseline}", "bound by"], rows),
        _drawn(found),
    )


def _drawn(found: Analysis | Diff | Sweep) -> str:
    """The result's chart as SVG; nothing where the extra `report` is not installed."""
    try:
        from tracekit.reporters.html.charts import svg

        chart = _chart(found)
    except ImportError:
        return ""
    return svg(chart) if chart else ""


def _chart(found: Analysis | Diff | Sweep) -> altair.TopLevelMixin | None:
    if isinstance(found, Sweep):
        from tracekit.reporters.html.sweep import regimes_chart

        return regimes_chart(found) if found.points else None
    if isinstance(found, Diff):
        from tracekit.reporters.html.diff import waterfall_chart

        return waterfall_chart(found.waterfall)
    from tracekit.reporters.html.charts import parts_chart

    parts = parts_of(found)
    return parts_chart(parts) if parts else None


def _text(value: object) -> str:
    text = printable(value)
    return escape(text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "...")


def _list(sentences: Iterable[str]) -> str:
    lines = "".join(f"<li>{_text(each)}</li>" for each in sentences)
    return f"<ul>{lines}</ul>" if lines else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{_text(v)}</td>' for v in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _joined(*blocks: str) -> str:
    return "<div>" + "".join(f"<div>{each}</div>" for each in blocks if each) + "</div>"
