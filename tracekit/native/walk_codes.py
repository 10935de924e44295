"""Codes shared by SQL, C and Python for the walk through a host thread's slices.

queries/schema/host_order.sql gets them as parameters, C as macros (setup.py).
"""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag


class Kind(IntEnum):
    """Kinds of rows, in the order in which the walk visits rows with the same start."""

    THREAD = -1  # a thread's time, from its first slice to its last
    ANNOTATION = 0
    PYTHON = 1
    CPU_OP = 2
    CALL = 3  # of a runtime or driver
    COPY = 4  # the open call waits for its copy
    WAIT = 5  # a device waits for a launch


class Flag(IntFlag):
    """Properties of a slice."""

    OP = 1
    PYTHON = 2
    MODULE = 4
    LINE = 8  # of the program
    COVERING = 16  # everything inside has the same activity


class Shift(IntEnum):
    """The first bit of each part of a row's rank; the flags come first."""

    ACTIVITY = 5
    ID = 13
    KIND = 60


class WalkOutput(IntEnum):
    """The output of a step of the walk."""

    SEGMENTS = 0
    SLICES = 1
    WAITS = 2
    IS_DONE = 3
    FAILED = 4
    OUT_OF_MEMORY = 5


def parameters() -> dict[str, int]:
    """The parameters of the query host_order: `$thread_kind`, `$op_flag`, `$id_shift` ..."""
    return {
        f"{each.name}_{table.__name__}".lower(): int(each)
        for table in (Kind, Flag, Shift)
        for each in table
    }


def definitions() -> list[str]:
    """Macros for the C compiler, including the walk's output: `-DTHREAD_KIND=-1` ..."""
    return [
        f"-D{each.name}_{re.sub('(?<=[a-z])(?=[A-Z])', '_', table.__name__).upper()}={int(each)}"
        for table in (Kind, Flag, Shift, WalkOutput)
        for each in table
    ]
