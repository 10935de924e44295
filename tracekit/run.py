"""What a user holds: traces loaded or opened, with questions, verdict, what-if, diff and export as
methods. The only module that imports the rooms above the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.database import catalog
from tracekit.database.catalog import Value
from tracekit.database.connection import connect_reading, is_database
from tracekit.database.reader import Reader
from tracekit.database.sandbox import Config
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import polars

    from tracekit.compare.diff import Diff
    from tracekit.ingest.resources import Progress, Resources
    from tracekit.replay.whatif import WhatIf
    from tracekit.thresholds import Thresholds
    from tracekit.verdict.model import Analysis

# How much may be spilled where memory is limited and nothing else is said.
_SPILL_MB = 10_000
# What the process needs beside DuckDB to ask a database: the answers; a graph is held while DuckDB
# holds little.
_OUTSIDE_QUERIES_MB = 200


class Database(Reader):
    """Traces as tables and views; read-only once made.

    What a query cannot do: write, read files, reach the network, or change these rules. Make one
    with `load` or `open_database`; use it as a context manager or `close` it.
    """

    def sql(self, query: str, *, timeout_s: float | None = None) -> polars.DataFrame:
        """The rows of one SELECT over the tables and views.

        Raises:
            TracekitError: when the SQL is wrong, does more than read, or takes longer than
                `timeout_s`.
        """
        self.require_select(query)
        return self.frame(query, {}, timeout_s=timeout_s)

    def query(self, name: str, **parameters: Value) -> polars.DataFrame:
        """The answer of the named question (`tracekit query --list` shows all).

        Raises:
            TracekitError: when there is no such question or parameter.
        """
        question = catalog.query(name)
        return self.frame(question.sql, question.checked(parameters))

    def __getattr__(self, name: str) -> Callable[..., polars.DataFrame]:
        """Every named question as a method: `run.top_kernels(top=5)`."""
        try:
            question = catalog.query(name)
        except TracekitError:
            raise AttributeError(
                f"a Database has no {name!r}, and no query has that name"
            ) from None

        def answer(**parameters: Value) -> polars.DataFrame:
            return self.query(name, **parameters)

        answer.__name__ = name
        answer.__doc__ = question.description
        return answer

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *catalog.queries()])

    def traces(self) -> list[dict[str, Any]]:
        """The loaded traces, as `query("overview")` describes them."""
        return self.ask("overview")

    def verdict(
        self,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Analysis:
        """What bounds this run, because of what, and what fixing it would save.

        Raises:
            TracekitError: when there are several traces and `trace` does not choose one.
        """
        from tracekit.verdict.analyze import gather

        return gather(self, self._one(trace), window, thresholds)[0]

    def whatif(
        self,
        *changes: str,
        trace: int | None = None,
        window: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> WhatIf:
        """How long the run would have taken with changes such as "host*0.5" or "cuda-graph": what
        `tracekit.replay.whatif.what_if` says.

        Raises:
            TracekitError: when one is no change or names nothing in the trace, or when there are
                several traces and `trace` does not choose one.
        """
        from tracekit.replay.whatif import what_if

        return what_if(self, changes, self._one(trace), window, thresholds)

    def _one(self, trace: int | None) -> int:
        """The trace_id meant."""
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
        """Run b against run a, by their trace_ids: what `tracekit.compare.diff.diff` says.

        Raises:
            TracekitError: when one of them is not there.
        """
        from tracekit.compare.diff import diff

        return diff(self, a, b, top)

    def export(self, output: str | Path, trace: int | None = None) -> int:
        """Writes a trace as Kineto JSON again, as `tracekit.database.export` says; returns how many
        events it has."""
        from tracekit.database.export import export

        return export(self, output, trace)


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
    progress: Progress | None = None,
) -> Database:
    """Loads traces into one database, several at a time.

    Each of `traces` is a .json, .json.gz or .json.zst, a tar archive of them (compressed or not),
    a directory, a pattern, a database whose traces are copied, or - for standard input. The result
    is in memory, or in the file `database`, which appears when it is whole and replaces one that
    was there; `append` adds to that one instead. With `resume`, what is loaded is kept beside it
    (`.partial`) when loading is interrupted, and the same call goes on from there; traces that are
    in it already are not loaded again. `Resources` says what `memory_mb`, `threads`, `temp_dir`,
    `hardware` and `spill_mb` mean.

    A bad trace ends it, unless `on_bad` takes the error: then the others are loaded. One load
    writes a file at a time: another waits for it, having called `on_wait`.

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
    job = Job(paths, devices, resources, resume, on_bad is not None, progress)
    if database is None:
        name = paths[0] if len(paths) == 1 else f"{len(paths)} traces"
        loaded = Database(into_memory(job), name)
    else:
        into_file(job, database, append=append, on_wait=on_wait)
        loaded = open_database(database)
    if on_bad is not None:
        for error in job.errors:
            on_bad(error)
    return loaded


def open_any(path: str | Path, resources: Resources | None = None) -> Database:
    """A database as it is, anything else loaded as `load` does."""
    from tracekit.ingest.resources import Resources

    resources = resources or Resources()
    if not is_database(path):
        return load(path, **asdict(resources))
    if resources.hardware is not None:
        raise TracekitError(f"{path}: is loaded already; give --hardware when loading its traces")
    memory_mb = resources.memory_mb
    limit_mb = None if memory_mb is None else memory_mb - _OUTSIDE_QUERIES_MB
    return open_database(path, limit_mb, resources.spill_mb)


def open_database(
    path: str | Path, limit_mb: int | None = None, spill_mb: int | None = None
) -> Database:
    """Opens a database that `load` wrote, read-only.

    DuckDB is held to `limit_mb` of memory, if given, and takes what it needs of the machine's
    otherwise. It spills up to `spill_mb` to disk: by default, 10,000 where memory is limited, and
    nothing where it is not. A query that may not spill cannot open any file either.

    Raises:
        TracekitError: when it is none, or holds what this version would not have written.
    """
    if not is_database(path):
        what = "is not a tracekit database" if Path(path).exists() else "no such file"
        raise TracekitError(f"{path}: {what}")
    if spill_mb is None:
        spill_mb = 0 if limit_mb is None else _SPILL_MB
    config: Config = {} if limit_mb is None else {"memory_limit": f"{limit_mb}MB"}
    return Database(connect_reading(path, config, path, spill_mb), str(path))
