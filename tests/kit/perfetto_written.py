"""A Kineto trace's events as PyTorch writes them for Perfetto: host slices as rows of begins, then
of ends, and what a device runs as render stages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tests.kit.other_formats import framed
from tests.kit.perfetto_schema import SCHEMA
from tests.kit.protos import messages

_STAGES = ["kernel", "gpu_memcpy", "gpu_memset"]
_STAGE_NAMES = [b"Kernel", b"Memcpy", b"Memset"]
_NAMED = {"device": "device id", "stream": "stream id", "context": "context id"}
# Slices whose begins stand in one row.
_AT_ONCE = 10_000


def pftrace(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The file in pieces. The slices' processes are 1, their threads those of the events."""
    writer = _Writer()
    left = iter(events)
    while some := list(islice(left, _AT_ONCE)):
        yield framed([*writer.packets(some)])


class _Writer:
    def __init__(self) -> None:
        self._packet = messages(SCHEMA)["TracePacket"]
        self._numbers: dict[tuple[str, str], int] = {}
        self._tracks: dict[tuple[int, int], int] = {}

    def packets(self, events: list[dict[str, Any]]) -> Iterator[bytes]:
        ends = []
        for event in events:
            known, known_tracks = len(self._numbers), len(self._tracks)
            if event["cat"] in _STAGES:
                made = self._stage(event)
            else:
                made = self._begin(event)
                end = self._packet(timestamp=nanoseconds(event["ts"]) + nanoseconds(event["dur"]))
                end.track_event.type = 2
                end.track_event.track_uuid = made.track_event.track_uuid
                ends.append(end.SerializeToString())
            if len(self._tracks) > known_tracks:
                yield self._described().SerializeToString()
            if len(self._numbers) > known:
                yield self._interned(known).SerializeToString()
            yield made.SerializeToString()
        yield from ends

    def _stage(self, event: dict[str, Any]) -> Any:
        made = self._packet(timestamp=nanoseconds(event["ts"]), trusted_packet_sequence_id=1)
        stage, args = made.gpu_render_stage_event, dict(event["args"])
        stage.duration = nanoseconds(event["dur"])
        stage.stage_iid = 1 + _STAGES.index(event["cat"])
        stage.name_iid = self._number("event_names", event["name"])
        for shape, message in (("grid", "grid_size"), ("block", "workgroup_size")):
            if shape in args:
                size = getattr(stage.launch, message)
                size.x, size.y, size.z = args.pop(shape)
        for key, value in args.items():
            text = value if isinstance(value, str) else json.dumps(value)
            stage.extra_data.add(name=_NAMED.get(key, key).encode(), value=text.encode())
        return made

    def _begin(self, event: dict[str, Any]) -> Any:
        made = self._packet(timestamp=nanoseconds(event["ts"]), trusted_packet_sequence_id=1)
        made.sequence_flags = 2
        track = made.track_event
        track.type = 1
        place = event["pid"], event["tid"]
        track.track_uuid = self._tracks.setdefault(place, len(self._tracks) + 1)
        track.name_iid = self._number("event_names", event["name"])
        track.category_iids.append(self._number("event_categories", event["cat"]))
        for key, value in event.get("args", {}).items():
            about = track.debug_annotations.add()
            about.name_iid = self._number("debug_annotation_names", key)
            self._annotate(about, value)
        return made

    def _annotate(self, about: Any, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self._annotate(about.array_values.add(), each)
        elif isinstance(value, str):
            about.string_value_iid = self._number("debug_annotation_string_values", value)
        elif isinstance(value, bool):
            about.bool_value = value
        elif isinstance(value, int):
            about.int_value = value
        else:
            about.double_value = value

    def _number(self, kind: str, text: str) -> int:
        return self._numbers.setdefault((kind, text), len(self._numbers) + 1)

    def _interned(self, known: int) -> Any:
        made = self._packet(trusted_packet_sequence_id=1)
        if not known:
            made.sequence_flags = 1
            for iid, name in enumerate(_STAGE_NAMES, 1):
                made.interned_data.gpu_specifications.add(iid=iid, name=name)
        for (kind, text), iid in islice(self._numbers.items(), known, None):
            getattr(made.interned_data, kind).add(iid=iid, name=text.encode())
        return made

    def _described(self) -> Any:
        made = self._packet()
        (pid, tid), uuid = list(self._tracks.items())[-1]
        made.track_descriptor.uuid = uuid
        made.track_descriptor.thread.pid, made.track_descriptor.thread.tid = pid, tid
        return made


def nanoseconds(us: float | str) -> int:
    return round(float(us) * 1000)
