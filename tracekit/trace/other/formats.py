"""What wrote a file, and the traces in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.trace.source import ByteStream, named_copy, open_streams
from tracekit.trace.unpacking import HEAD_BYTES

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
        head = stream.read(HEAD_BYTES)
        stream.rewind()
        if stream.path.endswith(_REPORTS):
            yield from _exported(stream, folder)
        elif _JSON.match(head) and not _ROCPROF.match(head):
            yield stream
        else:
            yield from _of_other(stream, head, folder)


def _of_other(stream: ByteStream, head: bytes, folder: str) -> Iterator[ByteStream]:
    """The traces in a file that is not JSON as Kineto writes it: few are, so readers load late."""
    from tracekit.trace.other import perfetto, rocprof, snapshot, xplane
    from tracekit.trace.other.converted import the_one

    if head.startswith(_SQLITE):
        yield from _of_sqlite(stream, folder)
        return
    readers = (
        (_ROCPROF.match(head), rocprof.texts_of),
        (perfetto.is_perfetto(head, stream.path), partial(perfetto.texts_of, folder)),
        (xplane.is_xplane(head, stream.path), xplane.texts_of),
        (snapshot.is_pickle(head), snapshot.texts_of),
    )
    read = next((read for is_it, read in readers if is_it), None)
    if read is None:
        yield stream
    else:
        yield from _opened(stream, the_one(stream, read), ExitStack())


def _of_sqlite(stream: ByteStream, folder: str) -> Iterator[ByteStream]:
    with ExitStack() as opened:
        file = (
            stream.plain_path
            or opened.enter_context(named_copy(stream.path, iter(stream.read, b""), folder)).name
        )
        yield from _of_tables(stream, Path(file), opened.pop_all())


def _of_tables(stream: ByteStream, file: Path, opened: ExitStack) -> Iterator[ByteStream]:
    from tracekit.trace.other import nsys, rocpd
    from tracekit.trace.other.sqlite import Tables

    with opened, closing(Tables(file, stream.path)) as tables:
        if nsys.is_report(tables):
            found = nsys.processes(tables, stream.path)
        elif rocpd.is_rocpd(tables):
            found = rocpd.processes(tables)
        else:
            raise TracekitError(
                f"{stream.path}: is a SQLite database, but neither nsys nor rocprofv3 wrote it"
            )
        yield from _opened(stream, found, opened.pop_all())


def _exported(stream: ByteStream, folder: str) -> Iterator[ByteStream]:
    """The traces of a report, which only nsys can read."""
    nsys, path = shutil.which("nsys"), str(stream.plain_path or stream.path)
    how = f"nsys export --type sqlite {path}"
    if nsys is None:
        raise TracekitError(
            f"{stream.path}: is a report of Nsight Systems, which only nsys can read, and nsys is "
            f"not on the path: run `{how}` where it is, and load the file that it writes"
        )
    with ExitStack() as opened:
        made = opened.enter_context(tempfile.TemporaryDirectory(prefix="tracekit-", dir=folder))
        file = Path(made) / "report.sqlite"
        run = subprocess.run(
            [nsys, "export", "--type", "sqlite", "--output", str(file), path],
            capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        if run.returncode or not file.is_file():
            output = (run.stderr or run.stdout).strip().splitlines()
            raise TracekitError(f"{stream.path}: `{how}` failed: {output[-1] if output else ''}")
        yield from _of_tables(stream, file, opened.pop_all())


def _opened(stream: ByteStream, found: list[OneProcess], opened: ExitStack) -> Iterator[ByteStream]:
    """A stream for each process; what they share is closed with the last."""
    from tracekit.trace.other.converted import Converted

    opened.callback(stream.close)
    # The file is hashed once for all.
    sha256 = cache(stream.stored_sha256)
    left = len(found)

    def close() -> None:
        nonlocal left
        left -= 1
        if not left:
            opened.close()

    for process in found:
        yield Converted(stream, process, sha256, close)
