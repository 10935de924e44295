"""Which paths an agent may name: those within the folders that the server was given."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.lake.layout import may_be_lake, selection
from tracekit.trace.source import trace_paths

# Loading more files at once is an accident more often than a wish.
_MOST_FILES = 256


class Folders:
    """Folders, and what is in them once symbolic links are followed."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        """Raises TracekitError when one of `folders` is not a directory, or there is none."""
        self.roots: list[Path] = []
        for folder in folders:
            try:
                root = Path(folder).resolve(strict=True)
            except (OSError, ValueError, RuntimeError) as error:
                raise TracekitError(f"{folder}: no such folder") from error
            if not root.is_dir():
                raise TracekitError(f"{folder}: is not a folder: give the one that it is in")
            self.roots.append(root)
        if not self.roots:
            raise TracekitError("no folder is given")

    def checked(self, path: str) -> tuple[str, ...]:
        """The absolute paths that `path` stands for: one file, database or lake, or the traces of a
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
        found = self._found(path)
        if may_be_lake(str(found)):
            return (self._lake(path, str(found)),)
        if os.path.lexists(found) and not found.is_dir():
            return (self._file(path, found),)
        files = tuple(self._file(path, Path(each)) for each in trace_paths([str(found)]))
        if len(files) > _MOST_FILES:
            raise TracekitError(
                f"{path}: holds {len(files):,} files, more than {_MOST_FILES}: name fewer by a "
                "pattern, or let a person add them to a lake (tracekit lake add)"
            )
        return files

    def _found(self, path: str) -> Path:
        """`path` as an absolute one: of a lake, without the part of it that is chosen."""
        candidates = [root / path for root in self.roots]
        if Path(path).is_absolute():
            candidates = [Path(path)]
        outside = True
        for each in candidates:
            if self._is_inside(_before_pattern(selection(str(each)).root)):
                outside = False
                if _exists(each):
                    return each
        if outside:
            raise self._refused(path)
        known = ", ".join(map(str, self.roots))
        raise TracekitError(f"{path}: no such file in {known}")

    def _file(self, asked: str, path: Path) -> str:
        """A file, once all links in its path are followed."""
        try:
            found = path.resolve(strict=True)
            kind = found.stat().st_mode
        except (OSError, RuntimeError) as error:
            raise TracekitError(f"{asked}: cannot be read") from error
        if not self._is_inside(found):
            raise self._refused(asked)
        if not stat.S_ISREG(kind):
            raise TracekitError(f"{asked}: is not an ordinary file")
        return str(found)

    def _lake(self, asked: str, path: str) -> str:
        """A lake none of whose files is a link that leads out of the folders."""
        root = Path(selection(path).root)
        if not all(self._is_inside(each) for each in _links(root)):
            raise self._refused(asked)
        return str(root.resolve()) + path[len(str(root)) :]

    def _is_inside(self, path: Path) -> bool:
        try:
            found = path.resolve()
        except (OSError, RuntimeError):
            return False
        return any(found.is_relative_to(root) for root in self.roots)

    def _refused(self, path: str) -> TracekitError:
        known = ", ".join(map(str, self.roots))
        return TracekitError(f"{path}: is outside of the folders that may be read: {known}")


def _exists(path: Path) -> bool:
    if os.path.lexists(path) or may_be_lake(str(path)):
        return True
    start = _before_pattern(str(path))
    try:
        return start != path and any(start.glob(str(path.relative_to(start))))
    except ValueError:
        # No pattern: ** within a name.
        return False


def _before_pattern(path: str) -> Path:
    """The part of a path before the first name in it that is a pattern."""
    parts = Path(path).parts
    plain = next((place for place, each in enumerate(parts) if glob.has_magic(each)), len(parts))
    return Path(path) if os.path.lexists(path) else Path(*parts[:plain])


def _links(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        for each in (*folders, *files):
            path = Path(parent) / each
            if path.is_symlink():
                yield path
