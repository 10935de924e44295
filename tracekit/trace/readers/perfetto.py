"""Perfetto's protobuf traces (`.pftrace`), as PyTorch and rocprofv3 write them: track events and
GPU work.

https://perfetto.dev/docs/reference/trace-packet-proto; PyTorch's writer is
torch/csrc/profiler/cuspy/cuspy_pftrace.cpp
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from tracekit.errors import explained
from tracekit.files import temporary_folder
from tracekit.trace.budget import DEPTH, OBJECT_BYTES, Budget, decoded_json
from tracekit.trace.other.converted import OpenedFile, microseconds, named, texts
from tracekit.trace.other.perfetto_gpu import INTERNED, counter_events, stage_event
from tracekit.trace.other.perfetto_schema import SCHEMA
from tracekit.trace.other.protos import damaged, decoded, fields, messages, text
from tracekit.trace.readers.rocprof import CATEGORIES
from tracekit.trace.unpacking import Readable, buffered

NAME = "perfetto"
ENDINGS = (".pftrace", ".perfetto-trace")

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# System clocks count nanoseconds; the trace defines other clocks (ClockSnapshot).
_FIRST_OWN_CLOCK = 64
_CLEARED = 1
# Maximum number of open slices on one track.
_MOST_OPEN = 100_000
_MOST_TIME = 2**63 - 1
# SQLite's integers are signed, so unsigned 64-bit integers are stored minus this.
_HALF = 1 << 63
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE mark (track, at, kind, parts, block, place);
CREATE TABLE arrow (flow, at, place);
"""
# PyTorch writes the begins of many slices, then their ends in the same order, nested or not. A
# block is a series of begins and the series of ends after it. In a file written in time order, all
# ends of a block come later than its begins.
_FIND_ROWS = f"""
CREATE TABLE in_rows AS SELECT block FROM mark WHERE kind IN ({_BEGIN}, {_END}) GROUP BY block
HAVING sum(kind = {_BEGIN}) = sum(kind = {_END})
    AND max(CASE kind WHEN {_BEGIN} THEN at END) > min(CASE kind WHEN {_END} THEN at END);
"""
_PAIR = f"""
CREATE INDEX by_place ON mark (block, place, kind);
CREATE VIEW pair AS SELECT b.block, b.track, b.at, e.at AS end_at, b.parts, e.parts AS end_parts,
    b.track = e.track AND b.at <= e.at AS fits
FROM mark AS b JOIN mark AS e ON b.block = e.block AND b.place = e.place
WHERE b.kind = {_BEGIN} AND e.kind = {_END} AND b.block IN (SELECT block FROM in_rows);
DELETE FROM in_rows WHERE block IN (SELECT block FROM pair WHERE NOT fits);
"""
_CATEGORIES = CATEGORIES | {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy"}
_RENAMED = {"corr_id": "correlation", "correlation_id": "correlation"}
_INTERNED = ("event_categories", "event_names", "debug_annotation_names",
             "debug_annotation_string_values", *INTERNED)  # fmt: skip


def sniff(opened: OpenedFile) -> bool:
    """Whether it is a Perfetto trace, damaged or not, judging by its name, unless it is empty or
    JSON."""
    return opened.has_ending(ENDINGS) and opened.head[:1] not in (b"", b"{", b"[")


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's recording, sorted on disk."""
    with (
        temporary_folder(opened.folder) as made,
        explained(f"{opened.path}: cannot be sorted in {opened.folder}", sqlite3.Error),
        closing(sqlite3.connect(made / "marks", check_same_thread=False)) as marks,
    ):
        reading = _Packets(opened, marks)
        opened.damage = reading.read() or opened.damage
        yield from texts(reading.events())
    yield {"profiler": {"left_out": reading.left_out}}


class _Track(NamedTuple):
    """A track's name, its parent track, and its process and thread, if any."""

    name: str
    around: int
    process: tuple[int, str] | None
    thread: tuple[int, int, str] | None

    @property
    def names(self) -> list[str]:
        return [self.name, *(str(part[-1]) for part in (self.process, self.thread) if part)]


class _Packets:
    """A trace's events by track. Ends may come anywhere after their begins, so they are sorted on
    disk."""

    def __init__(self, opened: OpenedFile, marks: sqlite3.Connection) -> None:
        self._opened = opened
        self._budget = opened.budget
        self._marks = marks
        marks.executescript(_TABLES)
        self.left_out: dict[str, int] = defaultdict(int)
        self._packet = messages(SCHEMA)["TracePacket"]
        self._tracks: dict[int, _Track] = {}
        self._texts: dict[tuple[int, str], dict[int, str]] = {}
        self._default: dict[int, int] = {}
        # A GPU and its counters, by sequence and number. Number 0: the sample defines its own
        # counters.
        self._counters: dict[tuple[int, int], tuple[int, dict[int, str]]] = {}
        self._block, self._last, self._places = 0, _END, [0, 0]

    def read(self) -> str | None:
        """Reads all packets; returns what is wrong with the file, if anything."""
        try:
            self._read(buffered(self._opened))
        except Exception as error:
            return damaged("packet", error)
        return None

    def _read(self, source: Readable, *, inside: bool = False) -> None:
        for data in fields(source, self._opened.path, self._budget, 1):
            packet = decoded(self._packet, data, self._budget)
            sequence = packet.trusted_packet_sequence_id
            if packet.incremental_state_cleared or packet.sequence_flags & _CLEARED:
                for kind in _INTERNED:
                    for name in self._texts.pop((sequence, kind), {}).values():
                        self._keep(-2, name)
                self._default.pop(sequence, None)
            for kind in _INTERNED:
                for entry in getattr(packet.interned_data, kind):
                    names = self._texts.setdefault((sequence, kind), {})
                    if entry.iid in names:
                        self._keep(-2, names[entry.iid])
                    names[entry.iid] = text(entry.name)
                    self._keep(2, names[entry.iid])
            for entry in packet.interned_data.gpu_counter_descriptors:
                self._add_counters((sequence, entry.iid), entry)
            defaults = packet.trace_packet_defaults.track_event_defaults
            if defaults.HasField("track_uuid"):
                self._keep(0 if sequence in self._default else 2)
                self._default[sequence] = defaults.track_uuid
            if packet.HasField("track_descriptor"):
                self._add_track(packet.track_descriptor)
            elif packet.HasField("track_event"):
                self._mark(packet, sequence)
            elif packet.HasField("gpu_render_stage_event") or packet.HasField("gpu_counter_event"):
                self._mark_gpu(packet, sequence)
            elif packet.HasField("compressed_packets") and not inside:
                with explained(f"{self._opened.path}: a compressed packet is damaged", zlib.error):
                    inflating = _Inflating(packet.compressed_packets, self._budget)
                    self._read(buffered(inflating), inside=True)
            elif not (packet.HasField("interned_data") or packet.HasField("clock_snapshot")):
                self.left_out["packets of other kinds"] += 1

    def _keep(self, objects: int, *names: str) -> None:
        """Counts kept objects and texts; negative when they are dropped."""
        size = sum(map(len, names))
        self._budget.hold(objects * OBJECT_BYTES + (size if objects > 0 else -size))

    def _named(self, sequence: int, kind: str) -> dict[int, str]:
        """The interned texts of a kind, by number."""
        return self._texts.get((sequence, kind), {})

    def _add_track(self, found: Any) -> None:
        process = thread = None
        if found.HasField("process"):
            process = found.process.pid, text(found.process.process_name)
        if found.HasField("thread"):
            thread = found.thread.pid, found.thread.tid, text(found.thread.thread_name)
        name = text(found.name) or text(found.static_name)
        if (known := self._tracks.get(found.uuid)) is not None:
            self._keep(-8, *known.names)
        track = self._tracks[found.uuid] = _Track(name, found.parent_uuid, process, thread)
        self._keep(8, *track.names)

    def _mark(self, packet: Any, sequence: int) -> None:
        event = packet.track_event
        is_known = event.type in (_BEGIN, _END, _INSTANT, _COUNTER)
        is_late = packet.timestamp > _MOST_TIME
        if not is_known or is_late or packet.timestamp_clock_id >= _FIRST_OWN_CLOCK:
            self.left_out["events of other kinds or clocks"] += 1
            return
        track = event.track_uuid if event.HasField("track_uuid") else self._default.get(sequence, 0)
        names = self._named(sequence, "event_names")
        categories = self._named(sequence, "event_categories")
        words = [text(each) for each in event.categories]
        words += [categories.get(each, "") for each in event.category_iids]
        args = self._values(event.debug_annotations, sequence)
        args = {_RENAMED.get(key, key): value for key, value in args.items()}
        category = args.pop("cat", None) or ",".join(words)
        if not category and "cuda_sync_kind" in args:
            category = "cuda_sync"
        parts: dict[str, Any] = {"cat": _CATEGORIES.get(str(category), category), "args": args}
        if event.type != _END:
            parts["name"] = text(event.name) or names.get(event.name_iid)
        if event.type == _COUNTER:
            whole = event.HasField("counter_value")
            args["value"] = event.counter_value if whole else event.double_counter_value
        parts["flows"] = [*event.flow_ids, *event.terminating_flow_ids]
        block = place = None
        if event.type in (_BEGIN, _END):
            if event.type == _BEGIN and self._last == _END:
                self._block, self._places = self._block + 1, [0, 0]
            self._last = event.type
            self._places[event.type == _END] += 1
            block, place = self._block, self._places[event.type == _END]
        row = (track - _HALF, packet.timestamp, event.type, self._encoded(parts), block, place)
        self._marks.execute("INSERT INTO mark VALUES (?, ?, ?, ?, ?, ?)", row)

    def _mark_gpu(self, packet: Any, sequence: int) -> None:
        at = packet.timestamp
        if packet.timestamp_clock_id >= _FIRST_OWN_CLOCK or at > _MOST_TIME:
            self.left_out["events of other kinds or clocks"] += 1
            return
        if packet.HasField("gpu_counter_event"):
            sample = packet.gpu_counter_event
            if sample.HasField("counter_descriptor"):
                self._add_counters((sequence, 0), sample)
            number = sample.counter_descriptor_iid
            gpu_id, named = self._counters.get((sequence, number), (sample.gpu_id, {}))
            events = [*counter_events(sample, at, sample.gpu_id or gpu_id, named)]
        else:
            stage = packet.gpu_render_stage_event
            events = [
                stage_event(
                    stage, at, lambda kind, iid: self._named(sequence, kind).get(iid), self._budget
                )
            ]
        rows = [(self._encoded(event),) for event in events]
        self._marks.executemany("INSERT INTO mark (parts) VALUES (?)", rows)

    def _encoded(self, parts: dict[str, Any]) -> str:
        encoded = json.dumps(parts)
        self._budget.grow(len(encoded), "sorted")
        return encoded

    def _add_counters(self, key: tuple[int, int], entry: Any) -> None:
        names = {each.counter_id: text(each.name) for each in entry.counter_descriptor.specs}
        if key in self._counters:
            counters = self._counters[key][1]
            self._keep(-4 - 2 * len(counters), *counters.values())
        self._keep(4 + 2 * len(names), *names.values())
        self._counters[key] = entry.gpu_id, names

    def _values(self, annotations: Iterable[Any], sequence: int) -> dict[str, Any]:
        names = self._named(sequence, "debug_annotation_names")
        return {
            text(annotation.name) or names.get(annotation.name_iid, str(annotation.name_iid)):
                self._value(annotation, sequence)
            for annotation in annotations
        }  # fmt: skip

    def _value(self, annotation: Any, sequence: int) -> Any:
        if annotation.dict_entries:
            return self._values(annotation.dict_entries, sequence)
        if annotation.array_values:
            return [self._value(each, sequence) for each in annotation.array_values]
        for field, value in annotation.ListFields():
            if field.name == "string_value_iid":
                return self._named(sequence, "debug_annotation_string_values").get(value)
            if field.name == "legacy_json_value":
                return decoded_json(text(value), self._budget)
            if field.name not in ("name", "name_iid"):
                return text(value) if isinstance(value, bytes) else value
        # An empty list has no values.
        return []

    def events(self) -> Iterator[dict[str, Any]]:
        """Chrome trace events, track by track, then the arrows between them."""
        for uuid, described in self._tracks.items():
            pid, tid, name = self._place(uuid)
            kind = "process_name" if described.process else "thread_name"
            yield named(kind, name, pid, tid)
        for (whole,) in self._marks.execute(
            "SELECT parts FROM mark WHERE kind IS NULL ORDER BY rowid"
        ):
            yield json.loads(whole)
        for track, start, end, type_, parts in self._found():
            pid, tid, name = self._place(track)
            flows = parts.pop("flows")
            if name == "Overhead" and not parts["cat"]:
                parts["cat"] = "overhead"
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

    def _found(self) -> Iterator[tuple[int, int, int | None, int, dict[str, Any]]]:
        """Track, start, end, type and parts of each event."""
        self._marks.executescript(_FIND_ROWS)
        if self._marks.execute("SELECT 1 FROM in_rows LIMIT 1").fetchone():
            self._marks.executescript(_PAIR)
            columns = "track, at, end_at, parts, end_parts"
            for track, start, end, *both in self._marks.execute(f"SELECT {columns} FROM pair"):
                parts, last = map(json.loads, both)
                yield track + _HALF, start, end, _BEGIN, _merged(parts, last)
        # At the same instant, ends come before begins.
        ordered = self._marks.execute(
            "SELECT track, at, kind, parts FROM mark"
            " WHERE kind IS NOT NULL AND (block IS NULL OR block NOT IN in_rows)"
            f" ORDER BY track, at, kind <> {_END}, rowid"
        )
        for track, marks in groupby(ordered, key=itemgetter(0)):
            for start, ended, type_, part in _slices((mark[1:] for mark in marks), self._budget):
                yield track + _HALF, start, ended, type_, part

    def _place(self, uuid: int) -> tuple[int, int, str]:
        """The process, thread and name of a track; a track without a thread has its own number."""
        track = self._tracks.get(uuid)
        if track is None:
            return 0, uuid & 0x7FFFFFFF, f"track {uuid}"
        if track.thread:
            pid, tid, name = track.thread
            return pid, tid, track.name or name or f"thread {tid}"
        if track.process:
            return track.process[0], 0, track.name or track.process[1]
        pid, above = 0, track
        for _ in range(DEPTH):
            parent = self._tracks.get(above.around)
            if parent is None:
                break
            above = parent
            pid = (above.process or (0,))[0] or (above.thread or (0,))[0]
            if pid:
                break
        return pid, uuid & 0x7FFFFFFF, track.name


class _Inflating:
    """The text that zlib compressed to `data`."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._inflate, self._data, self._budget = zlib.decompressobj(), data, budget

    def read(self, size: int, /) -> bytes:
        data = self._inflate.decompress(self._data, size)
        self._data = self._inflate.unconsumed_tail
        self._budget.grow(len(data))
        return data


def _slices(
    marks: Iterable[tuple[int, int, str]], budget: Budget
) -> Iterator[tuple[int, int | None, int, dict[str, Any]]]:
    """Start, end, type and parts of each event on a track, whose marks come in order. An end
    belongs to the last open slice; at one instant, slices end before others begin."""
    opened: list[tuple[int, str]] = []

    def closed(end: int, last: str) -> tuple[int, int, int, dict[str, Any]]:
        start, parts = opened.pop()
        budget.hold(-len(parts) - OBJECT_BYTES)
        return start, end, _BEGIN, _merged(json.loads(parts), json.loads(last))

    for at, same in groupby(marks, key=itemgetter(0)):
        later: list[str] = []
        for _, kind, encoded in same:
            if kind == _END:
                if opened:
                    yield closed(at, encoded)
                elif len(later) < _MOST_OPEN:
                    later.append(encoded)
            elif kind == _BEGIN and len(opened) < _MOST_OPEN:
                budget.hold(len(encoded) + OBJECT_BYTES)
                opened.append((at, encoded))
            else:
                yield at, None, kind, json.loads(encoded)
        for parts in later[: len(opened)]:
            yield closed(at, parts)
    for start, parts in opened:
        yield start, None, _BEGIN, json.loads(parts)


def _merged(parts: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """The parts of a slice's begin and end."""
    parts["args"] |= last["args"]
    parts["flows"] += last["flows"]
    return parts
