"""The progress of a load, a sweep or a probe, on a terminal."""

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
from tracekit.trace.paths import trace_paths
from tracekit.trace.remote import is_url

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

# Shorter work does not show a stage.
_PATIENCE_S = 0.7


class WorkBar:
    """Shows the current work; with `shows` (points, parts or bytes), also the completed part and
    the remaining time. Implements `LoadProgress`, and `Progress` of a lake, too."""

    def __init__(self, shows: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(
            *_columns(shows),
            console=Console(stderr=True),
            transient=True,
            # Output printed in the meantime stays on standard output.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.is_read = False
        self._task = self.bar.add_task("", total=None, rate="")
        self._lock = threading.Lock()
        self._events = 0

    def start(self, total: int | None) -> None:
        self.bar.update(self._task, total=total)

    def begin(self, what: str, total: int | None) -> None:
        """Shows this work from its start; without `total`, the remaining time is unknown."""
        self.bar.columns = _columns("work" if total is None else "parts")
        self.bar.reset(self._task, total=total, description=printable(what))
        # Seen however short it is.
        self.bar.refresh()

    def at(self, what: str) -> None:
        self.bar.update(self._task, description=printable(what))

    def done(self, count: int) -> None:
        self.bar.advance(self._task, count)

    read = done

    def found(self, n_events: int) -> None:
        with self._lock:
            self._events += n_events
            elapsed = self.bar.tasks[self._task].elapsed or 0
            if elapsed > 0:
                self.bar.update(self._task, rate=f"{self._events / elapsed:,.0f} events/s")

    def finishing(self) -> None:
        # The remaining time is unknown.
        self.bar.columns = _columns("work")
        self.is_read = True


def _columns(shows: str) -> tuple[str | ProgressColumn, ...]:
    from rich import progress

    words = progress.TextColumn("{task.description}", markup=False)
    bar, left = progress.BarColumn(), progress.TimeRemainingColumn()
    rate = progress.TextColumn("{task.fields[rate]}")
    return {
        "work": (progress.SpinnerColumn(), words),
        "points": (bar, progress.MofNCompleteColumn(), left, words),
        "parts": (words, bar, progress.MofNCompleteColumn(" of "), left),
        "bytes": (words, bar, progress.DownloadColumn(), rate, left),
    }[shows]


class StageLine:
    """Shows the stage on a line of standard error once the command has run for a while. The line is
    removed before results are printed."""

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
                self._line = WorkBar("work")
                self._line.at(self._stage)
                self._line.bar.start()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._line:
            self._line.bar.stop()
        self._timer = self._line = None


@contextmanager
def work_bar(shows: str) -> Iterator[WorkBar | None]:
    """Shows a bar on standard error while the block runs; None if that is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    made = WorkBar(shows)
    with made.bar:
        yield made


@contextmanager
def loading_bar(traces: Iterable[str]) -> Iterator[WorkBar | None]:
    """Shows the bytes read of these traces, then tables being built and traces being judged."""
    with work_bar("bytes") as bar:
        if bar is None:
            yield None
            return
        bar.at("loading")
        # The loader reports the files that cannot be found.
        with suppress(TracekitError, OSError):
            local = [trace for trace in traces if not is_url(trace)]
            files = (Path(path) for path in trace_paths(local) if path != "-")
            bar.start(sum(file.stat().st_size for file in files) or None)
        with stages.heard_by(lambda stage: bar.at(stage) if stage and bar.is_read else None):
            yield bar
