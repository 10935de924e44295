"""The subject of a page: its database and, for a single trace, its verdict and drawn window."""

from __future__ import annotations

import shlex
from functools import cached_property
from typing import Any

import polars
from msgspec import Struct

from tracekit.causes import in_words_of
from tracekit.database.catalog import Value
from tracekit.database.session import Session
from tracekit.evidence.model import Window
from tracekit.examine import examine, replayed
from tracekit.replay.critical_path import PathPiece, path_between
from tracekit.replay.prices import Speed, speeds
from tracekit.reporters.html.figure import Figure
from tracekit.text import quoted
from tracekit.verdict.model import Analysis
from tracekit.verdict.next_steps import list_notes
from tracekit.verdict.once import named_window
from tracekit.verdicts import stored_verdicts

# The column of `overview` with the total for a finding's count. A finding about a smaller share
# than _SLIGHT appears only in the section Health.
_COUNTED = {
    "unlinked_gpu_ops": "gpu_ops", "starts_before_launch": "gpu_ops",
    "ambiguous_correlation": "gpu_ops", "negative_duration": "events", "no_time": "events",
    "begin_end_events": "events", "no_category": "events",
}  # fmt: skip
_SLIGHT = 0.01
# The database in commands for traces that were given one by one.
TOGETHER = "traces.duckdb"
# The critical path is drawn in this many parts.
_PATH_PARTS = 400


class PageSubject:
    """The traces behind a page's figures: one, two runs, or several ranks."""

    def __init__(self, database: Session, trace_id: int | None = None) -> None:
        self.database = database
        self.trace_id = trace_id
        self._answers: dict[str, polars.DataFrame] = {}

    @property
    def quoted_name(self) -> str:
        """The database or trace, quoted for a shell; for traces that were given one by one, the
        database that `tracekit load` would write."""
        return TOGETHER if self.database.is_joined else quoted(self.database.name)

    def rows(self, question: str, **parameters: Value) -> polars.DataFrame:
        """The cached answer to a named question."""
        key = f"{question} {parameters}"
        if key not in self._answers:
            self._answers[key] = self.database.query(question, **parameters)
        return self._answers[key]

    def source(self, question: str, **parameters: Value) -> str:
        """The command that prints these rows."""
        options = "".join(
            f" --param {shlex.quote(f'{name}={value}')}"
            for name, value in parameters.items()
            if value is not None
        )
        return f"tracekit query {self.quoted_name} {question}{options}"

    def doubts(self, question: str) -> list[str]:
        """The doubts about an answer."""
        return [row["message"] for row in self.findings_against(question, self.trace_id)]

    def findings_against(self, question: str, trace: int | None = None) -> list[dict[str, Any]]:
        """The findings about one trace or all that could affect the answer."""
        among = [row for row in self.findings if trace in (None, row["trace_id"])]
        return [
            row
            for row in self.database.doubts(question, trace, among)
            if row["severity"] not in ("info", "missing") and self._share(row) >= _SLIGHT
        ]

    def _share(self, finding: dict[str, Any]) -> float:
        """The share of the GPU ops or events that a finding affects; 1: all, or unknown."""
        counted = _COUNTED.get(finding["code"])
        if counted is None:
            return 1
        of = self._counts[finding["trace_id"]][counted]
        return float(finding["count"] / of) if of else 1

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """The doubts about the traces, and the data that was not recorded."""
        words = {trace_id: row["device_word"] for trace_id, row in self._counts.items()}
        return [
            row | {"message": in_words_of(words[row["trace_id"]], row["message"])}
            for row in self.database.findings(self.trace_id)
        ]

    @cached_property
    def _counts(self) -> dict[int, dict[str, Any]]:
        return {row["trace_id"]: row for row in self.database.ask("overview")}


class Interval(Struct, frozen=True):
    """A part of the run that is drawn in detail, and why it was chosen."""

    name: str
    start_ns: int
    end_ns: int
    why: str

    @property
    def bounds(self) -> dict[str, int]:
        """Its bounds as parameters of a question."""
        return {"from_ns": self.start_ns, "to_ns": self.end_ns}


class Replayed(Struct, frozen=True):
    """The verdict on a trace, notes on its advice, the detailed interval, replays at other speeds,
    and the interval's critical path."""

    analysis: Analysis
    notes: list[str]
    interval: Interval | None
    speeds: list[Speed]
    path: list[PathPiece]


class Subject(PageSubject):
    """One trace, as the input of its page's figures."""

    def __init__(self, database: Session, trace_id: int, window: str | None = None) -> None:
        super().__init__(database, trace_id)
        self.trace_id: int
        self.figures: list[Figure] = []
        """The figures in earlier sections, which a finding may affect."""
        self._window = window

    @cached_property
    def judgement(self) -> Replayed:
        database = self.database
        stored = stored_verdicts(database, self.trace_id, self._window)
        if stored:
            [analysis] = stored.values()
            replay, window_id = replayed(database, analysis)
            graph = analysis.causal.gains.cuda_graph if analysis.causal else 0.0
            listed = analysis.advice, analysis.unsure, analysis.verdict
            notes = list_notes(*listed, graph) if replay else []
        else:
            examined = examine(database, self.trace_id, self._window, keep_replays=True)
            analysis, window_id = examined.analysis, examined.window_id
            replay = examined.gains.replay if examined.gains else None
            notes = examined.fixes.notes if examined.fixes else []
        drawn, path = self._drawn(analysis), []
        if replay is None or analysis.gpu is None:
            return Replayed(analysis, notes, drawn, [], [])
        if drawn is not None:
            whole = replay.bounds("trace").pieces(replay.measured())
            path = path_between(whole, replay.graph, drawn.start_ns, drawn.end_ns, _PATH_PARTS)
        return Replayed(analysis, notes, drawn, speeds(replay, window_id), path)

    def _drawn(self, analysis: Analysis) -> Interval | None:
        """The window of the verdict; of all of a CPU's steps the one of median length, and of more
        than a second without steps the busiest."""
        window, steps = analysis.judged.window, [step.window for step in analysis.steps]
        why = f"Of {len(steps)} steps, the verdict is on this one."
        if steps and window.kind not in ("step", "range"):
            window = sorted(steps, key=lambda each: each.span_ns)[len(steps) // 2]
            why = f"Of {len(steps)} steps, this is the one of median length."
        if len(steps) == 1:
            why = "This is the only step."
        if window.kind == "step" or not window.span_ns:
            return Interval(window.name, window.start_ns, window.end_ns, why) if steps else None
        most_ns = analysis.thresholds.drawn_ns
        if window.kind == "range" or window.span_ns <= most_ns:
            why = f"The verdict is on {named_window(window)}."
            return Interval(window.name, window.start_ns, window.end_ns, why)
        seconds = self.database.ask("busiest_second", trace=self.trace_id)
        which, start_ns = "first", window.start_ns
        if seconds:
            which, start_ns = "busiest", max(seconds, key=lambda row: row["ops_ns"])["start_ns"]
        end_ns, name = min(start_ns + most_ns, window.end_ns), f"{which} second"
        return Interval(name, start_ns, end_ns, f"This is the {name} of the {window.name}.")

    @property
    def interval(self) -> Interval | None:
        """The part of the run that is drawn in detail."""
        return self.judgement.interval

    @property
    def analysis(self) -> Analysis:
        return self.judgement.analysis

    @property
    def window(self) -> Window:
        """The window of the verdict."""
        return self.analysis.judged.window

    @property
    def device_id(self) -> int | None:
        """The device that the verdict is about."""
        return self.analysis.gpu.device_id if self.analysis.gpu else None

    def rows(self, question: str, **parameters: Value) -> polars.DataFrame:
        """The answer to a named question about this trace."""
        return super().rows(question, trace=self.trace_id, **parameters)

    def source(self, question: str, **parameters: Value) -> str:
        """The command that prints these rows."""
        trace = self.trace_id if self._is_chosen else None
        return super().source(question, trace=trace, **parameters)

    def command(self, name: str) -> str:
        """A command about this trace."""
        chosen = f" --trace-id {self.trace_id}" if self._is_chosen else ""
        return f"tracekit {name} {self.quoted_name}{chosen}"

    @cached_property
    def _is_chosen(self) -> bool:
        """Whether commands must choose the trace, since the database has others."""
        return len(self.database.trace_ids()) > 1 and not self.is_apart

    @property
    def quoted_name(self) -> str:
        """The database or trace, quoted for a shell."""
        if self.is_apart:
            return quoted(self.analysis.trace.path)
        return super().quoted_name

    @cached_property
    def is_apart(self) -> bool:
        """Whether several traces were loaded without a database: commands name this one alone."""
        return len(self.database.trace_ids()) > 1 and not self.database.is_stored

    def since_start(self, rows: polars.DataFrame, *columns: str) -> polars.DataFrame:
        """Instants relative to the start of the trace, so that none is negative."""
        return rows.with_columns(polars.col(columns) - self.rows("overview")["start_ns"][0])
