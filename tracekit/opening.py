"""Opens a path as a session: a trace to load, a database, or a lake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import duckdb

from tracekit.database.catalog import VERDICTS, Query, Value
from tracekit.database.connection import connect_reading, fetched_database, is_database
from tracekit.database.sandbox import SPILL_MB, Config
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.ingest.resources import LoadProgress, Resources
from tracekit.text import shown

if TYPE_CHECKING:
    from tracekit.ingest.load import Loaded
    from tracekit.ingest.loader import Loader
    from tracekit.verdict.rows import Rows

# Memory that the process needs outside DuckDB, for query results. The replay's graph does not
# count: while it is in memory, DuckDB holds little.
_OUTSIDE_QUERIES_MB = 200
_MOST_NOTED = 5
# Patterns for SQL that names the verdicts' tables, and for questions that read them.
_NAMES = "|".join(VERDICTS)
_OF_VERDICTS = re.compile(rf"\b({_NAMES})\b", re.IGNORECASE)
_ASKS_VERDICTS = re.compile(rf"(?:FROM|JOIN) ({_NAMES})\b")


def files_named(paths: Iterable[str], resources: Resources) -> Iterator[str | Path]:
    """The local files behind the paths of traces, databases and lakes, and the file of device
    peaks.

    Raises:
        TracekitError: for a directory or pattern without a trace.
    """
    from tracekit.trace.paths import trace_paths
    from tracekit.trace.remote import is_url

    yield from resources.inputs
    for path in paths:
        if _may_be_lake(path):
            from tracekit.lake.layout import selection
            from tracekit.lake.storage import Storage, local_files

            yield from local_files(Storage(selection(path).root))
        elif not is_url(path):
            yield from trace_paths([path])


def _may_be_lake(path: str) -> bool:
    """Whether a path is a lake or a part of one. For a file, this imports no lake modules."""
    if Path(path).is_file():
        return False
    from tracekit.lake.layout import may_be_lake

    return may_be_lake(path)


def open_any(
    paths: str | Path | Sequence[str],
    resources: Resources | None = None,
    output: str | None = None,
    *,
    skips_bad: bool = False,
) -> Session:
    """Opens a lake, a part of one, or a database; loads other paths as `load` does. Several paths
    are opened together. Answers go to `output`. With `skips_bad`, files in a folder that are not
    traces become notes.

    Raises:
        TracekitError: when a path cannot be read, or `output` is one of the files.
    """
    from tracekit.files import require_no_input

    resources = resources or Resources()
    listed = [str(paths)] if isinstance(paths, str | Path) else list(paths)
    if output is not None:
        require_no_input(output, files_named(listed, resources))
    if skips_bad and any(Path(each).is_dir() and not _may_be_lake(each) for each in listed):
        return _without_bad(listed, resources)
    if len(listed) > 1:
        return load(listed, resources=resources)
    (path,) = listed
    if _may_be_lake(path):
        from tracekit.lake.reading import open_lake

        if resources.annotations:
            raise TracekitError(f"{path} is a lake; --annotations only works with a trace")
        return open_lake(path, resources)
    copy = fetched_database(path, resources.temp_dir)
    if copy is None and not is_database(path):
        return load(path, resources=resources)
    for name in ("hardware", "annotations"):
        if getattr(resources, name):
            raise TracekitError(
                f"{shown(path)} is a database; pass --{name} when loading its traces"
            )
    memory_mb = resources.memory_mb
    limit_mb = None if memory_mb is None else memory_mb - _OUTSIDE_QUERIES_MB
    return open_database(path, limit_mb, resources.spill_mb, copy)


def _without_bad(paths: Sequence[str], resources: Resources) -> Session:
    """Loads the good traces; bad ones become notes."""
    bad: list[TracekitError] = []
    loaded = load(paths, resources=resources, on_bad=bad.append)
    note = [f"{len(bad) - _MOST_NOTED:,} more are not loaded"] * (len(bad) > _MOST_NOTED)
    loaded.notes = [*loaded.notes, *(f"not loaded: {each}" for each in bad[:_MOST_NOTED]), *note]
    return loaded


def open_database(
    path: str | Path,
    limit_mb: int | None = None,
    spill_mb: int | None = None,
    copy: BinaryIO | None = None,
) -> Session:
    """Opens a database that `load` wrote, read-only: see `tracekit.open_database`. If `path` is a
    URL, this opens `copy`, or downloads the database if there is no copy."""
    copy = copy or fetched_database(str(path))
    if spill_mb is None:
        spill_mb = 0 if limit_mb is None else SPILL_MB
    config: Config = {} if limit_mb is None else {"memory_limit": f"{limit_mb}MB"}
    name = shown(str(path))
    file = path if copy is None else copy.name
    return StoredSession(connect_reading(file, config, name, spill_mb), name, file, copy)


def load(
    traces: str | Path | Iterable[str | Path],
    database: str | Path | None = None,
    resources: Resources | None = None,
    *,
    append: bool = False,
    resume: bool = False,
    on_bad: Callable[[TracekitError], object] | None = None,
    on_wait: Callable[[], object] | None = None,
    progress: LoadProgress | None = None,
    verdicts: bool | None = None,
    named: str = "",
) -> Session:
    """Loads traces into one database, several at a time: see `tracekit.load`. Temporary files are
    stored by the name `named`."""
    from tracekit.ingest.hardware import peaks
    from tracekit.ingest.load import for_session, into_file
    from tracekit.ingest.loader import Loader, LoadRequest
    from tracekit.trace.paths import trace_paths

    resources = resources or Resources()
    is_other = isinstance(traces, Mapping | bytes) or hasattr(traces, "read")
    if is_other or not isinstance(traces, str | Path | Iterable):
        raise TracekitError(f"load takes paths of traces, not a {type(traces).__name__}")
    listed = [traces] if isinstance(traces, str | Path) else list(traces)
    paths = trace_paths(map(str, listed))
    if not paths:
        raise TracekitError("no trace is given")
    judges = database is not None if verdicts is None else verdicts
    judge = partial(_judged_through, shown(str(listed[0]))) if judges else None
    devices = peaks(resources.hardware)
    skips_bad = on_bad is not None
    loader = Loader(
        LoadRequest(
            paths, devices, resources, resume, skips_bad, progress, judge=judge, named=named
        )
    )
    if database is None:
        name = shown(str(listed[0])) if len(listed) == 1 else f"{len(paths)} traces"
        loaded: Session = LoadedSession(for_session(loader), name, loader, judges=verdicts is None)
        loaded.is_joined = len(listed) > 1
    else:
        into_file(loader, database, append=append, on_wait=on_wait)
        loaded = open_database(database)
    loaded.notes = loader.notes
    if on_bad is not None:
        for error in loader.errors:
            on_bad(error)
    return loaded


class LoadedSession(Session):
    """Traces loaded for this session. Their verdict tables are filled when SQL first reads them."""

    def __init__(self, loaded: Loaded, name: str, loader: Loader, *, judges: bool) -> None:
        add_names = None if loader.vocabulary is None else loader.vocabulary.add
        more_memory = loaded.more_memory
        super().__init__(loaded.connection, name, loader.inputs, add_names, more_memory)
        self._loaded, self._judges = loaded, judges

    def close(self) -> None:
        super().close()
        if self._selects.is_mine:
            self._loaded.remove()

    def require_select(self, query: str) -> None:
        super().require_select(query)
        if _OF_VERDICTS.search(query):
            self._fill()

    def sql_of(self, question: Query, given: Mapping[str, Value]) -> str:
        if _ASKS_VERDICTS.search(question.sql):
            self._fill()
        return super().sql_of(question, given)

    def _fill(self) -> None:
        if self._judges:
            from tracekit.ingest.derived import record_verdicts

            self._judges = False
            for rows in _judged(self):
                record_verdicts(self._connection, rows)


class StoredSession(Session):
    """A database in a file; `copy` is set if the file is temporary."""

    is_stored = is_untrusted = True

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        file: str | Path,
        copy: BinaryIO | None,
    ) -> None:
        super().__init__(connection, name, [file])
        self._copy = copy

    def close(self) -> None:
        super().close()
        if self._copy is not None:
            self._copy.close()


def _judged(database: Session) -> Iterator[Rows]:
    """The verdicts on all traces of a database, as rows."""
    from tracekit.verdict.rows import WaitRows, rows_of
    from tracekit.verdicts import verdicts

    waits = WaitRows()
    for analysis in verdicts(database, on_replay=waits):
        yield rows_of(analysis, waits=waits.get(analysis.trace.trace_id))


def _judged_through(
    name: str, connection: duckdb.DuckDBPyConnection, more_memory: Callable[[], bool]
) -> Iterator[Rows]:
    with Session(connection.cursor(), name, more_memory=more_memory) as database:
        yield from _judged(database)
