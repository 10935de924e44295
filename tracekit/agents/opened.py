"""The traces that stay open between an agent's calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from weakref import WeakKeyDictionary

from tracekit.database.connection import is_database
from tracekit.database.sandbox import SPILL_MB
from tracekit.errors import TracekitError
from tracekit.files import work_folder
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import may_be_lake
from tracekit.lake.opening import open_given
from tracekit.run import Database, load, open_any

_Key = tuple[tuple[str, int, int, int], ...]
_FOLDER_PREFIX = "tracekit-agents-"


class Opened:
    """At most `most` databases; the one that was not asked for longest is closed first.

    Traces are loaded into temporary files, which other processes can read, too. A file that changed
    is read again. Lakes are opened for each call: what is added to them shows.
    """

    def __init__(self, most: int, resources: Resources) -> None:
        self.resources = resources
        self._most = most
        self._databases: OrderedDict[_Key, Database] = OrderedDict()
        self._paths: WeakKeyDictionary[Database, str] = WeakKeyDictionary()
        self._numbers = count(1)
        self._stack = ExitStack()

    def __len__(self) -> int:
        return len(self._databases)

    @contextmanager
    def using(self, paths: Sequence[str]) -> Iterator[Database]:
        """The traces in these files, as one database.

        Raises:
            TracekitError: when they cannot be read.
        """
        if len(paths) == 1 and may_be_lake(paths[0]):
            with open_given(paths[0], self.resources) as lake:
                self._paths[lake] = paths[0]
                yield lake
            return
        key = tuple(_state(each) for each in paths)
        if key in self._databases:
            self._databases.move_to_end(key)
        else:
            # Close first: the new one needs the memory.
            while len(self._databases) >= self._most:
                self._close_first()
            self._databases[key] = self._opened(paths)
        yield self._databases[key]

    def path_of(self, database: Database) -> str:
        """The path at which another process can read what `using` has opened."""
        return self._paths[database]

    def close(self) -> None:
        while self._databases:
            self._close_first()
        self._stack.close()

    def _opened(self, paths: Sequence[str]) -> Database:
        if len(paths) == 1 and is_database(paths[0]):
            opened, file = open_any(paths[0], self.resources), paths[0]
        else:
            file = str(self._folder / f"{next(self._numbers)}.duckdb")
            load(list(paths), file, **asdict(self.resources)).close()
            spill_mb = self.resources.spill_mb
            opened = open_any(
                file,
                replace(
                    self.resources,
                    hardware=None,
                    spill_mb=SPILL_MB if spill_mb is None else spill_mb,
                ),
            )
            opened.name = paths[0] if len(paths) == 1 else f"{len(paths)} traces"
        self._paths[opened] = file
        return opened

    @cached_property
    def _folder(self) -> Path:
        parent = Path(self.resources.temp_dir or gettempdir())
        try:
            return self._stack.enter_context(work_folder(parent, _FOLDER_PREFIX))
        except OSError as error:
            reason = error.strerror or error
            raise TracekitError(
                f"{parent}: cannot make a temporary folder there: {reason}"
            ) from error

    def _close_first(self) -> None:
        database = self._databases.popitem(last=False)[1]
        database.close()
        file = Path(self._paths[database])
        if "_folder" in self.__dict__ and file.is_relative_to(self._folder):
            file.unlink(missing_ok=True)


def _state(path: str) -> tuple[str, int, int, int]:
    """Tells a file from what it was before.

    Raises TracekitError when there is none any more."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise TracekitError(f"{path}: {error.strerror or error}") from error
    return path, found.st_ino, found.st_size, found.st_mtime_ns
