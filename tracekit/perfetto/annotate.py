"""Adds tracekit's tracks to a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from tracekit.database import catalog
from tracekit.database.export import open_output
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.files import written_whole
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import may_be_lake
from tracekit.opening import open_any
from tracekit.perfetto.tracks import Process, draw
from tracekit.stages import stage
from tracekit.trace.added import JOINED, PID, block
from tracekit.trace.other.formats import open_traces
from tracekit.trace.paths import trace_paths
from tracekit.trace.reader import TraceReader
from tracekit.trace.source import ByteStream

_ROWS_AT_ONCE = 20_000
# In a file of several traces, the number of arrow ids per trace.
_FLOWS = 1 << 20
# Of a trace's metadata, members up to this length are written.
_MEMBER_CHARS = 20_000


def annotate(
    trace: str | Path, output: str | Path, resources: Resources | None = None
) -> tuple[int, int]:
    """Writes a trace with tracks of queue depth, busy share, copy bandwidth, idle gaps, the
    critical path and the fix list; returns the number of added events and of traces.

    The trace's own text is untouched, byte for byte, and `load` leaves out what was added.
    Annotations of an earlier call are replaced. Several traces (a directory, an archive, a
    database) become one file with separate processes for each, on one clock if their collectives
    show how far the clocks differ. `output` is compressed if it ends in .gz or .zst.

    Raises:
        TracekitError: when the trace cannot be read, or `output` cannot be written.
    """
    name = str(trace)
    if name == "-":
        raise TracekitError("annotate reads a trace twice: give a file, not standard input")
    with open_any(name, resources) as database:
        trace_ids = database.trace_ids()
        if len(trace_ids) > 1 or database.is_stored or may_be_lake(name) or not _is_text(name):
            return _join(database, output), len(trace_ids)
        process = Process("tracekit")
        with stage("drawing tracks"):
            draw(database, trace_ids[0], process)
    with written_whole(output, database.inputs) as beside, open_output(beside) as sink:
        _splice(name, block(process.events), sink)
    return len(process.events), 1


def _splice(path: str, added: bytes, sink: BinaryIO) -> None:
    """Writes the trace's text with a block inserted before its first event."""
    with _stream(path) as stream:
        begin, own_begin = TraceReader(stream).events_begin()
    at = 0
    with _stream(path) as stream:
        for chunk in iter(stream.read, b""):
            end = at + len(chunk)
            sink.write(chunk[: max(0, begin - at)])
            if at < begin <= end:
                sink.write(added)
            sink.write(chunk[max(0, own_begin - at) :])
            at = end


def _is_text(path: str) -> bool:
    with _stream(path) as stream:
        return stream.is_text


def _stream(path: str) -> ByteStream:
    (only,) = trace_paths([path])
    for trace in open_traces(only):
        if isinstance(trace, TracekitError):
            raise trace
        return trace
    raise TracekitError(f"{path}: contains no trace")


def _join(database: Session, output: str | Path) -> int:
    """Writes all traces of a database into one file; returns the number of added events."""
    joined, processes = _joined_traces(database), catalog.schema("joined_processes")
    added: list[bytes] = []
    with database.sharing():
        for row in joined:
            name, number = f"tracekit: {row['label']}", row["number"]
            pids = dict(database.fetch(processes, row)[1])
            process = Process(name, PID + number, row["ahead_ns"], pids, _FLOWS * number)
            draw(database, row["trace"], process)
            added += process.events
    with written_whole(output, database.inputs) as beside, open_output(beside) as sink:
        ranks = json.dumps([row["metadata"] for row in joined])
        sink.write(b'{"%s": %s, "traceEvents": [' % (JOINED, ranks.encode()) + block(added))
        sql = catalog.render_template("write_joined_events", processes=processes)
        before = b""
        for row in joined:
            for batch in database.batches(sql, row, _ROWS_AT_ONCE):
                for (text,) in batch:
                    sink.write(before + text.encode())
                    before = b",\n"
        sink.write(b"\n]}\n")
    return len(added)


def _joined_traces(database: Session) -> list[dict[str, Any]]:
    """The variables of write_joined_events.sql for each trace."""
    rows = database.ask("overview")
    ahead = {row["trace_id"]: row["offset_ns"] for row in database.ask("rank_clocks")}
    # Only clocks of one job can be compared; the others stay as recorded.
    rows_of_bases = database.fetch(catalog.schema("read_bases"))[1]
    bases = {trace_id: base for trace_id, base, _ in rows_of_bases}
    kept = {trace_id: metadata for trace_id, _, metadata in rows_of_bases}
    first = min(bases.values(), default=0)
    return [
        {
            "trace": row["trace_id"],
            "label": Path(row["path"]).name if row["rank"] is None else f"rank {row['rank']}",
            "ahead_ns": bases[row["trace_id"]] - first - ahead.get(row["trace_id"], 0),
            "number": number,
            "traces": len(rows),
            "metadata": _kept(kept[row["trace_id"]]) | {"baseTimeNanoseconds": first},
        }
        for number, row in enumerate(rows)
    ]


def _kept(metadata: str) -> dict[str, Any]:
    """A trace's metadata, without what is long."""
    members = json.loads(metadata)
    return {key: each for key, each in members.items() if len(json.dumps(each)) <= _MEMBER_CHARS}
