"""What a Perfetto trace says, as events of a Kineto trace: a second reading, by protobuf's own
decoder, plain and slow. The library's reader is compared with it."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tests.kit.perfetto_schema import SCHEMA
from tests.kit.protos import messages
from tracekit.trace.readers.perfetto import _WORDS

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_KINDS = ("event_categories", "event_names", "debug_annotation_names", "gpu_specifications",
          "debug_annotation_string_values", "compute_kernels", "compute_arg_names")  # fmt: skip


def packets_of(text: bytes) -> Iterator[Any]:
    """The packets of a sound trace, compressed ones included."""
    packet, at = messages(SCHEMA)["TracePacket"], 0
    while at < len(text):
        size = shift = 0
        at += 1
        while True:
            size |= (text[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if text[at - 1] < 128:
                break
        found = packet.FromString(text[at : at + size])
        at += size
        if found.compressed_packets:
            yield from packets_of(zlib.decompress(found.compressed_packets))
        else:
            yield found


def events(text: bytes) -> list[dict[str, Any]]:
    """The events of a sound trace."""
    return [*_Reference(text).events()]


def _said(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _decoded(said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError:
        return said


class _Reference:
    def __init__(self, text: bytes) -> None:
        self.texts: dict[tuple[int, str], dict[int, str]] = defaultdict(dict)
        self.default: dict[int, int] = {}
        self.tracks: dict[int, Any] = {}
        self.counter_sets: dict[tuple[int, int], tuple[int, dict[int, str]]] = {}
        # Type, track, time and parts of an event, or a whole event of a GPU.
        self.marks: list[list[Any]] = []
        for packet in packets_of(text):
            self.read(packet, packet.trusted_packet_sequence_id)

    def read(self, packet: Any, sequence: int) -> None:
        if packet.incremental_state_cleared or packet.sequence_flags & 1:
            for kind in _KINDS:
                self.texts.pop((sequence, kind), None)
            self.default.pop(sequence, None)
        for kind in _KINDS:
            for entry in getattr(packet.interned_data, kind):
                self.texts[sequence, kind][entry.iid] = _said(entry.name)
        for entry in packet.interned_data.gpu_counter_descriptors:
            self.name_counters((sequence, entry.iid), entry)
        defaults = packet.trace_packet_defaults.track_event_defaults
        if defaults.HasField("track_uuid"):
            self.default[sequence] = defaults.track_uuid
        is_odd = packet.timestamp_clock_id >= 64
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("track_event") and not is_odd:
            self.mark(packet.track_event, packet.timestamp, sequence)
        elif packet.HasField("gpu_counter_event") and not is_odd:
            self.count(packet.gpu_counter_event, packet.timestamp, sequence)
        elif packet.HasField("gpu_render_stage_event") and not is_odd:
            self.stage(packet.gpu_render_stage_event, packet.timestamp, sequence)

    def name_counters(self, key: tuple[int, int], entry: Any) -> None:
        names = {each.counter_id: _said(each.name) for each in entry.counter_descriptor.specs}
        self.counter_sets[key] = entry.gpu_id, names

    def mark(self, event: Any, at: int, sequence: int) -> None:
        if event.type not in (_BEGIN, _END, _INSTANT, _COUNTER):
            return
        track = event.track_uuid if event.HasField("track_uuid") else self.default.get(sequence, 0)
        categories = self.texts[sequence, "event_categories"]
        words = [_said(each) for each in event.categories]
        words += [categories.get(each, "") for each in event.category_iids]
        args = self.values(event.debug_annotations, sequence)
        args = {_WORDS.arguments.get(key, key): value for key, value in args.items()}
        own = args.pop("cat", None)
        category = own if isinstance(own, str) and own else ",".join(words)
        if not category and "cuda_sync_kind" in args:
            category = "cuda_sync"
        if event.type == _COUNTER:
            whole = event.HasField("counter_value")
            args = {"": event.counter_value if whole else event.double_counter_value}
        names = self.texts[sequence, "event_names"]
        name = _said(event.name) or names.get(event.name_iid)
        parts = {"cat": _WORDS.categories.get(category, category), "name": name, "args": args}
        flows = [*event.flow_ids, *event.terminating_flow_ids]
        self.marks.append([event.type, track, at, parts, flows])

    def count(self, sample: Any, at: int, sequence: int) -> None:
        if sample.HasField("counter_descriptor"):
            self.name_counters((sequence, 0), sample)
        key = sequence, sample.counter_descriptor_iid
        gpu, names = self.counter_sets.get(key, (0, {}))
        for each in sample.counters:
            name = names.get(each.counter_id, f"counter {each.counter_id}")
            value = each.int_value if each.HasField("int_value") else each.double_value
            place = {"pid": sample.gpu_id or gpu, "ts": at / 1000}
            self.marks.append([{"ph": "C", "name": name, "args": {name: value}} | place])

    def stage(self, stage: Any, at: int, sequence: int) -> None:
        def named(kind: str, iid: int) -> str | None:
            return self.texts[sequence, kind].get(iid)

        extra = {_said(each.name): _said(each.value) for each in stage.extra_data}
        rename = _WORDS.stage_arguments
        args: dict[str, Any] = {
            rename.get(key, key): _decoded(said) if said[:1] in "-0123456789[{" else said
            for key, said in extra.items()
        }
        args.setdefault("device", stage.gpu_id)
        args.setdefault("stream", stage.hw_queue_iid)
        if stage.HasField("launch"):
            for key, size in (("grid", "grid_size"), ("block", "workgroup_size")):
                shape = getattr(stage.launch, size)
                args[key] = [shape.x, shape.y, shape.z]
            for each in stage.launch.args:
                key = _said(each.name) or named("compute_arg_names", each.name_iid) or ""
                values = [value for field, value in each.ListFields() if "_value" in field.name]
                for value in values[:1]:
                    said = _said(value) if isinstance(value, bytes) else value
                    args[rename.get(key, key)] = said
        if stage.event_wait_ids:
            args |= {"event id": stage.event_id, "waits for": [*stage.event_wait_ids]}
        kind = named("gpu_specifications", stage.stage_iid)
        name = _said(stage.name) or named("event_names", stage.name_iid)
        name = name or named("compute_kernels", stage.kernel_iid) or kind
        self.marks.append([{
            "ph": "X", "cat": _WORDS.stages.get(kind or "", kind), "name": name,
            "pid": args["device"], "tid": args["stream"], "ts": at / 1000,
            "dur": stage.duration / 1000, "args": args,
        }])  # fmt: skip

    def values(self, annotations: Any, sequence: int) -> dict[str, Any]:
        names = self.texts[sequence, "debug_annotation_names"]
        return {
            _said(each.name) or names.get(each.name_iid, str(each.name_iid)):
                self.value(each, sequence)
            for each in annotations
        }  # fmt: skip

    def value(self, annotation: Any, sequence: int) -> Any:
        if annotation.dict_entries:
            return self.values(annotation.dict_entries, sequence)
        if annotation.array_values:
            return [self.value(each, sequence) for each in annotation.array_values]
        for field, value in annotation.ListFields():
            if field.name == "string_value_iid":
                return self.texts[sequence, "debug_annotation_string_values"].get(value)
            if field.name == "legacy_json_value":
                return _decoded(_said(value))
            if field.name not in ("name", "name_iid"):
                return _said(value) if isinstance(value, bytes) else value
        return []

    # -- events ------------------------------------------------------------------------------------

    def events(self) -> Iterator[dict[str, Any]]:
        for uuid, track in self.tracks.items():
            pid, tid, name = self.place(uuid)
            kind = "process_name" if track.HasField("process") else "thread_name"
            yield {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
        ends, arrows = self.ends(), []
        for number, mark in enumerate(self.marks):
            if len(mark) == 1:
                yield mark[0]
            elif mark[0] != _END:
                kind, track, at, parts, flows = mark
                pid, tid, name = self.place(track)
                event = {"ph": "XBiC"[kind - 1], "pid": pid, "tid": tid, "ts": at / 1000} | parts
                if kind == _BEGIN and number in ends:
                    _, _, end, last, more = self.marks[ends[number]]
                    event |= {"dur": (end - at) / 1000, "args": parts["args"] | last["args"]}
                    flows = flows + more
                elif kind == _BEGIN:
                    event["ph"] = "B"
                if kind == _COUNTER:
                    event["name"] = parts["name"] or name
                    event["args"] = {event["name"]: parts["args"][""]}
                if name == "Overhead" and not parts["cat"]:
                    event["cat"] = "overhead"
                yield event
                arrows += [(flow, at, pid, tid) for flow in flows]
        for flow, places in groupby(
            sorted(arrows, key=lambda each: each[:2]), lambda each: each[0]
        ):
            for number, (_, at, pid, tid) in enumerate(places):
                arrow = {"ph": "f", "bp": "e"} if number else {"ph": "s"}
                place = {"pid": pid, "tid": tid, "ts": at / 1000, "id": flow}
                yield arrow | {"cat": "ac2g", "name": "ac2g"} | place

    def ends(self) -> dict[int, int]:
        """The end of each begin, by their places in `marks`."""
        found: dict[int, int] = {}
        rows = [place for place, mark in enumerate(self.marks) if mark[0] in (_BEGIN, _END)]
        blocks: list[tuple[list[int], list[int]]] = [([], [])]
        for place in rows:
            is_end = self.marks[place][0] == _END
            if not is_end and blocks[-1][1]:
                blocks.append(([], []))
            blocks[-1][is_end].append(place)
        for begins, ends in blocks:
            pairs = [*zip(begins, ends, strict=False)]
            marks = [(self.marks[begin], self.marks[end]) for begin, end in pairs]
            is_row = len(begins) == len(ends) and pairs
            is_row = is_row and max(a[2] for a, _ in marks) > min(b[2] for _, b in marks)
            if is_row and all(a[1] == b[1] and a[2] <= b[2] for a, b in marks):
                found |= pairs
        used = {*found, *found.values()}
        left = [place for place in rows if place not in used]
        for track in {self.marks[place][1] for place in left}:
            found |= self.nested([place for place in left if self.marks[place][1] == track])
        return found

    def nested(self, places: list[int]) -> dict[int, int]:
        """Ends of one track belong to what began last; at one instant, ends come first."""
        marks, found = self.marks, {}
        opened: list[int] = []
        for _, same in groupby(sorted(places, key=lambda each: marks[each][2]),
                               key=lambda each: marks[each][2]):  # fmt: skip
            together, later = [*same], []
            for place in [each for each in together if marks[each][0] == _END]:
                if opened:
                    found[opened.pop()] = place
                else:
                    later.append(place)
            opened += [each for each in together if marks[each][0] == _BEGIN]
            for place in later[: len(opened)]:
                found[opened.pop()] = place
        return found

    def place(self, uuid: int) -> tuple[int, int, str]:
        track, own = self.tracks.get(uuid), uuid & 0x7FFFFFFF
        if track is None:
            return 0, own, f"track {uuid}"
        name = _said(track.name) or _said(track.static_name)
        if track.HasField("thread"):
            thread = track.thread
            name = name or _said(thread.thread_name) or f"thread {thread.tid}"
            return thread.pid, thread.tid, name
        if track.HasField("process"):
            return track.process.pid, 0, name or _said(track.process.process_name)
        for _ in range(100):
            if (track := self.tracks.get(track.parent_uuid)) is None:
                return 0, own, name
            if pid := track.process.pid or track.thread.pid:
                return pid, own, name
        return 0, own, name
