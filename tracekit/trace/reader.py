"""Parses a trace into batches of events, and the metadata around them.

A trace is read once, front to back, one batch in memory at a time. The native library
(tracekit.native) parses the events and the metadata around `traceEvents`. The metadata may come
before or after the events and is kept as text. After text that is not JSON, Python searches for the
next event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from tracekit.errors import TracekitError
from tracekit.native.events import (
    Labels,
    Members,
    Read,
    Stop,
    Verbatim,
    find_member,
    read_events,
    read_members,
)
from tracekit.native.library import Batch, Rows
from tracekit.trace.added import HEAD_BYTES, block_bytes
from tracekit.trace.prefetch import prefetched
from tracekit.trace.recovery import SPACE, Rejected, cut_reason, kind_of, next_event, reject
from tracekit.trace.source import ByteStream

# A batch of this size stays in the processor's cache while it is parsed and inserted.
BATCH_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
# Default limit for a trace's metadata. Profilers write kilobytes.
METADATA_BYTES = 16_000_000
_MEMBERS_BYTES = 64 << 10
# Decode metadata members only up to this size and depth.
_MEMBER_BYTES = 4_000_000
_MEMBER_DEPTH = 100
# Python refuses integers with very many digits; longer ones stay text.
_MOST_DIGITS = 1000
_FEW_ROWS = 1000
# Give up after this many bytes without an event: a full disk may leave gigabytes of zeros.
_STRETCH_BYTES = 4 << 20
# Look this far past a bracket to decide whether it ends the events.
_LOOK_AHEAD_BYTES = 64 << 10
# Flush rejected text at this size, its rows included.
_REJECTED_BYTES = 4 << 20
_REJECTED_ROW_BYTES = 200
_BOM = b"\xef\xbb\xbf"
# The first bytes of other files that may hold a trace.
_NOT_TEXT = {
    b"PK\x03": "is a zip archive: unpack it first",
    b"7z\xbc": "is a 7z archive: unpack it first",
    b"\xfd7z": "is compressed with xz: unpack it first, or compress it with gzip or zstd",
    b"BZh": "is compressed with bzip2: unpack it first, or compress it with gzip or zstd",
    b"\xff\xfe": "is UTF-16 text, not UTF-8: convert it first",
    b"\xfe\xff": "is UTF-16 text, not UTF-8: convert it first",
}
_MEMBER_FOLLOWS = re.compile(rb'\][ \t\r\n]*,[ \t\r\n]*"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*:')
_MEMBER = json.JSONDecoder(parse_int=lambda n: int(n) if len(n) <= _MOST_DIGITS else n)
_NODES = re.compile(rb'[ \t\r\n,]*"nodes"[ \t\r\n]*:[ \t\r\n]*\[')
_EXECUTION_TRACE = (
    "is a PyTorch execution trace (Chakra), which lacks times of GPU work; tracekit reads the "
    "Kineto trace that torch.profiler can record with it (export_chrome_trace)"
)
_CUT = "the file ends inside the events"
_NOTHING_FOLLOWS = re.compile(rb"\][ \t\r\n]*\}?[ \t\r\n]*\Z")


class Original(NamedTuple):
    """Original bytes that the tables do not hold in full: the event `event_id`, or a rejected
    element before it. Without an event_id, the metadata without its braces."""

    event_id: int | None
    offset: int
    is_event: bool
    text: bytes


# Reading a trace yields batches of events and labels, rejected text, and original text in which
# characters were replaced or left out.
Piece = (
    tuple[Rows, Batch]
    | tuple[Literal["rejected"], list[Rejected]]
    | tuple[Literal["verbatim"], list[Original]]
)


@dataclass
class TraceReader:
    """Reads one trace. `metadata_text`, `damage` and the counts are complete once `pieces` ends.

    Labels are numbered from `first_label`. `rejected` counts stretches of text that are not events.
    A trace with more than `metadata_bytes` of metadata is refused.
    """

    stream: ByteStream
    first_label: int = 0
    batch_bytes: int = BATCH_BYTES
    metadata_bytes: int = METADATA_BYTES
    form: str = "object"
    events: int = 0
    damage: str | None = None
    rejected: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _offset: int = 0

    def __post_init__(self) -> None:
        self._labels = Labels(self.first_label)
        self._batch = Batch()
        self._rejected: list[Rejected] = []
        self._originals: list[Original] = []
        self._kept_bytes = 0
        self._members: list[str] = []
        # The members' original text, if characters were replaced; else empty.
        self._original_members: list[bytes] = []
        self._metadata_read = 0
        self._chunks: Iterator[bytes] = iter(())

    @property
    def metadata_text(self) -> str:
        """Every member except the events, as a JSON object without white space between tokens.

        Only characters that JSON strings do not allow are replaced; a key may appear twice. Numbers
        may be NaN or Infinity, as in the events' columns: DuckDB's JSON allows that.
        """
        return "{" + ",".join(self._members) + "}"

    def member(self, name: str) -> Any:
        """A decoded metadata member; None: missing, too large or too deep."""
        value = find_member(self.metadata_text.encode(), name)
        if value is None or len(value[0]) > _MEMBER_BYTES or value[1] > _MEMBER_DEPTH:
            return None
        try:
            return _MEMBER.decode(value[0].decode())
        except ValueError:
            return None

    def pieces(self) -> Generator[Piece, None, None]:
        """All events, numbered in file order, their labels, and rejected text. The caller closes
        it.

        Raises:
            TracekitError: when the file is not a trace.
        """
        first = self.stream.read(_CHUNK_BYTES)
        chunks = chain([first], iter(self.stream.read, b""))
        # For a large trace, a thread reads, hashes and decompresses while events are parsed.
        is_large = len(first) >= _CHUNK_BYTES
        with prefetched(chunks) if is_large else nullcontext(chunks) as self._chunks:
            self._read_head()
            self._skip_annotations()
            while (yield from self._read_events()) and self._finds_second_events():
                reason = "starts a second `traceEvents`; its events follow the first's"
                self._keep_rejected(reject(b"[", self._offset - 1, reason, self.events))
            # In a damaged trace, a stray bracket may end the events too early: keep the rest.
            while (yield from self._finds_more_events()):
                yield from self._read_events()
        for batch in self.stream.batches(self.events, self._labels):
            self.events += batch.rows
            yield from self._taken(batch)
        yield "label", self._labels.take()
        if any(self._original_members):
            both = zip(self._original_members, self._members, strict=True)
            members = b",".join(original or text.encode() for original, text in both)
            self._originals.append(Original(None, 0, False, members))
        yield from self._kept()

    # -- the metadata: before and after the events -------------------------------------------------

    def _read_head(self) -> None:
        """Reads up to the first event."""
        self._fill(len(_BOM))
        if self._buffer.startswith(_BOM):
            self._drop(len(_BOM))
        first = self._peek()
        if first is None:
            raise self._error(self.stream.damage or "is empty")
        if first not in b"[{":
            begin = bytes(self._buffer[:3])
            reason = next((_NOT_TEXT[each] for each in _NOT_TEXT if begin.startswith(each)), None)
            raise self._error(reason or "is not JSON: a trace begins with '{' or '['")
        self._drop(1)
        if first == ord("["):
            self.form = "array"
            return
        read = self._read_members()
        if read.stop is Stop.AT_EVENTS:
            if self._peek() != ord("["):
                raise self._error("is JSON but not a trace: its `traceEvents` is not an array")
            self._drop(1)
            return
        if self._is_execution_trace():
            raise self._error(_EXECUTION_TRACE)
        if read.stop is Stop.AT_BRACKET:
            raise self._error("is not a trace: it has no `traceEvents`")
        if read.stop is Stop.AT_END:
            reason = self.stream.damage or "the file ends before its closing brace"
            raise self._error(f"is not a trace: {reason}")
        reason = self.stream.damage or self._what_is_wrong(read)
        raise self._error(f"is not JSON: {reason}")

    def events_begin(self) -> tuple[int, int]:
        """Two byte offsets: of the text after the bracket of `traceEvents`, and of the trace's own
        events, which follow those that `tracekit annotate` added. Call this instead of `pieces`.

        Raises:
            TracekitError: when the file is not a trace.
        """
        self._chunks = iter(self.stream.read, b"")
        self._read_head()
        begin = self._offset
        self._skip_annotations()
        return begin, self._offset

    def _skip_annotations(self) -> None:
        self._fill(HEAD_BYTES)
        left = block_bytes(self._buffer)
        while left and self._fill(1):
            size = min(left, len(self._buffer))
            self._drop(size)
            left -= size

    def _finds_second_events(self) -> bool:
        """Reads on after the events, to the trace's end or to further events."""
        if self.form == "array":
            return False
        read = self._read_members()
        if read.stop is Stop.AT_BRACKET:
            self._drop(1)
        elif read.stop is Stop.AT_EVENTS:
            if self._peek() == ord("["):
                self._drop(1)
                return True
            self.damage = "its second `traceEvents` is not an array"
        elif read.stop is Stop.AT_END:
            self.damage = "the file ends before its closing brace"
        else:
            self.damage = f"the text after the events is damaged: {self._what_is_wrong(read)}"
        return False

    def _read_members(self) -> Members:
        """Reads and keeps members up to the events, the trace's end or an error; returns which.

        Raises:
            TracekitError: when the metadata is larger than `metadata_bytes`.
        """
        wanted = _MEMBERS_BYTES
        while True:
            is_final = not self._fill(wanted)
            read = read_members(self._buffer)
            original = bytes(self._buffer[: read.mended_end]).strip(SPACE + b",")
            self._drop(read.end)
            if read.text:
                self._members.append(read.text)
                self._original_members.append(original)
                self._metadata_read += len(read.text)
            left = self.metadata_bytes - self._metadata_read
            is_inside = read.stop is Stop.INSIDE
            if left < 0 or (is_inside and len(self._buffer) > left):
                if self._is_execution_trace():
                    raise self._error(_EXECUTION_TRACE)
                raise self._error(
                    f"has more than {self.metadata_bytes / 1e6:,.0f} MB of metadata besides its "
                    "events: allow more memory (--memory-mb), or remove it from the file"
                )
            if is_final or not (is_inside or read.stop is Stop.AT_END):
                return read
            wanted = min(2 * len(self._buffer), left + 1) if is_inside else _MEMBERS_BYTES

    def _is_execution_trace(self) -> bool:
        """Whether it has the members `schema` and `nodes`; the last one may be unfinished.

        ExecutionTraceObserver writes them:
        https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/standalone/execution_trace_observer.cpp
        """
        members = self.metadata_text.encode()
        if find_member(members, "schema") is None:
            return False
        is_unfinished = _NODES.match(self._buffer) is not None
        return is_unfinished or find_member(members, "nodes") is not None

    def _what_is_wrong(self, read: Members) -> str:
        reason = read.error or "the file ends inside a member"
        return f"{reason} (in the text from byte {self._offset:,})"

    # -- the events --------------------------------------------------------------------------------

    def _read_events(self) -> Generator[Piece, None, bool]:
        """Reads to the array's end; False if the file ends first."""
        wanted = self.batch_bytes
        while True:
            is_final = not self._fill(wanted)
            wanted = self.batch_bytes
            read = yield from self._read_whole_events()
            if read.stop is Stop.AT_BRACKET and self._ends_here():
                self._drop(1)
                return True
            if read.stop is Stop.AT_END:
                if is_final:
                    break
            elif not (yield from self._passes_over(read, is_final)):
                wanted = max(wanted, 2 * len(self._buffer))
        # The closing bracket of an array is optional (Trace Event Format, "JSON Array Format").
        if self.form == "object":
            self.damage = _CUT
        self.damage = self.stream.damage or self.damage
        return False

    def _read_whole_events(self) -> Generator[Piece, None, Read]:
        """Reads events up to the first incomplete or damaged one."""
        batch = self._batch
        rows = batch.rows
        read = read_events(self._buffer, self.events - rows, self._labels, batch)
        self.events += batch.rows - rows
        for part in read.verbatim:
            yield from self._keep_original(part, self._buffer, self._offset + part.begin)
        self._drop(read.end)
        # If many events are damaged, the next ones join the batch.
        if read.stop is not Stop.AT_ERROR or batch.rows >= _FEW_ROWS:
            self._batch = Batch()
            yield from self._taken(batch)
        return read

    def _passes_over(self, read: Read, is_final: bool) -> Generator[Piece, None, bool]:
        """Rejects the text from where reading stopped to the next event. False if that needs more
        text; with `is_final`, there is no more text."""
        text, reason = self._buffer, read.error or "Expecting value"
        may_grow = not is_final and len(text) < _STRETCH_BYTES
        is_cut = read.stop is Stop.INSIDE
        if is_cut:
            # An event may be of any size.
            if may_grow or not (is_final or text[0] != ord("{")):
                return False
            reason = cut_reason(text)
        # Objects inside a truncated value may look like events.
        following = None if is_cut and reason else next_event(text, 1)
        if following is None and may_grow:
            return False
        lost = text[:following].rstrip(SPACE + b",")
        if reason or following:
            reason = reason or "Not an object"
            self._keep_rejected(reject(lost, self._offset, reason, self.events))
            yield from self._kept(_REJECTED_BYTES)
            if following is None and is_final:
                self.damage = _CUT
        else:
            part = Verbatim(0, len(lost), self.events, False, 1)
            yield from self._keep_original(part, lost, self._offset)
        self._drop(len(text) if following is None else following)
        return True

    def _taken(self, batch: Batch) -> Iterator[Piece]:
        if batch.rows:
            yield "event", batch
        if self._labels.are_many:
            yield "label", self._labels.take()

    def _kept(self, least_bytes: int = 0) -> Iterator[Piece]:
        """The rejected and original texts, once they take `least_bytes` of memory."""
        if self._kept_bytes < least_bytes:
            return
        if self._rejected:
            yield "rejected", self._rejected
        if self._originals:
            yield "verbatim", self._originals
        self._rejected, self._originals, self._kept_bytes = [], [], 0

    def _keep_rejected(self, stretches: Iterable[Rejected]) -> None:
        for stretch in stretches:
            self.rejected += 1
            self._rejected.append(stretch)
            self._kept_bytes += _REJECTED_ROW_BYTES + len(stretch.text)

    def _keep_original(self, part: Verbatim, text: bytearray, offset: int) -> Iterator[Piece]:
        """Keeps a part of a text unchanged; it starts at `offset` in the trace."""
        original = bytes(text[part.begin : part.end])
        self._originals.append(Original(part.event_id, offset, bool(part.is_event), original))
        self._kept_bytes += _REJECTED_ROW_BYTES + len(original)
        if not part.is_event:
            many = f"{part.elements:,} elements, not events"
            reason = many if part.elements > 1 else f"{kind_of(original)}, not an event"
            self._keep_rejected(reject(original, offset, reason, part.event_id))
        yield from self._kept(_REJECTED_BYTES)

    def _ends_here(self) -> bool:
        """Whether the bracket at the front ends the events: another member follows, or only a brace
        before the end of the file. Otherwise it is stray."""
        reach = _LOOK_AHEAD_BYTES
        while self._fill(reach) and not self._buffer[1:reach].strip(SPACE + b","):
            if reach > _STRETCH_BYTES:
                return True
            reach *= 2
        has_more = self._fill(reach + _LOOK_AHEAD_BYTES)
        if _MEMBER_FOLLOWS.match(self._buffer):
            return True
        return not has_more and _NOTHING_FOLLOWS.match(self._buffer) is not None

    def _finds_more_events(self) -> Generator[Piece, None, bool]:
        """Reads on after the trace's end; True if it finds more events."""
        if self._peek() is None:
            self.damage = self.damage or self.stream.damage
            return False
        while self._fill(1):
            self._fill(_STRETCH_BYTES)
            start = next_event(self._buffer, 0)
            end = len(self._buffer) if start is None else start
            reason = "after the trace's end"
            self._keep_rejected(reject(self._buffer[:end], self._offset, reason, self.events))
            yield from self._kept(_REJECTED_BYTES)
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
        """The first non-white-space byte; None at the end."""
        while True:
            self._drop(len(self._buffer) - len(self._buffer.lstrip(SPACE)))
            if self._buffer:
                return self._buffer[0]
            if not self._more():
                return None

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size

    def _error(self, what: str) -> TracekitError:
        return TracekitError(f"{self.stream.path}: {what}")
