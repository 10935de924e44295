"""A lake as a database: the tables are views over the Parquet files of its ranks.

Workers ask each rank by itself: the driver holds their answers, and reads no events.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import duckdb
from msgspec.structs import replace

from tracekit.database import catalog, stored
from tracekit.database.catalog import Query, Value
from tracekit.database.connection import connect
from tracekit.database.sandbox import SPILL_MB, close_to_the_outside, limit_spilling
from tracekit.database.session import Session
from tracekit.database.stored import SURPRISES, Vocabulary
from tracekit.errors import TracekitError, first_line, reason_of
from tracekit.ingest.hardware import peaks, record_peaks
from tracekit.ingest.resources import Resources
from tracekit.lake.binding import Binding
from tracekit.lake.layout import FIRST_LAYOUT, LAYOUT, MARK, Rank, Selection, selection
from tracekit.lake.runs import RunPart, read_runs
from tracekit.lake.storage import Storage, local_files
from tracekit.lake.tables import stored_answer_sql
from tracekit.records import parsed
from tracekit.trace.remote import shown

if TYPE_CHECKING:
    from tracekit.lake.workers import Workers

_OUTSIDE_QUERIES_MB = 200
# Above this many rows of one rank, export instead of asking.
MOST_ROWS = 100_000
_PACKAGE = str(Path(__file__).parents[1])


def require_lake(root: str) -> Storage:
    """The storage of a lake.

    Raises:
        TracekitError: when there is none, or another version of tracekit made it.
    """
    lake = Storage(root)
    mark = lake.read(MARK)
    if mark is None:
        raise TracekitError(f"{shown(root)}: is not a lake: `tracekit lake add` makes one")
    check_mark(root, mark)
    return lake


def check_mark(root: str, mark: bytes) -> int:
    """The layout of a lake that this version of tracekit reads.

    Raises:
        TracekitError: when it does not.
    """
    try:
        layout = int(parsed(mark)["layout"])
    except (ValueError, TypeError, KeyError) as error:
        raise TracekitError(f"{shown(root)}: {MARK} in it is not that of a lake") from error
    if layout not in (FIRST_LAYOUT, LAYOUT):
        raise TracekitError(
            f"{shown(root)}: a later version of tracekit made this lake: install it"
        )
    return layout


def selected_parts(where: Selection) -> list[RunPart]:
    """The runs that a path selects, with the ranks that it selects.

    Raises:
        TracekitError: when there is no lake, or none of its ranks is selected.
    """
    lake = require_lake(where.root)
    found = [
        RunPart(
            where.root,
            run,
            frozenset(each.name for each in run.ranks.values() if where.takes(each)),
        )
        for run in read_runs(lake, where.run)
    ]
    parts = [each for each in found if each.names]
    if not parts:
        runs = ", ".join([each.name for each in read_runs(lake)][:8]) or "none"
        raise TracekitError(f"{where}: the lake has no such rank; its runs are {runs}")
    return parts


class Lake(Session):
    """The traces of a lake, or of a part of it, as one database."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        parts: Sequence[RunPart],
        resources: Resources | None = None,
        notes: Sequence[str] = (),
        add_names: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(connection, name, add_names=add_names)
        self.parts = parts
        self.ranks = [rank for part in parts for rank in part.ranks]
        self.notes = notes
        self._contexts = {rank.trace_id: part.run.context for part in parts for rank in part.ranks}
        self.resources = resources or Resources()

    @property
    def inputs(self) -> Iterable[str | Path]:
        roots = {part.root for part in self.parts}
        return (path for root in roots for path in local_files(Storage(root)))

    def __exit__(self, *raised: Any) -> None:
        """Closes the lake. An error that tracekit's own code raised in the block means that rows
        contradict each other, or that the code has a mistake."""
        super().__exit__(*raised)
        _, error, where = raised
        if isinstance(error, (*SURPRISES, RecursionError, duckdb.Error)) and _is_own(where):
            raise TracekitError(
                f"{self.name}: its rows contradict each other, or tracekit made a mistake: "
                f"{first_line(error)}"
            ) from error

    def sql_of(self, question: Query, given: Mapping[str, Value]) -> str:
        answer = stored_answer_sql(question, given) if self.judges_as_stored else None
        return answer or question.sql

    def shown_sql(self, question: Query, given: Mapping[str, Value]) -> str:
        names = [column.name for column in question.columns]
        if "trace_id" not in names:
            return self.sql_of(question, given)
        beside = "".join(f"trace.{name}, " for name in ("run", "rank") if name not in names)
        return catalog.render_template(
            "lake_answer", beside=beside, answer=self.sql_of(question, given)
        )

    def in_order(self) -> list[int]:
        return [rank.trace_id for rank in self.ranks]

    @property
    def settled(self) -> frozenset[int]:
        return frozenset(each.trace_id for each in self.ranks if each.tables != catalog.FORMAT)

    def context_of(self, trace_id: int) -> str:
        return self._contexts[trace_id]

    @contextmanager
    def among_all(self) -> Iterator[Session]:
        if len(self.parts) == 1 and len(self.parts[0].ranks) < len(self.parts[0].run.ranks):
            part = self.parts[0]
            whole = replace(part, names=frozenset(part.run.ranks))
            with open_parts([whole], self.resources, self.name) as lake:
                yield lake
        else:
            yield self


def _is_own(where: TracebackType | None) -> bool:
    """Whether tracekit's own code raised an error, and not only its caller's."""
    while where is not None:
        if where.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        where = where.tb_next
    return False


def open_lake(paths: str | Iterable[str], resources: Resources | None = None) -> Lake:
    """Opens a lake, a part of one, or several together, read-only.

    Raises:
        TracekitError: when one is not a lake, or nothing is selected.
    """
    given = [paths] if isinstance(paths, str) else list(paths)
    parts = [part for path in given for part in selected_parts(selection(path))]
    return open_parts(parts, resources or Resources(), ", ".join(given))


def open_run(root: str, name: str, resources: Resources) -> Lake:
    """Opens a run of a lake."""
    return open_parts(selected_parts(Selection(root, name)), resources)


def open_parts(parts: Sequence[RunPart], resources: Resources, name: str | None = None) -> Lake:
    """Opens some ranks.

    Raises:
        TracekitError: when two of them have the same number and are not the same trace, or another
            version of tracekit wrote them all.
    """
    first: dict[int, Rank] = {}
    chosen: list[RunPart] = []
    for part in parts:
        names = set()
        for rank in part.ranks:
            other = first.setdefault(rank.trace_id, rank)
            if (other.run, other.name, other.sha256) != (rank.run, rank.name, rank.sha256):
                raise TracekitError(
                    f"{part.root}: {other.name} of {other.run!r} and {rank.name} of {rank.run!r} "
                    "have the same number: add one of them to another run"
                )
            if other is rank:
                names.add(rank.name)
        if names:
            chosen.append(replace(part, names=frozenset(names)))
    one = chosen[0]
    name = name or f"{one.root}/run={one.run.name}"
    connection, bound, vocabulary = _connected(chosen, resources)
    return Lake(connection, name, bound.parts, resources, bound.notes, vocabulary.add)


def _connected(
    parts: Sequence[RunPart], resources: Resources
) -> tuple[duckdb.DuckDBPyConnection, Binding, Vocabulary]:
    """A connection that can read these ranks, and no other file; the ranks that it reads, with
    notes on the others; and the views that it lacks."""
    root = parts[0].root
    connection = connect(":memory:", resources.settings(f"{root}#lake"), root)
    try:
        if resources.memory_mb is not None:
            limit_mb = resources.memory_mb - _OUTSIDE_QUERIES_MB
            connection.execute(f"SET memory_limit = '{limit_mb}MB'")
        # Rows carry their position in the file.
        connection.execute("SET preserve_insertion_order = false")
        stored.create_tables(connection)
        record_peaks(connection, peaks(resources.hardware))
        connection.execute("INSERT INTO tracekit VALUES (?)", [catalog.FORMAT])
        bound = Binding(connection, parts)
        vocabulary = bound.bind()
        limit_spilling(connection, SPILL_MB if resources.spill_mb is None else resources.spill_mb)
        close_to_the_outside(connection)
    except duckdb.Error as error:
        connection.close()
        reason = str(error).splitlines()[0]
        raise TracekitError(f"{root}: the lake cannot be read: {reason}") from error
    except BaseException:
        connection.close()
        raise
    return connection, bound, vocabulary


def _answer(
    question: str, given: Mapping[str, Value], resources: Resources, part: RunPart
) -> bytes:
    """The answer of one rank as Parquet, with its run and rank.

    Raises:
        TracekitError: when the rank cannot be read, or the answer is too long.
    """
    with open_parts([part], resources) as opened:
        sql = opened.shown_sql(catalog.query(question), given)
        frame = opened.frame(f"SELECT * FROM ({sql}) LIMIT {MOST_ROWS + 1}", given)
    if frame.height > MOST_ROWS:
        raise TracekitError(f"{question}: the answer of one rank has more than {MOST_ROWS:,} rows")
    written = io.BytesIO()
    frame.write_parquet(written)
    return written.getvalue()


def ask_ranks(
    lake: str,
    question: str,
    given: Mapping[str, Value],
    workers: Workers,
    folder: Path,
    resources: Resources | None = None,
) -> Session:
    """The answers of all ranks of a lake, or a part of it, as the table `answers`; `folder` is for
    their files.

    Raises:
        TracekitError: when there is no such question or parameter, or a rank cannot be read.
    """
    checked = catalog.query(question).check_parameters(given)
    parts = [part.only(rank) for part in selected_parts(selection(lake)) for rank in part.ranks]
    place = {part.ranks[0].trace_id: number for number, part in enumerate(parts)}
    answer = partial(_answer, question, checked, resources or Resources())
    for part, found in workers.each(answer, parts):
        (rank,) = part.ranks
        if isinstance(found, Exception):
            raise TracekitError(f"run={rank.run}/{rank.name}: {reason_of(found)}") from found
        (folder / f"{place[rank.trace_id]:09d}.parquet").write_bytes(found)
    return Session(_opened(sorted(folder.glob("*.parquet")), lake), lake)


def _opened(files: list[Path], name: str) -> duckdb.DuckDBPyConnection:
    """A connection that holds the answers, in the order of the ranks."""
    import polars

    filled = [each for each in files if polars.scan_parquet(each).limit(1).collect().height]
    connection = connect(":memory:", {}, name)
    listed = [str(each) for each in filled or files[:1]]
    connection.execute(
        "CREATE TABLE answers AS FROM read_parquet($1, union_by_name = true)", [listed]
    )
    close_to_the_outside(connection)
    return connection
