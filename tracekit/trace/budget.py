"""What reading one file may cost: text, items, memory, depth and time, as multiples of its size.

Every reader counts on the budget of its file, and says so when it is used up. A small file may
always cost the first amounts below, which any machine has.
"""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

from tracekit.errors import TracekitError

# Text, by where it grows: decompressed, sorted on disk, or written as events. Traces compress to a
# tenth of their size, generated ones to a fiftieth.
TEXT_BYTES, TEXT_RATIO = 256 << 20, 250
# Memory for what a reader keeps, as estimated. A compressed file counts as 16 times its size.
HELD_BYTES, HELD_RATIO = 256 << 20, 16
COMPRESSED = 16
# Opcodes, fields, values and rows. Python reads about two million in a second.
ITEMS, ITEMS_RATIO = 10_000_000, 8
# Values nested in one another: profilers write ten levels.
DEPTH = 100
# A small object of Python, with its place in a list or a dictionary.
OBJECT_BYTES = 100
# Seconds for loading files in another process, and bytes of them that get another second.
LOAD_S, BYTES_PER_S = 600, 1_000_000


class Budget:
    """The budget of one file, or of an archive, whose members share its text and its items."""

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
        # The processes that a file holds are read at the same time.
        self._lock = Lock()

    def grow(self, text: int, where: str = "read") -> None:
        """Counts bytes of text, those of each `where` apart.

        Raises:
            TracekitError: when the text is far larger than the file.
        """
        if self._archive is not None:
            self._archive.grow(text, where)
            return
        with self._lock:
            self._text[where] = found = self._text.get(where, 0) + text
        if found > self._most_text:
            raise TracekitError(
                f"{self._path}: is more than {TEXT_RATIO} times as large as text (and than "
                f"{TEXT_BYTES >> 20} MB), like a decompression bomb; if you trust the file, "
                "decompress it first"
            )

    def spend(self, items: int) -> None:
        """Counts items that were read.

        Raises:
            TracekitError: when the file has, or names again and again, far more than others.
        """
        if self._archive is not None:
            self._archive.spend(items)
            return
        with self._lock:
            self._items += items
        if self._items > self._most_items:
            raise TracekitError(
                f"{self._path}: takes more than {self._most_items:,} items to read, which no "
                "profiler writes into a file of its size"
            )

    def hold(self, size: int) -> None:
        """Counts memory that a reader keeps; less than 0 when it gives some back.

        Raises:
            TracekitError: when the file would take far more than its size.
        """
        with self._lock:
            self._held += size
        self.require_room(0)

    def require_room(self, size: int) -> None:
        """Checks that a reader may take this much memory for a moment.

        Raises:
            TracekitError: when it may not.
        """
        if not self.has_room(size):
            raise TracekitError(
                f"{self._path}: would take more than {self._most_held >> 20:,} MB of memory to "
                "read, far more than other files of its size"
            )

    def has_room(self, size: int) -> bool:
        """Whether a reader may take this much memory for a moment."""
        return self._held + size <= self._most_held

    def require_depth(self, depth: int) -> None:
        """Raises:
        TracekitError: when values are nested deeper than any profiler nests them.
        """
        if depth > DEPTH:
            raise TracekitError(f"{self._path}: nests its values more than {DEPTH} levels deep")


def json_bytes(text: str) -> int:
    """The memory that a JSON text takes at most, when it is decoded."""
    return len(text) + OBJECT_BYTES * (1 + sum(map(text.count, ",:[{")))


def decoded_json(text: str, budget: Budget) -> Any:
    """The value of a JSON text in a file; the text itself if it is damaged, or too deep to be
    written again.

    Raises:
        TracekitError: when the value would take far more memory than its file.
    """
    budget.require_room(json_bytes(text))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_shallow = text.count("[") + text.count("{") <= DEPTH or _is_shallow(found)
    return found if is_shallow else text


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
    """How long loading files of this size may take."""
    return LOAD_S + stored / BYTES_PER_S
