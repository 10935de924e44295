"""Files and pipes -> slices of raw trace events.

A trace is read once, front to back, in chunks; what is held is one slice. A slice is a valid JSON
array of whole events, ready for a parallel parser. The metadata around `traceEvents` (its place in
the file does not matter) is small and is parsed here.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import zstandard

from tracekit.errors import TracekitError

SLICE_BYTES = 32 << 20
_READ_BYTES = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_SPACES = re.compile(rb"[ \t\r\n]*")

# Where one object ends and the next begins. Whether both are events of the array is for the parser
# to confirm: the same bytes may stand in a nested list.
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Slice:
    """Whole events, as the inside of a JSON array, and where they begin in the JSON."""

    events: bytes
    offset: int

    @property
    def array(self) -> bytes:
        return b"[" + self.events + b"]"


@dataclass
class Rejected:
    """A stretch of the events array that is not JSON."""

    offset: int
    text: str
    reason: str


class _Hashing(io.RawIOBase):
    """A file that is hashed and counted as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.sha256.update(data)
        self.size += len(data)
        return len(data)


class ByteStream:
    """The decompressed bytes of a trace. What ends early is noted in `damage`, not raised."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.damage: str | None = None
        try:
            file = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115
        except OSError as error:
            raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
        self._file = file
        self._hashing = _Hashing(file)
        raw = io.BufferedReader(self._hashing, 1 << 20)
        try:
            magic = raw.peek(4)[:4]
        except OSError as error:
            self.close()
            raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
        self._read: Callable[[int], bytes]
        if magic[:2] == _GZIP_MAGIC:
            # read1 hands over what was decompressed before an early end; read would lose it.
            self._read = gzip.GzipFile(fileobj=raw).read1
        elif magic == _ZSTD_MAGIC:
            decompressor = zstandard.ZstdDecompressor()
            self._read = decompressor.stream_reader(raw, read_across_frames=True).read
        else:
            self._read = raw.read

    def read(self) -> bytes:
        """The next chunk; empty at the end."""
        try:
            return self._read(_READ_BYTES)
        except EOFError:
            self.damage = "the compressed file ends early"
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            self.damage = f"the compressed data is corrupt ({error})"
        except OSError as error:
            raise TracekitError(f"{self.path}: cannot be read: {error}") from error
        return b""

    @property
    def file_bytes(self) -> int:
        return self._hashing.size

    @property
    def sha256(self) -> str:
        return self._hashing.sha256.hexdigest()

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()


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
            elif (last := self._take_last()).events:
                return last
        if self._place == "tail":
            self._read_members()
            self._place = "end"
            self.damage = self.damage or self.stream.damage
        return None

    def resync(self, failed: Slice, unread: list[Slice]) -> Slice:
        """The true events of a slice that does not parse; the rest of it will be read again.

        `unread` are the slices that were taken after `failed` and not yet used.
        """
        found = salvage(failed.events, failed.offset, final=False)
        self.rejected += found.rejected
        # What was taken lost the comma before it; the buffer still begins with its own.
        self._buffer[:0] = b",".join([failed.events[found.end :], *(u.events for u in unread)])
        self._place = "tail" if found.closed else "events"
        self._offset = failed.offset + found.end
        if not found.end:
            self._misled = True
            self._wanted = 2 * len(self._buffer)
        return Slice(found.events, failed.offset)

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
        if first is not None and self._peek() is not None:
            self.damage = f"there is more after the trace's end (byte {self._offset:,})"

    def _value(self) -> Any:
        """The JSON value at the front of the buffer, reading on until it is whole."""
        self._peek()
        reach = 1 << 14
        while True:
            text = self._buffer[:reach].decode("utf-8", "replace")
            all_seen = reach >= len(self._buffer) and not self._more()
            try:
                value, end = _DECODER.raw_decode(text)
            except (json.JSONDecodeError, RecursionError) as error:
                if all_seen:
                    raise ValueError(f"{error} (from byte {self._offset:,})") from error
            else:
                # A number that ends where the text ends may go on beyond it.
                if all_seen or end < len(text) or not isinstance(value, int | float):
                    self._drop(len(text[:end].encode("utf-8", "replace")))
                    return value
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
        taken = Slice(bytes(self._buffer[:end]).lstrip(_SPACE + b","), self._offset)
        self._drop(end)
        return taken

    def _take_last(self) -> Slice:
        """The events up to the array's `]`, decoded one after the other."""
        offset = self._offset
        found = salvage(bytes(self._buffer), offset, final=True)
        self.rejected += found.rejected
        self._drop(found.end)
        if found.closed and self.form == "object":
            self._place = "tail"
        else:
            self._place = "end"
            # An array need not be closed (Trace Event Format, "JSON Array Format").
            if self.form == "object" or found.rejected:
                self.damage = "the file ends inside the events"
            self.damage = self.stream.damage or self.damage
        return Slice(found.events, offset)

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
            self._drop(_leading_space(self._buffer))
            if self._buffer:
                return self._buffer[0]
            if not self._more():
                return None

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size

    def _error(self, what: str) -> TracekitError:
        return TracekitError(f"{self.stream.path}: {what}")


@dataclass
class Salvaged:
    """What `salvage` made of a stretch of the events array."""

    events: bytes
    rejected: list[Rejected]
    end: int
    closed: bool


def salvage(text: bytes, offset: int, *, final: bool) -> Salvaged:
    """Decodes events one by one, in Python: slow, and right where a fast parse fails.

    Raw control characters and invalid UTF-8 are mended, what is not JSON is set aside. `end` is the
    first byte not consumed: an event that is incomplete (only when not `final`), or what follows
    the array's `]` (`closed`).
    """
    good: list[bytes] = []
    rejected: list[Rejected] = []
    # One character per byte keeps positions equal; each event is decoded properly below.
    latin = text.decode("latin-1")
    at = 0
    while True:
        while at < len(latin) and latin[at] in " \t\r\n,":
            at += 1
        if at == len(latin):
            return Salvaged(b",\n".join(good), rejected, at, closed=False)
        if latin[at] == "]":
            return Salvaged(b",\n".join(good), rejected, at + 1, closed=True)
        try:
            _, end = _DECODER.raw_decode(latin, at)
            good.append(_clean(text[at:end]))
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, latin):
                # Cut off: what follows inside it may look like events, and is none.
                if not final:
                    return Salvaged(b",\n".join(good), rejected, at, closed=False)
                end = len(text)
            else:
                following = _next_event(text, at + 1)
                if following is None and not final:
                    return Salvaged(b",\n".join(good), rejected, at, closed=False)
                end = len(text) if following is None else following
            lost = text[at:end].rstrip(_SPACE + b",").decode("utf-8", "replace")
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            rejected.append(Rejected(offset + at, lost, reason))
        at = end


def _leading_space(text: bytearray) -> int:
    found = _SPACES.match(text)
    return found.end() if found else 0


def looks_like_event(text: bytes | bytearray, at: int) -> bool:
    """Whether a whole JSON object with a `ph` (or, being cut off, the start of one) begins here."""
    for reach in (1 << 12, 1 << 16, 1 << 26):
        try:
            found, _ = _DECODER.raw_decode(bytes(text[at : at + reach]).decode("latin-1"))
        except (json.JSONDecodeError, RecursionError):
            continue
        return isinstance(found, dict) and "ph" in found
    return False


def _runs_out(error: Exception, text: str) -> bool:
    """Whether parsing failed because the text ends too early, rather than on what it says."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # A literal that is cut off is reported at its start: none is longer than this.
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - len("-Infinity")


def _next_event(text: bytes, at: int) -> int | None:
    for match in BOUNDARY.finditer(text, at):
        if looks_like_event(text, match.end()):
            return match.end()
    return None


_CONTROL = re.compile(r"[\x00-\x1f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _clean(event: bytes) -> bytes:
    """The event as strict JSON: unchanged where it is."""
    text = event.decode("utf-8", "replace")
    if not _CONTROL.search(text) and "\\ud" not in text.lower():
        return text.encode()
    mended = json.dumps(_DECODER.decode(text), ensure_ascii=False)
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", mended).encode()
