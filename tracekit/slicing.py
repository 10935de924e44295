"""The bytes of a trace -> slices of raw events.

A trace is read once, front to back; what is held is one slice: a JSON array of whole events, ready
for a parallel parser. The metadata around `traceEvents` (its place in the file does not matter) is
small and is parsed here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from tracekit.errors import TracekitError
from tracekit.salvage import BOUNDARY, DECODER, Rejected, looks_like_event, next_event, salvage
from tracekit.sources import ByteStream

SLICE_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_SPACES = re.compile(rb"[ \t\r\n]*")
_SEPARATORS = re.compile(rb"[ \t\r\n,]*")


@dataclass(frozen=True)
class Slice:
    """A JSON array of whole events, and where they begin in the trace."""

    array: bytes
    offset: int

    @property
    def events(self) -> bytes:
        """The inside of the array."""
        return self.array[1:-1]


@dataclass
class TraceReader:
    """Cuts one trace into slices; `metadata`, `form`, `rejected` and `damage` are whole at the end.

    Every event comes once, in file order. A cut stands where an object ends and the next text
    parses as an object with a `ph`: unescaped, no such text can stand inside a string. Should a
    nested list of event-like objects mislead it, the slice does not parse, and `resync` finds the
    true boundaries.
    """

    stream: ByteStream
    slice_bytes: int = SLICE_BYTES
    metadata: dict[str, Any] = field(default_factory=dict)
    form: str = "object"
    damage: str | None = None
    rejected: list[Rejected] = field(default_factory=list)
    _place: Literal["head", "events", "tail", "end"] = "head"
    _buffer: bytearray = field(default_factory=bytearray)
    _offset: int = 0
    _wanted: int = 0
    _misled: bool = False
    _closed: bool = False
    _tail_read: bool = False

    def next_slice(self) -> Slice | None:
        """The next events, or None when the trace is read to its end."""
        if self._place == "head":
            self._read_head()
            self._wanted = self.slice_bytes
        while self._place == "events":
            more = self._fill(self._wanted)
            cut = self._find_cut() if more or not self._misled else None
            if cut is not None:
                self._wanted = self.slice_bytes
                return self._take(cut)
            if more:
                self._wanted = 2 * len(self._buffer)
            elif (last := self._take_last()).array != b"[]":
                return last
        if self._place == "tail":
            self._read_members()
            self._tail_read = True
            self._place = "end"
        if self._place == "end" and self._resume():
            return self.next_slice()
        return None

    def resync(self, failed: Slice) -> Slice:
        """The true events of the last slice, which does not parse; the rest will be read again."""
        found = salvage(failed.events, failed.offset, final=False)
        self.rejected += found.rejected
        # What was taken lost the comma before it; the buffer still begins with its own, or with
        # what stood behind the array's end.
        self._buffer[:0] = failed.events[found.end :] + (b"]" if self._closed else b"")
        self._closed = found.closed
        self._place = "events" if not found.closed else self._behind_events()
        self._offset = failed.offset + found.end
        if not found.end:
            self._misled = True
            self._wanted = 2 * len(self._buffer)
        return Slice(b"[" + found.events + b"]", failed.offset)

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
            self._place = "events"
        else:
            self._read_members()

    def _read_members(self) -> None:
        """Reads `"key": value` pairs, up to the events (in the head) or the end (in the tail)."""
        at_head = self._place == "head"
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
                    self._place = "events"
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

    def _find_cut(self) -> int | None:
        """The end of the last event that another one surely follows, or None."""
        high, window = len(self._buffer), 1 << 16
        while high > 0:
            low = max(0, high - window)
            for match in reversed(list(BOUNDARY.finditer(self._buffer, low, high))):
                if looks_like_event(self._buffer, match.end()):
                    return match.start() + 1
            # The windows overlap, for a boundary that straddles their edge.
            high = low + 256 if low else 0
            window *= 2
        return None

    def _take(self, end: int) -> Slice:
        """The events before `end`, without the comma that parts them from those before."""
        start = _leading(_SEPARATORS, self._buffer)
        with memoryview(self._buffer) as view:
            taken = Slice(b"".join((b"[", view[start:end], b"]")), self._offset + start)
        self._drop(end)
        return taken

    def _take_last(self) -> Slice:
        """The events up to the array's `]`, decoded one after the other."""
        offset = self._offset
        found = salvage(bytes(self._buffer), offset, final=True)
        self.rejected += found.rejected
        self._drop(found.end)
        self._closed = found.closed
        self._place = self._behind_events() if found.closed else "end"
        # An array need not be closed (Trace Event Format, "JSON Array Format").
        if not found.closed and (self.form == "object" or found.rejected):
            self.damage = "the file ends inside the events"
        self.damage = self.stream.damage or self.damage
        return Slice(b"[" + found.events + b"]", offset)

    def _resume(self) -> bool:
        """Reads on behind the trace's end, where nothing should be; True if events stand there.

        What is there is kept: a stray bracket ends the events of a damaged trace too early.
        """
        if self._peek() is None:
            self.damage = self.damage or self.stream.damage
            return False
        self.damage = self.damage or "there is more after the trace's end"
        while (start := next_event(self._buffer, 0)) is None and self._more():
            pass
        end = len(self._buffer) if start is None else start
        text = self._buffer[:end].decode("utf-8", "replace")
        self.rejected.append(Rejected(self._offset, text, "behind the trace's end"))
        self._drop(end)
        self._place = "end" if start is None else "events"
        self._wanted = self.slice_bytes
        return start is not None

    def _behind_events(self) -> Literal["tail", "end"]:
        return "tail" if self.form == "object" and not self._tail_read else "end"

    # -- the buffer --------------------------------------------------------------------------------

    def _more(self) -> bool:
        chunk = self.stream.read()
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
