"""A lake as a database whose tables are views over the Parquet files of its ranks.

Workers query each rank separately: the driver holds only their answers, never events.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tracekit.database import catalog, stored
from tracekit.database.catalog import Query, Value
from tracekit.database.connection import connect
from tracekit.database.sandbox import SPILL_MB, close_to_the_outside, limit_spilling
from tracekit.database.session import Session
from tracekit.database.stored import Vocabulary
from tracekit.errors import TracekitError, explained, reason_of
from tracekit.files import work_folder
from tracekit.ingest.hardware import peaks, record_peaks
from tracekit.ingest.resources import Resources
from tracekit.lake.binding import Binding
from tracekit.lake.layout import LAYOUT, MARK, Rank, Selection, selection
from tracekit.lake.runs import LakeRun, read_runs
from tracekit.lake.storage import WORK_PREFIX, Storage, local_files
from tracekit.lake.tables import stored_answer_sql
from tracekit.records import parsed
from tracekit.text import shown

if TYPE_CHECKING:
    from tracekit.lake.workers import Workers

_OUTSIDE_QUERIES_MB = 200
# The maximum number of rows per rank; users should export larger results.
MOST_ROWS = 100_000


def require_lake(root: str) -> Storage:
    """The storage of a lake.

    Raises:
        TracekitError: when there is no lake, or another version of tracekit created it.
    """
    lake = Storage(root)
    mark = lake.read(MARK)
    if mark is None:
        raise TracekitError(f"{shown(root)}: is not a lake: create one with `tracekit lake add`")
    check_mark(root, mark)
    return lake


def check_mark(root: str, mark: bytes) -> None:
    """Raises TracekitError if this version of tracekit does not read this lake."""
    try:
        layout = int(parsed(mark)["layout"])
    except (ValueError, TypeError, KeyError) as error:
        raise TracekitError(f"{shown(root)}: its {MARK} is not a lake's") from error
    if layout != LAYOUT:
        which = "a later" if layout > LAYOUT else "an earlier"
        raise TracekitError(
            f"{shown(root)}: {which} version of tracekit made this lake: install it"
        )


def selected_parts(where: Selection) -> list[LakeRun]:
    """The runs that a path selects, with the ranks that it selects.

    Raises:
        TracekitError: when there is no lake, or none of its ranks is selected.
    """
    lake = require_lake(where.root)
    runs = read_runs(lake, where.run)
    selected = [
        run.only({name for name, rank in run.ranks.items() if where.takes(rank)}) for run in runs
    ]
    parts = [each for each in selected if each.ranks]
    if not parts and runs:
        ranks = ", ".join([name for run in runs for name in run.ranks][:8]) or "none"
        raise TracekitError(f"{where}: the lake has no such rank; its ranks are: {ranks}")
    if not parts:
        names = ", ".join([run.name for run in read_runs(lake)][:8]) or "none"
        raise TracekitError(f"{where}: the lake has no such run; its runs are {names}")
    return parts


class Lake(Session):
    """The traces of a lake, or of a part of it, as one database."""

    is_untrusted = True

    def __init__(self, name: str, parts: Sequence[LakeRun], resources: Resources) -> None:
        with explained(f"{parts[0].root}: the lake cannot be read", duckdb.Error):
            connection, bound, vocabulary = _connected(parts, resources)
        super().__init__(connection, name, add_names=vocabulary.add)
        self.parts, self.notes, self.resources = bound.parts, bound.notes, resources
        members = [(rank, part) for part in self.parts for rank in part.ranks.values()]
        self.ranks = [rank for rank, _ in members]
        self._contexts = {rank.trace_id: part.context for rank, part in members}

    @property
    def inputs(self) -> Iterable[str | Path]:
        roots = {part.root for part in self.parts}
        return (path for root in roots for path in local_files(Storage(root)))

    def sql_of(self, question: Query, given: Mapping[str, Value]) -> str:
        answer = stored_answer_sql(question, given) if self.judges_as_stored else None
        return answer or question.sql

    def shown_sql(self, question: Query, given: Mapping[str, Value]) -> str:
        names = [column.name for column in question.columns]
        if "trace_id" not in names:
            return self.sql_of(question, given)
        beside = "".join(f"trace.{name}, " for name in ("run", "rank") if name not in names)
        sql = self.sql_of(question, given)
        return catalog.render_template("lake_answer", beside=beside, answer=sql)

    def in_order(self) -> list[int]:
        return [rank.trace_id for rank in self.ranks]

    @property
    def without_events(self) -> frozenset[int]:
        return frozenset(rank.trace_id for rank in self.ranks if rank.tables != catalog.FORMAT)

    def context_of(self, trace_id: int) -> str:
        return self._contexts[trace_id]

    @contextmanager
    def with_all_ranks(self) -> Iterator[Session]:
        if len(self.parts) == 1 and (whole := self.parts[0].whole):
            with self.alone(whole, self.name) as opened:
                yield opened
        else:
            yield self

    @contextmanager
    def alone(self, part: LakeRun, name: str | None = None) -> Iterator[Lake]:
        """Some ranks of the lake by themselves, which judge by the same thresholds."""
        opened = open_parts([part], self.resources, name)
        with opened as lake, lake.judging(self.thresholds):
            yield lake


def open_lake(paths: str | Iterable[str], resources: Resources | None = None) -> Lake:
    """Opens a lake, a part of one, or several together, read-only.

    Raises:
        TracekitError: when one is not a lake, or nothing is selected.
    """
    listed = [paths] if isinstance(paths, str) else list(paths)
    parts = [part for path in listed for part in selected_parts(selection(path))]
    return open_parts(parts, resources or Resources(), ", ".join(listed))


def open_parts(parts: Sequence[LakeRun], resources: Resources, name: str | None = None) -> Lake:
    """Opens some ranks.

    Raises:
        TracekitError: when two different ranks have the same number, or another version of
            tracekit wrote them all.
    """
    first: dict[int, Rank] = {}
    chosen: list[LakeRun] = []
    for part in parts:
        names = set()
        for rank in part.ranks.values():
            other = first.setdefault(rank.trace_id, rank)
            if (other.run, other.name, other.sha256) != (rank.run, rank.name, rank.sha256):
                raise TracekitError(
                    f"{part.root}: {other.name} of {other.run!r} and {rank.name} of {rank.run!r} "
                    "have the same number: add one of them to another run"
                )
            if other is rank:
                names.add(rank.name)
        if names:
            chosen.append(part.only(names))
    return Lake(name or f"{chosen[0].root}/run={chosen[0].name}", chosen, resources)


def _connected(
    parts: Sequence[LakeRun], resources: Resources
) -> tuple[duckdb.DuckDBPyConnection, Binding, Vocabulary]:
    """A connection that can read only these ranks' files; the ranks that it reads, with notes on
    the others; and the views that it lacks."""
    root = parts[0].root
    connection = connect(":memory:", resources.settings(f"{root}#lake"), root)
    try:
        if resources.memory_mb is not None:
            limit_mb = resources.memory_mb - _OUTSIDE_QUERIES_MB
            connection.execute(f"SET memory_limit = '{limit_mb}MB'")
        # Rows store their position in the file.
        connection.execute("SET preserve_insertion_order = false")
        stored.create_tables(connection)
        record_peaks(connection, peaks(resources.hardware))
        connection.execute("INSERT INTO tracekit VALUES (?)", [catalog.FORMAT])
        bound = Binding(connection, parts)
        vocabulary = bound.bind()
        limit_spilling(connection, SPILL_MB if resources.spill_mb is None else resources.spill_mb)
        close_to_the_outside(connection)
    except BaseException:
        connection.close()
        raise
    return connection, bound, vocabulary


def _answer(
    question: str, given: Mapping[str, Value], resources: Resources, part: LakeRun
) -> tuple[int, bytes]:
    """One rank's answer, with run and rank: the number of rows, and the rows as Parquet."""
    from tracekit.database.frames import frame_of

    asked = catalog.query(question)
    with open_parts([part], resources) as opened, opened.checked(asked):
        sql = opened.shown_sql(asked, given)
        frame = opened.stream(f"SELECT * FROM ({sql}) LIMIT {MOST_ROWS + 1}", given, frame_of)
    if frame.height > MOST_ROWS:
        raise TracekitError(f"{question}: a rank's answer has more than {MOST_ROWS:,} rows")
    written = io.BytesIO()
    frame.write_parquet(written)
    return frame.height, written.getvalue()


def ask_ranks(
    lake: str,
    question: str,
    given: Mapping[str, Value],
    workers: Workers,
    resources: Resources | None = None,
) -> Session:
    """The answers of all ranks in a lake, or a part of it, as the table `answers`.

    Raises:
        TracekitError: when there is no such question or parameter, or a rank cannot be read.
    """
    checked = catalog.query(question).check_parameters(given)
    runs = selected_parts(selection(lake))
    tasks = {rank.trace_id: run.alone(rank) for run in runs for rank in run.ranks.values()}
    resources = resources or Resources()
    counts: dict[int, int] = {}
    with work_folder(resources.folder, WORK_PREFIX) as folder:
        ask = partial(_answer, question, checked, resources)
        for task, rank_answer in workers.each(ask, tasks.values()):
            (rank,) = task.ranks.values()
            if isinstance(rank_answer, Exception):
                raise TracekitError(
                    f"run={rank.run}/{rank.name}: {reason_of(rank_answer)}"
                ) from rank_answer
            counts[rank.trace_id], answer = rank_answer
            (folder / f"{rank.trace_id}.parquet").write_bytes(answer)
        filled = [each for each in tasks if counts[each]] or [*tasks][:1]
        files = [f"{folder}/{each}.parquet" for each in filled]
        connection = connect(":memory:", {}, lake)
        connection.execute(
            "CREATE TABLE answers AS FROM read_parquet($1, union_by_name = true)", [files]
        )
    close_to_the_outside(connection)
    return Session(connection, lake)
