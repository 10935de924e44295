"""Detects which profiler wrote a file, and opens its traces."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.trace.readers import own_readers, plugged_readers
from tracekit.trace.source import ByteStream, open_streams

if TYPE_CHECKING:
    from tracekit.trace.other.converted import OneProcess

# JSON, unless its first member identifies a reader's format.
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\[|\{(?!\s*"rocprofiler-sdk-tool"))')


def open_traces(
    path: str,
    progress: Callable[[int], object] = int,
    temp_dir: str | Path | None = None,
    is_read_again: bool = False,
) -> Iterator[ByteStream | TracekitError]:
    """The traces at `path`, as from `open_streams`; for another profiler's file, one trace per
    process.

    Raises:
        TracekitError: as in `open_streams`, and for another profiler's damaged file.
    """
    folder = str(temp_dir or tempfile.gettempdir())
    for stream in open_streams(path, progress, temp_dir, is_read_again):
        if isinstance(stream, TracekitError):
            yield stream
            continue
        with ExitStack() as opened:
            processes = _processes(stream, folder, opened)
            opened = opened.pop_all()
        if processes:
            yield from _opened(stream, processes, opened)
        else:
            yield stream


def _processes(stream: ByteStream, folder: str, closes: ExitStack) -> list[OneProcess]:
    """The processes in another profiler's file; none if no reader recognizes it, or it may be JSON
    from torch.profiler.

    Plugins' readers are tried first for files with their endings, and last for files that
    tracekit's readers do not recognize.
    """
    named = [each for each in plugged_readers() if stream.path.endswith(each.endings)]
    is_json = _JSON.match(stream.head()) is not None
    if is_json and not named:
        return []
    from tracekit.trace.other.converted import OpenedFile, processes_of

    opened = OpenedFile(stream, folder, closes)
    others = () if is_json else (*own_readers(), *plugged_readers())
    for reader in (*named, *others):
        if reader.knows(opened):
            return processes_of(reader, opened)
    if not is_json and opened.tables is not None:
        raise TracekitError(
            f"{stream.path}: is a SQLite database, but not from a supported profiler"
        )
    return []


def _opened(stream: ByteStream, found: list[OneProcess], opened: ExitStack) -> Iterator[ByteStream]:
    """A stream for each process; shared resources are closed with the last one."""
    from tracekit.trace.other.converted import Converted

    opened.callback(stream.close)
    # Processes may be read concurrently, so the file is hashed first.
    stored = stream.hashed()
    left = len(found)

    def close() -> None:
        nonlocal left
        left -= 1
        if not left:
            opened.close()

    for process in found:
        yield Converted(stream, process, stored, close)
