"""Outputs appear whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.errors import TracekitError


@contextmanager
def written_whole(output: str | Path) -> Iterator[Path]:
    """A path beside `output` to write to; it takes `output`'s place when the block succeeds.

    Raises:
        TracekitError: when `output` cannot be written there.
    """
    target = Path(output)
    if target.is_dir():
        raise TracekitError(f"{output}: is a directory, not a file to write")
    try:
        folder = tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise TracekitError(f"{output}: cannot be written: {error.strerror or error}") from error
    beside = Path(folder) / target.name
    try:
        yield beside
        beside.replace(target)
    except OSError as error:
        raise TracekitError(f"{output}: cannot be written: {error.strerror or error}") from error
    finally:
        for left in Path(folder).iterdir():
            left.unlink()
        Path(folder).rmdir()
