"""The library's main object: a database of traces, with queries, verdict, what-if, diff and export
as methods. It imports the packages that compute these; none of them imports it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.database import catalog
from tracekit.database.catalog import Value
from tracekit.database.connection import connect_reading, is_database
from tracekit.database.reader import Reader
from tracekit.database.sandbox import SPILL_MB, Config
from tracekit.database.stored import contradicting, fingerprints
from tracekit.errors import TracekitError
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    import duckdb
    import polars

    from tracekit.advice.model import FixList
    from tracekit.compare.diff import Diff
    from tracekit.ingest.resources import LoadProgress, Resources
    from tracekit.replay.ranks.whatif import RunWhatIf
    from tracekit.replay.whatif import WhatIf
    from tracekit.verdict.model import Analysis
    from tracekit.verdict.rows import Rows
    from tracekit.verdict.run_model import RunVerdict

# The process needs this outside DuckDB for the results of queries. The replay's graph is not
# counted: while it is in memory, DuckDB holds little.
_OUTSIDE_QUERIES_MB = 200
# Tables that verdicts fill.
_OF_VERDICTS = re.compile(r"\b(verdict|evidence|one_off|advice)\b", re.IGNORECASE)


class Database(Reader):
    """Traces as tables and views, read-only.

    A query cannot write, read files, reach the network, or change these rules. Make a Database with
    `load` or `open_database`; use it as a context manager or `close` it.
    """

    # Whether the tables of verdicts are still to be filled, when SQL asks for them.
    _is_unjudged = False

    def require_select(self, query: str) -> None:
        super().require_select(query)
        if self._is_unjudged and _OF_VERDICTS.search(query):
            from tracekit.ingest.writer import record_verdicts

            self._is_unjudged = False
            for rows in _judged(self):
                record_verdicts(self._connection, rows)

    def sql(self, query: str, *, timeout_s: float | None = None) -> polars.DataFrame:
        """The rows of one SELECT over the tables and views, as a Polars frame.

        Raises:
            TracekitError: when the SQL is wrong, does more than read, or takes longer than
                `timeout_s`.
        """
        self.require_select(query)
        return self.frame(query, {}, timeout_s=timeout_s)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection to the tables and views, for tools that take one, such as the SQL
        cells of marimo. It can only read, and not reach other files; no timeout ends its queries.

        Raises:
            TracekitError: when the database is in memory, where a connection could also write.
        """
        cursor = self._connection.cursor()
        is_read_only = "SELECT readonly FROM duckdb_databases() WHERE NOT internal"
        if not all(row[0] for row in cursor.execute(is_read_only).fetchall()):
            cursor.close()
            raise TracekitError(
                f"{self.name}: a connection needs a database in a file: load(TRACE, DATABASE)"
            )
        return cursor

    def query(self, name: str, **parameters: Value) -> polars.DataFrame:
        """The rows of the named query (`tracekit query --list` shows all), as a Polars frame.

        Raises:
            TracekitError: when there is no such query or parameter.
        """
        question = catalog.query(name)
        given = question.checked(parameters)
        return self.frame(self.shown_sql(question, given), given)

    def __getattr__(self, name: str) -> Callable[..., polars.DataFrame]:
        """Every named query is a method: `run.top_kernels(top=5)`."""
        try:
            question = catalog.query(name)
        except TracekitError:
            raise AttributeError(
                f"a Database has no attribute {name!r}, and no query has that name"
            ) from None

        def answer(**parameters: Value) -> polars.DataFrame:
            return self.query(name, **parameters)

        answer.__name__ = name
        answer.__doc__ = question.description
        return answer

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *catalog.queries()])

    def traces(self) -> list[dict[str, Any]]:
        """One row for each loaded trace: the rows of the query `overview`."""
        return self.ask("overview")

    def verdict(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Analysis:
        """What bounds this run, what causes it, and what a fix would save.

        `trace` is a trace_id, `window` the name of a window, such as "step 9".

        Raises:
            TracekitError: when there are several traces and `trace` does not choose one, or when
                there is no such trace or window.
        """
        return self.verdicts(self.only(trace), window, thresholds)[0]

    def verdicts(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> list[Analysis]:
        """The verdicts on all traces, or on one trace_id: those that the database stores, unless a
        window or thresholds ask for others.

        Raises:
            TracekitError: when there is no such trace or window, or a stored verdict cannot be
                read.
        """
        from tracekit.examine import examine, examine_all

        chosen = self.trace_ids() if trace is None else [self.only(trace)]
        texts: dict[int, object] = {}
        if window is None and thresholds in (None, Thresholds()):
            texts = dict(self.fetch("SELECT trace_id, analysis FROM verdict WHERE is_main")[1])
        if not texts:
            return examine_all(self, chosen, window, thresholds)
        from tracekit.verdict.rows import read

        try:
            return [
                read(texts[each]) if each in texts else examine(self, each).analysis
                for each in chosen
            ]
        except ValueError as error:
            raise TracekitError(f"{self.name}: a stored verdict cannot be read: {error}") from error

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

        return what_if(self, changes, self.only(trace), window, thresholds)

    def together(self, thresholds: Thresholds | None = None) -> RunVerdict:
        """The one verdict of a run whose ranks these traces are: which rank sets its pace, why,
        and what removing that would save.

        Raises:
            TracekitError: when the traces are not the ranks of one run.
        """
        from tracekit.examine import examine_all
        from tracekit.verdict.run_verdict import NoRun, judge_run

        with self.judging(thresholds or Thresholds()), self.sharing():
            found = judge_run(self, examine_all(self, thresholds=thresholds), thresholds)
        if isinstance(found, NoRun):
            raise TracekitError(f"{self.name}: not the ranks of one run: {found.reason}")
        return found

    def whatif_together(self, *changes: str, thresholds: Thresholds | None = None) -> RunWhatIf:
        """Predicts how long a run would have taken with changes such as "rank:6:host*0.5" or
        "straggler*0", all ranks replayed together; see `tracekit.replay.ranks.whatif.what_if_run`.

        Raises:
            TracekitError: when the traces are not the ranks of one run, or a change is not valid or
                matches nothing.
        """
        from tracekit.replay.ranks.whatif import what_if_run

        return what_if_run(self, changes, thresholds)

    def advise(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> FixList:
        """What could be changed in this run, where, and what each change would save.

        `trace` is a trace_id, `window` the name of a window, such as "step 9".

        Raises:
            TracekitError: when there are several traces and `trace` does not choose one, when there
                is no such trace or window, or when the trace cannot be replayed.
        """
        from tracekit.examine import examine

        found = examine(self, self.only(trace), window, thresholds, combine=True)
        if found.fixes is None:
            reason = "; ".join(found.analysis.verdict.why) or "it has no events that last"
            raise TracekitError(f"{found.analysis.trace.path}: no advice: {reason}")
        return found.fixes

    @property
    def plot(self) -> Any:
        """The charts of the page of a trace, as Altair charts: `run.plot.timeline()`.

        See tracekit/reporters/html/plots.py, which is loaded by its name: reporters know this
        module, not the other way round.

        Raises:
            TracekitError: when the extra `report` is not installed.
        """
        try:
            return import_module("tracekit.reporters.html.plots").Plots(self)
        except ImportError as error:
            raise TracekitError(
                f"charts need {error.name}: pip install 'tracekit[report]'"
            ) from error

    def only(self, trace: int | None) -> int:
        """The trace_id that `trace` chooses: with None, that of the only trace.

        Raises:
            TracekitError: when there are several traces and none is chosen, or no such trace.
        """
        known = self.trace_ids()
        if trace is None and len(known) == 1:
            return known[0]
        ids = ", ".join(map(str, known))
        if trace is None:
            raise TracekitError(f"{self.name}: choose a trace by its trace_id: {ids}")
        if trace not in known:
            raise TracekitError(f"{self.name}: has no trace {trace}; its traces are {ids}")
        return trace

    def diff(self, a: int = 1, b: int = 2, top: int = 20) -> Diff:
        """Compares run b with run a, given by trace_id; see `tracekit.compare.diff.diff`.

        Raises:
            TracekitError: when the database has no such trace.
        """
        from tracekit.compare.diff import diff

        return diff(self, a, b, top)

    def export(self, output: str | Path, trace: int | None = None) -> int:
        """Writes a trace as Kineto JSON, compressed if `output` ends in .gz or .zst; returns its
        number of events.

        Raises:
            TracekitError: when there are several traces and `trace` (a trace_id) does not choose
                one, or `output` cannot be written.
        """
        from tracekit.database.export import export

        return export(self, output, trace)


# Exceptions of code that meets rows which cannot be.
SURPRISES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError,
    ValueError,
)  # fmt: skip


class StoredDatabase(Database):
    """A Database in a file, whose rows others may have changed.

    An exception that ends its `with` block is the fault of such rows only if they are not those
    that loading its traces again gives; then it becomes a TracekitError. Others stay as they are.
    """

    def __exit__(self, *raised: object) -> None:
        self.close()
        _, error, _ = raised
        if isinstance(error, SURPRISES) and (changed := _changed_tables(self.name)):
            raise contradicting(self.name, changed) from error


def _changed_tables(path: str) -> list[str]:
    """The tables of a database whose rows do not follow from its traces."""
    with load(path) as again, Reader(connect_reading(path, {}, path, 0), path) as given:
        expected, found = fingerprints(again), fingerprints(given)
    return sorted(name for name in expected if expected[name] != found[name])


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
    on_bad: Callable[[TracekitError], object] | None = None,
    on_wait: Callable[[], object] | None = None,
    progress: LoadProgress | None = None,
    verdicts: bool | None = None,
) -> Database:
    """Loads traces into one database, several at a time.

    Each of `traces` is a .json, .json.gz or .json.zst file, a tar archive of them (compressed or
    not), a directory, a pattern, a database to copy traces from, or - for standard input.

    The database is in memory, or in the file `database`, which appears only once it is complete and
    replaces an existing one; `append` adds to the existing one instead. With `resume`, an
    interrupted load keeps its progress in DATABASE.partial, and the same call continues from there;
    it skips traces that are loaded already. `Resources` explains `memory_mb`, `threads`,
    `temp_dir`, `hardware` and `spill_mb`.

    A bad trace ends the load, unless `on_bad` is given: it is called with the error, and the other
    traces are loaded. With `verdicts`, each trace is judged and the tables verdict, evidence,
    one_off and advice are filled: by default in a file; in memory, once SQL asks for them. Only one
    load writes a file at a time: another calls `on_wait` and waits.

    Raises:
        TracekitError: when a trace cannot be read (with `on_bad`, when none of them can), or the
            database cannot be written.
    """
    from tracekit.ingest.hardware import peaks
    from tracekit.ingest.load import Job, into_file, into_memory
    from tracekit.ingest.resources import Resources
    from tracekit.trace.source import trace_paths

    resources = Resources(memory_mb, threads, temp_dir, hardware, spill_mb)
    devices = peaks(hardware)
    given = [traces] if isinstance(traces, str | Path) else list(traces)
    paths = trace_paths(map(str, given))
    if not paths:
        raise TracekitError("no trace is given")
    judges = database is not None if verdicts is None else verdicts
    judge = partial(_judged_through, str(given[0])) if judges else None
    job = Job(paths, devices, resources, resume, on_bad is not None, progress, judge=judge)
    if database is None:
        name = str(given[0]) if len(given) == 1 else f"{len(paths)} traces"
        loaded = Database(into_memory(job), name, job.inputs)
        loaded._is_unjudged = verdicts is None
    else:
        into_file(job, database, append=append, on_wait=on_wait)
        loaded = open_database(database)
    if on_bad is not None:
        for error in job.errors:
            on_bad(error)
    return loaded


def _judged(database: Database) -> Iterator[Rows]:
    """The verdicts on all traces of a database, as rows."""
    from tracekit.verdict.rows import rows_of

    yield from map(rows_of, database.verdicts())


def _judged_through(name: str, connection: duckdb.DuckDBPyConnection) -> Iterator[Rows]:
    with Database(connection.cursor(), name) as database:
        yield from _judged(database)


def open_any(path: str | Path, resources: Resources | None = None) -> Database:
    """Opens a database, or loads anything else as `load` does.

    Raises:
        TracekitError: as `open_database` and `load` do.
    """
    from tracekit.ingest.resources import Resources

    resources = resources or Resources()
    if not is_database(path):
        return load(path, **asdict(resources))
    if resources.hardware is not None:
        raise TracekitError(f"{path}: is a database; give --hardware when loading its traces")
    memory_mb = resources.memory_mb
    limit_mb = None if memory_mb is None else memory_mb - _OUTSIDE_QUERIES_MB
    return open_database(path, limit_mb, resources.spill_mb)


def open_database(
    path: str | Path, limit_mb: int | None = None, spill_mb: int | None = None
) -> Database:
    """Opens a database that `load` wrote, read-only.

    `limit_mb` limits DuckDB's memory; the default is DuckDB's own limit. `spill_mb` limits what
    queries put on disk; the default is 10,000 MB with `limit_mb`, and 0 without. With 0, queries
    cannot open any file.

    Raises:
        TracekitError: when the file is not a database, its tables, views, macros and types are not
            those that this version writes, or its rows contradict each other.
    """
    if spill_mb is None:
        spill_mb = 0 if limit_mb is None else SPILL_MB
    config: Config = {} if limit_mb is None else {"memory_limit": f"{limit_mb}MB"}
    return StoredDatabase(connect_reading(path, config, path, spill_mb), str(path), [path])
