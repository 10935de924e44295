"""The compiled library, and the structs that it shares with DuckDB."""

from __future__ import annotations

import ctypes
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import ClassVar

from tracekit.errors import TracekitError

_PATH = Path(__file__).with_name("libtracekit.so")


class Batch(ctypes.Structure):
    """An Arrow record batch: struct ArrowArray of the columns."""

    _fields_: ClassVar = [
        ("rows", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", c_void_p),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]

    def __del__(self) -> None:
        if self.release:
            library().tracekit_release(byref(self))

    def move_to(self, address: int) -> None:
        """Hands the rows over to who owns the struct at `address`."""
        ctypes.memmove(address, byref(self), ctypes.sizeof(self))
        self.release = None


@cache
def library() -> CDLL:
    """Its functions, as the C files declare them.

    Raises:
        TracekitError: when it is not there.
    """
    try:
        loaded = CDLL(str(_PATH))
    except OSError as error:
        raise TracekitError(
            f"{_PATH.name} is missing: install tracekit with pip, which compiles it"
        ) from error
    batch = POINTER(Batch)
    declared = {
        "read_events": (None, [c_void_p, c_int64, c_int64, c_void_p, batch, c_void_p]),
        "event_schema": (c_int, [c_void_p]),
        "labels_open": (c_void_p, [c_int64, c_uint64]),
        "labels_take": (c_int, [c_void_p, batch]),
        "labels_close": (None, [c_void_p]),
        "label_schema": (c_int, [c_void_p]),
        "segment_schema": (c_int, [c_void_p]),
        "slice_schema": (c_int, [c_void_p]),
        "launch_schema": (c_int, [c_void_p]),
        "wait_schema": (c_int, [c_void_p]),
        "walk_open": (c_void_p, [c_void_p]),
        "walk_next": (c_int, [c_void_p, c_int64, batch]),
        "walk_error": (c_char_p, [c_void_p]),
        "walk_close": (None, [c_void_p]),
        "read_members": (None, [c_void_p, c_int64, c_void_p]),
        "find_member": (
            c_int64,
            [c_char_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p],
        ),
        "free": (None, [c_void_p]),
        "release": (None, [c_void_p]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(loaded, f"tracekit_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
