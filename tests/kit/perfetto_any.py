"""Perfetto traces at random: all kinds of packets that a writer may mix, with some that refer to
what is not there."""

from __future__ import annotations

import random
import zlib
from typing import Any

from tests.kit.other_formats import compressed, framed
from tests.kit.perfetto_schema import SCHEMA
from tests.kit.protos import messages

_TEXTS = [b"", b"aten::mm", "é\n\"quoted\"\\ \U0001f600".encode(), b"cat", b"corr_id", b"device",
          b"stream", b"External id", b"external id", b"a name that is not short", b"7", b"-15",
          b"[1, [2]]", b'{"a": 1}', b"[1,", b"007", b"Overhead", b"kernel_dispatch",
          b"cuda_sync_kind", b"value"]  # fmt: skip
_KINDS = ("event_categories", "event_names", "debug_annotation_names", "gpu_specifications",
          "debug_annotation_string_values", "compute_kernels", "compute_arg_names")  # fmt: skip
_STAGES = [b"Kernel", b"Memcpy", b"Memset", b"Annotation", b"other"]
_STAGE_DATA = [b"device id", b"stream id", b"context id", b"correlation", b"registers_per_thread"]


def trace(seed: int) -> bytes:
    """A trace of some hundred packets."""
    return framed([each.SerializeToString() for each in _Choices(seed).packets()])


class _Choices:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.new = messages(SCHEMA)["TracePacket"]
        self.now = 0

    def text(self) -> bytes:
        return self.choose.choice(_TEXTS)

    def rarely(self) -> bool:
        return self.choose.random() < 0.2

    def packets(self) -> list[Any]:
        made = [self.described() for _ in range(4)]
        made += [self.interned(sequence) for sequence in (1, 2)]
        for _ in range(self.choose.randrange(8)):
            made += self.choose.choice([self.rows, self.in_time, self.any, self.any])()
            if self.rarely():
                made += [self.interned(self.choose.choice([1, 2]))]
            if self.rarely():
                made += [self.described()]
        if self.rarely():
            inner = framed([each.SerializeToString() for each in self.any()])
            made.append(self.new.FromString(compressed(zlib.compress(inner))))
        return made

    def described(self) -> Any:
        made, choose = self.new(), self.choose
        track = made.track_descriptor
        track.uuid = choose.choice([1, 2, 3, 5, 1 << 63])
        if choose.random() < 0.5:
            track.name = self.text()
        if choose.random() < 0.6:
            track.thread.pid, track.thread.tid = choose.choice([0, 50, -3]), choose.choice([7, 51])
            track.thread.thread_name = self.text()
        elif choose.random() < 0.5:
            track.process.pid, track.process.process_name = 50, self.text()
        if self.rarely():
            track.parent_uuid = choose.choice([1, 2, 3, 9])
        return made

    def interned(self, sequence: int) -> Any:
        made, choose = self.new(trusted_packet_sequence_id=sequence), self.choose
        made.sequence_flags = choose.choice([0, 1, 2])
        for kind in _KINDS:
            for iid in range(choose.randrange(5)):
                name = choose.choice(_STAGES) if kind == "gpu_specifications" else self.text()
                getattr(made.interned_data, kind).add(iid=iid, name=name)
        if choose.random() < 0.5:
            names = made.interned_data.gpu_counter_descriptors.add(iid=choose.randrange(3))
            names.gpu_id = choose.randrange(2)
            names.counter_descriptor.specs.add(counter_id=1, name=self.text())
        if self.rarely():
            made.trace_packet_defaults.track_event_defaults.track_uuid = 2
        return made

    def rows(self) -> list[Any]:
        """Begins, then their ends in the same order."""
        tracks = [self.choose.choice([1, 2, 5]) for _ in range(self.choose.randrange(6))]
        return [self.event(1, track) for track in tracks] + [
            self.event(2, track) for track in tracks
        ]

    def in_time(self) -> list[Any]:
        """Slices that are nested, and an end or a begin too many."""
        made = []
        for _ in range(self.choose.randrange(12)):
            made.append(
                self.event(self.choose.choice([1, 1, 2, 2, 3, 4]), self.choose.choice([1, 2]))
            )
        return made

    def any(self) -> list[Any]:
        kinds = [self.stage, self.counters, lambda: self.event(3, 1), lambda: self.event(7, 1)]
        return [self.choose.choice(kinds)() for _ in range(self.choose.randrange(6))]

    def packet(self) -> Any:
        self.now += self.choose.choice([0, 1, 1_000, 12_345])
        made = self.new(timestamp=max(0, self.now - self.choose.choice([0, 0, 0, 900])))
        made.trusted_packet_sequence_id = self.choose.choice([1, 1, 2])
        if self.choose.random() < 0.02:
            made.timestamp_clock_id = self.choose.choice([6, 64])
        return made

    def event(self, kind: int, track: int) -> Any:
        made, choose = self.packet(), self.choose
        event = made.track_event
        event.type = kind
        if not self.rarely():
            event.track_uuid = track
        if choose.random() < 0.7 and kind != 2:
            event.name_iid = choose.randrange(5)
        elif kind != 2:
            event.name = self.text()
        event.category_iids.extend(choose.randrange(5) for _ in range(choose.randrange(3)))
        event.categories.extend(self.text() for _ in range(choose.choice([0, 0, 1, 2])))
        event.flow_ids.extend(choose.randrange(1, 6) for _ in range(choose.choice([0, 0, 1])))
        if self.rarely():
            event.terminating_flow_ids.append(choose.randrange(1, 6))
        for _ in range(choose.choice([0, 0, 1, 3]) if kind == 2 else choose.randrange(5)):
            self.annotate(event.debug_annotations.add(), 0)
        if choose.random() < 0.5:
            event.counter_value = choose.choice([0, -5, 1 << 62])
        else:
            event.double_counter_value = choose.choice([0.1, 2.0, -1e300, 1e15, 5e-324])
        return made

    def annotate(self, about: Any, depth: int) -> None:
        choose = self.choose
        if choose.random() < 0.5:
            about.name_iid = choose.randrange(6)
        else:
            about.name = self.text()
        kind = choose.randrange(10 if depth < 3 else 8)
        if kind == 0:
            about.bool_value = choose.random() < 0.5
        elif kind == 1:
            about.uint_value = choose.choice([0, 7, (1 << 64) - 1])
        elif kind == 2:
            about.int_value = choose.choice([0, -7, 1 << 40])
        elif kind == 3:
            about.double_value = choose.choice([0.1, 1 / 3, 2.0, 1e22, -0.5])
        elif kind == 4:
            about.string_value = self.text()
        elif kind == 5:
            about.legacy_json_value = self.text()
        elif kind == 6:
            about.string_value_iid = choose.randrange(6)
        elif kind > 7:
            for _ in range(choose.randrange(3)):
                inner = about.dict_entries if kind == 8 else about.array_values
                self.annotate(inner.add(), depth + 1)

    def stage(self) -> Any:
        made, choose = self.packet(), self.choose
        stage = made.gpu_render_stage_event
        stage.duration, stage.gpu_id = choose.choice([0, 5, 1 << 40]), choose.randrange(3)
        stage.hw_queue_iid, stage.stage_iid = choose.randrange(4), choose.randrange(5)
        stage.name_iid, stage.kernel_iid = choose.randrange(5), choose.randrange(5)
        if self.rarely():
            stage.name = self.text()
        for _ in range(choose.randrange(4)):
            stage.extra_data.add(name=choose.choice(_STAGE_DATA), value=self.text())
        if choose.random() < 0.4:
            stage.launch.grid_size.x, stage.launch.workgroup_size.y = 64, 2
            for kind in ("int_value", "uint_value", "double_value", "string_value"):
                values = {"int_value": -4, "uint_value": 1 << 63, "double_value": 0.25}
                about = stage.launch.args.add(name_iid=choose.randrange(5))
                if choose.random() < 0.8:
                    setattr(about, kind, values.get(kind, self.text()))
        if self.rarely():
            stage.event_id = 9
            stage.event_wait_ids.extend([3, 1 << 63])
        return made

    def counters(self) -> Any:
        made, choose = self.packet(), self.choose
        sample = made.gpu_counter_event
        sample.gpu_id, sample.counter_descriptor_iid = choose.randrange(2), choose.randrange(3)
        if self.rarely():
            sample.counter_descriptor.specs.add(counter_id=2, name=self.text())
        for number in range(choose.randrange(3)):
            about = sample.counters.add(counter_id=number)
            if choose.random() < 0.4:
                about.int_value = 5
            elif choose.random() < 0.8:
                about.double_value = choose.choice([1410.0, 0.1])
        return made
