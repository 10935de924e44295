"""The user's object: a database of traces with methods for queries, verdicts, what-if, diff and
export. It is the top layer: the modules behind these methods do not import it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tracekit.database import catalog
from tracekit.database.catalog import Query, Value
from tracekit.database.session import Session
from tracekit.errors import NoAttributeError, TracekitError, WrongCallError, needing
from tracekit.records import Shown
from tracekit.text import counted, printable, suggestion
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    import polars

    from tracekit.advice.model import FixList
    from tracekit.compare.diff import Diff
    from tracekit.ingest.resources import LoadProgress, Resources
    from tracekit.replay.whatif import RunWhatIf, WhatIf
    from tracekit.reporters.notebook import ReportPage
    from tracekit.verdict.model import Analysis, RunVerdict


# The session's attributes that `dir(run)` shows.
_OF_SESSION = (
    "close", "connection", "doubts", "findings", "query", "session", "sql", "trace_ids", "traces",
)  # fmt: skip
# Topics of queries for verdicts, advice, comparisons and checks.
_ASKED_BELOW = ("remedies", "replay", "diff", "sweep", "crosscheck")
_MOST_LISTED = 8


class Database:
    """Traces as tables and views, read-only.

    A query cannot write, read files, reach the network, or change these rules. Make a Database with
    `load` or `open_database`; use it as a context manager or `close` it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> Self:
        self.session.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.session.__exit__(*raised)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the session; every named query is a method too: `run.top_kernels(5)`."""
        if name == "session":
            # The object is unfinished, such as one being copied.
            raise AttributeError(name)
        if hasattr(self.session, name):
            return getattr(self.session, name)
        try:
            return _method(self.session, catalog.query(name))
        except TracekitError:
            similar = suggestion(name, dir(self)) or ", and no query has that name"
            raise NoAttributeError(f"a Database has no attribute {name!r}{similar}") from None

    def __dir__(self) -> list[str]:
        """Names that a user may want: no internals, and only queries for reading traces. Other
        queries work, too: `questions` lists all."""
        names = (name for name in vars(type(self)) if not name.startswith("_"))
        asked = (name for name, each in catalog.queries().items() if each.topic not in _ASKED_BELOW)
        return sorted({*names, *_OF_SESSION, *asked})

    def __repr__(self) -> str:
        name = self.session.name
        try:
            traces = len(self.session.trace_ids())
        except TracekitError as error:
            return printable(f"tracekit run {name}: {error}")
        rows = self.session.fetch(
            f"SELECT path, events FROM trace ORDER BY trace_id LIMIT {_MOST_LISTED}"
        )[1]
        number = counted(traces, "trace")
        lines = [f"tracekit run {'of' if name == number else f'{name},'} {number}:"]
        lines += [f"  {path}: {counted(events, 'event')}" for path, events in rows]
        lines += [f"  ... and {traces - len(rows):,} more"] * (traces > len(rows))
        hint = "Try .verdict(), .advise(), .report(), .top_kernels(10), .sql('SELECT ...')"
        return "\n".join(map(printable, [*lines, f"{hint}; .questions() lists more."]))

    def questions(self, word: str = "") -> polars.DataFrame:
        """The named queries whose name or question holds `word`: name, topic and question. Each is
        a method, whose help lists its parameters and columns."""
        import polars

        matches = catalog.matching(word)
        names = ("name", "topic", "question")
        return polars.DataFrame(
            {name: [getattr(match, name) for match in matches] for name in names}
        )

    def verdict(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Analysis:
        """What bounds this run, what causes it, and what a fix would save.

        `trace` is a trace_id, `window` the name of a window, such as "ProfilerStep#9".

        Raises:
            TracekitError: when there are several traces and `trace` does not choose one, or when
                there is no such trace or window.
        """
        return self.verdicts(self.session.only(trace), window, thresholds)[0]

    def verdicts(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> list[Analysis]:
        """The verdicts on all traces, or on one trace_id. They come from the database, unless a
        window or other thresholds require new ones.

        Raises:
            TracekitError: when there is no such trace or window, or a stored verdict cannot be
                read.
        """
        from tracekit.verdicts import verdicts

        with self.session.judging(thresholds):
            return verdicts(self.session, trace, window)

    def whatif(
        self,
        *changes: str,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> WhatIf:
        """Predicts how long the run would have taken with changes such as "host*0.5" or
        "cuda-graph"; see `tracekit.replay.whatif.what_if`.

        Raises:
            TracekitError: when a change is not valid or matches nothing in the trace, or when there
                are several traces and `trace` does not choose one.
        """
        from tracekit.replay.whatif import what_if

        with self.session.judging(thresholds):
            return what_if(self.session, changes, self.session.only(trace), window)

    def together(self, thresholds: Thresholds | None = None) -> RunVerdict:
        """The verdict on a run whose ranks are these traces: which rank sets the pace, why, and
        what fixing that would save.

        Raises:
            TracekitError: when the traces are not the ranks of one run.
        """
        from tracekit.verdicts import verdict_together

        with self.session.judging(thresholds), self.session.sharing():
            analyses = self.verdicts()
            _, run_verdict, why = verdict_together(self.session, analyses)
        if run_verdict is None:
            why = why or "there is only one trace"
            raise TracekitError(f"{self.session.name}: not the ranks of one run: {why}")
        return run_verdict

    def whatif_together(self, *changes: str, thresholds: Thresholds | None = None) -> RunWhatIf:
        """Predicts how long a run would have taken with changes such as "rank:6:host*0.5" or
        "straggler*0", all ranks replayed together; see `tracekit.replay.whatif.what_if_run`.

        Raises:
            TracekitError: when the traces are not the ranks of one run, or a change is not valid or
                matches nothing.
        """
        from tracekit.replay.whatif import what_if_run

        with self.session.judging(thresholds):
            return what_if_run(self.session, changes)

    def advise(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> FixList:
        """Possible changes to this run: what to change, where, and what each change would save.

        `trace` is a trace_id, `window` the name of a window, such as "ProfilerStep#9". Without
        `trace`, the ranks of a run get advice on the one that sets the pace
        (`tracekit.verdicts.to_advise`).

        Raises:
            TracekitError: when there are several traces that are not one run and `trace` does not
                choose one, when there is no such trace or window, or when the trace cannot be
                replayed.
        """
        from tracekit.examine import examine
        from tracekit.replay.whatif import require_times
        from tracekit.verdicts import to_advise

        with self.session.judging(thresholds), self.session.with_all_ranks() as whole:
            chosen, _ = to_advise(self.session, trace)
            require_times(self.session, chosen)
            examined = examine(whole, chosen, window, combine=True)
        if examined.fixes is None:
            reason = "; ".join(examined.analysis.verdict.why) or "it has no events with a duration"
            raise TracekitError(f"{examined.analysis.trace.path}: no advice: {reason}")
        return examined.fixes

    @property
    def plot(self) -> Any:
        """The charts on a trace's page, as Altair charts: `run.plot.timeline()`.

        Raises:
            TracekitError: when the extra `report` is not installed.
        """
        with needing("charts need", "report"):
            from tracekit.reporters.html.trace import Plots
        return Plots(self.session)

    def report(
        self,
        output: str | Path | None = None,
        *,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> ReportPage:
        """The page of charts that `tracekit report` writes: for one trace, a job's ranks, or a
        sweep. Notebooks show it. If `output` is given, the page is written there.

        Raises:
            TracekitError: when the extra `report` is not installed, there is no such trace or
                window, or `output` cannot be written.
        """
        from tracekit.reporters.notebook import page_of

        with self.session.judging(thresholds):
            return page_of(self.session, output, trace, window)

    def diff(self, a: int = 1, b: int = 2, top: int = 20) -> Diff:
        """Compares run b with run a, given by trace_id; see `tracekit.compare.diff.diff`.

        Raises:
            TracekitError: when the database has no such trace.
        """
        from tracekit.compare.diff import diff

        if not isinstance(a, int):
            raise TracekitError("diff takes trace_ids: load([before, after]).diff(1, 2)")
        return diff(self.session, a, b, top)

    def export(
        self,
        output: str | Path,
        trace: int | None = None,
        window: str | None = None,
        *,
        form: str = "trace",
        weight: str | None = None,
    ) -> int:
        """Writes a trace, or one window of it, as Kineto JSON, compressed if `output` ends in .gz
        or .zst; or its flame graph, as `form` "speedscope" or "collapsed", by time of the host or
        the "gpu" (`weight`); or a workbook of all traces, if `output` ends in .xlsx. Returns the
        number of its events, stacks or sheets.

        Raises:
            TracekitError: when there are several traces and `trace` (a trace_id) does not choose
                one, when there is no such window, when these do not go together, or `output`
                cannot be written.
        """
        from tracekit.perfetto.part import PartChoice
        from tracekit.reporters.exports import Export

        part = PartChoice(trace, window=window)
        return Export(output, part, form, weight).write(self.session).count


def load(
    traces: str | Path | Iterable[str | Path],
    database: str | Path | None = None,
    *,
    append: bool = False,
    resume: bool = False,
    memory_mb: int | None = None,
    threads: int | None = None,
    temp_dir: str | Path | None = None,
    hardware: str | Path | None = None,
    spill_mb: int | None = None,
    annotations: Iterable[str | Path] = (),
    on_bad: Callable[[TracekitError], object] | None = None,
    on_wait: Callable[[], object] | None = None,
    progress: LoadProgress | None = None,
    verdicts: bool | None = None,
) -> Database:
    """Loads traces into one database, several at a time.

    Each of `traces` is a .json, .json.gz or .json.zst file, a tar archive of them (compressed or
    not), a directory, a pattern, a database to copy traces from, or - for standard input.

    The database is in memory, or in the file `database`, which appears only once it is complete and
    replaces an existing one; `append` adds to the existing file instead. With `resume`, an
    interrupted load keeps its progress in DATABASE.partial, and the same call resumes there,
    skipping traces that are already loaded. `Resources` explains `memory_mb`, `threads`,
    `temp_dir`, `hardware`, `spill_mb` and `annotations`. If a trace replays graphs, files next to
    it that describe the graphs are loaded, too: traces in capture_traces/, and annotations.

    A bad trace ends the load, unless `on_bad` is given: it is called with the error, and the other
    traces are loaded. With `verdicts`, each trace is judged and the tables verdict, evidence,
    one_off, advice and host_wait are filled. By default this happens for a file; in memory, when
    SQL first reads them. Only one load writes a file at a time: a second one calls `on_wait` and
    waits.

    Raises:
        TracekitError: when a trace cannot be read (with `on_bad`, when none of them can), or the
            database cannot be written.
    """
    from tracekit import opening
    from tracekit.ingest.resources import Resources

    resources = Resources(memory_mb, threads, temp_dir, hardware, spill_mb, tuple(annotations))
    loaded = opening.load(
        traces, database, resources, append=append, resume=resume, on_bad=on_bad, on_wait=on_wait,
        progress=progress, verdicts=verdicts,
    )  # fmt: skip
    return Database(loaded)


def open_lake(paths: str | Iterable[str], resources: Resources | None = None) -> Database:
    """Opens a lake, a part of one, or several together, read-only.

    Raises:
        TracekitError: when a path is not a lake, or nothing is selected.
    """
    from tracekit.lake.reading import open_lake

    return Database(open_lake(paths, resources))


def open_database(
    path: str | Path, limit_mb: int | None = None, spill_mb: int | None = None
) -> Database:
    """Opens a database that `load` wrote, read-only.

    `limit_mb` limits DuckDB's memory; the default is DuckDB's own limit. `spill_mb` limits the disk
    space of queries; the default is 10,000 MB with `limit_mb`, and 0 without. With 0, queries
    cannot open any file.

    Raises:
        TracekitError: when the file is not a database, its tables, views, macros and types are not
            those that this version writes, or its rows contradict each other.
    """
    from tracekit.opening import open_database

    return Database(open_database(path, limit_mb, spill_mb))


def _method(session: Session, question: Query) -> Callable[..., polars.DataFrame]:
    """A named query as a function: its parameters first, then the trace."""
    ordered = sorted(question.parameters, key=lambda each: each.name == "trace")
    names = [each.name for each in ordered]

    def answer(*values: Value, **parameters: Value) -> polars.DataFrame:
        if len(values) > len(names):
            takes = counted(len(names), "parameter")
            raise WrongCallError(f"{question.name}() takes {takes}, not {len(values)}")
        return session.query(question.name, **dict(zip(names, values, strict=False)), **parameters)

    kind = Parameter.POSITIONAL_OR_KEYWORD
    shown = [Parameter(each.name, kind, default=each.shown_default) for each in ordered]
    answer.__name__ = answer.__qualname__ = question.name
    answer.__doc__ = question.description
    answer.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    return answer


def _views() -> Any:
    from tracekit.reporters import notebook

    return notebook


Shown.views = _views
