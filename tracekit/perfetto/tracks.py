"""Draws tracekit's findings as tracks of a trace: counters, idle gaps with their causes, the
critical path, and the call sites in the fix list.

Tracks are events in Chrome's trace format, which Perfetto and chrome://tracing draw:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from msgspec import Struct, field

from tracekit.advice.model import Advice
from tracekit.causes import CAUSES
from tracekit.database.remedies import query_of
from tracekit.database.session import Session
from tracekit.examine import examine
from tracekit.replay.changes import Remedies
from tracekit.replay.replay import Replay
from tracekit.text import duration, percent
from tracekit.trace.added import PID
from tracekit.verdict.regime import bound_by

# Viewers stay fast with this many slices per track, so only the longest are kept.
MOST_GAPS = 2_000
MOST_PIECES = 20_000
MOST_MARKS = 2_000
CATEGORY = "tracekit"
# Viewers sort processes by this number: these come before all others.
_SORT_INDEX = -100
_FIRST_FLOW = 1 << 40
# At most this many processes have different numbers of threads.
_PROCESSES = 100_000


def draw(database: Session, trace_id: int, process: Process) -> None:
    """Adds all tracks of one trace."""
    _counters(database, trace_id, process)
    _gaps(database, trace_id, process)

    examined = examine(database, trace_id, keep_replays=True)
    if examined.gains is not None:
        _critical_path(examined.gains.replay, database, process)
    verdict, window = examined.analysis.verdict, examined.analysis.judged.window
    headline = verdict.regime
    if verdict.bottleneck is not None:
        headline = f"{bound_by(headline, verdict.bottleneck)} (confidence {verdict.confidence})"
    lasts_ns = window.end_ns - window.start_ns
    process.slice("verdict", headline, window.start_ns, lasts_ns, why=verdict.why)
    if examined.fixes is not None and examined.gains is not None:
        for fix in examined.fixes.advice:
            _mark(fix, examined.gains.replay.remedies, process)


# Counters over intervals: the question, the unit, the counter's name, the column of its value, and
# the number of digits to keep.
_LEVELS = (
    ("busy_over_time", "share", "busy share, device {device_id}", "busy_share", 6),
    ("queue_depth", "launches", "queue depth, device {device_id} stream {stream}", "depth", None),
    ("bandwidth_over_time", "bytes_per_s", "memory bandwidth by shapes, device {device_id}",
     "bytes_per_s", None),
)  # fmt: skip


def _counters(database: Session, trace_id: int, process: Process) -> None:
    for question, unit, form, column, digits in _LEVELS:
        # Between the intervals, which are in order of time, a counter is 0.
        ends: dict[str, int] = {}
        for row in database.ask(question, trace=trace_id):
            name, start_ns = form.format_map(row), row["start_ns"]
            if ends.get(name, start_ns) != start_ns:
                process.counter(name, ends[name], **{unit: 0})
            process.counter(name, start_ns, **{unit: round(row[column], digits)})
            ends[name] = row["end_ns"]
        for name, end_ns in ends.items():
            process.counter(name, end_ns, **{unit: 0})
    for row in database.ask("copy_bandwidth", trace=trace_id):
        name = f"copy bandwidth, device {row['device_id']} {row['copy_kind']}"
        process.counter(name, row["at_ns"], bytes_per_s=round(row["bytes_per_s"]))


_OF_GAP = (
    "idle_class", "main_cause", "main_cause_ns", "recoverable_ns", "culprit", "ended_by", "cpu_op",
    "python_line",
)  # fmt: skip


def _gaps(database: Session, trace_id: int, process: Process) -> None:
    for row in database.ask("idle_gaps", trace=trace_id, top=MOST_GAPS):
        cause = row["main_cause"] or row["idle_class"]
        culprit = f": {row['culprit']}" if row["culprit"] else ""
        about = {name: row[name] for name in _OF_GAP if row[name] is not None}
        track, name = f"idle gaps, device {row['device_id']}", f"idle, {cause}{culprit}"
        process.slice(track, name, row["start_ns"], row["gap_ns"], **about)


def _critical_path(replay: Replay, database: Session, process: Process) -> None:
    """The critical path of the whole recorded trace: a slice for each stretch in one event, and
    arrows between the trace's own slices where the path changes tracks."""
    origin = replay.graph.host.origin_ns
    run = replay.measured()
    pieces = [
        (start + origin, ns, cause, event, device)
        for block in replay.bounds("trace").pieces(run)
        for start, ns, cause, event, device in zip(
            block.start.tolist(), block.ns.tolist(), block.cause.tolist(), block.event.tolist(),
            block.on_device.tolist(), strict=True,
        )
        if ns > 0
    ]  # fmt: skip
    joined: list[tuple[int, int, int, int, int]] = []
    for piece in sorted(pieces):
        start, ns, *same = piece
        before = joined[-1] if joined else None
        if before and before[0] + before[1] == start and list(before[2:]) == same:
            joined[-1] = (before[0], before[1] + ns, *before[2:])
        else:
            joined.append(piece)
    least_ns = 0
    if len(joined) > MOST_PIECES:
        least_ns = np.partition([ns for _, ns, *_ in joined], -MOST_PIECES)[-MOST_PIECES]
    ids = ",".join(map(str, sorted({event for *_, event, _ in joined if event >= 0})))
    rows = database.ask("event_tracks", trace=replay.trace_id, events=ids)
    names = {row["event_id"]: (row["name"] or "", row["pid"], row["tid"]) for row in rows}
    left: tuple[int, int, int] | None = None
    for number, (start, ns, cause, event, device) in enumerate(joined):
        name, pid, tid = names.get(event, ("", None, None))
        if ns >= least_ns:
            label = f"{CAUSES[cause]}: {name}" if name else CAUSES[cause]
            process.slice(f"critical path, {'device' if device else 'host'}", label, start, ns)
        # No arrow can name a textual pid or tid, which is negative.
        if pid is not None and tid is not None and pid >= 0 and tid >= 0:
            if left is not None and left[:2] != (pid, tid):
                process.arrow(number, left, (pid, tid, start), "critical path")
            left = pid, tid, start + ns - 1


def _mark(advice: Advice, remedies: Remedies, process: Process) -> None:
    """The call sites where advice would change the run, on a track for each remedy."""
    name = f"{advice.title}: saves {duration(advice.saves_ns)}"
    if advice.share is not None:
        name += f", {percent(advice.share)}"
    if advice.change is None or not advice.change.startswith("remedy:"):
        return
    rows = remedies.rows(advice.remedy)
    place = advice.change.removeprefix(f"remedy:{advice.remedy}").removeprefix(":")
    here = (rows["place"] == place) | (place == "")
    intervals = zip(rows["start_ns"][here].tolist(), rows["dur_ns"][here].tolist(), strict=True)
    args: dict[str, Any] = {"remedy": query_of(advice.remedy), "effort": advice.effort}
    if advice.where:
        args["where"] = advice.where
    longest = sorted(_union(intervals), key=lambda each: -each[1])[:MOST_MARKS]
    for start_ns, dur_ns in sorted(longest):
        process.slice(f"fix list, {advice.remedy}", name, start_ns, dur_ns, **args)


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of the intervals, since slices of a track may not overlap."""
    union: list[tuple[int, int]] = []
    for start_ns, dur_ns in sorted(intervals):
        if union and start_ns <= sum(union[-1]):
            begin_ns, before_ns = union[-1]
            union[-1] = begin_ns, max(before_ns, start_ns + dur_ns - begin_ns)
        else:
            union.append((start_ns, dur_ns))
    return union


class Process(Struct):
    """The tracks of one process, as they are added.

    Instants are ns on the clock of the trace; the file has microseconds with all digits.
    """

    name: str
    pid: int = PID
    ahead_ns: int = 0
    """The offset that is added to every instant."""
    pids: dict[int, int] | None = None
    """The trace's process ids in the file; None: the original ids."""
    arrows: int = 0
    """The first id of its arrows."""
    events: list[bytes] = field(default_factory=list)
    _tracks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._metadata("process_name", 0, name=self.name)
        self._metadata("process_sort_index", 0, sort_index=_SORT_INDEX)

    def slice(self, track: str, name: str, start_ns: int, dur_ns: int, **args: Any) -> None:
        """A stretch of a track."""
        begin_ns = start_ns + self.ahead_ns
        # Viewers drop a slice that seems to begin before the one in front of it ends.
        shown_ns = as_read(begin_ns + dur_ns) - as_read(begin_ns)
        self._add("X", name, self._track(track), start_ns, dur=shown_ns, args=args)

    def counter(self, name: str, at_ns: int, **values: float) -> None:
        """A counter's value from this instant on."""
        self._add("C", name, 0, at_ns, args=values)

    def arrow(
        self, number: int, begin: tuple[int, int, int], end: tuple[int, int, int], name: str
    ) -> None:
        """An arrow between two slices, each given by pid, tid and an instant inside it."""
        flow = _FIRST_FLOW + self.arrows + number
        for phase, (pid, tid, at_ns), more in (("s", begin, {}), ("f", end, {"bp": "e"})):
            shown = pid if self.pids is None else self.pids[pid]
            self._add(phase, name, tid, at_ns, pid=shown, id=flow, **more)

    def _track(self, track: str) -> int:
        if track not in self._tracks:
            # Perfetto may distinguish threads by this number alone.
            self._tracks[track] = tid = self.pid + (len(self._tracks) + 1) * _PROCESSES
            self._metadata("thread_name", tid, name=track)
            self._metadata("thread_sort_index", tid, sort_index=tid)
        return self._tracks[track]

    def _metadata(self, what: str, tid: int, **args: Any) -> None:
        fields = {"ph": "M", "cat": CATEGORY, "name": what, "pid": self.pid, "tid": tid}
        self.events.append(_text(fields | {"args": args}))

    def _add(self, phase: str, name: str, tid: int, at_ns: int, **more: Any) -> None:
        fields = {"ph": phase, "cat": CATEGORY, "name": name, "pid": self.pid, "tid": tid}
        self.events.append(_text(fields | {"ts": at_ns + self.ahead_ns} | more))


def as_read(at_ns: int) -> int:
    """An instant as viewers read it: Perfetto takes microseconds as doubles, which lose the last
    digits of instants that count from 1970."""
    read = at_ns / 1000
    if read.is_integer():
        return int(read) * 1000
    part, whole = math.modf(read * 1000)
    return int(whole) + int(2 * part)


def _text(fields: dict[str, Any]) -> bytes:
    # Perfetto does not read the two escapes of a character beyond the first 65,536:
    # https://github.com/google/perfetto/blob/main/src/trace_processor/importers/json/json_parser.h
    # A double cannot hold all digits of an instant in microseconds.
    members = (
        f'"{key}":{Decimal(each).scaleb(-3):.3f}'
        if key in ("ts", "dur")
        else f'"{key}":{json.dumps(each, ensure_ascii=False)}'
        for key, each in fields.items()
    )
    return ("{" + ",".join(members) + "}").encode()
