"""Outputs appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.errors import TracekitError


@contextmanager
def written_whole(output: str | Path, inputs: Iterable[str | Path] = ()) -> Iterator[Path]:
    """A path beside `output` to write to; it takes `output`'s place when the block succeeds.

    Raises:
        TracekitError: when `output` cannot be written there, or is one of `inputs`.
    """
    target = _checked(output, inputs)
    folder = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    beside = folder / target.name
    try:
        folder.mkdir(mode=0o700)
        yield beside
        beside.replace(target)
    except OSError as error:
        raise TracekitError(f"{output}: cannot be written: {error.strerror or error}") from error
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def resumable(output: str | Path, inputs: Iterable[str | Path] = ()) -> Iterator[Path]:
    """As `written_whole`, but what the block leaves behind when it fails is kept as OUTPUT.partial.

    Raises:
        TracekitError: when `output` cannot be written there, or is one of `inputs`.
    """
    target = _checked(output, inputs)
    partial = target.with_name(target.name + ".partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise TracekitError(f"{output}: cannot be written: {error.strerror or error}") from error


def require_writable(output: str | Path) -> None:
    """Says at once what writing `output` would say after long work.

    Raises:
        TracekitError: when it cannot be written there.
    """
    folder = _checked(output, ()).parent
    if not os.access(folder, os.W_OK):
        reason = "the directory cannot be written to" if folder.is_dir() else "no such directory"
        raise TracekitError(f"{output}: cannot be written: {reason}")


def _checked(output: str | Path, inputs: Iterable[str | Path]) -> Path:
    target = Path(output).resolve()
    if target.is_dir():
        raise TracekitError(f"{output}: is a directory, not a file to write")
    if target.exists() and not target.is_file():
        raise TracekitError(f"{output}: is no ordinary file; results are written to files")
    if any(target == Path(each).resolve() for each in inputs):
        raise TracekitError(f"{output}: is what is being read; write somewhere else")
    return target
