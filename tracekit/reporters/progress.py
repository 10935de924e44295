"""The progress of a load, a sweep or a probe, on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.text import printable
from tracekit.trace.remote import is_url
from tracekit.trace.source import trace_paths

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID
    from rich.status import Status


class LoadingBar:
    """Shows bytes read of all bytes, events per second, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._lock = threading.Lock()
        self._events = 0

    def read(self, n_bytes: int) -> None:
        self._bar.advance(self._task, n_bytes)

    def found(self, n_events: int) -> None:
        with self._lock:
            self._events += n_events
            elapsed = self._bar.tasks[self._task].elapsed or 0
            if elapsed > 0:
                self._bar.update(self._task, rate=f"{self._events / elapsed:,.0f} events/s")

    def finishing(self) -> None:
        self._bar.update(self._task, description="building tables")


class SweepBar:
    """Shows points done of all points, the current work, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def start(self, points: int) -> None:
        self._bar.update(self._task, total=points)

    def at(self, what: str) -> None:
        self._bar.update(self._task, description=printable(what))

    def done(self, points: int) -> None:
        self._bar.advance(self._task, points)


class ProbeBar:
    """Shows the current work."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def at(self, what: str) -> None:
        self._status.update(printable(what))


# Each of these shows a bar on standard error while the block runs; they yield None if standard
# error is not a terminal.


@contextmanager
def loading_bar(traces: Iterable[str]) -> Iterator[LoadingBar | None]:
    if not _is_terminal():
        yield None
        return
    from rich import progress

    total = 0
    # The loader reports the files that cannot be found.
    with suppress(TracekitError, OSError):
        local = [each for each in traces if not is_url(each)]
        total = sum(Path(path).stat().st_size for path in trace_paths(local) if path != "-")
    with _bar(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
    ) as bar:
        yield LoadingBar(bar, bar.add_task("loading", total=total or None, rate=""))


@contextmanager
def sweep_bar() -> Iterator[SweepBar | None]:
    if not _is_terminal():
        yield None
        return
    from rich import progress

    with _bar(
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False),
    ) as bar:
        yield SweepBar(bar, bar.add_task("", total=None))


@contextmanager
def probe_bar() -> Iterator[ProbeBar | None]:
    if not _is_terminal():
        yield None
        return
    from rich.console import Console

    out = Console(stderr=True, markup=False, highlight=False, emoji=False)
    with out.status("") as status:
        yield ProbeBar(status)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
