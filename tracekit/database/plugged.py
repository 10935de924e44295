"""The questions and remedies of plugins: files in the form of those in queries.

They are asked, and never become part of a database's own SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from tracekit import plugins
from tracekit.errors import TracekitError
from tracekit.plugins import Plugin


class PluginQuery(Struct, frozen=True):
    """A question or remedy of a plugin."""

    plugin: Plugin
    topic: str
    sql: str


def added(
    topics: Collection[str],
    own_names: Callable[[], Iterable[str]],
    names_of: Callable[[str, str, str], list[str]],
) -> dict[str, PluginQuery]:
    """The questions and remedies of plugins, by file name: the files TOPIC/NAME.sql of their
    folders, without those that are wrong, or have a name that is taken. `names_of` checks one and
    gives its names."""
    found: dict[str, PluginQuery] = {}
    owners: dict[str, str] = {}
    for plugin, file in plugins.files("queries", "*/*.sql"):
        name, topic = file.stem, file.parent.name
        owners = owners or dict.fromkeys(own_names(), "tracekit")
        with plugin.leaving_out(plugins.named(file)):
            if topic not in topics:
                raise TracekitError(f"no topic is {topic!r}; there are: {', '.join(topics)}")
            if not name.isidentifier():
                raise TracekitError("a name has letters, digits and underscores")
            sql = plugins.text(file)
            names = names_of(name, topic, sql)
            if taken := next((each for each in names if each in owners), None):
                raise TracekitError(f"{owners[taken]} has a question or remedy named {taken}")
            owners |= dict.fromkeys(names, f"plugin {plugin.name}")
            found[name] = PluginQuery(plugin, topic, sql)
    return found
