"""The readers of other profilers' files: the modules of this package, and those of plugins.

A reader is a module. `NAME` is the profiler's name in the trace, and `ENDINGS` are the endings of
its files, which may also be compressed. `sniff(opened)` recognizes a file by `opened.path`, by its
first bytes, `opened.head`, or by a SQLite file's tables, `opened.tables`.

`read(opened)` yields pieces of bytes, each with one or more events separated by commas, and
dictionaries with members of the trace. It reads the file's decompressed bytes with
`opened.read(size)`, charges the memory that it keeps to `opened.budget`, and sets `opened.damage`
if events are missing. If a file holds several processes, `read` returns a list of `OneProcess`
instead.

torch.profiler's JSON has no reader: all other formats are converted to it. Since most files are
JSON, readers are imported only for other files, and to list a folder's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from tracekit import plugins
from tracekit.errors import TracekitError, first_line, is_interrupt
from tracekit.plugins import Plugin
from tracekit.trace.unpacking import ARCHIVES

JSON = ".json"
_PARTS = ("NAME", "ENDINGS", "sniff", "read")
_PACKED = ("", ".gz", ".zst")


class Reader(Struct, frozen=True):
    """A module that reads a profiler's files; `plugin` is set if a plugin provides it."""

    module: Any
    plugin: Plugin | None = None

    @property
    def endings(self) -> tuple[str, ...]:
        return _packed(self.module.ENDINGS)

    def knows(self, opened: Any) -> bool:
        """Whether it recognizes this file.

        Raises:
            TracekitError: when a plugin's reader fails on the file.
        """
        with self._explained(opened.path):
            return bool(self.module.sniff(opened))

    def read(self, opened: Any) -> Any:
        """The pieces of the file's only process, or a list of its processes.

        Raises:
            TracekitError: when the file is damaged, or a plugin's reader fails on it.
        """
        with self._explained(opened.path):
            pieces = self.module.read(opened)
        if not isinstance(pieces, list):
            return self._pieces(opened.path, pieces)
        for piece in pieces:
            piece.members = self._signed(piece.members)
        return pieces

    def _pieces(self, path: str, pieces: Any) -> Iterator[bytes | dict[str, Any]]:
        members: dict[str, Any] = {}
        with self._explained(path):
            for piece in pieces:
                if isinstance(piece, bytes):
                    yield piece
                elif isinstance(piece, Mapping):
                    members |= piece
                else:
                    raise TypeError(f"it yielded a {type(piece).__name__}, not bytes")
        yield self._signed(members)

    def _signed(self, members: dict[str, Any]) -> dict[str, Any]:
        """A trace's members, with the names of its profiler and of the plugin that read it."""
        profiler = members.get("profiler")
        about = profiler if self.plugin is None and isinstance(profiler, dict) else {}
        about = {"name": self.module.NAME} | about
        if self.plugin is not None:
            about["plugin"] = self.plugin.of_version
        return members | {"profiler": about}

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Turns an error in a plugin's reader into a message for users."""
        try:
            yield
        except Exception as error:
            if self.plugin is None or isinstance(error, TracekitError) or is_interrupt(error):
                raise
            reader = f"the reader {self.module.NAME} of plugin {self.plugin.name}"
            raise TracekitError(f"{path}: {reader} failed: {first_line(error)}") from error


def _packed(endings: Iterable[str]) -> tuple[str, ...]:
    return tuple(ending + packed for ending in endings for packed in _PACKED)


@cache
def own_readers() -> tuple[Reader, ...]:
    """tracekit's readers: the modules in this package."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return tuple(Reader(import_module(f"{__name__}.{each}")) for each in names)


@cache
def plugged_readers() -> tuple[Reader, ...]:
    """The plugins' readers, without incomplete ones and those whose name or ending belongs to a
    tracekit reader."""
    readers: list[Reader] = []
    for plugin, module in plugins.modules("readers"):
        with plugin.leaving_out(f"the reader {getattr(module, 'NAME', module)}"):
            for part in _PARTS:
                if not hasattr(module, part):
                    raise TracekitError(f"it has no {part}")
            others = [each.module for each in (*own_readers(), *readers)]
            if module.NAME in {other.NAME for other in others}:
                raise TracekitError("there is another reader with this name")
            taken = _endings(own_readers())
            if own_ending := next(
                (ending for ending in module.ENDINGS if ending in (*taken, *ARCHIVES)), None
            ):
                raise TracekitError(f"tracekit already reads files that end in {own_ending}")
            readers.append(Reader(module, plugin))
    return tuple(readers)


@cache
def trace_endings() -> tuple[str, ...]:
    """The endings of traces' names."""
    return _endings((*own_readers(), *plugged_readers()))


def _endings(readers: tuple[Reader, ...]) -> tuple[str, ...]:
    endings = (*_packed([JSON]), *(ending for reader in readers for ending in reader.endings))
    return tuple(dict.fromkeys(endings))
