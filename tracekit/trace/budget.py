"""Limits on the cost of reading a file: text, items, memory, depth and time, relative to its size.

Every reader charges its file's budget, which raises an error when exceeded. The absolute amounts
below are always allowed, however small the file.
"""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

from tracekit.errors import TracekitError

# Text, counted separately where it grows: decompressed, sorted on disk, or written as events.
# Traces compress by a factor of 10, generated ones by 50.
TEXT_BYTES, TEXT_RATIO = 256 << 20, 250
# Estimated memory that a reader keeps. A compressed file counts as 16 times its size.
HELD_BYTES, HELD_RATIO = 256 << 20, 16
COMPRESSED = 16
# Opcodes, fields, values and rows. Python reads about two million per second.
ITEMS, ITEMS_RATIO = 10_000_000, 8
# Nesting depth of values: profilers write ten levels.
DEPTH = 100
# A small Python object, including its slot in a list or dictionary.
OBJECT_BYTES = 100
# Seconds for loading files in another process, and the number of bytes that adds a second.
LOAD_S, BYTES_PER_S = 600, 1_000_000


class Budget:
    """The budget of a file, or of an archive, whose members share its text and items."""

    def __init__(
        self, path: str, stored: int, *, is_compressed: bool = False, archive: Budget | None = None
    ) -> None:
        self._path = path
        size = stored * (COMPRESSED if is_compressed else 1)
        self._most_text = max(TEXT_BYTES, TEXT_RATIO * stored)
        self._most_held = max(HELD_BYTES, HELD_RATIO * size)
        self._most_items = max(ITEMS, ITEMS_RATIO * size)
        self._archive = archive
        self._text: dict[str, int] = {}
        self._items = self._held = 0
        # A file's processes are read concurrently.
        self._lock = Lock()

    def widen(self, stored: int) -> None:
        """Allows what a file of this size may take: other files belong to it."""
        self._most_text = max(self._most_text, TEXT_RATIO * stored)
        self._most_held = max(self._most_held, HELD_RATIO * stored)
        self._most_items = max(self._most_items, ITEMS_RATIO * stored)

    def grow(self, text: int, where: str = "read") -> None:
        """Counts bytes of text, separately for each `where`.

        Raises:
            TracekitError: when the text is far larger than the file.
        """
        if self._archive is not None:
            self._archive.grow(text, where)
            return
        with self._lock:
            self._text[where] = total = self._text.get(where, 0) + text
        if total > self._most_text:
            raise TracekitError(
                f"{self._path}: expands to more than {TEXT_RATIO} times its size (and more than "
                f"{TEXT_BYTES >> 20} MB), like a decompression bomb; if you trust the file, "
                "decompress it first"
            )

    def spend(self, items: int) -> None:
        """Counts items that were read.

        Raises:
            TracekitError: when the file has, or repeatedly refers to, far too many.
        """
        if self._archive is not None:
            self._archive.spend(items)
            return
        with self._lock:
            self._items += items
        if self._items > self._most_items:
            raise TracekitError(
                f"{self._path}: has more than {self._most_items:,} items to read, too many for a "
                "profiler's file of this size"
            )

    def hold(self, size: int) -> None:
        """Counts memory that a reader keeps; negative when it frees some.

        Raises:
            TracekitError: when the file would take far more memory than its size justifies.
        """
        with self._lock:
            self._held += size
        self.require_room(0)

    def require_room(self, size: int) -> None:
        """Checks that a reader may temporarily take this much memory.

        Raises:
            TracekitError: when that is too much.
        """
        if not self.has_room(size):
            raise TracekitError(
                f"{self._path}: would take more than {self._most_held >> 20:,} MB of memory to "
                "read, far more than its size justifies"
            )

    def has_room(self, size: int) -> bool:
        """Whether a reader may temporarily take this much memory."""
        return size <= self.room

    @property
    def room(self) -> int:
        """The bytes of memory that a reader may still take."""
        return self._most_held - self._held

    def require_depth(self, depth: int) -> None:
        """Raises:
        TracekitError: when values are nested deeper than any profiler nests them.
        """
        if depth > DEPTH:
            raise TracekitError(f"{self._path}: nests its values more than {DEPTH} levels deep")


def json_bytes(text: str) -> int:
    """An upper bound on the memory of a decoded JSON text."""
    return len(text) + OBJECT_BYTES * (1 + sum(map(text.count, ",:[{")))


def decoded_json(text: str, budget: Budget) -> Any:
    """The value of a JSON text in a file; the text itself if it is damaged or too deep to be
    written again.

    Raises:
        TracekitError: when the value would take far more memory than its file.
    """
    budget.require_room(json_bytes(text))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_shallow = text.count("[") + text.count("{") <= DEPTH or _is_shallow(value)
    return value if is_shallow else text


def _is_shallow(value: Any) -> bool:
    """Whether lists and dictionaries nest at most DEPTH levels."""
    level = [value]
    for _ in range(DEPTH):
        level = [
            part
            for each in level
            if isinstance(each, list | dict)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


def seconds(stored: int) -> float:
    """The time limit for loading files of this size."""
    return LOAD_S + stored / BYTES_PER_S
