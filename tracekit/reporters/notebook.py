"""Results as Python and notebooks show them: as what their commands print, and as HTML with a chart
that needs no script."""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import singledispatch
from html import escape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tracekit.advice.model import FixList
from tracekit.compare.diff import Diff
from tracekit.errors import TracekitError
from tracekit.experiments.points import Sweep
from tracekit.replay.whatif import RunWhatIf, WhatIf
from tracekit.reporters import advise, diff, experiments, first_screen, several
from tracekit.reporters.diff import FIGURES, figures_of
from tracekit.reporters.parts import lists_of, parts_of
from tracekit.reporters.terminal import clipped
from tracekit.text import duration, percent
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import bound_by
from tracekit.verdict.run_model import RunVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import altair

    from tracekit.database.session import Session
    from tracekit.thresholds import Thresholds

# Longer text from a trace is cut.
_LONGEST_TEXT = 200
# A screen: `repr` shows at most this many lines.
_MOST_LINES = 40
_PRINTERS: dict[type, Callable[[Any], None]] = {
    Analysis: first_screen.render,
    Diff: diff.render,
    FixList: advise.render,
    RunVerdict: several.render_run,
    RunWhatIf: advise.render_run,
    Sweep: experiments.render_sweep,
    WhatIf: advise.render_whatif,
}


def text(result: object) -> str:
    """What the result's command prints, a screen of it at most."""
    printed = StringIO()
    with redirect_stdout(printed):
        _PRINTERS[type(result)](result)
    lines = printed.getvalue().strip("\n").split("\n")
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"... {more} more lines; .as_dict() has everything"]
    return "\n".join(lines)


@dataclass(frozen=True)
class ReportPage:
    """A page of charts."""

    html: str = field(repr=False)
    path: str | None
    """Where it was written; None: nowhere."""

    def save(self, path: str | Path) -> None:
        """Writes the page to a file.

        Raises:
            TracekitError: when it cannot be written.
        """
        from tracekit.files import written_whole

        with written_whole(path) as beside:
            beside.write_text(self.html, "utf-8")

    def _repr_html_(self) -> str:
        style = "width:100%;height:800px;border:0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def page_of(
    database: Session,
    output: str | Path | None,
    trace: int | None,
    window: str | None,
    thresholds: Thresholds | None,
) -> ReportPage:
    """The page of a trace, of several, or of a sweep; written to `output`, if given."""
    try:
        from tracekit.reporters.html import reports
    except ImportError as error:
        raise TracekitError(f"reports need {error.name}: pip install 'tracekit[report]'") from error
    with TemporaryDirectory(prefix="tracekit-") as folder:
        path = output or Path(folder) / "page.html"
        reports.write_any(database, path, trace, window, thresholds)
        return ReportPage(Path(path).read_text("utf-8"), None if output is None else str(output))


@singledispatch
def html(result: object) -> str:
    """A result as HTML: its words or its table, and a chart where the extra `report` is installed;
    of others the text."""
    return f"<pre>{escape(text(result))}</pre>"


@html.register
def _analysis(result: Analysis) -> str:
    verdict = result.verdict
    margin = "" if verdict.margin is None else f", margin {percent(abs(verdict.margin))}"
    span = duration(result.judged.window.span_ns)
    return _joined(
        f"<b>{_text(verdict.headline)}</b>",
        f"<b>{_text(bound_by(verdict.regime, verdict.bottleneck))}</b> "
        f"(confidence {_text(verdict.confidence)}{margin})",
        _text(f"{result.trace.path}: {result.judged.window.name}, {span}"),
        _list(verdict.why),
        _drawn(result),
    )


@html.register
def _diff(result: Diff) -> str:
    rows = figures_of(result)
    return _joined(
        f"<b>{_text(diff.headline(result))}</b>",
        _text(f"a: {result.a}"),
        _text(f"b: {result.b}"),
        _table(FIGURES, rows) if rows else "",
        _list(f"trace {row['trace_id']}: {row['message']}" for row in result.doubts),
        _drawn(result),
    )


@html.register
def _sweep(result: Sweep) -> str:
    columns = ["workload", "batch", "seq", "dim", "hidden", "dtype"]
    rows = [
        [str(getattr(point, name)) for name in columns]
        + [
            duration(point.step_ns),
            "-" if point.speedup is None else f"{point.speedup:.2f}",
            point.reason or ", ".join(filter(None, [point.regime, point.bottleneck])),
        ]
        for point in result.points
    ]
    return _joined(
        _text(f"{result.database}: {len(rows)} points on {result.device}"),
        _table([*columns, "step", f"speed-up over {result.baseline}", "bound by"], rows),
        _drawn(result),
    )


@html.register
def _fixes(result: FixList) -> str:
    """A table for what recurs, one for what happened once, as `tracekit advise` lists them."""
    blocks = []
    for heading, listed in lists_of(result.advice, advise.recurring(result)):
        rows = [
            (
                "" if each.share is None else percent(each.share), duration(each.saves_ns),
                each.title, each.where or "", each.detail or "", each.effort, each.remedy,
            )
            for each in listed
        ]  # fmt: skip
        heads = ("share", "saves", "change", "place", "detail", "effort", "advise --how")
        blocks += [f"<b>{_text(heading)}</b>", _table(heads, rows)]
    return _joined(*(blocks or [_text("No change saves enough to list.")]), _list(result.notes))


@html.register
def _whatif(result: WhatIf) -> str:
    shares = [(cause, percent(part)) for cause, part in result.bound_by.items()]
    return _joined(
        f"<b>{_text(advise.headline(result))}</b>",
        _text(f"{result.trace}, with {', '.join(result.changes)}"),
        _table(("what would bound it then", "share of the critical path"), shares),
        _list(result.doubts),
    )


def _drawn(result: Analysis | Diff | Sweep) -> str:
    """The result's chart as SVG; nothing where the extra `report` is not installed."""
    try:
        from tracekit.reporters.html.charts import svg

        chart = _chart(result)
    except ImportError:
        return ""
    return svg(chart) if chart else ""


def _chart(result: Analysis | Diff | Sweep) -> altair.TopLevelMixin | None:
    if isinstance(result, Sweep):
        from tracekit.reporters.html.sweep import regimes_chart

        return regimes_chart(result) if result.points else None
    if isinstance(result, Diff):
        from tracekit.reporters.html.diff import waterfall_chart

        return waterfall_chart(result.waterfall)
    from tracekit.reporters.html.charts import parts_chart

    parts = parts_of(result)
    return parts_chart(parts) if parts else None


def _text(value: object) -> str:
    return escape(clipped(str(value), _LONGEST_TEXT))


def _list(sentences: Iterable[str]) -> str:
    lines = "".join(f"<li>{_text(each)}</li>" for each in sentences)
    return f"<ul>{lines}</ul>" if lines else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{_text(v)}</td>' for v in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _joined(*blocks: str) -> str:
    return "<div>" + "".join(f"<div>{each}</div>" for each in blocks if each) + "</div>"
