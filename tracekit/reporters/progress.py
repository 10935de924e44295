"""On a terminal: the progress of a load, a sweep or a probe, and the stage of other long work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit import stages
from tracekit.errors import TracekitError
from tracekit.text import printable
from tracekit.trace.remote import is_url
from tracekit.trace.source import trace_paths

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, ProgressColumn, TaskID


# What is done sooner shows no stage.
_PATIENCE_S = 0.7


class LoadingBar:
    """Shows bytes read of all bytes, events per second, and the time left."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._lock = threading.Lock()
        self._events = 0
        self._is_read = False

    def read(self, n_bytes: int) -> None:
        self._bar.advance(self._task, n_bytes)

    def found(self, n_events: int) -> None:
        with self._lock:
            self._events += n_events
            elapsed = self._bar.tasks[self._task].elapsed or 0
            if elapsed > 0:
                self._bar.update(self._task, rate=f"{self._events / elapsed:,.0f} events/s")

    def finishing(self) -> None:
        from rich.progress import SpinnerColumn, TextColumn

        # How long the rest takes is not known.
        self._bar.columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        self._is_read = True

    def at(self, stage: str | None) -> None:
        """All files are read; then tables are built and traces are judged."""
        if stage and self._is_read:
            self._bar.update(self._task, description=printable(stage))


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

    def __init__(self, shown: Live) -> None:
        self._shown = shown

    def at(self, what: str) -> None:
        _write(self._shown, what)


class StageLine:
    """Shows the stage on a line of standard error, once the command has run for a while. The line
    is gone whenever results may be printed."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._stage: str | None = None
        self._timer: threading.Timer | None = None
        self._shown: Live | None = None

    def at(self, stage: str | None) -> None:
        with self._lock:
            self._stage = stage
            if stage is None:
                self._end()
            elif self._shown:
                _write(self._shown, stage)
            elif self._timer is None:
                left_s = max(0.0, self._begun + _PATIENCE_S - time.monotonic())
                self._timer = threading.Timer(left_s, self._show)
                self._timer.daemon = True
                self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if self._stage is not None and self._shown is None:
                self._shown = _line(self._stage)
                self._shown.start()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._shown:
            self._shown.stop()
        self._timer = self._shown = None


@contextmanager
def stage_line() -> Iterator[None]:
    """Shows the stages of the work in the block."""
    with stages.heard_by(StageLine().at):
        yield


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
        shown = LoadingBar(bar, bar.add_task("loading", total=total or None, rate=""))
        with stages.heard_by(shown.at):
            yield shown


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
    with _line("") as shown:
        yield ProbeBar(shown)


def _line(text: str) -> Live:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    out = Console(stderr=True, markup=False, highlight=False, emoji=False)
    # Whatever is printed meanwhile stays on standard output.
    return Live(
        Spinner("dots", Text(printable(text))),
        console=out,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=8,
    )


def _write(shown: Live, text: str) -> None:
    """Replaces the text of such a line."""
    from rich.spinner import Spinner
    from rich.text import Text

    if isinstance(shown.renderable, Spinner):
        shown.renderable.update(text=Text(printable(text)))


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
