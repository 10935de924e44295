"""Detects which profiler wrote a file, and opens its traces."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.text import shown
from tracekit.trace.added import JOINED
from tracekit.trace.readers import own_readers, plugged_readers
from tracekit.trace.source import ByteStream, open_streams

if TYPE_CHECKING:
    from tracekit.trace.other.converted import OneProcess

_JSON = re.compile(rb"(\xef\xbb\xbf)?\s*[\[{]")
# Text that only other profilers write, within the first bytes of their JSON. Most JSON is
# torch.profiler's: for files without such text, no reader is imported. Readers look closer.
_SIGNS = (
    rb'"(?:rocprofiler-sdk-tool|Ascend Hardware|async_npu|Physic Stream Id)"|"AscendCL@',
    rb'"name":\s*"/(?:device|host|job|cpu|gpu):',
    rb'"call_stack":\s*\[\s*"ROOT"|"frame":\s*\{[^{}]*"name":\s*"ROOT"',
    rb'"CUDA functions"',
    rb'"ph":\s*"[BE]"|"cat":\s*"fee"|"viztracer_metadata"',
    rb'"pid":\s*"\[(?:TP|DP|PP|EP)\d|"pid_raw":|"%s":' % JOINED,
)
_OTHER_JSON = re.compile(b"|".join(_SIGNS))

# A list of objects, the keys in it, and those of events; records of other tools may have a name.
_RECORDS = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{[^{}]*\}\s*,\s*\{")
_OF_EVENTS = {b"ph", b"ts", b"dur", b"pid", b"tid", b"cat", b"id", b"bp", b"s", b"args"}
_KEY = re.compile(rb'"([^"\\]{1,40})"\s*:')
# What writes such a list, by a key of its records.
_KEYS_SHOWN = 4
_WRITERS = {
    b"averageMs": "the mean times of layers (trtexec --exportProfile): record the run "
    "with Nsight Systems instead",
}


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
    head = stream.head()
    is_torch = _JSON.match(head) is not None and not _OTHER_JSON.search(head)
    if is_torch and not named:
        _refuse_records(stream.path, head)
        return []
    from tracekit.trace.other.converted import OpenedFile, processes_of

    opened = OpenedFile(stream, folder, closes)
    others = () if is_torch else (*own_readers(), *plugged_readers())
    for reader in (*named, *others):
        if reader.knows(opened):
            return processes_of(reader, opened)
    _refuse_records(stream.path, head)
    if not is_torch and opened.tables is not None:
        raise TracekitError(
            f"{stream.path}: is a SQLite database, but not from a supported profiler"
        )
    return []


def _refuse_records(path: str, head: bytes) -> None:
    """Raises:
    TracekitError: when the file is a list of records that are no events.
    """
    keys = list(dict.fromkeys(_KEY.findall(head))) if _RECORDS.match(head) else []
    if not _OF_EVENTS.isdisjoint(keys) or {*keys} <= {b"name"}:
        return
    known = next((_WRITERS[key] for key in keys if key in _WRITERS), None)
    named = ", ".join(shown(key.decode("utf-8", "replace")) for key in keys[:_KEYS_SHOWN])
    raise TracekitError(
        f"{path}: is a list of records, not of events: "
        + (known or f"none has a phase (`ph`) or a time (`ts`), but {named}")
    )


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
