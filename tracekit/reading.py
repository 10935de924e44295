"""The bytes of a trace -> batches of events, and the metadata around them.

A trace is read once, front to back; what is held is one batch. Events are read natively
(tracekit.native). The metadata around `traceEvents` (its place in the file does not matter) is
small and is parsed here; so are events where one is damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tracekit.ahead import ahead
from tracekit.errors import TracekitError
from tracekit.native.events import Labels, Read, Stop, read_events
from tracekit.native.library import Batch
from tracekit.native.streams import Rows
from tracekit.salvage import DECODER, SPACE, Rejected, Salvaged, next_event, salvage, set_aside
from tracekit.sources import ByteStream

# Events of so many bytes are in the processor's cache while they are taken apart and inserted.
BATCH_BYTES = 1 << 20
# Around a damaged event, so much is decoded event by event: with care, and slowly.
_CAREFUL_BYTES = 64 << 10
# In so much text without an event nothing is looked for any more: a full disk may leave a file with
# gigabytes of zeros.
_STRETCH_BYTES = 4 << 20
# A bracket is the end of the events if what stands behind it within so many bytes says so.
_BEHIND_BYTES = 64 << 10
# What is no event is handed on when it takes so much, its rows included.
_REJECTED_BYTES = 4 << 20
_REJECTED_ROW_BYTES = 200
_BOM = b"\xef\xbb\xbf"
_SPACES = re.compile(rb"[ \t\r\n]*")
_MEMBER_FOLLOWS = re.compile(rb'\][ \t\r\n]*,[ \t\r\n]*"(?:[^"\\]|\\.)*"[ \t\r\n]*:')
_NOTHING_FOLLOWS = re.compile(rb"\][ \t\r\n]*\}?[ \t\r\n]*\Z")

# What a trace is read as, piece by piece.
Piece = tuple[Rows, Batch] | tuple[Literal["rejected"], list[Rejected]]


@dataclass
class TraceReader:
    """Reads one trace; what is told beside its events (`metadata` ...) is whole at the end.

    Its labels are numbered from `first_label`. Stretches that are no events are counted as
    `rejected`.
    """

    stream: ByteStream
    first_label: int = 0
    batch_bytes: int = BATCH_BYTES
    metadata: dict[str, Any] = field(default_factory=dict)
    form: str = "object"
    events: int = 0
    damage: str | None = None
    rejected: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _offset: int = 0

    def __post_init__(self) -> None:
        self._labels = Labels(self.first_label)
        self._rejected: list[Rejected] = []
        self._rejected_bytes = 0
        self._chunks: Iterator[bytes] = iter(())

    def pieces(self) -> Generator[Piece, None, None]:
        """All events, in the file's order and numbered so, their labels, and what is no event.
        Close it.

        Raises:
            TracekitError: when it is no trace.
        """
        # Read, hashed and decompressed while events are parsed.
        with ahead(iter(self.stream.read, b"")) as self._chunks:
            self._read_head()
            is_closed = yield from self._read_events()
            if is_closed and self.form == "object":
                self._read_members(at_head=False)
            # A stray bracket ends the events of a damaged trace too early: what is behind it is
            # kept.
            while (yield from self._finds_more_events()):
                yield from self._read_events()
        yield "label", self._labels.take()
        if self._rejected:
            yield "rejected", self._rejected

    # -- the head: everything before the events ---------------------------------------------------

    def _read_head(self) -> None:
        """Reads up to the first event."""
        self._fill(len(_BOM))
        if self._buffer.startswith(_BOM):
            self._drop(len(_BOM))
        first = self._peek()
        if first is None:
            raise self._error(self.stream.damage or "is empty")
        if first not in b"[{":
            raise self._error("is not JSON: a trace begins with '{' or '['")
        self._drop(1)
        if first == ord("["):
            self.form = "array"
        else:
            self._read_members(at_head=True)

    def _read_members(self, *, at_head: bool) -> None:
        """Reads `"key": value` pairs, up to the events (in the head) or the end (in the tail)."""
        while (first := self._peek()) is not None and first != ord("}"):
            if first == ord(","):
                self._drop(1)
                continue
            try:
                key = self._value()
                if not isinstance(key, str) or self._peek() != ord(":"):
                    raise ValueError(f"no key at byte {self._offset:,}")
                self._drop(1)
                if at_head and key == "traceEvents":
                    if self._peek() != ord("["):
                        raise self._error("is JSON but no trace: its `traceEvents` is no array")
                    self._drop(1)
                    return
                if key == "traceEvents":
                    self._value()
                    self.damage = "it has a second `traceEvents`, which was not loaded"
                    continue
                self.metadata[key] = self._value()
            except ValueError as error:
                if at_head:
                    raise self._error(f"is not JSON: {self.stream.damage or error}") from error
                self.damage = f"what follows the events is not whole: {error}"
                return
        if first is None:
            self.damage = "the file ends before its closing brace"
        else:
            self._drop(1)
        if at_head:
            reason = self.stream.damage or self.damage or "it has no `traceEvents`"
            raise self._error(f"is no trace: {reason}")

    def _value(self) -> Any:
        """The JSON value at the front of the buffer, reading on until it is whole."""
        self._peek()
        reach = 1 << 14
        while True:
            # One character per byte keeps positions; the value itself is decoded properly below.
            text = self._buffer[:reach].decode("latin-1")
            all_seen = reach >= len(self._buffer) and not self._more()
            try:
                value, end = DECODER.raw_decode(text)
            except (json.JSONDecodeError, RecursionError) as error:
                if all_seen:
                    raise ValueError(f"{error} (from byte {self._offset:,})") from error
            else:
                # A number that ends where the text ends may go on beyond it.
                if all_seen or end < len(text) or not isinstance(value, int | float):
                    found = DECODER.decode(self._buffer[:end].decode("utf-8", "replace"))
                    self._drop(end)
                    return found
            reach *= 2

    # -- the events --------------------------------------------------------------------------------

    def _read_events(self) -> Generator[Piece, None, bool]:
        """Reads up to the array's end; False where the file ends before it."""
        wanted, is_cut = self.batch_bytes, False
        while True:
            is_final = not self._fill(wanted)
            wanted = self.batch_bytes
            stop = yield from self._read_whole_events()
            if stop is Stop.AT_BRACKET and self._ends_here():
                self._drop(1)
                return True
            if stop is Stop.AT_END:
                if is_final:
                    break
            elif stop is Stop.INSIDE_EVENT and not is_final:
                wanted = max(wanted, 2 * len(self._buffer))
            elif events := self._salvage(is_final or len(self._buffer) >= _STRETCH_BYTES):
                yield from self._read_salvaged(events)
                is_cut = is_final and bool(events.rejected) and not self._buffer
            else:
                wanted = max(wanted, 2 * len(self._buffer))
        # An array need not be closed (Trace Event Format, "JSON Array Format").
        if self.form == "object" or is_cut:
            self.damage = "the file ends inside the events"
        self.damage = self.stream.damage or self.damage
        return False

    def _read_whole_events(self) -> Generator[Piece, None, Stop]:
        """Reads as far as events are whole and sound; returns why no further."""
        read = read_events(self._buffer, self.events, self._labels)
        self._drop(read.end)
        yield from self._taken(read)
        return read.stop

    def _taken(self, read: Read) -> Iterator[Piece]:
        self.events += read.batch.rows
        if read.batch.rows:
            yield "event", read.batch
        if self._labels.are_many:
            yield "label", self._labels.take()

    def _hand_on(self, stretches: list[Rejected]) -> Iterator[Piece]:
        self.rejected += len(stretches)
        self._rejected += stretches
        self._rejected_bytes += sum(_REJECTED_ROW_BYTES + len(each.text) for each in stretches)
        if self._rejected_bytes > _REJECTED_BYTES:
            yield "rejected", self._rejected
            self._rejected, self._rejected_bytes = [], 0

    def _salvage(self, is_final: bool) -> Salvaged | None:
        """The events at the front, the first of them damaged; None where that needs more text.

        With `is_final` it has to do.
        """
        reach = _CAREFUL_BYTES
        while True:
            is_all = reach >= len(self._buffer)
            text = bytes(self._buffer[:reach])
            found = salvage(text, self._offset, final=is_final and is_all)
            if found.end:
                return found
            if is_all:
                return None
            reach *= 4

    def _read_salvaged(self, found: Salvaged) -> Iterator[Piece]:
        read = read_events(bytearray(found.events), self.events, self._labels)
        if read.stop is not Stop.AT_END:
            raise self._error(f"cannot be read near byte {self._offset:,}: {read.error}")
        yield from self._hand_on(found.rejected)
        self._drop(found.end)
        yield from self._taken(read)

    def _ends_here(self) -> bool:
        """Whether the bracket at the front ends the events: a further member of the trace follows
        or, at the end of the file, nothing but its brace. Elsewhere it is a stray one."""
        reach = _BEHIND_BYTES
        while (more := self._fill(reach)) and not self._buffer[1:reach].strip(SPACE):
            reach *= 2
        if _MEMBER_FOLLOWS.match(self._buffer):
            return True
        return not more and _NOTHING_FOLLOWS.match(self._buffer) is not None

    def _finds_more_events(self) -> Generator[Piece, None, bool]:
        """Reads on behind the trace's end, where nothing should be; True if events stand there."""
        if self._peek() is None:
            self.damage = self.damage or self.stream.damage
            return False
        self.damage = self.damage or "there is more after the trace's end"
        while self._fill(1):
            self._fill(_STRETCH_BYTES)
            start = next_event(self._buffer, 0)
            end = len(self._buffer) if start is None else start
            behind = set_aside(self._buffer[:end], self._offset, "behind the trace's end")
            yield from self._hand_on(list(behind))
            self._drop(end)
            if start is not None:
                return True
        return False

    # -- the buffer --------------------------------------------------------------------------------

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._buffer += chunk
        return bool(chunk)

    def _fill(self, size: int) -> bool:
        """Reads until the buffer holds `size` bytes; False at the end of the stream."""
        while len(self._buffer) < size:
            if not self._more():
                return False
        return True

    def _peek(self) -> int | None:
        """The first byte that is not white space, or None at the end."""
        while True:
            self._drop(_leading(_SPACES, self._buffer))
            if self._buffer:
                return self._buffer[0]
            if not self._more():
                return None

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size

    def _error(self, what: str) -> TracekitError:
        return TracekitError(f"{self.stream.path}: {what}")


def _leading(pattern: re.Pattern[bytes], text: bytes | bytearray) -> int:
    found = pattern.match(text)
    return found.end() if found else 0
