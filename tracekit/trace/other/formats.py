"""What wrote a file, and the traces in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.files import temporary_folder
from tracekit.text import as_operand, quoted
from tracekit.trace.plugged import PluggedReader, plugged_readers
from tracekit.trace.source import ByteStream, copied, open_streams

if TYPE_CHECKING:
    from tracekit.trace.other.converted import OneProcess

_SQLITE = b"SQLite format 3\0"
_JSON = re.compile(rb"(\xef\xbb\xbf)?\s*[\[{]")
_ROCPROF = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
_REPORTS = (".nsys-rep", ".qdrep")


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
            found = _processes(stream, stream.head(), folder, opened)
            opened = opened.pop_all()
        if found:
            yield from _opened(stream, found, opened)
        else:
            yield stream


def _processes(stream: ByteStream, head: bytes, folder: str, opened: ExitStack) -> list[OneProcess]:
    """The processes in a file; none if it may be JSON as Kineto writes it. Most files are, so the
    readers of others load late.

    A plugin's reader is asked about files with its own endings, before tracekit's readers, and
    about files that none of these knows.
    """
    for each in plugged_readers():
        if stream.path.endswith(each.endings) and each.knows(head, stream.path):
            return _of_plugin(stream, each)
    is_report, is_rocprof = stream.path.endswith(_REPORTS), _ROCPROF.match(head)
    if _JSON.match(head) and not (is_report or is_rocprof):
        return []
    from tracekit.trace.other import nsys, perfetto, rocpd, rocprof, snapshot, xplane
    from tracekit.trace.other.converted import the_one
    from tracekit.trace.other.sqlite import Tables

    if is_report:
        file = _exported(stream, folder, opened)
    elif head.startswith(_SQLITE):
        text = iter(stream.read, b"")
        file = stream.plain_path or Path(
            opened.enter_context(copied(stream.path, text, folder, has_name=True)).name
        )
    else:
        readers = (
            (is_rocprof, rocprof.texts_of),
            (perfetto.is_perfetto(head, stream.path), partial(perfetto.texts_of, folder)),
            (xplane.is_xplane(head, stream.path), xplane.texts_of),
            (snapshot.is_pickle(head), snapshot.texts_of),
        )
        if found := next((the_one(stream, read) for is_it, read in readers if is_it), None):
            return found
        others = (each for each in plugged_readers() if each.knows(head, stream.path))
        return next((_of_plugin(stream, each) for each in others), [])
    tables = opened.enter_context(closing(Tables(file, stream.path, stream.budget)))
    if nsys.is_report(tables):
        return nsys.processes(tables, stream.path)
    if rocpd.is_rocpd(tables):
        return rocpd.processes(tables)
    raise TracekitError(
        f"{stream.path}: is a SQLite database, but neither nsys nor rocprofv3 wrote it"
    )


def _of_plugin(stream: ByteStream, reader: PluggedReader) -> list[OneProcess]:
    """The process of a file that a plugin reads."""
    from tracekit.trace.other.converted import the_one

    def texts(stream: ByteStream, process: OneProcess) -> Iterator[bytes]:
        process.tail = {}
        for piece in reader.read(stream):
            if isinstance(piece, bytes):
                yield piece
            else:
                # The first one names the plugin.
                process.tail = {**piece, **process.tail}

    return the_one(stream, texts)


def _exported(stream: ByteStream, folder: str, opened: ExitStack) -> Path:
    """The SQLite file of a report, which only nsys can read."""
    nsys, path = shutil.which("nsys"), stream.plain_path
    if path is None:
        raise TracekitError(
            f"{stream.path}: is a report of Nsight Systems, which only nsys can read, from a file "
            "of its own: copy it to the disk first"
        )
    how = f"nsys export --type sqlite {quoted(path)}"
    if nsys is None:
        raise TracekitError(
            f"{stream.path}: is a report of Nsight Systems, which only nsys can read, and nsys is "
            f"not on the path: run `{how}` where it is, and load the file that it writes"
        )
    file = opened.enter_context(temporary_folder(folder)) / "report.sqlite"
    run = subprocess.run(
        [nsys, "export", "--type", "sqlite", "--output", str(file), as_operand(path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if run.returncode or not file.is_file():
        output = (run.stderr or run.stdout).strip().splitlines()
        raise TracekitError(f"{stream.path}: `{how}` failed: {output[-1] if output else ''}")
    return file


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
