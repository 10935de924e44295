"""Traces -> a lake: adds what is new or changed, and removes the files that no reader sees."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil

from tracekit.database import catalog
from tracekit.errors import TracekitError, reason_of
from tracekit.ingest.resources import Resources
from tracekit.lake import judging, publishing
from tracekit.lake.compacting import MOST_GROUPS, Compacting, compact
from tracekit.lake.layout import (
    ARCHIVES,
    LAYOUT,
    MANIFESTS,
    MARK,
    NUMBERS,
    TABLES,
    Archive,
    Group,
    Rank,
    Source,
    archive_path,
    first_key,
    number_path,
    owner_of,
    read_archive,
    valid_name,
    version_path,
)
from tracekit.lake.reading import check_mark, require_lake
from tracekit.lake.runs import LakeRun, all_ranks, change_run, read_run, read_runs
from tracekit.lake.sources import find_sources, run_of
from tracekit.lake.storage import HIDDEN, Storage, storage
from tracekit.lake.workers import Workers
from tracekit.lake.writing import (
    MOST_BYTES,
    MOST_TRACES,
    Outcome,
    Task,
    Written,
    add,
    clash,
    remove_files,
)
from tracekit.records import Record

DEFAULT_HOURS = 24.0
# A task takes so many files, if there are: planning takes as long for one.
_FEWEST = 4
_TOKEN = "[0-9a-f]{32}"
# Files that tracekit wrote, by their names. All others are the user's.
_NOTE = re.compile(rf"{ARCHIVES}/{_TOKEN}\.json")
_NUMBER = re.compile(rf"{NUMBERS}/(\d+)\.json")
_OWN = re.compile(
    rf"{_NOTE.pattern}|{_NUMBER.pattern}"
    rf"|{TABLES}/[a-z_]+/(run=[^/]+/rank=\w+/trace_id=\d+/)?{_TOKEN}\.parquet"
    rf"|{MANIFESTS}/[^/]+/({_TOKEN}|\d{{8}}|(rank|file)=[^/]+)\.json"
    rf"|({ARCHIVES}|{NUMBERS}|{MANIFESTS}/[^/]+|{TABLES}/[a-z_]+)/{re.escape(HIDDEN)}{_TOKEN}"
)


@dataclass
class Added(Record, form="tracekit/lake-added/1"):
    """What an addition did, trace by trace."""

    outcomes: list[Outcome] = field(default_factory=list)
    """What became of each trace."""
    unread: int = 0
    """Files that were not read, since they have not changed since they were added (count)"""

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
    labels: Mapping[str, str] | None = None,
    resources: Resources | None = None,
    judges: bool = True,
    on_start: Callable[[int], object] | None = None,
    on_outcome: Callable[[Outcome], object] | None = None,
) -> Added:
    """Adds the traces of files, folders, patterns, archives and URLs to a lake.

    Only what is new or changed is read: files are known by their size and state, then by their
    content. `run` names the run of all of them; by default it is the name of each trace's folder
    or archive. `labels` say more about it, such as its commit. Without `judges`, no verdict is
    stored. `on_start` is called with the number of files to read, `on_outcome` with what became of
    each trace.

    Raises:
        TracekitError: when the lake cannot be written.
    """
    if resources is not None and resources.annotations:
        raise TracekitError(f"{lake}: a lake takes no --annotations: give them to load or analyze")
    store = storage(lake)
    _begin(store)
    added = Added()

    def note(outcome: Outcome) -> None:
        added.outcomes.append(outcome)
        if on_outcome is not None:
            on_outcome(outcome)

    given = resources or Resources()
    chosen = None if run is None else valid_name(run)
    runs: dict[str, LakeRun] = {}
    new: dict[str, list[Source]] = defaultdict(list)
    seen = set()
    for source in find_sources(sources):
        if isinstance(source, TracekitError):
            note(Outcome("failed", Source("", 0, ""), message=str(source)))
            continue
        if source.url in seen or store.holds(source.url):
            continue
        seen.add(source.url)
        name = chosen or run_of(source)
        if name not in runs:
            runs[name] = read_run(store, name)
        if _is_in(store, source, runs[name], run):
            added.unread += 1
        else:
            new[name].append(source)
    if on_start is not None:
        on_start(sum(map(len, new.values())))
    tasks = [
        Task(tuple(some), lake, run, _known(runs[name], some), dict(labels or {}), given)
        for name, every in new.items()
        for some in _batches(every, workers.count)
    ]
    for task, result in workers.each(add, tasks):
        if isinstance(result, Exception):
            reason = reason_of(result)
            for source in task.sources:
                note(Outcome("failed", source, message=f"{source.url}: {reason}"))
            continue
        for outcome in _publish(store, task, result, replace_others):
            note(outcome)
    for again in _clashes(added.outcomes):
        note(again)
    touched: dict[str, set[str]] = defaultdict(set)
    for each in added.outcomes:
        if each.status in ("added", "replaced") and each.run and each.name:
            touched[each.run].add(each.name)
    names = sorted(touched)
    if judges:
        _judge(store, workers, touched, given)
    many = [name for name in names if len(read_run(store, name).held) > MOST_GROUPS]
    compact_runs(lake, workers, many, given)
    if names and publishing.is_published(store):
        publishing.publish(lake, given)
    return added


def _begin(store: Storage) -> None:
    mark = store.read(MARK)
    if mark is None:
        store.write(MARK, json.dumps({"layout": LAYOUT}).encode())
    elif check_mark(store.root, mark) != LAYOUT:
        for each in all_ranks(store):
            owner = owner_of(each.run, each.name, each.sha256, each.tables)
            store.create(number_path(each.trace_id), owner)
        # Older versions of tracekit must not add to it.
        store.write(MARK, json.dumps({"layout": LAYOUT}).encode())


def _known(run: LakeRun, sources: Iterable[Source]) -> tuple[Rank, ...]:
    urls = {each.url for each in sources}
    return tuple(each for each in run.ranks.values() if each.source.url in urls)


def _batches(sources: list[Source], workers: int) -> Iterator[list[Source]]:
    """Files for each task: as many as one load takes, but so that all workers have work twice."""
    most = min(MOST_TRACES, max(_FEWEST, ceil(len(sources) / (2 * workers))))
    some: list[Source] = []
    for each in sources:
        if some and (len(some) == most or sum(s.size for s in some) + each.size > MOST_BYTES):
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def _is_in(store: Storage, source: Source, run: LakeRun, given: str | None) -> bool:
    """Whether the lake holds this file, judged by size and modification time."""
    same = [
        each
        for each in _known(run, [source])
        if (each.source.size, each.source.stamp) == (source.size, source.stamp)
        and each.tables == catalog.FORMAT
        and source.stamp
    ]
    if not same:
        return False
    if all(each.source.member is None for each in same):
        return True
    note = read_archive(store.read(archive_path(source.url, given)) or b"")
    return (
        note is not None
        and note.source == source
        and set(note.ranks) <= {(each.run, each.name) for each in same}
    )


# -- making visible


def _publish(
    store: Storage, task: Task, done: Iterable[Written], replace_others: bool
) -> Iterator[Outcome]:
    """Makes the ranks that a task wrote visible; tells what became of each trace."""
    outcomes: list[Outcome] = []
    for each in done:
        outcomes += each.outcomes
        if each.group is not None:
            outcomes += _publish_group(store, each.group, each.took_s, replace_others)
    same = {each.name: each.source for each in outcomes if each.status == "unchanged" and each.name}
    if same:
        name = next(str(each.run) for each in outcomes if each.status == "unchanged")
        change_run(store, name, lambda run: run.with_sources(_moved(run, same)))
    for source in task.sources:
        mine = [each for each in outcomes if each.source.url == source.url]
        members = [each for each in mine if each.source.member]
        if members and all(each.status != "failed" for each in mine):
            # So that the archive need not be read again to know what it holds.
            note = Archive(source, [(str(each.run), str(each.name)) for each in mine])
            store.write(archive_path(source.url, task.run), note.as_json())
    yield from outcomes


def _moved(run: LakeRun, sources: Mapping[str, Source]) -> dict[str, Source]:
    """The files of a run's ranks whose state is another now."""
    return {
        name: source
        for name, source in sources.items()
        if name in run.ranks and run.ranks[name].source.is_same(source)
        and run.ranks[name].source != source
    }  # fmt: skip


def _publish_group(
    store: Storage, group: Group, took_s: float, replace_others: bool
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def take(run: LakeRun) -> LakeRun:
        outcomes[:] = [_outcome(each, run, took_s, replace_others) for each in group.ranks]
        taken = [each.name for each in outcomes if each.status in ("added", "replaced")]
        if not taken:
            return run
        # A file's trace may be of another rank now.
        gone = [
            rank.name
            for rank in run.ranks.values()
            for each in group.ranks
            if each.name in taken and each.name != rank.name and each.source.is_same(rank.source)
        ]
        return run.with_group(group, [name for name in taken if name], gone)

    if not any(each.group.token == group.token for each in change_run(store, group.run, take).held):
        remove_files(store, group)
    return outcomes


def _outcome(rank: Rank, run: LakeRun, took_s: float, replace_others: bool) -> Outcome:
    """What becomes of a rank whose files are written."""
    kept = run.ranks.get(rank.name)
    same = next((r for r in run.ranks.values() if r.source.is_same(rank.source)), None)
    found = Outcome("added", rank.source, rank.run, rank.name, rank.events, took_s)
    if kept is None or kept.tables != catalog.FORMAT:
        return found if kept is None and same is None else replace(found, status="replaced")
    if kept.sha256 == rank.sha256:
        return replace(found, status="unchanged")
    if not replace_others and not kept.source.is_same(rank.source):
        return Outcome(
            "failed",
            rank.source,
            message=f"{_name_of(rank.source)}: run {rank.run!r} holds {rank.name} from "
            f"{_name_of(kept.source)} already: give this one another run (--run), or let it take "
            "that one's place (--replace)",
        )
    return replace(found, status="replaced")


def _name_of(source: Source) -> str:
    return source.url if source.member is None else f"{source.url}/{source.member}"


def _clashes(outcomes: list[Outcome]) -> Iterator[Outcome]:
    """Traces of this addition that went to the same rank: only the last one is in the lake."""
    went: dict[tuple[str | None, str | None], Outcome] = {}
    for each in outcomes:
        if each.status == "failed":
            continue
        before = went.get((each.run, each.name))
        if before and not before.source.is_same(each.source):
            yield clash(each, before.source)
        went[each.run, each.name] = each


def _judge(
    store: Storage, workers: Workers, touched: Mapping[str, Set[str]], resources: Resources
) -> None:
    """Judges new ranks of runs, and others that were not judged among those that are there now."""
    tasks = [
        task
        for name, new in sorted(touched.items())
        for task in judging.tasks_of(store.root, read_run(store, name), new, resources)
    ]
    for task, found in workers.each(judging.judge, tasks):
        if isinstance(found, Exception):
            raise TracekitError(f"run={task.run}: cannot be judged: {found}") from found
        change_run(store, task.run, partial(_with_verdicts, found))


def _with_verdicts(group: Group, run: LakeRun) -> LakeRun:
    """The run with verdicts on those of its ranks that are still the same."""
    here = {rank.name: rank.trace_id for rank in run.ranks.values()}
    names = [each.name for each in group.ranks if here.get(each.name) == each.trace_id]
    return run.with_group(group, names) if names else run


def compact_runs(
    lake: str, workers: Workers, names: Iterable[str], resources: Resources | None = None
) -> int:
    """Puts the ranks of each run into one file a table; returns of how many groups.

    Raises:
        TracekitError: when a run cannot be read or written.
    """
    tasks = [Compacting(lake, name, resources or Resources()) for name in names]
    count = 0
    for task, found in workers.each(compact, tasks):
        if isinstance(found, Exception):
            raise TracekitError(f"run={task.run}: cannot be compacted: {found}") from found
        count += found
    return count


# -- cleaning


@dataclass(frozen=True)
class Cleaned(Record, form="tracekit/lake-cleaned/1"):
    """What was removed: files of replaced or unfinished ranks, and notes about archives whose ranks
    are gone."""

    removed: tuple[str, ...]
    """Their paths in the lake."""
    kept_young: int
    """Files of no rank that may belong to an addition that still runs (count)"""


def clean(root: str, older_than_hours: float = DEFAULT_HOURS) -> Cleaned:
    """Removes files that belong to no visible rank and were written long ago.

    It follows no link below the lake's folder, and leaves files that are not named as a lake names
    its own.

    Raises:
        TracekitError: when there is no lake.
    """
    lake = require_lake(root)
    # List first: files that appear later are young.
    folders = (TABLES, MANIFESTS, ARCHIVES, NUMBERS)
    listed = [each for folder in folders for each in lake.list_files(folder)]
    runs = read_runs(lake)
    groups = [each.group for run in runs for each in run.held]
    ranks = [rank for run in runs for rank in run.ranks.values()]
    used = {each.path(table) for each in groups for table in each.files}
    used |= {each.key for each in groups} | {version_path(run.name, run.number) for run in runs}
    used |= {number_path(each.trace_id) for each in ranks}
    used |= {first_key(run.name, name) for run in runs if not run.number for name in run.ranks}
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
