"""HolisticTraceAnalysis's numbers beside tracekit's, for one trace: a second opinion, explained.

Each figure is given three times: as HTA computes it, by HTA's rules over tracekit's tables
(queries/crosscheck), and by tracekit's own definitions. The first two agree, or one of the tools
has an error; where the last differs, the rules of HTA that make it so are named.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.database import Database

SCHEMA = "tracekit/crosscheck/1"

Value = int | float | None


@dataclass(frozen=True)
class Figure:
    """One number, three ways. Times are nanoseconds; None where there is no such number.

    `agrees` says whether HTA and its rules give the same, down to the parts that the figure sums
    up; it is None where HTA fails. `reasons` are the rules of HTA that tracekit does not share.
    """

    analysis: str
    name: str
    unit: str
    hta: Value
    by_hta_rules: Value
    tracekit: Value
    agrees: bool | None
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """All figures of a trace; `failures` says of which analyses HTA gives none, and why."""

    path: str
    hta_version: str
    figures: list[Figure]
    failures: dict[str, str]

    @property
    def agrees(self) -> bool:
        """Whether every figure that HTA gives is the one that its rules give."""
        return all(figure.agrees is not False for figure in self.figures)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA, "agrees": self.agrees} | asdict(self)


def crosscheck(path: str | Path, database: Database) -> Report:
    """Runs HTA on the trace at `path`, which `database` holds, and compares.

    Raises:
        TracekitError: when HTA is missing or cannot open such a file, or the database holds several
            traces. Where HTA fails on the trace itself, the report says so.
    """
    require_hta(path)
    traces = len(database.trace_ids())
    if traces != 1:
        raise TracekitError(f"{path}: holds {traces} traces; crosscheck takes one")
    return compare(path, ask(open_hta(path), database), database)


def require_hta(path: str | Path) -> None:
    """Makes sure that HTA is installed and reads files such as `path`.

    Raises:
        TracekitError: when not.
    """
    from tracekit.database import is_database

    if is_database(path):
        raise TracekitError(f"{path}: is a database; give the JSON trace that it was made of")
    if not Path(path).exists():
        raise TracekitError(f"{path}: no such file")
    if not Path(path).is_file() or Path(path).suffix not in (".json", ".gz"):
        raise TracekitError(f"{path}: HTA reads only .json and .json.gz files")
    with _silence():
        try:
            importlib.import_module("hta.trace_analysis")
        except ImportError as error:
            raise TracekitError(
                "crosscheck needs HolisticTraceAnalysis: pip install 'tracekit[hta]'"
            ) from error


def open_hta(path: str | Path) -> Any:
    """HTA's TraceAnalysis of the file, or the exception that it fails with."""
    # HTA takes a path that is not absolute for one below its folder.
    absolute = Path(path).absolute()
    with _silence():
        try:
            analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
            return analysis(trace_files={0: str(absolute)}, trace_dir=str(absolute.parent))
        except Exception as error:
            return error


def ask(hta: Any, database: Database) -> list[Answer]:
    """Every analysis's answers, of what `open_hta` opened and `database` holds."""
    return [
        Answer(analysis, *_run(analysis, hta), analysis.ask_rules(database))
        for analysis in ANALYSES
    ]


def compare(path: str | Path, answers: list[Answer], database: Database) -> Report:
    """The report on the answers, beside tracekit's own figures."""
    rules: dict[str, list[str]] = {}
    for row in database.ask("hta_differences"):
        for name in row["analyses"]:
            rules.setdefault(name, []).append(f"{row['message']} ({row['count']:,})")
    own = _own_figures(database)
    figures = [
        figure
        for answer in answers
        for figure in _figures(answer, own[answer.analysis.name], rules)
    ]
    failures = {each.analysis.name: each.failure for each in answers if each.failure is not None}
    return Report(str(path), _hta_version(), figures, failures)


def _figures(
    answer: Answer, own: dict[str, Value], rules: dict[str, list[str]]
) -> Iterator[Figure]:
    analysis = answer.analysis
    theirs, by_rules = (
        {} if each is None else analysis.figures(each) for each in (answer.hta, answer.by_rules)
    )
    for name in dict.fromkeys([*by_rules, *theirs, *own]):
        value, expected, ours = (
            each.get(name, analysis.default) for each in (theirs, by_rules, own)
        )
        agrees: bool | None = value == expected
        if answer.failure is not None:
            value, agrees = None, None
        elif analysis.sums_up:
            agrees = answer.hta == answer.by_rules
        differs = value is not None and ours is not None and value != ours
        reasons = rules.get(analysis.name, []) if differs else []
        unit = analysis.units.get(name, "ns")
        yield Figure(analysis.name, name, unit, value, expected, ours, agrees, reasons)


def _hta_version() -> str:
    try:
        return version("HolisticTraceAnalysis")
    except PackageNotFoundError:
        return "of unknown version"


@dataclass(frozen=True)
class Analysis:
    """One of HTA's analyses. `ask_hta` and `ask_rules` answer in one form; None is no answer."""

    name: str
    ask_hta: Callable[[Any], Any]
    ask_rules: Callable[[Database], Any]
    # What is shown of an answer, and the unit of what is no time.
    figures: Callable[[Any], dict[str, Value]]
    units: dict[str, str] = field(default_factory=dict)
    # Whether a figure stands for many numbers of the answer, all of which have to agree.
    sums_up: bool = False
    # What a figure is that an answer does not name.
    default: Value = None


@dataclass(frozen=True)
class Answer:
    """What HTA answers, or why it fails, and what its rules give."""

    analysis: Analysis
    hta: Any
    failure: str | None
    by_rules: Any


def _run(analysis: Analysis, hta: Any) -> tuple[Any, str | None]:
    """HTA's answer, or why there is none."""
    error = hta
    if not isinstance(hta, Exception):
        with _silence():
            try:
                return analysis.ask_hta(hta), None
            except Exception as failure:
                error = failure
    reason = " ".join(str(error).split())
    return None, type(error).__name__ + (f": {reason}" if reason else "")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps HTA's log and prints, and pandas' warnings, from standard output and error."""
    logger = logging.getLogger("hta")
    before, logger.disabled = logger.disabled, True
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


# -- HTA's answers ---------------------------------------------------------------------------------

_TEMPORAL = ("idle", "compute", "non_compute", "kernel")
_Idle = dict[tuple[int, str], int]  # ns by stream and category
_Launches = Counter[tuple[int, int, int, int]]  # correlation; ns of call, op and wait
_Queue = dict[tuple[int, int], tuple[int, int]]  # changes and length, by stream and instant


def _ns(us: Any) -> int:
    # Whole microseconds as they are: a double does not hold the nanoseconds of a date.
    whole = int(us)
    return whole * 1000 + round(float(us - whole) * 1000)


def _hta_temporal(hta: Any) -> dict[str, int]:
    row = hta.get_temporal_breakdown(visualize=False).iloc[0]
    return {name: _ns(row[f"{name}_time(us)"]) for name in _TEMPORAL}


def _hta_kernels(hta: Any) -> dict[str, int]:
    frame = hta.get_gpu_kernel_breakdown(visualize=False)[0]
    found = {name: _ns(us) for name, us in zip(frame["kernel_type"], frame["sum"], strict=True)}
    # Of types of 0 ns, HTA lists some.
    return {name: ns for name, ns in found.items() if ns != 0}


def _hta_overlap(hta: Any) -> float | None:
    percent = float(hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return None if percent != percent else percent


def _hta_idle(hta: Any) -> _Idle:
    frame = hta.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    rows = zip(frame["stream"], frame["idle_category"], frame["idle_time"], strict=True)
    return {(int(stream), category): _ns(us) for stream, category, us in rows}


def _hta_launches(hta: Any) -> _Launches:
    frame = hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    columns = ("correlation", "cpu_duration", "gpu_duration", "launch_delay")
    rows = zip(*(frame[name] for name in columns), strict=True)
    return Counter((int(each), _ns(cpu), _ns(gpu), _ns(delay)) for each, cpu, gpu, delay in rows)


def _hta_queue(hta: Any) -> _Queue:
    frame = hta.get_queue_length_time_series(ranks=[0]).get(0)
    found: _Queue = {}
    if frame is None:
        return found
    # HTA counts time from its first event.
    first_us = hta.t.min_ts
    for us, stream, length in zip(frame["ts"], frame["stream"], frame["queue_length"], strict=True):
        key = (int(stream), _ns(us + first_us))
        found[key] = (found.get(key, (0, 0))[0] + 1, int(length))
    return found


# -- the same by the queries -----------------------------------------------------------------------


def _rules_temporal(database: Database) -> dict[str, int] | None:
    rows = database.ask("hta_temporal_breakdown")
    return {name: rows[0][f"{name}_ns"] for name in _TEMPORAL} if rows else None


def _rules_kernels(database: Database) -> dict[str, int]:
    rows = database.ask("hta_kernel_breakdown")
    return {row["kernel_type"]: row["total_ns"] for row in rows if row["total_ns"] != 0}


def _rules_overlap(database: Database) -> float | None:
    rows = database.ask("hta_overlap")
    return rows[0]["overlap_percent"] if rows else None


def _rules_idle(database: Database) -> _Idle:
    rows = database.ask("hta_idle_breakdown")
    return {(row["stream"], row["idle_category"]): row["idle_ns"] for row in rows}


def _rules_launches(database: Database) -> _Launches:
    columns = ("correlation", "cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns")
    rows = database.ask("hta_launch_stats")
    return Counter(tuple(row[name] for name in columns) for row in rows)


def _rules_queue(database: Database) -> _Queue:
    rows = database.ask("hta_queue_depth")
    return {(row["stream"], row["at_ns"]): (row["changes"], row["queue_length"]) for row in rows}


# -- what is shown of an answer --------------------------------------------------------------------


def _show_idle(answer: _Idle) -> dict[str, Value]:
    totals = {
        name: sum(ns for (_, category), ns in answer.items() if category in name)
        for name in ("host_wait", "kernel_wait + other")
    }
    return {**totals} if answer else {}


def _show_launches(answer: _Launches) -> dict[str, Value]:
    def middle(place: int) -> Value:
        values = sorted(row[place] for row in answer.elements())
        return values[len(values) // 2] if values else None

    return {
        "launches": answer.total(),
        "call, p50": middle(1),
        "op, p50": middle(2),
        "wait after call, p50": middle(3),
    }


def _show_queue(answer: _Queue) -> dict[str, Value]:
    return {
        "changes": sum(changes for changes, _ in answer.values()),
        "longest": max((length for _, length in answer.values()), default=None),
    }


ANALYSES = (
    Analysis("temporal", _hta_temporal, _rules_temporal, dict),
    Analysis("kernels", _hta_kernels, _rules_kernels, dict, default=0),
    Analysis(
        "overlap", _hta_overlap, _rules_overlap, lambda percent: {"overlap": percent},
        units={"overlap": "percent of communication"},
    ),
    Analysis("idle", _hta_idle, _rules_idle, _show_idle, sums_up=True),
    Analysis(
        "launches", _hta_launches, _rules_launches, _show_launches,
        units={"launches": "count"}, sums_up=True,
    ),
    Analysis(
        "queue", _hta_queue, _rules_queue, _show_queue,
        units={"changes": "count", "longest": "count"}, sums_up=True,
    ),
)  # fmt: skip


# -- tracekit's own --------------------------------------------------------------------------------

_TYPES = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "copy": "MEMORY"}


def _own_figures(database: Database) -> dict[str, dict[str, Value]]:
    """By tracekit's definitions, in the GPU-active span of the device with most to do."""
    rows = [row for row in database.ask("partition") if row["kind"] == "gpu_active"]
    own: dict[str, dict[str, Value]] = {analysis.name: {} for analysis in ANALYSES}
    if not rows:
        return own
    active = max(rows, key=lambda row: row["busy_ns"])
    device = active["device_id"]
    own["temporal"] = {
        "idle": active["idle_ns"],
        "compute": active["compute_ns"],
        "non_compute": active["busy_ns"] - active["compute_ns"],
        "kernel": active["span_ns"],
    }
    covered: Counter[str] = Counter()
    for row in _of(device, database.ask("class_overlap")):
        if row["overlap"] != "idle":
            types = [_TYPES[each] for each in row["overlap"].split(" + ")]
            covered[" overlapping ".join(types)] += row["covered_ns"]
    own["kernels"] = {**covered}
    communication = {types: ns for types, ns in covered.items() if "COMMUNICATION" in types}
    hidden = sum(ns for types, ns in communication.items() if "COMPUTATION" in types)
    if communication:
        own["overlap"] = {"overlap": round(100 * (hidden / sum(communication.values())), 2)}
    own["idle"] = {
        "host_wait": active["host_late_ns"],
        "kernel_wait + other": active["idle_ns"] - active["host_late_ns"],
    }
    for row in _of(device, database.ask("launch_stats")):
        own["launches"] = {
            "launches": row["gpu_ops"],
            "call, p50": row["launch_call_p50_ns"],
            "wait after call, p50": row["queue_wait_p50_ns"],
        }
        own["queue"] = {"changes": 2 * row["gpu_ops"], "longest": row["queue_depth_max"]}
    return own


def _of(device: int | None, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["device_id"] == device]
