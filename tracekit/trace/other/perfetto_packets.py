"""Packets of a Perfetto trace, decoded by the C library: into records that the caller keeps until
all packets are read, and then into batches of events."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum
from secrets import randbits
from typing import ClassVar

import duckdb
from msgspec import Struct

from tracekit.native.events import Labels
from tracekit.native.library import Batch, library
from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.other.decoder import Decoder, RowsEnd


class PacketStop(IntEnum):
    """Why reading packets stopped; same values as in src/perfetto_read.h."""

    INCOMPLETE = 0
    """The last packet is incomplete."""
    COMPRESSED = 1
    """A packet holds compressed packets."""
    MANY = 2
    """There are many records."""
    NOT_PACKETS = 3
    FAILED = 4
    """A packet is damaged."""


class KinetoWords(Struct, frozen=True):
    """What writers call categories, arguments and stages, and what Kineto calls them."""

    categories: Mapping[str, str]
    arguments: Mapping[str, str]
    stages: Mapping[str, str]
    stage_arguments: Mapping[str, str]


class DescribedTrack(Struct, frozen=True):
    """A track as described in the trace; None: it has no process or thread. A track that is only
    named by events is not described."""

    uuid: int
    parent: int
    is_described: bool
    name: str
    process: tuple[int, str] | None
    thread: tuple[int, int, str] | None


class _Words(Structure):
    _fields_: ClassVar = [(name, c_void_p) for name in KinetoWords.__struct_fields__]


class _Track(Structure):
    _fields_: ClassVar = [
        ("uuid", c_uint64), ("parent", c_uint64),
        *((name, c_int64) for name in ("described", "process_pid", "thread_pid", "thread_tid")),
        ("names", c_int64 * 2 * 3),
        *((name, c_int64) for name in ("pid", "tid", "shown", "shown_size")),
    ]  # fmt: skip


_DESCRIBED, _PROCESS, _THREAD = 1, 2, 4
# Objects of Python for each track.
_TRACK_OBJECTS = 8


class _PacketsEnd(Structure):
    _fields_: ClassVar = [
        ("at", c_int64), ("wanted", c_int64), ("begin", c_int64), ("size", c_int64),
        ("records", c_void_p), ("records_size", c_int64), ("packets", c_int64), ("held", c_int64),
        ("odd_packets", c_int64), ("odd_events", c_int64), ("reason", c_int32),
        ("failure", c_int32),
    ]  # fmt: skip


class Packets(Struct, frozen=True):
    """What was read: up to the byte index `end`. `wanted`: bytes of the incomplete packet, from
    there on; 0: unknown. `compressed`: the bytes of packets that zlib compressed. The records are
    valid until the next reading."""

    stop: PacketStop
    end: int
    wanted: int
    compressed: bytes
    records: memoryview


class PacketReader(Decoder):
    """A trace's packets. What it keeps of them counts as held in the file's budget.

    Raises:
        TracekitError: when a file takes more than its budget.
        duckdb.OutOfMemoryException: when it does not fit in memory.
    """

    handle: int | None = None

    def __init__(self, path: str, vocabulary: KinetoWords, budget: Budget) -> None:
        super().__init__(path, budget)
        self._listed = 0
        self.packets = self.odd_packets = self.odd_events = 0
        """Packets that were read, and packets and events that are left out."""
        self._kept = [_pairs(getattr(vocabulary, name)) for name in vocabulary.__struct_fields__]
        self._words = _Words(*(ctypes.addressof(each) for each in self._kept))
        self.handle = library().tracekit_perfetto_open(randbits(64), byref(self._words))
        if not self.handle:
            raise duckdb.OutOfMemoryException("a reader does not fit in memory")

    def close(self) -> None:
        """Frees what it keeps."""
        handle, self.handle = self.handle, None
        library().tracekit_perfetto_close(handle)
        self._budget.hold(-self._held - self._listed)
        self._held = self._listed = 0

    def __del__(self) -> None:
        if self.handle:
            self.close()

    def read(self, text: bytearray, *, is_inside: bool = False) -> Packets:
        """Reads whole packets from the front of a text; `is_inside`: it was compressed in one."""
        end = _PacketsEnd()
        shared = ctypes.c_char.from_buffer(text) if text else ctypes.c_char()
        try:
            library().tracekit_perfetto_packets(
                self.handle, ctypes.addressof(shared), len(text), is_inside, self._most, byref(end)
            )
        finally:
            # A bytearray cannot change its size while its memory is shared.
            del shared
        self.packets += end.packets
        self.odd_packets, self.odd_events = end.odd_packets, end.odd_events
        self._budget.spend(end.packets)
        self._check(end.failure, end.held)
        return Packets(
            PacketStop(end.reason),
            end.at,
            end.wanted,
            bytes(text[end.begin : end.begin + end.size]),
            _view(end.records, end.records_size),
        )

    def tracks(self) -> list[DescribedTrack]:
        """The tracks that are described, or have events, in the order of the file."""
        array, names, size = POINTER(_Track)(), c_void_p(), c_int64()
        count = library().tracekit_perfetto_tracks(
            self.handle, byref(array), byref(names), byref(size)
        )
        listed = size.value + _TRACK_OBJECTS * OBJECT_BYTES * count
        self._budget.hold(listed)
        self._listed += listed
        text = ctypes.string_at(names, size.value) if size.value else b""
        return [_described(array[place], text) for place in range(count)]

    def place(self, track: int, pid: int, tid: int, name: str) -> None:
        """Gives the track of this index its process, thread and name."""
        text = name.encode("utf-8", "replace")
        self._check(
            library().tracekit_perfetto_place(self.handle, track, pid, tid, text, len(text))
        )

    def pair(self) -> None:
        """Finds the ends of slices, after all packets are read."""
        self._check(library().tracekit_perfetto_pair(self.handle))

    def rows(self, records: bytes, first_id: int, labels: Labels) -> Iterator[tuple[Batch, int]]:
        """Events in batches, numbered from `first_id`, with the bytes of text in each. After the
        last records, call it without records for the arrows between slices."""
        at = 0
        while at < len(records) or not records:
            batch, end = Batch(), RowsEnd()
            library().tracekit_perfetto_rows(
                self.handle, records[at:] if at else records, len(records) - at, self._most,
                first_id, labels.handle, byref(batch), byref(end),
            )  # fmt: skip
            self._check(end.failure, end.held)
            labels.are_many = bool(end.many_labels)
            if not batch.rows:
                return
            at += end.at
            first_id += batch.rows
            yield batch, end.text_bytes


def _view(address: int | None, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)) if address else memoryview(b"")


def _pairs(words: Mapping[str, str]) -> ctypes.Array[c_char_p]:
    texts = [text.encode() for pair in words.items() for text in pair]
    return (c_char_p * (len(texts) + 2))(*texts, b"", b"")


def _described(track: _Track, text: bytes) -> DescribedTrack:
    name, process, thread = [
        text[begin : begin + size].decode("utf-8", "replace") for begin, size in track.names
    ]
    return DescribedTrack(
        track.uuid,
        track.parent,
        bool(track.described & _DESCRIBED),
        name,
        (track.process_pid, process) if track.described & _PROCESS else None,
        (track.thread_pid, track.thread_tid, thread) if track.described & _THREAD else None,
    )
