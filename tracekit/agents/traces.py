"""The traces that an agent may name, those within the folders that the server was given, and those
that stay open between its calls."""

from __future__ import annotations

import glob
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from tracekit.agents.child import Child
from tracekit.database.connection import is_database, logs_of
from tracekit.database.sandbox import SPILL_MB
from tracekit.database.session import Session
from tracekit.errors import TracekitError, explained
from tracekit.files import temporary_folder, writing_to
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import may_be_lake, selection
from tracekit.opening import open_any
from tracekit.text import counted
from tracekit.trace.paths import is_within, trace_paths

_Key = tuple[tuple[str, int, int, int], ...]
# Loading more files at once is more often an accident than intended.
_MOST_FILES = 256


class Opened:
    """At most `most` databases; the least recently used is closed first.

    Traces are loaded into temporary files, so that other processes can read them. A file that
    changed is read again. Lakes are opened for each call, so that new traces appear.
    """

    def __init__(self, most: int, resources: Resources, folders: Folders) -> None:
        """What lies beside a trace is read only in `folders`, too."""
        self.resources = replace(resources, within=tuple(map(str, folders.roots)))
        self._most = most
        self._databases: OrderedDict[_Key, tuple[Session, ExitStack]] = OrderedDict()
        self._paths: WeakKeyDictionary[Session, str] = WeakKeyDictionary()

    @contextmanager
    def using(self, paths: Sequence[str]) -> Iterator[Session]:
        """The traces in these files, as one database.

        Raises:
            TracekitError: when they cannot be read.
        """
        if len(paths) == 1 and may_be_lake(paths[0]):
            with open_any(paths[0], self.resources) as lake:
                self._paths[lake] = paths[0]
                yield lake
            return
        key = tuple(_state(path) for path in paths)
        if key in self._databases:
            self._databases.move_to_end(key)
        else:
            # Close first: the new one needs the memory.
            while len(self._databases) >= self._most:
                self._close_first()
            self._databases[key] = self._opened(paths)
        yield self._databases[key][0]

    def path_of(self, database: Session) -> str:
        """The path at which another process can read what `using` has opened."""
        return self._paths[database]

    def close(self) -> None:
        while self._databases:
            self._close_first()

    def _opened(self, paths: Sequence[str]) -> tuple[Session, ExitStack]:
        """The session of the traces, and the stack that closes it."""
        with ExitStack() as closing:
            if len(paths) == 1 and is_database(paths[0]):
                opened, file = open_any(paths[0], self.resources), paths[0]
            else:
                parent, spill_mb = self.resources.folder, self.resources.spill_mb
                with writing_to(parent):
                    folder = closing.enter_context(temporary_folder(parent))
                file = str(folder / "traces.duckdb")
                Child().load(paths, Path(file), self.resources)
                spill_mb = SPILL_MB if spill_mb is None else spill_mb
                how = replace(self.resources, hardware=None, annotations=(), spill_mb=spill_mb)
                opened = open_any(file, how)
                opened.name = paths[0] if len(paths) == 1 else f"{len(paths)} traces"
            closing.callback(opened.close)
            # Each answer comes with the same findings.
            closing.enter_context(opened.sharing(together=False))
            self._paths[opened] = file
            return opened, closing.pop_all()

    def _close_first(self) -> None:
        self._databases.popitem(last=False)[1][1].close()


def _state(path: str) -> tuple[str, int, int, int]:
    """Identifies one state of a file.

    Raises TracekitError when the file is gone."""
    with explained(path, OSError):
        status = Path(path).stat()
    return path, status.st_ino, status.st_size, status.st_mtime_ns


class Folders:
    """Folders, and the files in them after symbolic links are followed."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        """Raises TracekitError when one of `folders` is not a directory, or there is none."""
        self.roots: list[Path] = []
        for folder in folders:
            try:
                root = Path(folder).resolve(strict=True)
            except (OSError, ValueError, RuntimeError) as error:
                raise TracekitError(f"{folder}: no such folder") from error
            if not root.is_dir():
                raise TracekitError(f"{folder}: is not a folder: give the folder that it is in")
            self.roots.append(root)
        if not self.roots:
            raise TracekitError("no folder is given")

    def resolve(self, path: str) -> tuple[str, ...]:
        """The absolute paths that `path` refers to: one file, database or lake, or the traces of a
        folder or pattern.

        A relative path is looked for in each folder in turn.

        Raises:
            TracekitError: when it is a URL, leads out of the folders, or does not exist.
        """
        if not path or "\0" in path or path == "-":
            raise TracekitError("a path is empty: name a file in the server's folders")
        if "://" in path:
            raise TracekitError(f"{path}: URLs are refused: name a file in the server's folders")
        if ".." in Path(path).parts:
            raise TracekitError(f"{path}: paths with .. are refused: name it by its full path")
        full_path = self._found(path)
        if may_be_lake(str(full_path)):
            return (self._lake(path, str(full_path)),)
        if os.path.lexists(full_path) and not full_path.is_dir():
            return (self._file(path, full_path),)
        files = tuple(self._file(path, Path(each)) for each in trace_paths([str(full_path)]))
        if len(files) > _MOST_FILES:
            raise TracekitError(
                f"{path}: holds {counted(len(files), 'file')}, more than {_MOST_FILES}: name fewer "
                "by a pattern, or let a person add them to a lake (tracekit lake add)"
            )
        return files

    def _found(self, path: str) -> Path:
        """`path` as an absolute path; for a lake, without the chosen part of it."""
        candidates = [root / path for root in self.roots]
        if Path(path).is_absolute():
            candidates = [Path(path)]
        outside = True
        for candidate in candidates:
            if self._is_inside(_before_pattern(selection(str(candidate)).root)):
                outside = False
                if _exists(candidate):
                    return candidate
        if outside:
            raise self._refused(path)
        folders = ", ".join(map(str, self.roots))
        raise TracekitError(f"{path}: no such file in {folders}")

    def _file(self, asked: str, path: Path) -> str:
        """A file, after all links in its path are followed."""
        try:
            resolved = path.resolve(strict=True)
            kind = resolved.stat().st_mode
        except (OSError, RuntimeError) as error:
            raise TracekitError(f"{asked}: cannot be read") from error
        if not self._is_inside(resolved):
            raise self._refused(asked)
        if not stat.S_ISREG(kind):
            raise TracekitError(f"{asked}: is not an ordinary file")
        # DuckDB reads the log beside a database.
        if not all(map(self._is_inside, logs_of(resolved))):
            raise self._refused(asked)
        return str(resolved)

    def _lake(self, asked: str, path: str) -> str:
        """A lake, checked to have no file that is a link out of the folders."""
        root = Path(selection(path).root)
        links = (each for each in root.rglob("*") if each.is_symlink())
        if not all(map(self._is_inside, links)):
            raise self._refused(asked)
        return str(root.resolve()) + path[len(str(root)) :]

    def _is_inside(self, path: Path) -> bool:
        return is_within(path, self.roots)

    def _refused(self, path: str) -> TracekitError:
        folders = ", ".join(map(str, self.roots))
        return TracekitError(f"{path}: is outside of the folders that may be read: {folders}")


def _exists(path: Path) -> bool:
    if os.path.lexists(path) or may_be_lake(str(path)):
        return True
    start = _before_pattern(str(path))
    try:
        return start != path and any(start.glob(str(path.relative_to(start))))
    except ValueError:
        # Not a pattern: ** within a name.
        return False


def _before_pattern(path: str) -> Path:
    """The part of a path before its first pattern."""
    parts = Path(path).parts
    plain = next((place for place, each in enumerate(parts) if glob.has_magic(each)), len(parts))
    return Path(path) if os.path.lexists(path) else Path(*parts[:plain])
