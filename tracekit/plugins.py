"""Plugins: other installed packages that extend tracekit through entry points.

The entry point's group says what it provides: in `tracekit.readers` a module that reads a
profiler's files, in the other groups a package whose folder holds files. A plugin is code that the
user installed, and is trusted like tracekit. It can add but never replace. A faulty part is left
out, with one line on standard error.
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
# Lines already printed on standard error.
_told: set[str] = set()


class Plugin(Struct, frozen=True):
    """An installed distribution with entry points for tracekit."""

    name: str
    version: str
    entries: tuple[EntryPoint, ...]

    @property
    def of_version(self) -> str:
        return f"{self.name} {self.version}"

    def mark(self, text: str) -> str:
        """The plugin's text as users see it."""
        return f"plugin {self.name}: {text}"

    def of(self, kind: str) -> Iterator[EntryPoint]:
        return (entry for entry in self.entries if entry.group == f"{_PREFIX}{kind}")

    def complain(self, why: str) -> None:
        """Prints one line on standard error: what is left out and why."""
        line = printable(f"tracekit: {self.mark(why)}")
        if line not in _told:
            _told.add(line)
            print(line, file=sys.stderr)

    @contextmanager
    def leaving_out(self, part: str) -> Iterator[None]:
        """Turns an error in its block into a line that says that a part is left out."""
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
    by_name: dict[str, Plugin] = {}
    for folder in _folders_of_plugins():
        from importlib.metadata import PathDistribution

        distribution = PathDistribution(folder)
        name = distribution.metadata["Name"]
        entries = (point for point in distribution.entry_points if point.group.startswith(_PREFIX))
        plugin = Plugin(name, distribution.version, tuple(entries))
        # Python imports the first one on the path.
        by_name.setdefault(re.sub(r"[-_.]+", "-", name).lower(), plugin)
    for plugin in by_name.values():
        for entry in plugin.entries:
            if entry.group.removeprefix(_PREFIX) not in KINDS:
                groups = ", ".join(_PREFIX + kind for kind in KINDS)
                plugin.complain(
                    f"{entry.group} is not an entry point group; the groups are: {groups}"
                )
    return tuple(by_name[name] for name in sorted(by_name))


def modules(kind: str) -> Iterator[tuple[Plugin, Any]]:
    """The loaded values of a kind's entry points, without those that fail."""
    for plugin in installed():
        for entry in plugin.of(kind):
            try:
                yield plugin, entry.load()
            except (Exception, SystemExit) as error:
                plugin.complain(f"{entry.value} cannot be imported: {first_line(error)}")


def folders(kind: str) -> Iterator[tuple[Plugin, Path]]:
    """The folders of the packages that a kind's entry points name. The packages are not
    imported."""
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
    """A plugin's file, as named in errors."""
    return f"{file.parent.name}/{file.name}"


def text(file: Path) -> str:
    """The text of a plugin's file.

    Raises:
        TracekitError: when the file cannot be read.
    """
    with explained("cannot be read", OSError, ValueError):
        return file.read_text(encoding="utf-8")


class PluginQuery(Struct, frozen=True):
    """A plugin's question or remedy."""

    plugin: Plugin
    topic: str
    sql: str


def added_queries(
    topics: Collection[str],
    own_names: Callable[[], Iterable[str]],
    check: Callable[[str, str, str], None],
) -> dict[str, PluginQuery]:
    """The questions and remedies of plugins, by file name: the files TOPIC/NAME.sql in their
    folders, without those that fail the check and those whose name is taken."""
    queries: dict[str, PluginQuery] = {}
    owners: dict[str, str] = {}
    for plugin, file in files("queries", "*/*.sql"):
        name, topic = file.stem, file.parent.name
        owners = owners or dict.fromkeys(own_names(), "tracekit")
        with plugin.leaving_out(named(file)):
            if topic not in topics:
                raise TracekitError(
                    f"there is no topic {topic!r}; the topics are: {', '.join(topics)}"
                )
            if not name.isidentifier():
                raise TracekitError("a name may have only letters, digits and underscores")
            sql = text(file)
            check(name, topic, sql)
            if name in owners:
                raise TracekitError(f"{owners[name]} already has a question or remedy named {name}")
            owners[name] = f"plugin {plugin.name}"
            queries[name] = PluginQuery(plugin, topic, sql)
    return queries


def _folders_of_plugins() -> Iterator[Path]:
    """The metadata folders of distributions with entry points for tracekit. Reading these small
    files is faster than importing importlib.metadata."""
    group = f"[{_PREFIX}".encode()
    for place in sys.path:
        with suppress(OSError):
            for entry in os.scandir(place or "."):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if group in Path(entry.path, "entry_points.txt").read_bytes():
                            yield Path(entry.path)
