"""Adds traces to a lake: finds new and changed ones, and makes them visible."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from tracekit.database import catalog
from tracekit.database.connection import is_database
from tracekit.errors import TracekitError, reason_of
from tracekit.ingest.resources import Resources
from tracekit.lake import writing
from tracekit.lake.layout import LAYOUT, MARK, Group, Rank, Source, run_of, valid_name
from tracekit.lake.reading import check_mark
from tracekit.lake.runs import LakeRun, change_run, new_token, read_run
from tracekit.lake.storage import HIDDEN, Storage
from tracekit.lake.upkeep import MOST_GROUPS, compact_runs, is_published, judge, publish
from tracekit.lake.workers import Progress, Unheard, Workers
from tracekit.lake.writing import Outcome, Task, Written
from tracekit.records import Record
from tracekit.text import shown
from tracekit.trace.paths import DATABASES, endings, trace_paths
from tracekit.trace.remote import find, is_url

# The minimum size and number of files per task, since planning takes as long for a single file.
_LEAST_BYTES = 8 << 20
_FEWEST = 4
_MARK = json.dumps({"layout": LAYOUT}).encode()


class Added(Record, frozen=True):
    """The result of an addition, trace by trace."""

    form: ClassVar[str] = "tracekit/lake-added/1"

    outcomes: list[Outcome]
    """The outcome for each trace."""
    unread: int
    """The number of files that were skipped because they have not changed (count)"""

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]


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
    on_outcome: Callable[[Outcome], object] = str,
    progress: Progress | None = None,
) -> Added:
    """Adds the traces of files, folders, patterns, archives and URLs to a lake.

    Only new and changed traces are read: files are compared by size and state, then by content.
    `run` is the name of the run, by default the name of each trace's folder or archive. `labels`
    describe the run, such as its commit. Without `judges`, verdicts are not stored. `on_outcome`
    is called with each trace's outcome. `progress` hears of reading files, then of judging ranks,
    then of writing.

    Raises:
        TracekitError: when the lake cannot be written.
    """
    limits, heard = resources or Resources(), progress or Unheard()
    if limits.annotations:
        raise TracekitError(
            f"{lake}: a lake does not take --annotations: use them with load or analyze"
        )
    store = Storage(lake)
    with store.leaving_no_empty_folder():
        _prepare(store)
        outcomes: list[Outcome] = []

        def note(*some: Outcome) -> None:
            for outcome in some:
                outcomes.append(outcome)
                on_outcome(outcome)

        chosen = None if run is None else valid_name(run)
        runs: dict[str, LakeRun] = {}
        new: dict[str, list[Source]] = defaultdict(list)
        unread = 0
        for source in _find_sources(sources, store):
            if isinstance(source, TracekitError):
                note(writing.failed(Source("", 0, ""), source))
                continue
            name = chosen or run_of(source)
            if name not in runs:
                runs[name] = read_run(store, name)
            if _is_in(source, runs[name]):
                unread += 1
            else:
                new[name].append(source)
        heard.begin("reading", sum(map(len, new.values())))
        tasks = [
            Task(tuple(some), lake, run, _known(runs[name], some), dict(labels or {}), limits)
            for name, every in new.items()
            for some in writing.batches(
                every, lambda each: each.size, _most_files(every, workers), writing.MOST_BYTES
            )
        ]
        for task, result in workers.each(writing.add, tasks):
            if isinstance(result, Exception):
                why = reason_of(result)
                note(*(writing.failed(each, f"{each.url}: {why}") for each in task.sources))
            else:
                note(*_publish(store, task, result, replace_others))
            heard.done(len(task.sources))
        note(*_clashes(outcomes))
        _follow_up(store, workers, outcomes, limits, judges, heard)
        return Added(outcomes, unread)


def _follow_up(
    store: Storage,
    workers: Workers,
    outcomes: Iterable[Outcome],
    given: Resources,
    judges: bool,
    progress: Progress,
) -> None:
    """Judges the added ranks, and keeps their runs compact and published."""
    touched: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        if outcome.status in ("added", "replaced"):
            touched[str(outcome.run)].add(str(outcome.name))
    if not touched:
        return
    if judges:
        judge(store, workers, touched, given, progress)
    progress.begin("writing", None)
    many = [name for name in sorted(touched) if len(read_run(store, name).groups) > MOST_GROUPS]
    compact_runs(store.root, workers, many, given)
    if is_published(store):
        publish(store.root, given)


def _prepare(store: Storage) -> None:
    """Makes sure that the lake is writable and has this layout. A new lake starts with a rank."""
    mark = store.read(MARK)
    if mark is None:
        probe = f"{HIDDEN}{new_token()}"
        store.write(probe, b"")
        store.remove([probe])
    else:
        check_mark(store.root, mark)


def _known(run: LakeRun, sources: Iterable[Source]) -> tuple[Rank, ...]:
    urls = {source.url for source in sources}
    return tuple(rank for rank in run.ranks.values() if rank.source.url in urls)


def _most_files(sources: list[Source], workers: Workers) -> int:
    """The number of files per task, so that each worker gets two tasks if there are enough files,
    or one of small files."""
    are_small = sum(each.size for each in sources) <= workers.count * _LEAST_BYTES
    tasks = workers.count if are_small else 2 * workers.count
    return min(writing.MOST_TRACES, max(_FEWEST, ceil(len(sources) / tasks)))


def _is_in(source: Source, run: LakeRun) -> bool:
    """Whether the lake already has this file, judging by size and modification time."""
    same = [
        each.source
        for each in _known(run, [source])
        if (each.source.size, each.source.stamp) == (source.size, source.stamp)
        and each.tables == catalog.FORMAT
        and source.stamp
    ]
    return bool(same) and (same[0].member is None or len(same) == same[0].members)


# -- finding files


def _find_sources(paths: Iterable[str], lake: Storage) -> Iterator[Source | TracekitError]:
    """The files at paths and URLs (files, folders and patterns), each once, with its state, without
    the lake's own.

    A path that does not exist yields an error.
    """
    seen = set()
    for path in paths:
        try:
            if path == "-":
                raise TracekitError("-: a lake needs files: standard input cannot be reread")
            for file in _remote(path) if is_url(path) else map(_local, trace_paths([path])):
                if isinstance(file, TracekitError):
                    yield file
                elif file.url not in seen and not lake.holds(file.url):
                    seen.add(file.url)
                    yield file
        except TracekitError as error:
            yield error


def _local(path: str) -> Source | TracekitError:
    try:
        state = Path(path).stat()
    except (OSError, ValueError) as error:
        return TracekitError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    if is_database(path):
        return _is_a_database(path)
    return Source(str(Path(path).absolute()), state.st_size, str(state.st_mtime_ns))


def _is_a_database(path: str) -> TracekitError:
    return TracekitError(f"{path}: is a database: add its original traces")


def _remote(url: str) -> Iterator[Source | TracekitError]:
    if shown(url) != url:
        raise TracekitError(
            f"{shown(url)}: a lake stores its sources' addresses: give one without user, "
            "password or query"
        )
    if url.endswith(DATABASES):
        raise _is_a_database(url)
    yield from (Source(*each) for each in find(url, endings()))


# -- making visible


def _publish(
    store: Storage, task: Task, done: Iterable[Written], replace_others: bool
) -> Iterator[Outcome]:
    """Makes the ranks written by a task visible; yields each trace's outcome."""
    outcomes: list[Outcome] = []
    for written in done:
        outcomes += written.outcomes
        if written.group is not None:
            outcomes += _publish_group(store, written.group, written.took_s, replace_others)
    states = {
        str(outcome.name): outcome.source for outcome in outcomes if outcome.status == "unchanged"
    }
    for source in task.sources:
        mine = [outcome for outcome in outcomes if outcome.source.url == source.url]
        if all(each.source.member and each.status != "failed" for each in mine):
            # Recorded, so that a complete archive need not be read again.
            states |= {str(e.name): replace(e.source, members=len(mine)) for e in mine}
    if states:
        name = next(str(outcome.run) for outcome in outcomes if outcome.name in states)
        change_run(store, name, lambda run: run.with_sources(states))
    yield from outcomes


def _publish_group(
    store: Storage, group: Group, took_s: float, replace_others: bool
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def take(run: LakeRun) -> LakeRun:
        outcomes[:] = [_outcome(rank, run, took_s, replace_others) for rank in group.ranks]
        chosen = [outcome.name for outcome in outcomes if outcome.status in ("added", "replaced")]
        if not chosen:
            return run
        # A changed file may now be another rank's trace.
        removed = [
            rank.name
            for rank in run.ranks.values()
            for each in group.ranks
            if each.name in chosen and each.name != rank.name and each.source.is_same(rank.source)
        ]
        return run.with_group(group, [name for name in chosen if name], removed)

    if store.read(MARK) is None:
        # Other writers write the same content.
        store.write(MARK, _MARK)
    if all(each.token != group.token for each in change_run(store, group.run, take).groups):
        writing.remove_files(store, group)
    return outcomes


def _outcome(rank: Rank, run: LakeRun, took_s: float, replace_others: bool) -> Outcome:
    """The outcome for a rank whose files are written."""
    before = run.ranks.get(rank.name)
    same = next((r for r in run.ranks.values() if r.source.is_same(rank.source)), None)
    outcome = Outcome("added", rank.source, rank.run, rank.name, rank.events, took_s)
    if before is None or before.tables != catalog.FORMAT:
        return outcome if before is None and same is None else replace(outcome, status="replaced")
    if before.sha256 == rank.sha256:
        return replace(outcome, status="unchanged")
    if not replace_others and not before.source.is_same(rank.source):
        return writing.failed(
            rank.source,
            f"{_name_of(rank.source)}: run {rank.run!r} holds {rank.name} from "
            f"{_name_of(before.source)} already: add this one to another run (--run), or replace "
            "the existing one (--replace)",
        )
    return replace(outcome, status="replaced")


def _name_of(source: Source) -> str:
    return source.url if source.member is None else f"{source.url}/{source.member}"


def _clashes(outcomes: list[Outcome]) -> Iterator[Outcome]:
    """Traces added to the same rank: only the last one is in the lake."""
    went: dict[tuple[str | None, str | None], Outcome] = {}
    for outcome in outcomes:
        if outcome.status == "failed":
            continue
        before = went.get((outcome.run, outcome.name))
        if before and not before.source.is_same(outcome.source):
            yield writing.clash(outcome, before.source)
        went[outcome.run, outcome.name] = outcome
