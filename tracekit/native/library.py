"""The compiled library, its functions, and the Arrow struct that it shares with DuckDB."""

from __future__ import annotations

import ctypes
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tracekit.errors import TracekitError

_PATH = Path(__file__).with_name("libtracekit.so")


class Batch(ctypes.Structure):
    """An Arrow record batch: a struct ArrowArray that holds the columns."""

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
        """Moves the rows into the struct at `address`, whose owner then has to release them."""
        ctypes.memmove(address, byref(self), ctypes.sizeof(self))
        self.release = None


_BATCH = POINTER(Batch)
# The functions by name, without the prefix `tracekit_`, with the result and argument types that the
# C files declare.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "read_events": (None, [c_void_p, c_int64, c_int64, c_void_p, _BATCH, c_void_p]),
    "event_schema": (c_int, [c_void_p]),
    "labels_open": (c_void_p, [c_int64, c_uint64]),
    "labels_take": (c_int, [c_void_p, _BATCH]),
    "labels_close": (None, [c_void_p]),
    "label_schema": (c_int, [c_void_p]),
    "segment_schema": (c_int, [c_void_p]),
    "slice_schema": (c_int, [c_void_p]),
    "wait_schema": (c_int, [c_void_p]),
    "walk_open": (c_void_p, [c_void_p]),
    "walk_next": (c_int, [c_void_p, c_int64, _BATCH]),
    "walk_error": (c_char_p, [c_void_p]),
    "walk_close": (None, [c_void_p]),
    "read_members": (None, [c_void_p, c_int64, c_void_p]),
    "find_member": (
        c_int64,
        [c_char_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p],
    ),
    "scaled": (None, [c_void_p, c_void_p, c_int64, c_void_p]),
    "work": (None, [c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "replay": (None, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "replay_ranks": (None, [c_void_p] * 7),
    "free": (None, [c_void_p]),
    "release": (None, [c_void_p]),
}


@cache
def library() -> CDLL:
    """The loaded library, with the types of its functions declared.

    Raises:
        TracekitError: when the library is missing or was compiled for another system.
    """
    try:
        loaded = CDLL(str(_PATH))
    except OSError as error:
        reason = f"cannot be loaded ({error})" if _PATH.exists() else "is missing"
        raise TracekitError(
            f"{_PATH.name} {reason}: install tracekit with pip, which compiles it"
        ) from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, f"tracekit_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
