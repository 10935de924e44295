"""A workbook of Excel: the verdicts on traces, what to change, and the answers of questions, one
sheet each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import xlsxwriter
import xlsxwriter.format
import xlsxwriter.worksheet

from tracekit.database import catalog
from tracekit.files import written_whole
from tracekit.reporters.parts import devices_of, is_of_recording, screen_parts_of
from tracekit.reporters.units import INSTANT, SUFFIX
from tracekit.stages import stage
from tracekit.text import printable
from tracekit.thresholds import Thresholds
from tracekit.verdict.regime import bound_by
from tracekit.verdict.run_words import headline
from tracekit.verdicts import verdict_together, verdicts
from tracekit.version import __version__

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.verdict.model import Analysis, RunVerdict

# Sheets with the answers of questions.
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
# Units of a workbook: the word in a heading, and by how much the number is divided.
_UNITS = {"ns": ("ms", 1e6), "bytes": ("MB", 1e6)}
# How the numbers of a column look, by the unit or the word at the end of its heading.
_LOOKS = {"(ms": "#,##0.000", "(MB": "#,##0.000", "(%)": "0.0%", "_id": "0", "rank": "0"}


class Sheet(NamedTuple):
    """A sheet: its name, its headings, and its rows; numbers are in the units of the headings."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]


def write(database: Session, output: str) -> list[str]:
    """Writes the workbook of all traces of a database; returns the names of its sheets.

    Raises:
        TracekitError: when the file cannot be written.
    """
    with database.sharing(), stage("writing the workbook"):
        analyses = verdicts(database)
        run, _ = verdict_together(database, analyses, Thresholds())
        sheets = [each for each in _sheets(database, analyses, run) if each.rows]
    options = {
        # Text of a trace is text, whatever it begins with.
        "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
        "nan_inf_to_errors": True,
    }  # fmt: skip
    with (
        written_whole(output, database.inputs) as beside,
        xlsxwriter.Workbook(str(beside), options) as book,
    ):
        book.set_properties({"comments": f"tracekit {__version__}"})
        head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
        looks = {end: book.add_format({"num_format": look}) for end, look in _LOOKS.items()}
        for sheet in sheets:
            _fill(book.add_worksheet(sheet.name), sheet, head, looks)
    return [each.name for each in sheets]


def _fill(
    paper: xlsxwriter.worksheet.Worksheet,
    sheet: Sheet,
    head: xlsxwriter.format.Format,
    looks: Mapping[str, xlsxwriter.format.Format],
) -> None:
    widths = [8] * len(sheet.heads)
    look_of = [
        next((look for end, look in looks.items() if end in name), None) for name in sheet.heads
    ]
    for at, name in enumerate(sheet.heads):
        paper.write_string(0, at, name, head)
        widths[at] = max(widths[at], min(len(name), 16))
    for line, row in enumerate(sheet.rows, 1):
        for at, value in enumerate(row):
            if value is None:
                continue
            if isinstance(value, bool):
                paper.write_boolean(line, at, value)
            elif isinstance(value, int | float | Decimal):
                paper.write_number(line, at, float(value), look_of[at])
            else:
                text = printable(value)[:_CHARACTERS]
                paper.write_string(line, at, text)
                widths[at] = max(widths[at], min(len(text) + 1, _WIDEST))
    for at, width in enumerate(widths):
        paper.set_column(at, at, width)
    paper.freeze_panes(1, 0)
    paper.autofilter(0, 0, len(sheet.rows), len(sheet.heads) - 1)


def _sheets(
    database: Session, analyses: Sequence[Analysis], run: RunVerdict | None
) -> Iterator[Sheet]:
    starts = {row["trace_id"]: row["start_ns"] or 0 for row in database.ask("overview")}
    if len(analyses) > 1:
        yield _ranks(analyses, run)
    yield _verdict(analyses)
    yield _parts(analyses)
    yield _advice(analyses)
    yield _one_offs(analyses, starts)
    for name, question in _QUESTIONS.items():
        yield _answer(database, name, question, starts)


def _verdict(analyses: Sequence[Analysis]) -> Sheet:
    rows: list[tuple[Any, ...]] = []
    for each in analyses:
        verdict, trace = each.verdict, each.trace
        facts = [
            ("verdict", verdict.headline),
            ("bound", bound_by(verdict.regime, verdict.bottleneck)),
            ("confidence", verdict.confidence),
            *(("why", why) for why in verdict.why),
            *(("doubtful", doubt) for doubt in verdict.doubts),
            ("file", trace.path),
            ("devices", devices_of(each)),
            ("events", trace.events),
            ("window", each.judged.window.name),
            ("length of the window (ms)", each.judged.window.span_ns / 1e6),
        ]
        rows += [(trace.trace_id, *pair) for pair in facts]
    rows += [
        (None, f"sheet {name}", f"tracekit query TRACE {question}")
        for name, question in _QUESTIONS.items()
    ]
    return Sheet("Verdict", ("trace_id", "what", "value"), rows)


def _parts(analyses: Sequence[Analysis]) -> Sheet:
    rows = [
        (each.trace.trace_id, part.name, part.ns / 1e6, part.ns / each.judged.window.span_ns)
        for each in analyses
        for part in screen_parts_of(each)
        if each.judged.window.span_ns
    ]
    heads = ("trace_id", "part of the window", "time (ms)", "share of the window (%)")
    return Sheet("Where the time went", heads, rows)


def _advice(analyses: Sequence[Analysis]) -> Sheet:
    rows = [
        (each.trace.trace_id, advice.title, advice.where, advice.detail, advice.saves_ns / 1e6,
         advice.share, "once" if advice.once else "each step", advice.effort, advice.needs,
         " ".join(advice.doubts), advice.remedy)
        for each in analyses
        for advice in each.advice
        if not is_of_recording(advice)
    ]  # fmt: skip
    heads = (
        "trace_id", "change", "place", "detail", "saves (ms)", "share of the window (%)",
        "how often", "effort", "needs", "doubtful", "tracekit advise --how",
    )  # fmt: skip
    return Sheet("Advice", heads, rows)


def _one_offs(analyses: Sequence[Analysis], starts: dict[int, int]) -> Sheet:
    rows = [
        (each.trace.trace_id, once.name, once.kind, once.cause, once.side,
         (once.start_ns - starts[each.trace.trace_id]) / 1e6, once.dur_ns / 1e6,
         once.excess_ns / 1e6, once.place)
        for each in analyses
        for once in each.one_offs
    ]  # fmt: skip
    heads = (
        "trace_id", "event", "kind", "cause", "side", "start (ms since the trace's start)",
        "duration (ms)", "beyond the usual (ms)", "place",
    )  # fmt: skip
    return Sheet("One-offs", heads, rows)


def _ranks(analyses: Sequence[Analysis], run: RunVerdict | None) -> Sheet:
    waits = {each.trace_id: each for each in (run.waiting if run is not None else ())}
    rows: list[tuple[Any, ...]] = []
    for each in analyses:
        window, gpu, trace_id = each.judged.window, each.judged.gpu, each.trace.trace_id
        best = next((advice for advice in each.advice if advice.share is not None), None)
        wait = waits.get(trace_id)
        rows.append(
            (each.trace.rank, trace_id, each.trace.path, window.span_ns / 1e6,
             gpu.busy_ns / window.span_ns if gpu and window.span_ns else None,
             wait.waited_ns / 1e6 if wait else None, wait.awaited_rank if wait else None,
             bound_by(each.verdict.regime, each.verdict.bottleneck), each.verdict.confidence,
             best.title if best else None, best.share if best else None)
        )  # fmt: skip
    if run is not None:
        rows.append((None, None, headline(run)))
    heads = (
        "rank", "trace_id", "file", "window (ms)", "busy, share of the window (%)",
        "waits for other ranks (ms)", "most of it for rank", "verdict", "confidence", "worth most",
        "share of the window (%)",
    )  # fmt: skip
    return Sheet("Ranks", heads, rows)


def _answer(database: Session, name: str, question: str, starts: dict[int, int]) -> Sheet:
    """The rows of a question. Instants count from their trace's start."""
    described = catalog.query(question)
    limit = {"top": _ROWS} if any(each.name == "top" for each in described.parameters) else {}
    rows = database.ask(question, **limit)[:_ROWS]
    heads, columns = [], []
    for column in described.columns:
        if rows and column.name not in rows[0]:
            continue
        values: Iterable[Any] = [row[column.name] for row in rows]
        head = column.name
        if column.unit in _UNITS:
            unit, scale = _UNITS[column.unit]
            head = f"{SUFFIX.sub('', column.name)} ({unit})"
            if INSTANT.search(column.name):
                head = f"{SUFFIX.sub('', column.name)} ({unit} since the trace's start)"
                values = [
                    None if row[column.name] is None
                    else row[column.name] - starts.get(row["trace_id"], 0)
                    for row in rows
                ]  # fmt: skip
            values = [None if each is None else each / scale for each in values]
        elif column.unit.startswith("fraction of"):
            head = f"{column.name} (%)"
        heads.append(head)
        columns.append(values)
    return Sheet(name, heads, list(zip(*columns, strict=True)))
