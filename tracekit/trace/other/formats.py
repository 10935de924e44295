"""What wrote a file, and the traces in it."""

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

# JSON, but for that whose first member tells that a reader reads it.
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\[|\{(?!\s*"rocprofiler-sdk-tool"))')


def open_traces(
    path: str,
    progress: Callable[[int], object] = int,
    temp_dir: str | Path | None = None,
    is_read_again: bool = False,
) -> Iterator[ByteStream | TracekitError]:
    """The traces at `path`, as `open_streams` gives them; of another profiler's file, the text of a
    trace for each process.

    Raises:
        TracekitError: as `open_streams` does, and for a damaged file of another profiler.
    """
    folder = str(temp_dir or tempfile.gettempdir())
    for stream in open_streams(path, progress, temp_dir, is_read_again):
        if isinstance(stream, TracekitError):
            yield stream
            continue
        with ExitStack() as opened:
            found = _processes(stream, folder, opened)
            opened = opened.pop_all()
        if found:
            yield from _opened(stream, found, opened)
        else:
            yield stream


def _processes(stream: ByteStream, folder: str, closes: ExitStack) -> list[OneProcess]:
    """The processes in another profiler's file; none if no reader knows it, or it may be JSON as
    torch.profiler writes it.

    A plugin's reader is asked about files with its own endings before tracekit's readers, and about
    files that none of these knows.
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
        raise TracekitError(f"{stream.path}: is a SQLite database, but of no profiler that is read")
    return []


def _opened(stream: ByteStream, found: list[OneProcess], opened: ExitStack) -> Iterator[ByteStream]:
    """A stream for each process; what they share is closed with the last."""
    from tracekit.trace.other.converted import Converted

    opened.callback(stream.close)
    # Processes may be read at the same time: the file is hashed before.
    stored = stream.hashed()
    left = len(found)

    def close() -> None:
        nonlocal left
        left -= 1
        if not left:
            opened.close()

    for process in found:
        yield Converted(stream, process, stored, close)
