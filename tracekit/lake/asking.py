"""A question about each rank by itself, asked where the work is: the driver holds the answers, and
reads no events."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import duckdb
import polars

from tracekit.database import catalog
from tracekit.database.catalog import Value
from tracekit.database.connection import connect
from tracekit.database.sandbox import close_to_the_outside
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import Rank, selection
from tracekit.lake.reading import open_pairs, selected
from tracekit.lake.storage import storage

# More rows of one rank than this are no answer but data.
MOST_ROWS = 100_000


@dataclass(frozen=True)
class RankQuestion:
    """One rank of a lake, and what to ask it."""

    lake: str
    rank: Rank
    question: str
    given: Mapping[str, Value]
    resources: Resources = field(default_factory=Resources)


class QuestionWorkers(Protocol):
    """Runs a function on many questions, several at a time."""

    def each(
        self, function: Callable[[RankQuestion], bytes], tasks: Iterable[RankQuestion]
    ) -> Iterator[tuple[RankQuestion, bytes | Exception]]:
        """The results as they come, or the error that ended a task."""


def answer(task: RankQuestion) -> bytes:
    """The answer of one rank as Parquet, with its run and rank.

    Raises:
        TracekitError: when the rank cannot be read, or the answer is too long.
    """
    question = catalog.query(task.question)
    with open_pairs([(task.rank, storage(task.lake))], task.resources) as opened:
        sql = f"SELECT * FROM ({opened.shown_sql(question, task.given)}) LIMIT {MOST_ROWS + 1}"
        frame = opened.frame(sql, task.given)
    if frame.height > MOST_ROWS:
        raise TracekitError(
            f"{task.question}: the answer of one rank has more than {MOST_ROWS:,} rows"
        )
    written = io.BytesIO()
    frame.write_parquet(written)
    return written.getvalue()


def ask_ranks(
    lake: str,
    question: str,
    given: Mapping[str, Value],
    workers: QuestionWorkers,
    folder: Path,
    resources: Resources | None = None,
) -> Session:
    """The answers of all ranks of a lake, or a part of it, as the table `answers`; they are kept in
    `folder`.

    Raises:
        TracekitError: when there is no such question or parameter, or a rank cannot be read.
    """
    checked = catalog.query(question).checked(given)
    where = selection(lake)
    ranks = selected(where)
    place = {rank.trace_id: number for number, rank in enumerate(ranks)}
    tasks = [
        RankQuestion(where.root, rank, question, checked, resources or Resources())
        for rank in ranks
    ]
    for task, found in workers.each(answer, tasks):
        if isinstance(found, Exception):
            reason = str(found).strip().partition("\n")[0] or type(found).__name__
            raise TracekitError(f"run={task.rank.run}/{task.rank.name}: {reason}") from found
        (folder / f"{place[task.rank.trace_id]:09d}.parquet").write_bytes(found)
    return Session(_opened(sorted(folder.glob("*.parquet")), lake), lake)


def _opened(files: list[Path], name: str) -> duckdb.DuckDBPyConnection:
    """A connection that holds the answers, in the order of the ranks."""
    filled = [each for each in files if polars.scan_parquet(each).limit(1).collect().height]
    connection = connect(":memory:", {}, name)
    listed = [str(each) for each in filled or files[:1]]
    connection.execute(
        "CREATE TABLE answers AS FROM read_parquet($1, union_by_name = true)", [listed]
    )
    close_to_the_outside(connection)
    return connection
