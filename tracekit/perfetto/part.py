"""Writes a part of a trace, such as one step, as a trace small enough for a viewer."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracekit.database.export import TracePart, export
from tracekit.database.session import Session
from tracekit.errors import TracekitError

_NS_PER_MS = 1_000_000
_BYTES_PER_MB = 1_000_000
# Maximum milliseconds or megabytes: far above any trace, and safe to convert to 64-bit integers.
_MOST = 1e12


class PartChoice(Struct, frozen=True):
    """The chosen trace in a database, and the chosen part of it."""

    trace_id: int | None = None
    rank: int | None = None
    step: int | None = None
    window: str | None = None
    """The window, in the form for `analyze`."""
    from_ms: float | None = None
    """From the trace's first event; without `to_ms`, up to its end."""
    to_ms: float | None = None
    max_mb: float | None = None
    """The maximum JSON text to write: a longer part ends early."""

    def __post_init__(self) -> None:
        for limit in (self.from_ms, self.to_ms, self.max_mb):
            if limit is not None and not abs(limit) < _MOST:
                raise TracekitError(f"a part's time or size must be below 1e12, not {limit}")

    @property
    def is_whole(self) -> bool:
        """Whether a whole trace is chosen."""
        return self == PartChoice(self.trace_id, self.rank)

    @property
    def is_chosen(self) -> bool:
        """Whether anything is chosen."""
        return self != PartChoice()

    def write(self, database: Session, output: str | Path) -> int:
        """Writes the part as Kineto JSON, compressed if `output` ends in .gz or .zst; returns its
        number of events.

        Raises:
            TracekitError: when there is no such trace or part, or `output` cannot be written.
        """
        trace_id = self.trace_of(database)
        if self.is_whole:
            return export(database, output, trace_id)
        most = None if self.max_mb is None else int(self.max_mb * _BYTES_PER_MB)
        return export(database, output, trace_id, self._part(database, trace_id), most)

    def trace_of(self, database: Session) -> int:
        """The trace_id of the chosen trace, or of the only one."""
        trace_id = database.only(database.chosen(self.trace_id, self.rank))
        database.require_events(trace_id)
        return trace_id

    def _part(self, database: Session, trace_id: int) -> TracePart:
        ends = self.to_ms if self.from_ms is None else self.from_ms
        if sum(each is not None for each in (self.step, self.window, ends)) > 1:
            raise TracekitError("choose one of --step, --window, and --from with --to")
        name = self.window if self.step is None else _name_of_step(database, trace_id, self.step)
        if name is not None:
            return _of_window(database, trace_id, name)
        span = next(row for row in database.traces() if row["trace_id"] == trace_id)
        start, end = span["start_ns"], span["start_ns"] + span["span_ns"]
        part = TracePart(
            start if self.from_ms is None else start + round(self.from_ms * _NS_PER_MS),
            end if self.to_ms is None else start + round(self.to_ms * _NS_PER_MS),
        )
        if part.from_ns >= min(part.to_ns, end) or part.to_ns <= start:
            length = (end - start) / _NS_PER_MS
            raise TracekitError(f"{database.name}: nothing is there: it lasts {length:,.3f} ms")
        return part


def _name_of_step(database: Session, trace_id: int, step: int) -> str:
    rows = database.ask("replay_steps", trace=trace_id)
    steps = {row["name"].rpartition("#")[2]: row["name"] for row in rows if row["is_marked"]}
    if str(step) not in steps:
        names = ", ".join(steps) or "none"
        raise TracekitError(f"{database.name}: has no step {step}; its steps: {names}")
    return str(steps[str(step)])


def _of_window(database: Session, trace_id: int, name: str) -> TracePart:
    """The span from the host's start of a window to its completion on the device."""
    from tracekit.examine import examine

    window = examine(database, trace_id, name).analysis.judged.window
    steps = database.ask("replay_steps", trace=trace_id)
    marks = [row for row in steps if row["name"] == window.name]
    if not marks and "@" in window.name:
        of, _, number = window.name.rpartition("@")
        marks = database.ask("ranges_named", trace=trace_id, range=of)[int(number) - 1 :]
    begun = [row["start_ns"] for row in marks[:1]]
    return TracePart(min([window.start_ns, *begun]), window.end_ns)
