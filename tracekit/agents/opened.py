"""The traces that stay open between an agent's calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import may_be_lake
from tracekit.lake.opening import open_given
from tracekit.run import Database, load

_Key = tuple[tuple[str, int, int, int], ...]


class Opened:
    """At most `most` databases; the one that was not asked for longest is closed first.

    A file that changed is read again. Lakes are opened for each call: what is added to them shows.
    """

    def __init__(self, most: int, resources: Resources) -> None:
        self._most = most
        self._resources = resources
        self._databases: OrderedDict[_Key, Database] = OrderedDict()

    def __len__(self) -> int:
        return len(self._databases)

    @contextmanager
    def using(self, paths: Sequence[str]) -> Iterator[Database]:
        """The traces in these files, as one database.

        Raises:
            TracekitError: when they cannot be read.
        """
        if len(paths) == 1 and may_be_lake(paths[0]):
            with open_given(paths[0], self._resources) as lake:
                yield lake
            return
        key = tuple(_state(each) for each in paths)
        if key in self._databases:
            self._databases.move_to_end(key)
        else:
            # Close first: the new one needs the memory.
            while len(self._databases) >= self._most:
                self._databases.popitem(last=False)[1].close()
            self._databases[key] = (
                open_given(paths[0], self._resources)
                if len(paths) == 1
                else load(list(paths), **asdict(self._resources))
            )
        yield self._databases[key]

    def close(self) -> None:
        while self._databases:
            self._databases.popitem()[1].close()


def _state(path: str) -> tuple[str, int, int, int]:
    """Tells a file from what it was before.

    Raises TracekitError when there is none any more."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise TracekitError(f"{path}: {error.strerror or error}") from error
    return path, found.st_ino, found.st_size, found.st_mtime_ns
