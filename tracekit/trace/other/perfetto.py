"""Perfetto's protobuf traces (`.pftrace`), as PyTorch and rocprofv3 write them: track events.

https://perfetto.dev/docs/reference/trace-packet-proto; PyTorch's writer is
torch/csrc/profiler/cupti/monitor_pftrace.cpp
"""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any

from tracekit.errors import TracekitError
from tracekit.trace.other.converted import OneProcess, microseconds, named, texts
from tracekit.trace.other.protos import damaged, fields, messages, text
from tracekit.trace.other.rocprof import CATEGORIES
from tracekit.trace.source import ByteStream
from tracekit.trace.unpacking import Readable

_SCHEMA = """
message TracePacket {
  uint64 timestamp = 8;
  uint32 timestamp_clock_id = 58;
  uint32 trusted_packet_sequence_id = 10;
  TrackEvent track_event = 11;
  InternedData interned_data = 12;
  uint32 sequence_flags = 13;
  bool incremental_state_cleared = 41;
  bytes compressed_packets = 50;
  TracePacketDefaults trace_packet_defaults = 59;
  TrackDescriptor track_descriptor = 60;
}
message TracePacketDefaults {
  TrackEventDefaults track_event_defaults = 11;
}
message TrackEventDefaults {
  uint64 track_uuid = 11;
}
message TrackEvent {
  repeated uint64 category_iids = 3;
  repeated DebugAnnotation debug_annotations = 4;
  int32 type = 9;
  uint64 name_iid = 10;
  uint64 track_uuid = 11;
  repeated string categories = 22;
  string name = 23;
  int64 counter_value = 30;
  double double_counter_value = 44;
  repeated fixed64 flow_ids = 47;
  repeated fixed64 terminating_flow_ids = 48;
}
message DebugAnnotation {
  uint64 name_iid = 1;
  bool bool_value = 2;
  uint64 uint_value = 3;
  int64 int_value = 4;
  double double_value = 5;
  string string_value = 6;
  uint64 pointer_value = 7;
  string legacy_json_value = 9;
  string name = 10;
  repeated DebugAnnotation dict_entries = 11;
  repeated DebugAnnotation array_values = 12;
  uint64 string_value_iid = 17;
}
message InternedData {
  repeated Interned event_categories = 1;
  repeated Interned event_names = 2;
  repeated Interned debug_annotation_names = 3;
  repeated Interned debug_annotation_string_values = 29;
}
message Interned {
  uint64 iid = 1;
  string name = 2;
}
message TrackDescriptor {
  uint64 uuid = 1;
  string name = 2;
  ProcessDescriptor process = 3;
  ThreadDescriptor thread = 4;
  uint64 parent_uuid = 5;
  string static_name = 10;
}
message ProcessDescriptor {
  int32 pid = 1;
  string process_name = 6;
}
message ThreadDescriptor {
  int32 pid = 1;
  int64 tid = 2;
  string thread_name = 5;
}
"""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# Clocks of the system count nanoseconds; others are defined by the trace (ClockSnapshot).
_FIRST_OWN_CLOCK = 64
_CLEARED = 1
_MOST_BYTES = 256 << 20
_MOST_DEPTH = 50
_MOST_TRACKS = 1_000_000
# Most slices that are open at once on one track.
_MOST_OPEN = 100_000
_MOST_TIME = 2**63 - 1
# SQLite has signed integers: unsigned ones of 64 bits are stored minus this.
_HALF = 1 << 63
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE mark (track, at, kind, parts);
CREATE TABLE arrow (flow, at, place);
"""
_CATEGORIES = CATEGORIES | {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy"}
_RENAMED = {"corr_id": "correlation", "correlation_id": "correlation"}
_INTERNED = ("event_categories", "event_names", "debug_annotation_names",
             "debug_annotation_string_values")  # fmt: skip


def is_perfetto(head: bytes, name: str) -> bool:
    """Whether a file that begins so is a trace of Perfetto."""
    return head[:1] == b"\n" and name.removesuffix(".gz").endswith((".pftrace", ".perfetto-trace"))


def texts_of(folder: str, stream: ByteStream, process: OneProcess) -> Iterator[bytes]:
    """The events of the one recording that the file holds, sorted in a file in `folder`."""
    stream.rewind()
    with tempfile.NamedTemporaryFile(dir=folder, prefix="tracekit-marks-") as file:
        try:
            with closing(sqlite3.connect(file.name, check_same_thread=False)) as marks:
                reading = _Packets(stream, marks)
                process.damage = reading.read() or stream.damage
                process.tail = {"profiler": {"name": "perfetto", "left_out": reading.left_out}}
                yield from texts(reading.events())
        except sqlite3.Error as error:
            raise TracekitError(f"{stream.path}: cannot be sorted in {folder}: {error}") from error


class _Packets:
    """The events of a trace, by track: their ends may stand anywhere behind their begins, so they
    are sorted on disk."""

    def __init__(self, stream: ByteStream, marks: sqlite3.Connection) -> None:
        self._stream = stream
        self._marks = marks
        marks.executescript(_TABLES)
        self.left_out: dict[str, int] = defaultdict(int)
        self._packet = messages(_SCHEMA)["TracePacket"].FromString
        self._tracks: dict[int, Any] = {}
        self._texts: dict[tuple[int, str], dict[int, str]] = defaultdict(dict)
        self._text_bytes = 0
        self._default: dict[int, int] = {}

    def read(self) -> str | None:
        """Reads all packets; returns what is wrong with the file, if something is."""
        try:
            self._read(self._stream)
        except Exception as error:
            return damaged("packet", error)
        return None

    def _read(self, source: Readable, *, inside: bool = False) -> None:
        for data in fields(source, self._stream.path, 1):
            packet = self._packet(data)
            sequence = packet.trusted_packet_sequence_id
            if packet.incremental_state_cleared or packet.sequence_flags & _CLEARED:
                for kind in _INTERNED:
                    self._texts.pop((sequence, kind), None)
                self._default.pop(sequence, None)
            for kind in _INTERNED:
                for entry in getattr(packet.interned_data, kind):
                    self._texts[sequence, kind][entry.iid] = text(entry.name)
                    self._text_bytes += len(entry.name)
            if self._text_bytes > _MOST_BYTES or len(self._tracks) > _MOST_TRACKS:
                raise TracekitError(
                    f"{self._stream.path}: has more than {_MOST_BYTES >> 20} MB of names, or more "
                    f"than {_MOST_TRACKS:,} tracks"
                )
            defaults = packet.trace_packet_defaults.track_event_defaults
            if defaults.HasField("track_uuid"):
                self._default[sequence] = defaults.track_uuid
            if packet.HasField("track_descriptor"):
                self._tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("track_event"):
                self._mark(packet, sequence)
            elif packet.HasField("compressed_packets") and not inside:
                self._read(io.BytesIO(self._inflated(packet.compressed_packets)), inside=True)
            elif not packet.HasField("interned_data"):
                self.left_out["packets of other kinds"] += 1

    def _inflated(self, data: bytes) -> bytes:
        unpacking = zlib.decompressobj()
        try:
            inflated = unpacking.decompress(data, _MOST_BYTES)
        except zlib.error as error:
            raise TracekitError(f"{self._stream.path}: a compressed packet is damaged") from error
        if unpacking.unconsumed_tail:
            raise TracekitError(f"{self._stream.path}: a packet is like a decompression bomb")
        return inflated

    def _mark(self, packet: Any, sequence: int) -> None:
        event = packet.track_event
        known = event.type in (_BEGIN, _END, _INSTANT, _COUNTER)
        is_late = packet.timestamp > _MOST_TIME
        if not known or is_late or packet.timestamp_clock_id >= _FIRST_OWN_CLOCK:
            self.left_out["events of other kinds or clocks"] += 1
            return
        track = event.track_uuid if event.HasField("track_uuid") else self._default.get(sequence, 0)
        names = self._texts[sequence, "event_names"]
        categories = self._texts[sequence, "event_categories"]
        words = [text(each) for each in event.categories]
        words += [categories.get(each, "") for each in event.category_iids]
        args = self._values(event.debug_annotations, sequence)
        args = {_RENAMED.get(key, key): value for key, value in args.items()}
        category = args.pop("cat", None) or ",".join(words)
        parts: dict[str, Any] = {"cat": _CATEGORIES.get(str(category), category), "args": args}
        if event.type != _END:
            parts["name"] = text(event.name) or names.get(event.name_iid)
        if event.type == _COUNTER:
            whole = event.HasField("counter_value")
            args["value"] = event.counter_value if whole else event.double_counter_value
        parts["flows"] = [*event.flow_ids, *event.terminating_flow_ids]
        row = (track - _HALF, packet.timestamp, event.type, json.dumps(parts))
        self._marks.execute("INSERT INTO mark VALUES (?, ?, ?, ?)", row)

    def _values(self, annotations: Iterable[Any], sequence: int, depth: int = 0) -> dict[str, Any]:
        names = self._texts[sequence, "debug_annotation_names"]
        return {
            text(each.name) or names.get(each.name_iid, str(each.name_iid)):
                self._value(each, sequence, depth)
            for each in annotations
        }  # fmt: skip

    def _value(self, annotation: Any, sequence: int, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            return "..."
        if annotation.dict_entries:
            return self._values(annotation.dict_entries, sequence, depth + 1)
        if annotation.array_values:
            return [self._value(each, sequence, depth + 1) for each in annotation.array_values]
        for field, value in annotation.ListFields():
            if field.name == "string_value_iid":
                return self._texts[sequence, "debug_annotation_string_values"].get(value)
            if field.name == "legacy_json_value":
                try:
                    return json.loads(value)
                except (ValueError, RecursionError):
                    return text(value)
            if field.name not in ("name", "name_iid"):
                return text(value) if isinstance(value, bytes) else value
        return None

    def events(self) -> Iterator[dict[str, Any]]:
        """The events in Chrome's terms, a track at a time, then the arrows between them."""
        for uuid, track in self._tracks.items():
            pid, tid, name = self._place(uuid)
            kind = "process_name" if track.HasField("process") else "thread_name"
            yield named(kind, name, pid, tid)
        # Ends come before what begins at the same instant.
        ordered = self._marks.execute(
            f"SELECT track, at, kind, parts FROM mark ORDER BY track, at, kind <> {_END}, rowid"
        )
        for track, marks in groupby(ordered, key=itemgetter(0)):
            pid, tid, name = self._place(track + _HALF)
            for start, end, type_, parts in _slices(mark[1:] for mark in marks):
                flows = parts.pop("flows")
                if type_ == _COUNTER:
                    parts["args"] = {parts["name"] or name: parts["args"]["value"]}
                    parts["name"] = parts["name"] or name
                place: dict[str, Any] = {"pid": pid, "tid": tid, "ts": microseconds(start)}
                self._marks.executemany(
                    "INSERT INTO arrow VALUES (?, ?, ?)",
                    [(flow - _HALF, start, json.dumps(place)) for flow in flows],
                )
                letter = {_COUNTER: "C", _INSTANT: "i"}.get(type_, "X" if end is not None else "B")
                event: dict[str, Any] = {"ph": letter} | place
                if end is not None:
                    event["dur"] = microseconds(end - start)
                yield event | parts
        arrows = self._marks.execute("SELECT flow, place FROM arrow ORDER BY flow, at, rowid")
        for flow, ends in groupby(arrows, key=itemgetter(0)):
            for number, (_, where) in enumerate(ends):
                phase = {"ph": "f", "bp": "e"} if number else {"ph": "s"}
                arrow = {"cat": "ac2g", "name": "ac2g", "id": flow + _HALF}
                yield phase | arrow | json.loads(where)

    def _place(self, uuid: int) -> tuple[int, int, str]:
        """The process, thread and name of a track; a track without a thread has its own number."""
        track = self._tracks.get(uuid)
        if track is None:
            return 0, uuid & 0x7FFFFFFF, f"track {uuid}"
        name = text(track.name) or text(track.static_name)
        if track.HasField("thread"):
            thread = track.thread
            return (
                thread.pid,
                thread.tid,
                name or text(thread.thread_name) or f"thread {thread.tid}",
            )
        if track.HasField("process"):
            return track.process.pid, 0, name or text(track.process.process_name)
        pid, above = 0, track
        for _ in range(_MOST_DEPTH):
            above = self._tracks.get(above.parent_uuid)
            if above is None:
                break
            pid = above.process.pid or above.thread.pid
            if pid:
                break
        return pid, uuid & 0x7FFFFFFF, name


def _slices(
    marks: Iterable[tuple[int, int, str]],
) -> Iterator[tuple[int, int | None, int, dict[str, Any]]]:
    """Start, end, type and parts of each event of a track, whose marks come in order. An end
    belongs to the last slice that is open; at one instant, slices end before others begin."""
    opened: list[tuple[int, dict[str, Any]]] = []
    for at, same in groupby(marks, key=itemgetter(0)):
        later: list[dict[str, Any]] = []
        for _, kind, told in same:
            parts = json.loads(told)
            if kind == _END:
                if opened:
                    yield _closed(opened, at, parts)
                elif len(later) < _MOST_OPEN:
                    later.append(parts)
            elif kind == _BEGIN and len(opened) < _MOST_OPEN:
                opened.append((at, parts))
            else:
                yield at, None, kind, parts
        for parts in later[: len(opened)]:
            yield _closed(opened, at, parts)
    for start, parts in opened:
        yield start, None, _BEGIN, parts


def _closed(
    opened: list[tuple[int, dict[str, Any]]], end: int, last: dict[str, Any]
) -> tuple[int, int, int, dict[str, Any]]:
    start, parts = opened.pop()
    parts["args"] |= last["args"]
    parts["flows"] += last["flows"]
    return start, end, _BEGIN, parts
