"""The progress of a load, a sweep or a probe, on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from tracekit import stages
from tracekit.errors import TracekitError
from tracekit.text import printable
from tracekit.trace.remote import is_url
from tracekit.trace.source import trace_paths

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

B = TypeVar("B", bound="WorkBar")
# What is done sooner shows no stage.
_PATIENCE_S = 0.7


class WorkBar:
    """Shows the current work; of a sweep also points done of all points, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.bar = bar
        self._task = task

    def start(self, points: int | None) -> None:
        self.bar.update(self._task, total=points)

    def at(self, what: str) -> None:
        self.bar.update(self._task, description=printable(what))

    def done(self, points: int) -> None:
        self.bar.advance(self._task, points)


class LoadingBar(WorkBar):
    """Shows bytes read of all bytes, events per second, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        super().__init__(bar, task)
        self._lock = threading.Lock()
        self._events = 0
        self._is_read = False

    def read(self, n_bytes: int) -> None:
        self.done(n_bytes)

    def found(self, n_events: int) -> None:
        with self._lock:
            self._events += n_events
            elapsed = self.bar.tasks[self._task].elapsed or 0
            if elapsed > 0:
                self.bar.update(self._task, rate=f"{self._events / elapsed:,.0f} events/s")

    def finishing(self) -> None:
        from rich.progress import SpinnerColumn, TextColumn

        # How long the rest takes is not known.
        self.bar.columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        self._is_read = True

    def hear(self, stage: str | None) -> None:
        """All files are read; then tables are built and traces are judged."""
        if stage and self._is_read:
            self.at(stage)


class StageLine:
    """Shows the stage on a line of standard error, once the command has run for a while. The line
    is gone whenever results may be printed."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._stage: str | None = None
        self._timer: threading.Timer | None = None
        self._line: WorkBar | None = None

    def hear(self, stage: str | None) -> None:
        with self._lock:
            self._stage = stage
            if stage is None:
                self._end()
            elif self._line:
                self._line.at(stage)
            elif self._timer is None:
                left_s = max(0.0, self._begun + _PATIENCE_S - time.monotonic())
                self._timer = threading.Timer(left_s, self._show)
                self._timer.daemon = True
                self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if self._stage is not None and self._line is None:
                self._line = _made(WorkBar, _spinner)
                self._line.at(self._stage)
                self._line.bar.start()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._line:
            self._line.bar.stop()
        self._timer = self._line = None


@contextmanager
def stage_line() -> Iterator[None]:
    """Shows the stages of the work in the block."""
    with stages.heard_by(StageLine().hear):
        yield


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
        if bar is None:
            yield None
            return
        bar.at("loading")
        # The loader reports the files that cannot be found.
        with suppress(TracekitError, OSError):
            local = [each for each in traces if not is_url(each)]
            files = (Path(path) for path in trace_paths(local) if path != "-")
            bar.start(sum(file.stat().st_size for file in files) or None)
        with stages.heard_by(bar.hear):
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
    return _shown(WorkBar, _spinner)


def _spinner(progress: ModuleType) -> list[ProgressColumn]:
    return [progress.SpinnerColumn(), progress.TextColumn("{task.description}", markup=False)]


@contextmanager
def _shown(
    kind: type[B], columns: Callable[[ModuleType], list[ProgressColumn]]
) -> Iterator[B | None]:
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    made = _made(kind, columns)
    with made.bar:
        yield made


def _made(kind: type[B], columns: Callable[[ModuleType], list[ProgressColumn]]) -> B:
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        *columns(progress),
        console=Console(stderr=True),
        transient=True,
        # What is printed meanwhile stays on standard output.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    return kind(bar, bar.add_task("", total=None, rate=""))
