"""The progress of a load, a sweep or a probe, on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from tracekit.errors import TracekitError
from tracekit.text import printable
from tracekit.trace.source import trace_paths

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

B = TypeVar("B", bound="WorkBar")


class WorkBar:
    """Shows the current work; of a sweep also points done of all points, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def start(self, points: int | None) -> None:
        self._bar.update(self._task, total=points)

    def at(self, what: str) -> None:
        self._bar.update(self._task, description=printable(what))

    def done(self, points: int) -> None:
        self._bar.advance(self._task, points)


class LoadingBar(WorkBar):
    """Shows bytes read of all bytes, events per second, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        super().__init__(bar, task)
        self._lock = threading.Lock()
        self._events = 0

    def read(self, n_bytes: int) -> None:
        self.done(n_bytes)

    def found(self, n_events: int) -> None:
        with self._lock:
            self._events += n_events
            elapsed = self._bar.tasks[self._task].elapsed or 0
            if elapsed > 0:
                self._bar.update(self._task, rate=f"{self._events / elapsed:,.0f} events/s")

    def finishing(self) -> None:
        self.at("building tables")


# Each of these shows a bar on standard error while the block runs; they yield None if standard
# error is not a terminal.


@contextmanager
def loading_bar(traces: Iterable[str]) -> Iterator[LoadingBar | None]:
    def columns(progress: ModuleType) -> list[ProgressColumn]:
        return [
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
        ]

    with _shown(LoadingBar, columns) as bar:
        if bar is not None:
            bar.at("loading")
            # The loader reports the files that cannot be found.
            with suppress(TracekitError, OSError):
                files = (Path(path) for path in trace_paths(traces) if path != "-")
                bar.start(sum(file.stat().st_size for file in files) or None)
        yield bar


def sweep_bar() -> AbstractContextManager[WorkBar | None]:
    return _shown(
        WorkBar,
        lambda progress: [
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}", markup=False),
        ],
    )


def probe_bar() -> AbstractContextManager[WorkBar | None]:
    return _shown(
        WorkBar,
        lambda progress: [
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
        ],
    )


@contextmanager
def _shown(
    kind: type[B], columns: Callable[[ModuleType], list[ProgressColumn]]
) -> Iterator[B | None]:
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(*columns(progress), console=Console(stderr=True), transient=True)
    with bar:
        yield kind(bar, bar.add_task("", total=None, rate=""))
