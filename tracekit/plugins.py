"""Plugins: what other installed packages add to tracekit, found by their entry points.

The entry point's group says what its value brings: in `tracekit.readers` a module that reads a
profiler's files, in the other groups a package whose folder holds files. A plugin is code that the
user installed, and is trusted like tracekit. It adds and never replaces; what is wrong with it is
one line on standard error, and that part is left out.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracekit.errors import TracekitError, explained, first_line, is_interrupt
from tracekit.text import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OFF = "TRACEKIT_NO_PLUGINS"
"""The environment variable that turns plugins off."""
KINDS = ("readers", "queries", "names", "hardware")
_PREFIX = "tracekit."
# Its lines on standard error, each printed once.
_told: set[str] = set()


class Plugin(Struct, frozen=True):
    """An installed distribution that brings something."""

    name: str
    version: str
    entries: tuple[EntryPoint, ...]

    @property
    def of_version(self) -> str:
        return f"{self.name} {self.version}"

    def mark(self, text: str) -> str:
        """A text that the plugin brings, as users see it."""
        return f"plugin {self.name}: {text}"

    def of(self, kind: str) -> Iterator[EntryPoint]:
        return (each for each in self.entries if each.group == f"{_PREFIX}{kind}")

    def complain(self, why: str) -> None:
        """Says in one line on standard error what is left out, and why."""
        line = printable(f"tracekit: {self.mark(why)}")
        if line not in _told:
            _told.add(line)
            print(line, file=sys.stderr)

    @contextmanager
    def leaving_out(self, part: str) -> Iterator[None]:
        """Turns an error in its block into the line that says that a part is left out."""
        try:
            yield
        except TracekitError as error:
            if is_interrupt(error):
                raise
            self.complain(f"{part} is left out: {error}")


@cache
def installed() -> tuple[Plugin, ...]:
    """The plugins on Python's path, by name."""
    if os.environ.get(OFF):
        return ()
    found: dict[str, Plugin] = {}
    for folder in _folders_of_plugins():
        from importlib.metadata import PathDistribution

        distribution = PathDistribution(folder)
        name = distribution.metadata["Name"]
        entries = (each for each in distribution.entry_points if each.group.startswith(_PREFIX))
        plugin = Plugin(name, distribution.version, tuple(entries))
        # The first on the path is the one that Python imports.
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), plugin)
    for plugin in found.values():
        for each in plugin.entries:
            if each.group.removeprefix(_PREFIX) not in KINDS:
                groups = ", ".join(_PREFIX + kind for kind in KINDS)
                plugin.complain(f"{each.group} is no group of entry points; there are: {groups}")
    return tuple(found[name] for name in sorted(found))


def modules(kind: str) -> Iterator[tuple[Plugin, Any]]:
    """What the entry points of a kind load, without those that fail."""
    for plugin in installed():
        for entry in plugin.of(kind):
            try:
                yield plugin, entry.load()
            except (Exception, SystemExit) as error:
                plugin.complain(f"{entry.value} cannot be imported: {first_line(error)}")


def folders(kind: str) -> Iterator[tuple[Plugin, Path]]:
    """The folders of the packages that the entry points of a kind name, which are not imported."""
    for plugin in installed():
        for entry in plugin.of(kind):
            try:
                spec = find_spec(entry.value)
            except (Exception, SystemExit) as error:
                plugin.complain(f"{entry.value} cannot be imported: {first_line(error)}")
                continue
            places = list(spec.submodule_search_locations or ()) if spec else []
            if places:
                yield plugin, Path(places[0])
            else:
                plugin.complain(f"{entry.value} is not a package")


def files(kind: str, pattern: str) -> Iterator[tuple[Plugin, Path]]:
    """The files in these folders whose paths match."""
    for plugin, folder in folders(kind):
        yield from ((plugin, file) for file in sorted(folder.glob(pattern)))


def named(file: Path) -> str:
    """A plugin's file, as errors name it."""
    return f"{file.parent.name}/{file.name}"


def text(file: Path) -> str:
    """The text of a plugin's file.

    Raises:
        TracekitError: it cannot be read.
    """
    with explained("cannot be read", OSError, ValueError):
        return file.read_text(encoding="utf-8")


class PluginQuery(Struct, frozen=True):
    """A question or remedy of a plugin."""

    plugin: Plugin
    topic: str
    sql: str


def added_queries(
    topics: Collection[str],
    own_names: Callable[[], Iterable[str]],
    check: Callable[[str, str, str], None],
) -> dict[str, PluginQuery]:
    """The questions and remedies of plugins, by file name: the files TOPIC/NAME.sql of their
    folders, without those that fail the check, or have a name that is taken."""
    found: dict[str, PluginQuery] = {}
    owners: dict[str, str] = {}
    for plugin, file in files("queries", "*/*.sql"):
        name, topic = file.stem, file.parent.name
        owners = owners or dict.fromkeys(own_names(), "tracekit")
        with plugin.leaving_out(named(file)):
            if topic not in topics:
                raise TracekitError(f"no topic is {topic!r}; there are: {', '.join(topics)}")
            if not name.isidentifier():
                raise TracekitError("a name has letters, digits and underscores")
            sql = text(file)
            check(name, topic, sql)
            if name in owners:
                raise TracekitError(f"{owners[name]} has a question or remedy named {name}")
            owners[name] = f"plugin {plugin.name}"
            found[name] = PluginQuery(plugin, topic, sql)
    return found


def _folders_of_plugins() -> Iterator[Path]:
    """The folders with the metadata of distributions that have entry points for tracekit. Importing
    importlib.metadata takes longer than to look into these small files."""
    group = f"[{_PREFIX}".encode()
    for place in sys.path:
        with suppress(OSError):
            for each in os.scandir(place or "."):
                if each.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if group in Path(each.path, "entry_points.txt").read_bytes():
                            yield Path(each.path)
