"""A process recorded by another profiler, read as the text of a Kineto trace or as rows.

Readers list a file's processes, and yield their events with Kineto's categories and arguments.
Callers see the profiler only in the trace's member `profiler`: its name, its version, and which
parts of the file are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.trace.budget import Budget
from tracekit.trace.other.sqlite import Tables
from tracekit.trace.readers import Reader
from tracekit.trace.source import ByteStream, Hashing, copied

_READ_BYTES = 1 << 20
_SQLITE = b"SQLite format 3\0"
# Maximum number of events and of characters in one piece of text.
_AT_ONCE, _CHARACTERS_AT_ONCE = 4096, 1 << 20
_TIMES = ("ts", "dur")


class OneProcess(Struct):
    """The data on one process in a file.

    `events` yields texts of one or more events, separated by commas. `tail` is read after them: the
    trace's members that are known only then, which replace others. `rows` yields further events in
    batches, numbered from the given number, with the bytes of text in each batch.
    """

    name: str | None
    """A name that distinguishes it from the file's other processes; None: the only process."""
    members: dict[str, Any]
    events: Callable[[], Iterator[bytes]]
    tail: dict[str, Any] = field(default_factory=dict)
    damage: str | None = None
    """Why events are missing at the end."""
    rows: Callable[[int, Labels], Iterator[tuple[Batch, int]]] | None = None


class OpenedFile:
    """A file as readers see it. Its resources are closed with the last of its processes."""

    def __init__(self, stream: ByteStream, folder: str, closes: ExitStack) -> None:
        self._stream = stream
        self.path = stream.path
        self.head = stream.head()
        """The file's first bytes, decompressed."""
        self.folder = folder
        """The folder for temporary files."""
        self.closes = closes
        self.plain_path = stream.plain_path
        """The file on the disk that has these bytes as they are, if one has."""

    @property
    def budget(self) -> Budget:
        """The limits on reading the file."""
        return self._stream.budget

    @property
    def damage(self) -> str | None:
        """Why events are missing at the end; set by the reader unless the bytes end early."""
        return self._stream.damage

    @damage.setter
    def damage(self, damage: str | None) -> None:
        self._stream.damage = damage

    def read(self, size: int = _READ_BYTES) -> bytes:
        """The next bytes, decompressed; empty at the end."""
        return self._stream.read(size)

    def rewind(self) -> None:
        self._stream.rewind()

    def has_ending(self, endings: Iterable[str]) -> bool:
        """Whether the file's name has one of these endings, compressed or not."""
        return self.path.removesuffix(".gz").removesuffix(".zst").endswith(tuple(endings))

    @cached_property
    def tables(self) -> Tables | None:
        """The tables of a SQLite file; None: not a SQLite file."""
        if not self.head.startswith(_SQLITE):
            return None
        file = self.plain_path
        if file is None:
            text = iter(self.read, b"")
            copy = copied(self.path, text, self.folder, has_name=True)
            file = Path(self.closes.enter_context(copy).name)
        return self.tables_of(file)

    def tables_of(self, file: Path) -> Tables:
        """The tables of a SQLite file with the same contents as this file."""
        return self.closes.enter_context(closing(Tables(file, self.path, self.budget)))


def processes_of(reader: Reader, opened: OpenedFile) -> list[OneProcess]:
    """The processes in a file; a single one if the reader yields events.

    Raises:
        TracekitError: when the file is damaged, or a plugin's reader fails on it.
    """
    result = reader.read(opened)
    if isinstance(result, list):
        return result

    def events() -> Iterator[bytes]:
        opened.rewind()
        for piece in reader.read(opened):
            if isinstance(piece, bytes):
                yield piece
            else:
                process.tail = piece
        process.damage = opened.damage

    process = OneProcess(None, {}, events)
    return [process]


class Converted(ByteStream):
    """The text of a process's trace. Size and hash are those of the file `stored`."""

    def __init__(
        self, source: ByteStream, process: OneProcess, stored: Hashing, close: Callable[[], object]
    ) -> None:
        self._source = source
        self._process = process
        self._hashing = stored
        self._close = close
        self._is_small = source.is_small
        self.path = source.path if process.name is None else f"{source.path}/{process.name}"
        self.rewind()

    def rewind(self) -> None:
        self.damage = None
        self._pieces = self._texts()
        self._buffer = bytearray()

    def close(self) -> None:
        self._pieces = iter(())
        # Later calls do nothing.
        close, self._close = self._close, lambda: None
        close()

    def read(self, size: int = _READ_BYTES) -> bytes:
        buffer = self._buffer
        while len(buffer) < size and (piece := next(self._pieces, b"")):
            buffer += piece
            self._grow(len(piece))
        data = bytes(buffer[:size])
        del buffer[:size]
        return data

    def batches(self, first_id: int, labels: Labels) -> Iterator[Batch]:
        if self._process.rows is not None:
            for batch, text_bytes in self._process.rows(first_id, labels):
                self._grow(text_bytes)
                yield batch

    def _grow(self, text: int) -> None:
        self._source.budget.grow(text, "written")

    @property
    def is_text(self) -> bool:
        return self._process.rows is None

    def _texts(self) -> Iterator[bytes]:
        yield b'{"traceEvents":[\n'
        before = b""
        for text in self._process.events():
            yield before + text
            before = b",\n"
        self.damage = self._process.damage
        members = json.dumps(self._process.members | self._process.tail).encode()[1:]
        yield b"\n]" + (b"," + members if len(members) > 1 else members)

    @property
    def stored_bytes(self) -> int:
        return self.file_bytes

    @property
    def is_small(self) -> bool:
        return self._is_small

    def hashed(self) -> Hashing:
        return self._hashing


def texts(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The events as text, in pieces of many events. A Decimal time keeps its digits."""
    encode = json.JSONEncoder(separators=(",", ":"), default=float).encode
    return joined(encode(_with_exact_times(event)) for event in events)


def _with_exact_times(event: dict[str, Any]) -> dict[str, Any]:
    exact = {key: str(event[key]) for key in _TIMES if isinstance(event.get(key), Decimal)}
    return event | exact if exact else event


def joined(lines: Iterable[str]) -> Iterator[bytes]:
    """Texts of single events, joined into larger pieces."""
    pending: list[str] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if len(pending) == _AT_ONCE or size >= _CHARACTERS_AT_ONCE:
            yield ",\n".join(pending).encode("utf-8", "replace")
            pending, size = [], 0
    if pending:
        yield ",\n".join(pending).encode("utf-8", "replace")


def microseconds(nanoseconds: int) -> str:
    """Exact decimal text; readers accept it in a JSON string."""
    whole, part = divmod(abs(nanoseconds), 1000)
    return f"{'-' if nanoseconds < 0 else ''}{whole}.{part:03d}"


def slice_of(
    category: object,
    name: object,
    pid: Any,
    tid: Any,
    start_ns: int,
    dur_ns: int,
    args: dict[str, Any],
) -> dict[str, Any]:
    """A host slice or GPU op."""
    times = {"ts": microseconds(start_ns), "dur": microseconds(dur_ns)}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "args": args} | times


def named(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, Any]:
    """The name of a process or thread: `kind` is process_name, process_labels or thread_name."""
    key = "labels" if kind == "process_labels" else "name"
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {key: name}}


def ranked(place: int, of: int) -> dict[str, Any]:
    """The members that mark a process as one of several ranks."""
    return {"distributedInfo": {"rank": place, "world_size": of}} if of > 1 else {}
