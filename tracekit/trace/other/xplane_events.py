"""Planes of an XLA profile, decoded by the C library into batches of events."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_size_t, c_void_p
from enum import IntEnum
from secrets import randbits
from typing import Any, ClassVar

import duckdb
from msgspec import Struct

from tracekit.native.events import Labels
from tracekit.native.library import Batch, library
from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.other.decoder import Decoder, Failure, RowsEnd

# Objects of Python for each line.
_LINE_OBJECTS = 4


class LineKind(IntEnum):
    """What a line shows; same values as in src/xplane.h."""

    ON_STREAM = 0
    BESIDE_STREAM = 1
    IN_STEPS = 2
    ON_HOST = 3


class DamagedPlaneError(Exception):
    """A plane, or a part of it, is damaged."""


class PlaneLine(Struct, frozen=True):
    """A line of a plane."""

    number: int
    name: str


class EventKind(Struct, frozen=True):
    """A kind of event, by its name in full and as shown."""

    name: str
    shown: str


class _Text(Structure):
    _fields_: ClassVar = [("at", c_void_p), ("size", c_size_t)]

    def __str__(self) -> str:
        return ctypes.string_at(self.at, self.size).decode("utf-8", "replace") if self.size else ""


class _LineWords(Structure):
    _fields_: ClassVar = [("numbers", c_size_t * 4), ("may_be_step", ctypes.c_bool)]


class _EventKind(Structure):
    _fields_: ClassVar = [
        ("key", c_int64), ("name", _Text), ("shown", _Text), ("message", _Text),
        ("words", _LineWords * len(LineKind)),
    ]  # fmt: skip


class _Line(Structure):
    _fields_: ClassVar = [
        ("number", c_int64), ("begin_ns", c_int64), ("name", _Text), ("message", _Text),
        ("pid", c_int64), ("tid", c_int64), ("kind", c_int32),
    ]  # fmt: skip


class _Head(Structure):
    _fields_: ClassVar = [
        *((name, c_int64) for name in ("number", "n_kinds", "n_lines", "held")),
        ("name", _Text), ("about", _Text), ("kinds", POINTER(_EventKind)),
        ("lines", POINTER(_Line)), ("failure", c_int32), ("is_cut", c_int32),
    ]  # fmt: skip


class PlaneReader(Decoder):
    """Reads planes, one after the other. What it keeps of one counts as held in the file's budget.

    Raises:
        TracekitError: when a file takes more than its budget.
        duckdb.OutOfMemoryException: when a plane does not fit in memory.
    """

    handle: int | None = None

    def __init__(self, path: str, budget: Budget) -> None:
        super().__init__(path, budget)
        self._head, self._text = _Head(), b""
        self.handle = library().tracekit_plane_open(randbits(64))
        if not self.handle:
            raise duckdb.OutOfMemoryException("a reader does not fit in memory")

    def close(self) -> None:
        """Frees what it keeps."""
        handle, self.handle = self.handle, None
        library().tracekit_plane_close(handle)
        self._budget.hold(-self._held)
        self._held, self._text = 0, b""

    def __del__(self) -> None:
        if self.handle:
            self.close()

    def read(self, text: bytes) -> None:
        """Reads a plane, without its events.

        Raises:
            DamagedPlaneError: when it is damaged.
        """
        self._text = text
        library().tracekit_plane_read(self.handle, text, len(text), self._most, byref(self._head))
        self._check(self._head.failure, self._head.held)

    @property
    def number(self) -> int:
        return int(self._head.number)

    @property
    def name(self) -> str:
        return str(self._head.name)

    @property
    def is_cut(self) -> bool:
        """Whether lines are missing at its end."""
        return bool(self._head.is_cut)

    def stats(self) -> dict[str, Any]:
        """What the plane says of itself."""
        text = str(self._head.about)
        self._budget.require_room(16 * len(text))
        stats: dict[str, Any] = json.loads(text)
        return stats

    def kinds(self) -> Iterator[EventKind]:
        """The kinds of events. The first stands for those without a name."""
        for place in range(self._head.n_kinds):
            kind = self._head.kinds[place]
            yield EventKind(str(kind.name), str(kind.shown))

    def lines(self) -> list[PlaneLine]:
        self._budget.spend(self._head.n_lines)
        self._budget.require_room(_LINE_OBJECTS * OBJECT_BYTES * self._head.n_lines)
        lines = (self._head.lines[place] for place in range(self._head.n_lines))
        return [PlaneLine(line.number, str(line.name)) for line in lines]

    def set_label(
        self, kind: int, where: LineKind, category: str, name: str, *, may_be_step: bool = False
    ) -> None:
        """Gives the kind of this index its label on a kind of line. `may_be_step`: an event with a
        step's number is a step instead."""
        texts = (category.encode("utf-8", "replace"), name.encode("utf-8", "replace"))
        sized = [part for text in texts for part in (text, len(text))]
        self._check(library().tracekit_plane_words(self.handle, kind, where, *sized, may_be_step))

    def place(self, line: int, pid: int, tid: int, where: LineKind) -> None:
        """Gives the line of this index its process, thread and kind."""
        library().tracekit_plane_line(self.handle, line, pid, tid, where)

    def count_rounded(self) -> tuple[int, bool]:
        """The number of events whose times are no whole nanoseconds, and whether none of the events
        is damaged; events after a damaged one are not counted."""
        events, rounded = c_int64(), c_int64()
        failure = library().tracekit_plane_count(self.handle, byref(events), byref(rounded))
        self._budget.spend(events.value)
        return rounded.value, failure == Failure.NONE

    def rows(self, first_id: int, labels: Labels) -> Iterator[tuple[Batch, int]]:
        """The events before the first damaged one, in batches, numbered from `first_id`, with the
        bytes of text in each."""
        while True:
            batch, end = Batch(), RowsEnd()
            library().tracekit_plane_rows(
                self.handle, self._most, first_id, labels.handle, byref(batch), byref(end)
            )
            self._check(end.failure, end.held)
            labels.are_many = bool(end.many_labels)
            if not batch.rows:
                return
            first_id += batch.rows
            yield batch, end.text_bytes

    def _check(self, failure: int, held: int | None = None) -> None:
        if failure == Failure.DAMAGED:
            raise DamagedPlaneError
        super()._check(failure, held)
