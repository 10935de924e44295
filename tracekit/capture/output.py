"""The output of a recording: a trace, a database or standard output, but never the program's own
files."""

from __future__ import annotations

import json
import mmap
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracekit.capture.recorder import Recorder
from tracekit.errors import TracekitError
from tracekit.files import (
    require_unlinked,
    require_writable,
    temporary_folder,
    writing_to,
    written_whole,
)

_DATABASE = ".duckdb"
_ENDINGS = (".json", ".json.gz", ".json.zst", _DATABASE)
# A key in the facts of traces that were recorded directly into a database.
_AS = "recorded_as"
NO_WORK = (
    "no PyTorch operator ran during the recording, so there is nothing to write: the profiler does "
    "not record other processes or threads; --stacks records Python itself"
)
# Matches any event except those that the profiler writes for a run without operators or a device.
_WORK = re.compile(rb'"cat": "(?!Trace"|overhead"|user_annotation")')


def save(
    recorder: Recorder,
    facts: dict[str, Any],
    output: Path,
    *,
    nothing: str = "",
    is_cut: bool = False,
    max_mb: float | None = None,
) -> None:
    """Writes the trace of a finished session with `facts`, in the format given by the name's
    ending.

    Raises:
        TracekitError: when it cannot be exported, when it holds no work (if `nothing` has a message
        for that), or when the compressed trace is larger than `max_mb`.
    """
    is_database = output.suffix == _DATABASE
    with temporary_folder() as folder:
        raw = folder / "trace.json"
        recorder.export(raw, is_cut=is_cut)
        if nothing and not _has_work(raw):
            raise TracekitError(nothing)
        packed = raw.with_suffix(".json.gz") if is_database else output
        _pack(raw, packed, facts | {_AS: _DATABASE} if is_database else facts)
        size_mb = packed.stat().st_size / 1e6
        if max_mb is not None and size_mb > max_mb:
            raise TracekitError(
                f"{output.name}: the trace takes {size_mb:.1f} MB, more than max_mb={max_mb:g}: it "
                "is not kept"
            )
        if is_database:
            from tracekit.opening import load

            load(packed, output, named=output.name).close()


def _has_work(exported: Path) -> bool:
    """Whether a trace that torch wrote holds more than the profiler's own events."""
    with exported.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return _WORK.search(text) is not None


def _pack(exported: Path, output: Path, facts: dict[str, Any]) -> None:
    """Copies the trace with `facts` and the host's name as one more top-level key, without parsing
    the trace."""
    from tracekit.database.export import open_output

    host_and_facts = {"host": platform.node()} | facts
    member = b'{"tracekit": ' + json.dumps(host_and_facts).encode() + b","
    with exported.open("rb") as source, open_output(output) as sink:
        head = source.read(4096).lstrip()
        sink.write(member + head.removeprefix(b"{"))
        shutil.copyfileobj(source, sink)


@contextmanager
def to_standard_output() -> Iterator[Path]:
    """A path to record to; at the end, the file is copied to standard output.

    Until then, the code's output goes to standard error.
    """
    sys.stdout.flush()
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        with temporary_folder() as folder:
            yield folder / "trace.json"
            # In a distributed run, the rank is in its name.
            (written,) = folder.glob("trace*")
            with written.open("rb") as source, os.fdopen(stdout_copy, "wb", closefd=False) as sink:
                shutil.copyfileobj(source, sink)
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)


def require_ending(output: str | Path) -> None:
    """Raises TracekitError unless the name's ending is that of a recording."""
    if not str(output).endswith(_ENDINGS):
        *others, last = _ENDINGS
        raise TracekitError(f"{output}: the name must end in {', '.join(others)} or {last}")


def check_place(output: Path, script: str | None = None) -> None:
    """Checks early that `output` can be written.

    Raises:
        TracekitError: when `output` cannot be written, is a source of the program, or is a database
            that tracekit did not record.
    """
    require_writable(output, sources(script))
    require_ending(output.resolve())
    _require_replaceable(output)


@contextmanager
def publish(output: Path, script: str | None = None) -> Iterator[Path]:
    """Like `written_whole`, but first recreates the folder, which the user's code may have removed.

    Raises:
        TracekitError: when `output` cannot be written, or is a source of the program.
    """
    with writing_to(output):
        output.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(output, sources(script)) as beside:
        yield beside


def sources(script: str | None = None) -> Iterator[str]:
    """The files of the program: `script`, and all modules that are imported."""
    if script is not None:
        yield script
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            yield file


def _require_replaceable(output: Path) -> None:
    """Refuses to overwrite a loaded database, whose traces may exist nowhere else."""
    from tracekit.database.connection import is_database

    if not is_database(output):
        return
    from tracekit.opening import open_database

    recorded = "SELECT bool_and(metadata->>'$.tracekit.recorded_as' = '.duckdb') FROM trace"
    with suppress(TracekitError), open_database(output) as database:
        if database.fetch(recorded)[1] == [(True,)]:
            return
    raise TracekitError(
        f"{output}: is a database that tracekit did not record: remove it, or write to another file"
    )


def rank_path(output: Path, torch: Any) -> Path:
    """`output`, with the rank before its suffix if the run has several ranks: see
    `rank_and_world`."""
    rank, world = rank_and_world(torch)
    if world == 1:
        return output
    stem, dot, ending = output.name.partition(".")
    return require_unlinked(output.with_name(f"{stem}.rank{rank}{dot}{ending}"), output.parent)


def rank_and_world(torch: Any) -> tuple[int, int]:
    """The rank of this process and the number of ranks, as torch.distributed or torchrun say.

    Raises:
        TracekitError: when RANK and WORLD_SIZE are not values that torchrun sets.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    else:
        world, rank = _count("WORLD_SIZE", 1), _count("RANK", None)
        if rank is None and world == 1:
            rank = 0
    if rank is None:
        raise TracekitError(
            f"WORLD_SIZE is {world}, but RANK is not set: set both, as torchrun does"
        )
    if not 0 <= rank < world:
        raise TracekitError(
            f"RANK is {rank} and WORLD_SIZE is {world}: RANK must be from 0 to WORLD_SIZE - 1"
        )
    return rank, world


def _count(name: str, default: int | None) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return default
    # The number of processes in a run has at most this many digits.
    if not re.fullmatch("[0-9]{1,9}", text.strip()):
        raise TracekitError(
            f"{name} is {text[:40]!r} in the environment: set it to a whole number, or unset it"
        )
    return int(text)
