"""The readers of plugins.

A reader is a module. `NAME` is the profiler's, `ENDINGS` are those of its files,
`sniff(head, name)` tells by a file's first bytes whether it is one, and `read(opened)` yields the
text of its events as bytes, each piece one or several, separated by commas; a dictionary that it
yields has members of the trace. `opened` has `path` and `read(size)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Protocol

from msgspec import Struct

from tracekit import plugins
from tracekit.causes import RECORDERS
from tracekit.errors import TracekitError, first_line, is_interrupt
from tracekit.plugins import Plugin
from tracekit.trace.unpacking import ARCHIVES, TRACES

_OWN_NAMES = {"perfetto", *RECORDERS}
_PACKED = ("", ".gz", ".zst")


class PluginInput(Protocol):
    """A file as a plugin's reader gets it."""

    path: str

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes, decompressed; none at the end."""


class PluggedReader(Struct, frozen=True):
    """A reader of a plugin."""

    plugin: Plugin
    module: Any

    @property
    def endings(self) -> tuple[str, ...]:
        return tuple(each + packed for each in self.module.ENDINGS for packed in _PACKED)

    def knows(self, head: bytes, name: str) -> bool:
        """Whether it reads a file with these first bytes.

        Raises:
            TracekitError: it fails on them.
        """
        try:
            return bool(self.module.sniff(head, name))
        except Exception as error:
            raise self._failed(name, error) from error

    def read(self, opened: PluginInput) -> Iterator[bytes | Mapping[str, Any]]:
        """The texts of a file's events, and members of the trace.

        Raises:
            TracekitError: it fails on the file.
        """
        yield {"profiler": {"name": self.module.NAME, "plugin": self.plugin.of_version}}
        try:
            for piece in self.module.read(opened):
                if not isinstance(piece, bytes | Mapping):
                    raise TypeError(f"it yields a {type(piece).__name__}, not bytes")
                yield piece
        except Exception as error:
            if isinstance(error, TracekitError) or is_interrupt(error):
                raise
            raise self._failed(opened.path, error) from error

    def _failed(self, path: str, error: Exception) -> TracekitError:
        reader = f"the reader {self.module.NAME} of plugin {self.plugin.name}"
        return TracekitError(f"{path}: {reader} failed: {first_line(error)}")


@cache
def plugged_readers() -> tuple[PluggedReader, ...]:
    """The readers of plugins, without those that lack a part, or have the name or the ending of one
    of tracekit's own."""
    found: list[PluggedReader] = []
    for plugin, module in plugins.modules("readers"):
        with plugin.leaving_out(f"the reader {getattr(module, 'NAME', module)}"):
            for each in ("NAME", "ENDINGS", "sniff", "read"):
                if not hasattr(module, each):
                    raise TracekitError(f"it has no {each}")
            if module.NAME in _OWN_NAMES | {each.module.NAME for each in found}:
                raise TracekitError("there is another reader of this name")
            if own := next((each for each in module.ENDINGS if each in (*TRACES, *ARCHIVES)), None):
                raise TracekitError(f"tracekit itself reads files that end in {own}")
            found.append(PluggedReader(plugin, module))
    return tuple(found)


@cache
def traces() -> tuple[str, ...]:
    """How the names of traces end, those that plugins read included."""
    return (*TRACES, *(ending for each in plugged_readers() for ending in each.endings))
