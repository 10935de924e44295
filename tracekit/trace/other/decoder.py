"""What readers in C have in common: what they keep is held in the file's budget, and what stops
them is an error in a line."""

from __future__ import annotations

from ctypes import Structure, c_int32, c_int64
from enum import IntEnum
from typing import ClassVar

import duckdb

from tracekit.errors import TracekitError
from tracekit.trace.budget import Budget


class Failure(IntEnum):
    """Same values as in src/texts.h."""

    NONE = 0
    DAMAGED = 1
    NO_MEMORY = 2
    TOO_MUCH = 3
    TOO_LARGE = 4


class RowsEnd(Structure):
    _fields_: ClassVar = [
        ("at", c_int64), ("text_bytes", c_int64), ("held", c_int64), ("failure", c_int32),
        ("many_labels", c_int32),
    ]  # fmt: skip


class Decoder:
    """A reader in C of the file at `path`."""

    def __init__(self, path: str, budget: Budget) -> None:
        self._path, self._budget = path, budget
        self._held = 0

    @property
    def _most(self) -> int:
        """The bytes that it may keep."""
        return self._held + self._budget.room

    def _check(self, failure: int, held: int | None = None) -> None:
        """Counts what it keeps now.

        Raises:
            TracekitError: when a file takes more than its budget.
            duckdb.OutOfMemoryException: when it does not fit in memory.
        """
        if failure == Failure.TOO_LARGE:
            raise TracekitError(f"{self._path}: an event takes more than 64 MB")
        if failure == Failure.TOO_MUCH:
            self._budget.require_room(self._budget.room + 1)
        if failure == Failure.NO_MEMORY:
            raise duckdb.OutOfMemoryException("a part of a trace does not fit in memory")
        if held is not None:
            change, self._held = held - self._held, held
            self._budget.hold(change)
