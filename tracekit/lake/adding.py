"""Traces -> a lake: adds what is new or changed, and removes the files that no reader sees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import (
    ARCHIVES,
    LAYOUT,
    MANIFESTS,
    MARK,
    NO_VALUE,
    TABLES,
    Rank,
    Source,
    archive_path,
    read_archive,
    valid_name,
)
from tracekit.lake.reading import visible_ranks
from tracekit.lake.sources import find_sources, run_of
from tracekit.lake.storage import HIDDEN, Storage, storage
from tracekit.lake.workers import Workers
from tracekit.lake.writing import Outcome, Task, add
from tracekit.records import parsed

DEFAULT_HOURS = 24.0
_TOKEN = "[0-9a-f]{32}"
_RANK = rf"{TABLES}/[a-z_]+/run=[^/]+/rank=(\d+|{NO_VALUE})/trace_id=\d+"
# Files that tracekit wrote, by their names. All others are the user's.
_NOTE = re.compile(rf"{ARCHIVES}/{_TOKEN}\.json")
_OWN = re.compile(
    rf"{_NOTE.pattern}|{_RANK}/{_TOKEN}\.parquet"
    rf"|({ARCHIVES}|{MANIFESTS}/run=[^/]+|{_RANK})/{re.escape(HIDDEN)}{_TOKEN}"
)


@dataclass
class Added:
    """What an addition did, trace by trace."""

    outcomes: list[Outcome] = field(default_factory=list)
    unread: int = 0
    """Files that were not read, since they have not changed since they were added."""

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.status == "failed"]


def add_traces(
    sources: Iterable[str],
    lake: str,
    workers: Workers,
    *,
    run: str | None = None,
    replace_others: bool = False,
    resources: Resources | None = None,
    judges: bool = True,
    on_start: Callable[[int], object] | None = None,
    on_outcome: Callable[[Outcome], object] | None = None,
) -> Added:
    """Adds the traces of files, folders, patterns, archives and URLs to a lake.

    Only what is new or changed is read: files are known by their size and state, then by their
    content. `run` names the run of all of them; by default it is the name of each trace's folder
    or archive. Without `judges`, no verdict is stored. `on_start` is called with the number of
    files to read, `on_outcome` with what became of each trace.

    Raises:
        TracekitError: when the lake cannot be written.
    """
    store = storage(lake)
    _begin(store)
    added = Added()

    def note(outcome: Outcome) -> None:
        added.outcomes.append(outcome)
        if on_outcome is not None:
            on_outcome(outcome)

    tasks = []
    ranks = visible_ranks(store)
    by_url: dict[str, list[Rank]] = {}
    for rank in ranks:
        if rank.run == (run_of(rank.source) if run is None else valid_name(run)):
            by_url.setdefault(rank.source.url, []).append(rank)
    seen = set()
    for source in find_sources(sources):
        if isinstance(source, TracekitError):
            note(Outcome("failed", Source("", 0, ""), message=str(source)))
            continue
        if source.url in seen or store.holds(source.url):
            continue
        seen.add(source.url)
        known = tuple(by_url.get(source.url, ()))
        if _is_in(store, source, known, run):
            added.unread += 1
            continue
        given = resources or Resources()
        tasks.append(Task(source, lake, run, known, replace_others, 0, given, judges))
    if on_start is not None:
        on_start(len(tasks))
    _work(workers, tasks, note)
    _renumber(store, workers, tasks, note)
    for clash in _clashes(added.outcomes):
        note(clash)
    return added


def _begin(store: Storage) -> None:
    mark = store.read(MARK)
    if mark is None:
        store.write(MARK, json.dumps({"layout": LAYOUT}).encode())
        return
    try:
        layout = parsed(mark)["layout"]
    except (ValueError, TypeError, KeyError) as error:
        raise TracekitError(f"{store.root}: {MARK} in it is not that of a lake") from error
    if layout != LAYOUT:
        raise TracekitError(f"{store.root}: another version of tracekit made this lake")


def _is_in(store: Storage, source: Source, known: tuple[Rank, ...], run: str | None) -> bool:
    """Whether the lake holds this file, judged by size and modification time."""
    same = [
        each
        for each in known
        if (each.source.size, each.source.stamp) == (source.size, source.stamp)
        and each.tables == catalog.FORMAT
        and source.stamp
    ]
    if not same:
        return False
    if all(each.source.member is None for each in same):
        return True
    note = read_archive(store.read(archive_path(source.url, run)) or b"")
    return (
        note is not None
        and note.source == source
        and set(note.ranks) <= {(each.run, each.name) for each in same}
    )


def _work(workers: Workers, tasks: list[Task], note: Callable[[Outcome], None]) -> None:
    for task, result in workers.each(add, tasks):
        if isinstance(result, Exception):
            reason = str(result).strip().partition("\n")[0] or type(result).__name__
            result = [Outcome("failed", task.source, message=f"{task.source.url}: {reason}")]
        for outcome in result:
            note(outcome)


def _renumber(
    store: Storage, workers: Workers, tasks: list[Task], note: Callable[[Outcome], None]
) -> None:
    """Writes a rank again with another number if two ranks have the same."""
    for salt in (1, 2, 3):
        owners: dict[int, Rank] = {}
        double = set()
        for rank in visible_ranks(store):
            if owners.setdefault(rank.trace_id, rank) is not rank:
                double.add(rank.source.url)
        again = [replace(each, salt=salt) for each in tasks if each.source.url in double]
        if not again:
            return
        _work(workers, [replace(each, known=()) for each in again], note)


def _clashes(outcomes: list[Outcome]) -> Iterator[Outcome]:
    """Traces of this addition that went to the same rank: only the last one is in the lake."""
    went: dict[tuple[str | None, str | None], Outcome] = {}
    for each in outcomes:
        if each.status == "failed":
            continue
        before = went.get((each.run, each.name))
        here = (each.source.url, each.source.member)
        if before and (before.source.url, before.source.member) != here:
            yield Outcome(
                "failed",
                each.source,
                message=f"{each.source.url}: is {each.name} of run {each.run!r}, as "
                f"{before.source.url} is: give one of them another run (--run)",
            )
        went[each.run, each.name] = each


@dataclass(frozen=True)
class Cleaned:
    """What was removed: files of replaced or unfinished ranks, and notes about archives whose ranks
    are gone."""

    removed: tuple[str, ...]
    """Their paths in the lake."""
    kept_young: int
    """Files of no rank that may belong to an addition that still runs."""


def clean(root: str, older_than_hours: float = DEFAULT_HOURS) -> Cleaned:
    """Removes files that belong to no visible rank and were written long ago.

    It follows no link below the lake's folder, and leaves files that are not named as a lake names
    its own.

    Raises:
        TracekitError: when there is no lake.
    """
    lake = storage(root)
    if lake.read(MARK) is None:
        raise TracekitError(f"{root}: is not a lake: `tracekit lake add` makes one")
    # List first: files that appear later are young.
    listed = [each for folder in (TABLES, MANIFESTS, ARCHIVES) for each in lake.list_files(folder)]
    ranks = visible_ranks(lake)
    used = {rank.path(table) for rank in ranks for table in rank.files}
    urls = {rank.source.url for rank in ranks}
    unused = [
        each
        for each in listed
        if _OWN.fullmatch(each.path)
        and each.path not in used
        and not (_NOTE.fullmatch(each.path) and _url_of(lake, each.path) in urls)
    ]
    old = [each.path for each in unused if each.age_s >= older_than_hours * 3600]
    lake.remove(old)
    return Cleaned(tuple(old), len(unused) - len(old))


def _url_of(lake: Storage, note: str) -> str | None:
    """The archive that a note is about; None if it cannot be read."""
    archive = read_archive(lake.read(note) or b"")
    return None if archive is None else archive.source.url
