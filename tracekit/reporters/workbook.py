"""An Excel workbook with one sheet each for verdicts, advice, and answers to questions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import xlsxwriter
import xlsxwriter.format
import xlsxwriter.worksheet

from tracekit.database import catalog
from tracekit.database.session import Session
from tracekit.files import written_whole
from tracekit.reporters.parts import best_of, busy_share, devices_of, is_of_recording
from tracekit.reporters.units import INSTANT, SUFFIX
from tracekit.stages import stage
from tracekit.text import printable
from tracekit.verdict.model import Analysis, RunVerdict
from tracekit.verdict.regime import bound_by
from tracekit.verdicts import verdict_together, verdicts
from tracekit.version import __version__

# Sheets with answers to questions.
_QUESTIONS = {
    "Top kernels": "top_kernels",
    "Operators": "top_cpu_ops",
    "Launches": "launch_stats",
    "Runtime calls": "runtime_api",
    "Gaps": "idle_gaps",
}
_ROWS = 1_000
# https://support.microsoft.com/office/excel-specifications-and-limits: characters in a cell.
_CHARACTERS = 32_000
_WIDEST = 70
# A workbook's units: the word in a heading, and the divisor.
_UNITS = {"ns": ("ms", 1e6), "bytes": ("MB", 1e6)}
# Number formats of columns, by the unit or word at the end of the heading.
_LOOKS = {"(ms": "#,##0.000", "(MB": "#,##0.000", "(%)": "0.0%", "_id": "0", "rank": "0"}


# The rows of a sheet: values by heading, in the headings' units.
_Rows = Sequence[Mapping[str, Any]]


def write(database: Session, output: str) -> list[str]:
    """Writes the workbook of all traces in a database; returns the names of its sheets.

    Raises:
        TracekitError: when the file cannot be written.
    """
    with database.sharing(), stage("writing the workbook"):
        analyses, run, _ = verdict_together(database, verdicts(database))
        sheets = {name: rows for name, rows in _sheets(database, analyses, run).items() if rows}
    options = {
        # Text from a trace stays text, whatever its first character.
        "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
        "nan_inf_to_errors": True, "in_memory": True,
    }  # fmt: skip
    # XlsxWriter leaves temporary files, and an open one, if the disk is full.
    written = io.BytesIO()
    with xlsxwriter.Workbook(written, options) as book:
        book.set_properties({"comments": f"tracekit {__version__}"})
        head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
        looks = {end: book.add_format({"num_format": look}) for end, look in _LOOKS.items()}
        for name, rows in sheets.items():
            _fill(book.add_worksheet(name), rows, head, looks)
    with written_whole(output, database.inputs) as beside:
        beside.write_bytes(written.getvalue())
    return list(sheets)


def _fill(
    paper: xlsxwriter.worksheet.Worksheet,
    rows: _Rows,
    head: xlsxwriter.format.Format,
    looks: Mapping[str, xlsxwriter.format.Format],
) -> None:
    for at, name in enumerate(rows[0]):
        paper.write_string(0, at, name, head)
        look = next((look for end, look in looks.items() if end in name), None)
        width = max(8, min(len(name), 16))
        for line, row in enumerate(rows, 1):
            value = row.get(name)
            if isinstance(value, bool):
                paper.write_boolean(line, at, value)
            elif isinstance(value, int | float | Decimal):
                paper.write_number(line, at, float(value), look)
            elif value is not None:
                text = printable(value)[:_CHARACTERS]
                paper.write_string(line, at, text)
                width = max(width, min(len(text) + 1, _WIDEST))
        paper.set_column(at, at, width)
    paper.freeze_panes(1, 0)
    paper.autofilter(0, 0, len(rows), len(rows[0]) - 1)


def _sheets(
    database: Session, analyses: Sequence[Analysis], run: RunVerdict | None
) -> dict[str, _Rows]:
    starts = {row["trace_id"]: row["start_ns"] or 0 for row in database.ask("overview")}
    sheets = {"Ranks": _ranks(analyses, run)} if len(analyses) > 1 else {}
    sheets |= {
        "Verdict": _verdict(analyses),
        "Where the time went": _parts(analyses),
        "Advice": _advice(analyses),
        "One-offs": _one_offs(analyses),
    }
    sheets |= {name: _answer(database, question) for name, question in _QUESTIONS.items()}
    return {
        name: [dict(_cell(head, row[head], starts.get(row.get("trace_id"), 0)) for head in row)
               for row in rows]
        for name, rows in sheets.items()
    }  # fmt: skip


def _cell(name: str, value: Any, begin_ns: int) -> tuple[str, Any]:
    """A value with its heading: times and sizes in the workbook's units, given in the heading;
    instants are relative to their trace's start."""
    unit, scale = _UNITS.get(name.rpartition("_")[2], ("", 1))
    if not unit:
        return name, value
    since = " since the trace's start" if (is_instant := INSTANT.search(name)) else ""
    if value is not None:
        value = (value - (begin_ns if is_instant else 0)) / scale
    return f"{SUFFIX.sub('', name)} ({unit}{since})", value


def _verdict(analyses: Sequence[Analysis]) -> _Rows:
    rows: list[tuple[int | None, str, Any]] = []
    for analysis in analyses:
        verdict, trace = analysis.verdict, analysis.trace
        facts = [
            ("verdict", verdict.headline),
            ("bound", bound_by(verdict.regime, verdict.bottleneck)),
            ("confidence", verdict.confidence),
            *(("why", why) for why in verdict.why),
            *(("doubtful", doubt) for doubt in verdict.doubts),
            ("file", trace.path),
            ("devices", devices_of(analysis)),
            ("events", trace.events),
            ("window", analysis.judged.window.name),
            ("length of the window (ms)", analysis.judged.window.span_ns / 1e6),
        ]
        rows += [(trace.trace_id, *pair) for pair in facts]
    rows += [
        (None, f"sheet {name}", f"tracekit query TRACE {question}")
        for name, question in _QUESTIONS.items()
    ]
    return [{"trace_id": of, "what": what, "value": value} for of, what, value in rows]


def _parts(analyses: Sequence[Analysis]) -> _Rows:
    return [
        {"trace_id": analysis.trace.trace_id, "part of the window": part.name,
         "time_ns": part.dur_ns,
         "share of the window (%)": part.dur_ns / analysis.judged.window.span_ns}
        for analysis in analyses
        for part in analysis.parts
        if analysis.judged.window.span_ns
    ]  # fmt: skip


def _advice(analyses: Sequence[Analysis]) -> _Rows:
    return [
        {
            "trace_id": analysis.trace.trace_id, "change": advice.title, "place": advice.where,
            "detail": advice.detail, "saves_ns": advice.saves_ns,
            "share of the window (%)": advice.share,
            "how often": "once" if advice.once else "each step", "effort": advice.effort,
            "needs": advice.needs, "doubtful": " ".join(advice.doubts),
            "tracekit advise --how": advice.remedy,
        }
        for analysis in analyses
        for advice in analysis.advice
        if not is_of_recording(advice)
    ]  # fmt: skip


def _one_offs(analyses: Sequence[Analysis]) -> _Rows:
    return [
        {
            "trace_id": analysis.trace.trace_id, "event": once.name, "kind": once.kind,
            "cause": once.cause, "side": once.side, "start_ns": once.start_ns,
            "duration_ns": once.dur_ns, "beyond the usual_ns": once.excess_ns, "place": once.place,
        }
        for analysis in analyses
        for once in analysis.one_offs
    ]  # fmt: skip


def _ranks(analyses: Sequence[Analysis], run: RunVerdict | None) -> _Rows:
    waits = {each.trace_id: each for each in (run.waiting if run is not None else ())}
    rows: list[dict[str, Any]] = []
    for each in analyses:
        window, trace = each.judged.window, each.trace
        best, wait = best_of(each.advice), waits.get(trace.trace_id)
        rows.append({
            "rank": trace.rank, "trace_id": trace.trace_id, "file": trace.path,
            "window_ns": window.span_ns,
            "busy, share of the window (%)": busy_share(each.judged),
            "waits for other ranks_ns": wait.waited_ns if wait else None,
            "most of it for rank": wait.awaited_rank if wait else None,
            "verdict": bound_by(each.verdict.regime, each.verdict.bottleneck),
            "confidence": each.verdict.confidence,
            "worth most": best.title if best else None,
            "share of the window (%)": best.share if best else None,
        })  # fmt: skip
    return [*rows, {"file": run.headline}] if run is not None else rows


def _answer(database: Session, question: str) -> _Rows:
    described = catalog.query(question)
    limit = (
        {"top": _ROWS} if any(parameter.name == "top" for parameter in described.parameters) else {}
    )
    shares = {column.name for column in described.columns if column.unit.startswith("fraction of")}
    return [
        {f"{name} (%)" if name in shares else name: value for name, value in row.items()}
        for row in database.ask(question, **limit)[:_ROWS]
    ]
