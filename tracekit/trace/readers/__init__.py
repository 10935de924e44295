"""The readers of other profilers' files: the modules of this package, and those of plugins.

A reader is a module. `NAME` is the profiler's, which the trace gets; `ENDINGS` are those of its
files, which may also be compressed. `sniff(opened)` tells whether a file is one, by `opened.path`,
by its first bytes, `opened.head`, or by the tables of a SQLite file, `opened.tables`.
`read(opened)` yields the text of the file's events as bytes, each piece one or several, separated
by commas; a dictionary that it yields has members of the trace. `opened.read(size)` gives it the
file's next bytes, decompressed; it sets `opened.damage` to why events are missing. If a file holds
several processes, `read` returns them as a list of `OneProcess` instead. What it keeps counts on
`opened.budget`.

JSON as torch.profiler writes it has no reader: it is what all others become. Most files are JSON,
so readers are imported only for other files, and to list the files of a folder.
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
    """A module that reads files of a profiler; `plugin` brings it, if any does."""

    module: Any
    plugin: Plugin | None = None

    @property
    def endings(self) -> tuple[str, ...]:
        return _packed(self.module.ENDINGS)

    def knows(self, opened: Any) -> bool:
        """Whether it reads this file.

        Raises:
            TracekitError: a plugin's reader fails on the file.
        """
        with self._explained(opened.path):
            return bool(self.module.sniff(opened))

    def read(self, opened: Any) -> Any:
        """The pieces of the file's one process, or a list of its processes.

        Raises:
            TracekitError: the file is damaged, or a plugin's reader fails on it.
        """
        with self._explained(opened.path):
            found = self.module.read(opened)
        if not isinstance(found, list):
            return self._pieces(opened.path, found)
        for each in found:
            each.members = self._signed(each.members)
        return found

    def _pieces(self, path: str, pieces: Any) -> Iterator[bytes | dict[str, Any]]:
        members: dict[str, Any] = {}
        with self._explained(path):
            for piece in pieces:
                if isinstance(piece, bytes):
                    yield piece
                elif isinstance(piece, Mapping):
                    members |= piece
                else:
                    raise TypeError(f"it yields a {type(piece).__name__}, not bytes")
        yield self._signed(members)

    def _signed(self, members: dict[str, Any]) -> dict[str, Any]:
        """The members of a trace, with the names of its profiler and of the plugin that read it."""
        said = members.get("profiler")
        about = said if self.plugin is None and isinstance(said, dict) else {}
        about = about | {"name": self.module.NAME}
        if self.plugin is not None:
            about["plugin"] = self.plugin.of_version
        return members | {"profiler": about}

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Turns an error of a plugin's reader into one for people."""
        try:
            yield
        except Exception as error:
            if self.plugin is None or isinstance(error, TracekitError) or is_interrupt(error):
                raise
            reader = f"the reader {self.module.NAME} of plugin {self.plugin.name}"
            raise TracekitError(f"{path}: {reader} failed: {first_line(error)}") from error


def _packed(endings: Iterable[str]) -> tuple[str, ...]:
    return tuple(each + packed for each in endings for packed in _PACKED)


@cache
def own_readers() -> tuple[Reader, ...]:
    """tracekit's own readers: each module of this package is one."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return tuple(Reader(import_module(f"{__name__}.{each}")) for each in names)


@cache
def plugged_readers() -> tuple[Reader, ...]:
    """The readers of plugins, without those that lack a part, or have the name or the ending of one
    of tracekit's own."""
    found: list[Reader] = []
    for plugin, module in plugins.modules("readers"):
        with plugin.leaving_out(f"the reader {getattr(module, 'NAME', module)}"):
            for each in _PARTS:
                if not hasattr(module, each):
                    raise TracekitError(f"it has no {each}")
            others = [each.module for each in (*own_readers(), *found)]
            if module.NAME in {each.NAME for each in others}:
                raise TracekitError("there is another reader of this name")
            taken = _endings(own_readers())
            if own := next((each for each in module.ENDINGS if each in (*taken, *ARCHIVES)), None):
                raise TracekitError(f"tracekit itself reads files that end in {own}")
            found.append(Reader(module, plugin))
    return tuple(found)


@cache
def trace_endings() -> tuple[str, ...]:
    """How the names of traces end."""
    return _endings((*own_readers(), *plugged_readers()))


def _endings(readers: tuple[Reader, ...]) -> tuple[str, ...]:
    found = (*_packed([JSON]), *(ending for each in readers for ending in each.endings))
    return tuple(dict.fromkeys(found))
