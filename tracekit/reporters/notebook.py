"""Results in Python and notebooks: the commands' output, in notebooks with a chart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from tracekit.advice.model import FixList
from tracekit.compare.diff import Diff
from tracekit.database.session import Session
from tracekit.errors import needing
from tracekit.experiments.points import Sweep
from tracekit.files import temporary_folder, written_whole
from tracekit.replay.whatif import RunWhatIf, WhatIf
from tracekit.reporters import advise, console, diff, experiments, first_screen, several
from tracekit.verdict.model import Analysis, RunVerdict

# The maximum number of lines in a `repr`.
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
    """The output of the result's command, at most one screen."""
    lines = _printed(_PRINTERS[type(result)], result).split("\n")
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"... {left_out} more lines; .as_dict() has everything"]
    return "\n".join(lines)


@dataclass(frozen=True)
class ReportPage:
    """A page of charts."""

    html: str = field(repr=False)
    path: str | None
    """The file that it was written to; None: not written."""

    def save(self, path: str | Path) -> None:
        """Writes the page to a file.

        Raises:
            TracekitError: when it cannot be written.
        """
        with written_whole(path) as beside:
            beside.write_text(self.html, "utf-8")

    def _repr_html_(self) -> str:
        style = "width:100%;height:800px;border:0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def page_of(
    database: Session, output: str | Path | None, trace: int | None, window: str | None
) -> ReportPage:
    """The page of a trace, several traces, or a sweep; written to `output`, if given."""
    with needing("reports need", "report"):
        from tracekit.reporters.html import reports
    with temporary_folder() as folder:
        path = output or folder / "page.html"
        reports.write_any(database, path, trace, window)
        return ReportPage(Path(path).read_text("utf-8"), None if output is None else str(output))


def html(result: Any) -> str:
    """The output of the result's command, and a chart if the extra `report` is installed."""
    render = console.render if isinstance(result, Analysis) else _PRINTERS[type(result)]
    first, _, rest = _printed(render, result).partition("\n")
    text = f"<pre><b>{escape(first)}</b>\n{escape(rest)}</pre>"
    return f"<div>{text}{_drawn(result)}</div>"


def _printed(render: Callable[[Any], None], result: object) -> str:
    with redirect_stdout(StringIO()) as printed:
        render(result)
    return printed.getvalue().strip("\n")


def _drawn(result: object) -> str:
    """The result's chart as SVG; empty if it has none, or the extra is not installed."""
    try:
        from tracekit.reporters.html.charts import parts_chart, svg
        from tracekit.reporters.html.diff import waterfall_chart
        from tracekit.reporters.html.sweep import regimes_chart
    except ImportError:
        return ""
    chart = None
    if isinstance(result, Sweep) and result.points:
        chart = regimes_chart(result)
    elif isinstance(result, Diff):
        chart = waterfall_chart(diff.plain_waterfall(result))
    elif isinstance(result, Analysis) and result.parts:
        chart = parts_chart(result.parts)
    return svg(chart) if chart else ""
