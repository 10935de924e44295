"""What tracekit found out about a trace, as tracks: counters, idle gaps with their causes, the
critical path, and where the fix list would change the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.perfetto.events import Level, Process
from tracekit.replay.changes import query_of
from tracekit.text import duration, percent
from tracekit.verdict.analyze import examined

if TYPE_CHECKING:
    from tracekit.advice.model import Advice
    from tracekit.database.reader import Reader
    from tracekit.replay.changes import Remedies
    from tracekit.replay.gains import WindowGains
    from tracekit.replay.whatif import Replay

# Viewers stay quick with so many slices of a track; the longest are kept.
MOST_GAPS = 2_000
MOST_PIECES = 20_000
MOST_MARKS = 2_000
_SIDES = {True: "device", False: "host"}


def draw(database: Reader, trace_id: int, process: Process) -> None:
    """Adds all tracks of one trace."""
    _counters(database, trace_id, process)
    _gaps(database, trace_id, process)

    def found(gains: WindowGains, _: tuple[str, int]) -> Replay:
        _critical_path(gains.replay, database, process)
        return gains.replay

    # The fix list is priced with the same graph.
    analysis, fixes, replay = examined(database, trace_id, also=found)
    verdict = analysis.verdict
    window = analysis.window
    process.slice(
        "verdict",
        verdict.regime
        if verdict.bottleneck is None
        else f"{verdict.regime}, by {verdict.bottleneck} (confidence {verdict.confidence})",
        window.start_ns,
        window.end_ns - window.start_ns,
        why=verdict.why,
    )
    if fixes is not None and replay is not None:
        for each in fixes.advice:
            _mark(each, replay.remedies, process)


def _counters(database: Reader, trace_id: int, process: Process) -> None:
    busy = Level(process, "share")
    for row in database.ask("busy_over_time", trace=trace_id):
        name = f"busy share, device {row['device_id']}"
        busy.add(name, row["start_ns"], row["end_ns"], round(row["busy_share"], 6))
    busy.end()
    queue = Level(process, "launches")
    for row in database.ask("queue_depth", trace=trace_id):
        name = f"queue depth, device {row['device_id']} stream {row['stream']}"
        queue.add(name, row["start_ns"], row["end_ns"], row["depth"])
    queue.end()
    memory = Level(process, "bytes_per_s")
    for row in database.ask("bandwidth_over_time", trace=trace_id):
        name = f"memory bandwidth by shapes, device {row['device_id']}"
        memory.add(name, row["start_ns"], row["end_ns"], round(row["bytes_per_s"]))
    memory.end()
    for row in database.ask("copy_bandwidth", trace=trace_id):
        name = f"copy bandwidth, device {row['device_id']} {row['copy_kind']}"
        process.counter(name, row["at_ns"], bytes_per_s=round(row["bytes_per_s"]))


def _gaps(database: Reader, trace_id: int, process: Process) -> None:
    for row in database.ask("idle_gaps", trace=trace_id, top=MOST_GAPS):
        cause = row["main_cause"] or row["idle_class"]
        culprit = f": {row['culprit']}" if row["culprit"] else ""
        process.slice(
            f"idle gaps, device {row['device_id']}",
            f"idle, {cause}{culprit}",
            row["start_ns"],
            row["gap_ns"],
            **{
                name: row[name]
                for name in ("idle_class", "main_cause", "main_cause_ns", "recoverable_ns",
                             "culprit", "ended_by", "cpu_op", "python_line")
                if row[name] is not None
            },
        )  # fmt: skip


def _critical_path(replay: Replay, database: Reader, process: Process) -> None:
    """The path of the whole trace as recorded: a slice for each stretch in one event, and an arrow
    between the trace's own slices where it goes from one track to another."""
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
    joined = list(_joined(sorted(pieces)))
    least_ns = 0
    if len(joined) > MOST_PIECES:
        least_ns = np.partition([ns for _, ns, *_ in joined], -MOST_PIECES)[-MOST_PIECES]
    names = _slices_of({event for *_, event, _ in joined if event >= 0}, database, replay.trace_id)
    before: tuple[int, int, int] | None = None
    for number, (start, ns, cause, event, device) in enumerate(joined):
        name, pid, tid = names.get(event, ("", None, None))
        if ns >= least_ns:
            process.slice(
                f"critical path, {_SIDES[bool(device)]}",
                f"{replay.graph.causes[cause]}: {name}" if name else replay.graph.causes[cause],
                start,
                ns,
            )
        if pid is not None and tid is not None and pid >= 0 and tid >= 0:
            if before is not None and before[:2] != (pid, tid):
                process.arrow(number, before, (pid, tid, start), "critical path")
            before = pid, tid, start + ns - 1


_Piece = tuple[int, int, int, int, int]


def _joined(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Neighbours of one cause and event are one piece."""
    last: _Piece | None = None
    for each in pieces:
        if last is not None and last[0] + last[1] == each[0] and last[2:] == each[2:]:
            last = (last[0], last[1] + each[1], *each[2:])
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _slices_of(
    events: set[int], database: Reader, trace_id: int
) -> dict[int, tuple[str, int | None, int | None]]:
    """The name, pid and tid of events. No arrow can name a textual pid or tid, which is
    negative."""
    ids = ",".join(map(str, sorted(events)))
    rows = database.ask("event_tracks", trace=trace_id, events=ids)
    return {row["event_id"]: (row["name"] or "", row["pid"], row["tid"]) for row in rows}


def _mark(advice: Advice, remedies: Remedies, process: Process) -> None:
    """The places where advice would change the run, on a track of the remedy."""
    name = f"{advice.title}: saves {duration(advice.saves_ns)}"
    if advice.share is not None:
        name += f", {percent(advice.share)}"
    if advice.change is None or not advice.change.startswith("remedy:"):
        return
    rows = remedies.rows(advice.remedy)
    here = rows["place"] == (advice.where or "")
    intervals = zip(rows["start_ns"][here].tolist(), rows["dur_ns"][here].tolist(), strict=True)
    args: dict[str, Any] = {"remedy": query_of(advice.remedy), "effort": advice.effort}
    if advice.where:
        args["where"] = advice.where
    for start_ns, dur_ns in _longest(_union(intervals)):
        process.slice(f"fix list, {advice.remedy}", name, start_ns, dur_ns, **args)


def _union(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Slices of a track may not overlap."""
    begin: int | None = None
    end = 0
    for start_ns, dur_ns in sorted(intervals):
        if begin is None:
            begin, end = start_ns, start_ns + dur_ns
        elif start_ns <= end:
            end = max(end, start_ns + dur_ns)
        else:
            yield begin, end - begin
            begin, end = start_ns, start_ns + dur_ns
    if begin is not None:
        yield begin, end - begin


def _longest(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(sorted(intervals, key=lambda each: -each[1])[:MOST_MARKS])
