"""Compares tracekit's numbers for a trace with HolisticTraceAnalysis's, and explains differences.

Each figure is computed three times: by HTA itself, by HTA's rules over tracekit's tables
(queries/crosscheck), and by tracekit's own definitions. If the first two disagree, one of the tools
has an error. If the third differs, the report names HTA's rules that cause it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, field, to_builtins

from tracekit.compare import hta
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.records import Record

SCHEMA = "tracekit/crosscheck/1"

Value = int | float | None
Rows = list[dict[str, Any]]


class CheckedFigure(Struct, frozen=True):
    """One number, computed three ways, in `unit` (times are in nanoseconds); None for no value.

    `agrees` says whether HTA's number equals the one by its rules, including all parts that the
    figure sums up; it is None when HTA fails. `reasons` are the rules of HTA that differ from
    tracekit's, given when tracekit's number differs from HTA's.
    """

    analysis: str
    """HTA's analysis that gives it."""
    name: str
    """The figure's name."""
    unit: str
    """Its unit."""
    hta: Value
    """HTA's number."""
    by_hta_rules: Value
    """HTA's rules over tracekit's tables."""
    tracekit: Value
    """By tracekit's definitions."""
    agrees: bool | None
    """Whether hta equals by_hta_rules; null: HTA failed."""
    reasons: list[str] = field(default_factory=list)
    """Rules of HTA that differ from tracekit's."""


class Report(Record, frozen=True):
    """All figures of a trace. `failures` gives, by analysis, the reason why HTA failed."""

    form: ClassVar[str] = SCHEMA

    path: str
    """The trace's path."""
    hta_version: str
    """The version of traceinsight."""
    figures: list[CheckedFigure]
    """The figures."""
    failures: dict[str, str]
    """Why HTA failed, by analysis."""

    @property
    def agrees(self) -> bool:
        """Whether every number from HTA equals the one by its rules."""
        return all(figure.agrees is not False for figure in self.figures)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": self.form, "agrees": self.agrees} | dict(to_builtins(self))


def crosscheck(path: str | Path, database: Session) -> Report:
    """Runs HTA on the trace at `path`, which is loaded in `database`, and compares the numbers.

    When HTA fails on the trace itself, the report says so.

    Raises:
        TracekitError: when HTA is not installed or does not read such a file, or when the database
            holds several traces.
    """
    hta.require(path)
    traces = len(database.trace_ids())
    if traces != 1:
        raise TracekitError(f"{path}: holds {traces} traces; crosscheck takes one")
    rules: dict[str, list[str]] = {}
    for row in database.ask("hta_differences"):
        for name in row["analyses"]:
            rules.setdefault(name, []).append(f"{row['message']} ({row['count']:,})")
    own_figures, opened = _own_figures(database), hta.analysis_of(path)
    report = Report(str(path), hta.version(), [], {})
    for analysis in ANALYSES:
        theirs, failure = hta.run(analysis.ask_hta, opened)
        by_rules = analysis.read(database.ask(analysis.question))
        if failure is not None:
            report.failures[analysis.name] = failure
        report.figures.extend(
            _figures(
                analysis,
                theirs,
                failure,
                by_rules,
                own_figures[analysis.name],
                rules.get(analysis.name, []),
            )
        )
    return report


def _figures(
    analysis: HtaAnalysis,
    theirs: Any,
    failure: str | None,
    by_rules: Any,
    own: dict[str, Value],
    rules: list[str],
) -> Iterator[CheckedFigure]:
    """The figures of HTA's answer, or of its failure, and of the answer by its rules."""
    shown, expected = (
        {} if each is None else analysis.figures(each) for each in (theirs, by_rules)
    )
    for name in dict.fromkeys([*expected, *shown, *own]):
        value, ruled, ours = (each.get(name, analysis.default) for each in (shown, expected, own))
        agrees: bool | None = value == ruled
        if failure is not None:
            value, agrees = None, None
        elif analysis.sums_up:
            agrees = theirs == by_rules
        differs = value is not None and ours is not None and value != ours
        reasons, unit = rules if differs else [], analysis.units.get(name, "ns")
        yield CheckedFigure(analysis.name, name, unit, value, ruled, ours, agrees, reasons)


class HtaAnalysis(Struct, frozen=True):
    """One of HTA's analyses. `ask_hta` and `read` answer in the same form, or with None."""

    name: str
    ask_hta: Callable[[Any], Any]
    # The question that answers by HTA's rules, and the function that reads its rows.
    question: str
    read: Callable[[Rows], Any]
    # The figures to show of an answer, and their units if they are not nanoseconds.
    figures: Callable[[Any], dict[str, Value]]
    units: dict[str, str] = field(default_factory=dict)
    # Whether a figure sums up many numbers of the answer, all of which have to agree.
    sums_up: bool = False
    # The value of a figure that is missing from an answer.
    default: Value = None


# -- figures of an answer --------------------------------------------------------------------------


def _show_idle(answer: hta.Idle) -> dict[str, Value]:
    totals = {
        name: sum(ns for (_, category), ns in answer.items() if category in name)
        for name in ("host_wait", "kernel_wait + other")
    }
    return {**totals} if answer else {}


def _show_launches(answer: hta.Launches) -> dict[str, Value]:
    def middle(place: int) -> Value:
        values = sorted(row[place] for row in answer.elements())
        return values[len(values) // 2] if values else None

    return {
        "launches": answer.total(),
        "call, p50": middle(1),
        "op, p50": middle(2),
        "wait after call, p50": middle(3),
    }


def _show_queue(answer: hta.Queue) -> dict[str, Value]:
    return {
        "changes": sum(changes for changes, _ in answer.values()),
        "longest": max((length for _, length in answer.values()), default=None),
    }


_LAUNCH = ("correlation", "cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns")
ANALYSES = (
    HtaAnalysis(
        "temporal", hta.temporal, "hta_temporal_breakdown",
        lambda rows: {name: rows[0][f"{name}_ns"] for name in hta.TEMPORAL} if rows else None,
        figures=dict,
    ),
    HtaAnalysis(
        "kernels", hta.kernels, "hta_kernel_breakdown",
        lambda rows: {row["kernel_type"]: row["total_ns"] for row in rows if row["total_ns"]},
        figures=dict, default=0,
    ),
    HtaAnalysis(
        "overlap", hta.overlap, "hta_overlap",
        lambda rows: rows[0]["overlap_percent"] if rows else None,
        figures=lambda percent: {"overlap": percent},
        units={"overlap": "percent of communication"},
    ),
    HtaAnalysis(
        "idle", hta.idle, "hta_idle_breakdown",
        lambda rows: {(row["stream"], row["idle_category"]): row["idle_ns"] for row in rows},
        figures=_show_idle, sums_up=True,
    ),
    HtaAnalysis(
        "launches", hta.launches, "hta_launch_stats",
        lambda rows: Counter(tuple(row[name] for name in _LAUNCH) for row in rows),
        figures=_show_launches, units={"launches": "count"}, sums_up=True,
    ),
    HtaAnalysis(
        "queue", hta.queue, "hta_queue_depth",
        lambda rows: {
            (row["stream"], row["at_ns"]): (row["changes"], row["queue_length"]) for row in rows
        },
        figures=_show_queue, units={"changes": "count", "longest": "count"}, sums_up=True,
    ),
)  # fmt: skip


# -- tracekit's own figures ------------------------------------------------------------------------

_TYPES = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "copy": "MEMORY"}


def _own_figures(database: Session) -> dict[str, dict[str, Value]]:
    """Figures by tracekit's definitions, over the GPU-active span of the main device."""
    figures: dict[str, dict[str, Value]] = {analysis.name: {} for analysis in ANALYSES}
    main = database.fetch("SELECT device_id FROM main_device")[1]
    if not main:
        return figures
    device = main[0][0]
    (active,) = _of_device(device, database.ask("partition", kind="gpu_active"))
    figures["temporal"] = {
        "idle": active["idle_ns"],
        "compute": active["compute_ns"],
        "non_compute": active["busy_ns"] - active["compute_ns"],
        "kernel": active["span_ns"],
    }
    covered: Counter[str] = Counter()
    for row in _of_device(device, database.ask("class_overlap")):
        if row["overlap"] != "idle":
            types = [_TYPES[each] for each in row["overlap"].split(" + ")]
            covered[" overlapping ".join(types)] += row["covered_ns"]
    figures["kernels"] = {**covered}
    communication = {types: ns for types, ns in covered.items() if "COMMUNICATION" in types}
    hidden = sum(ns for types, ns in communication.items() if "COMPUTATION" in types)
    if communication:
        figures["overlap"] = {"overlap": round(100 * (hidden / sum(communication.values())), 2)}
    figures["idle"] = {
        "host_wait": active["host_late_ns"],
        "kernel_wait + other": active["idle_ns"] - active["host_late_ns"],
    }
    for row in _of_device(device, database.ask("launch_stats")):
        figures["launches"] = {
            "launches": row["gpu_ops"],
            "call, p50": row["launch_call_p50_ns"],
            "wait after call, p50": row["queue_wait_p50_ns"],
        }
        figures["queue"] = {"changes": 2 * row["launches"], "longest": row["queue_depth_max"]}
    return figures


def _of_device(device: int | None, rows: Rows) -> Rows:
    return [row for row in rows if row["device_id"] == device]
