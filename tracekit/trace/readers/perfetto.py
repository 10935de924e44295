"""Perfetto's protobuf traces (`.pftrace`), as PyTorch and rocprofv3 write them: track events and
GPU work.

https://perfetto.dev/docs/reference/trace-packet-proto; PyTorch's writer is
torch/csrc/profiler/cuspy/cuspy_pftrace.cpp
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from isal import isal_zlib

from tracekit.errors import TracekitError
from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.trace.budget import DEPTH, Budget
from tracekit.trace.other.converted import OneProcess, OpenedFile, named, texts
from tracekit.trace.other.perfetto_packets import (
    DescribedTrack,
    KinetoWords,
    PacketReader,
    PacketStop,
)
from tracekit.trace.other.protos import MOST_FIELD_BYTES
from tracekit.trace.readers.rocprof import CATEGORIES
from tracekit.trace.source import Copy
from tracekit.trace.unpacking import Readable

NAME = "perfetto"
ENDINGS = (".pftrace", ".perfetto-trace")

_READ_BYTES = 1 << 20
_CORRELATION = {"corr_id": "correlation", "correlation_id": "correlation"}
_WORDS = KinetoWords(
    categories=CATEGORIES | {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy"},
    arguments=_CORRELATION,
    stages={
        "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset",
        "Annotation": "gpu_user_annotation",
    },
    # Kineto's names for these values. Perfetto's viewer needs other names.
    stage_arguments={
        "device id": "device", "stream id": "stream", "context id": "context",
        "registers_per_thread": "registers per thread",
        "shared_mem_dynamic": "dynamic shared memory",
    },
)  # fmt: skip
_TRACK = 0x7FFFFFFF


def sniff(opened: OpenedFile) -> bool:
    """Whether it is a Perfetto trace, damaged or not, judging by its name, unless it is empty or
    JSON."""
    return opened.has_ending(ENDINGS) and opened.head[:1] not in (b"", b"{", b"[")


def read(opened: OpenedFile) -> list[OneProcess]:
    """The file's only recording. Its events are rows, whose parts wait on the disk until all tracks
    are known."""
    reading = _Packets(opened)
    opened.closes.callback(reading.close)
    process = OneProcess(None, {}, lambda: iter(()))
    process.events, process.rows = partial(reading.names, process), reading.rows
    return [process]


class _Packets:
    """The reading of a file, which may begin again."""

    def __init__(self, opened: OpenedFile) -> None:
        self._opened = opened
        self._packets: PacketReader | None = None
        self._records: Copy | None = None
        self._sizes: list[int] = []

    def close(self) -> None:
        if self._packets is not None:
            self._packets.close()
        if self._records is not None:
            self._records.close()
        self._packets = self._records = None

    def names(self, process: OneProcess) -> Iterator[bytes]:
        """The names of the tracks, which are known when the whole file is read."""
        opened = self._opened
        self.close()
        opened.rewind()
        self._packets = packets = PacketReader(opened.path, _WORDS, opened.budget)
        self._records, self._sizes = Copy(opened.path, opened.folder), []
        damage = self._read(packets, self._records, opened)
        process.damage = opened.damage = damage or opened.damage
        packets.pair()
        left_out = {
            "packets of other kinds": packets.odd_packets,
            "events of other kinds or clocks": packets.odd_events,
        }
        about = {"left_out": {kind: count for kind, count in left_out.items() if count}}
        process.tail = {"profiler": process.members["profiler"] | about}
        yield from texts(_names(packets))

    def rows(self, first_id: int, labels: Labels) -> Iterator[tuple[Batch, int]]:
        """The events in the order of the file, then the arrows between them."""
        packets, records = self._packets, self._records
        assert packets is not None and records is not None
        records.file.seek(0)
        for size in (*self._sizes, 0):
            for batch, text_bytes in packets.rows(records.file.read(size), first_id, labels):
                first_id += batch.rows
                yield batch, text_bytes

    def _read(
        self, packets: PacketReader, records: Copy, source: Readable, *, is_inside: bool = False
    ) -> str | None:
        """Reads all packets; returns what is wrong with them, if anything."""
        budget, text = self._opened.budget, bytearray()
        try:
            # A length is a claim: memory is taken only for what is there.
            while chunk := source.read(_READ_BYTES):
                budget.hold(len(chunk))
                text += chunk
                if damage := self._read_whole(packets, records, text, is_inside=is_inside):
                    return damage
        finally:
            budget.hold(-len(text))
        return "the file ends inside a packet" if text else None

    def _read_whole(
        self, packets: PacketReader, records: Copy, text: bytearray, *, is_inside: bool
    ) -> str | None:
        """Reads whole packets and removes them from the text."""
        path, budget = self._opened.path, self._opened.budget
        found = None
        while found is None or found.stop in (PacketStop.MANY, PacketStop.COMPRESSED):
            found = packets.read(text, is_inside=is_inside)
            del text[: found.end]
            budget.hold(-found.end)
            if size := len(found.records):
                budget.grow(size, "sorted")
                records.write(found.records)
                self._sizes.append(size)
            if found.compressed:
                inflating = _Inflating(found.compressed, budget)
                damage = self._read(packets, records, inflating, is_inside=True)
                if damage := inflating.damage or damage:
                    return damage
        if found.stop is PacketStop.NOT_PACKETS and not packets.packets:
            raise TracekitError(f"{path}: is not a protobuf trace, or is damaged")
        if found.wanted > MOST_FIELD_BYTES:
            raise TracekitError(f"{path}: a field takes more than {MOST_FIELD_BYTES >> 20} MB")
        return None if found.stop is PacketStop.INCOMPLETE else "a packet is damaged"


class _Inflating:
    """The text that zlib compressed to `data`. If it ends early, `damage` says so."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._inflate, self._data, self._budget = isal_zlib.decompressobj(), data, budget
        self.damage: str | None = None

    def read(self, size: int, /) -> bytes:
        try:
            text: bytes = self._inflate.decompress(self._data, size)
        except isal_zlib.error:
            self.damage, text = "a compressed packet is damaged", b""
        self._data = self._inflate.unconsumed_tail
        self._budget.grow(len(text))
        return text


def _names(packets: PacketReader) -> Iterator[dict[str, Any]]:
    """The names of processes and threads, after each track has got its own."""
    tracks = packets.tracks()
    known = {track.uuid: track for track in tracks if track.is_described}
    for index, track in enumerate(tracks):
        pid, tid, name = _place(track, known)
        packets.place(index, pid, tid, name)
        if track.is_described:
            yield named("process_name" if track.process else "thread_name", name, pid, tid)


def _place(track: DescribedTrack, known: dict[int, DescribedTrack]) -> tuple[int, int, str]:
    """The process, thread and name of a track; a track without a thread has its own number."""
    own = track.uuid & _TRACK
    if not track.is_described:
        return 0, own, f"track {track.uuid}"
    if track.thread:
        pid, tid, name = track.thread
        return pid, tid, track.name or name or f"thread {tid}"
    if track.process:
        return track.process[0], 0, track.name or track.process[1]
    pid, above = 0, track
    for _ in range(DEPTH):
        parent = known.get(above.parent)
        if parent is None:
            break
        above = parent
        pid = (above.process or (0,))[0] or (above.thread or (0,))[0]
        if pid:
            break
    return pid, own, track.name
