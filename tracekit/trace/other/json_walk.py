"""Walks through a JSON file with one value in memory at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from tracekit.trace.budget import json_bytes
from tracekit.trace.other.converted import OpenedFile

_READ_BYTES = 1 << 20
_DECODER = json.JSONDecoder()
_SPACES = re.compile(r"[ \t\r\n,:\ufeff]*")


class JsonError(Exception):
    """The text ends early, or is not JSON."""


class JsonWalk:
    """Walks through a file's text. After `members` or `elements` yields a key or a position, the
    caller reads the item there with `value`, `members` or `elements`."""

    def __init__(self, opened: OpenedFile) -> None:
        self._read, self._budget = opened.read, opened.budget
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text, self._at, self._ended = "", 0, False

    def members(self) -> Iterator[str]:
        """The keys of the object at this position; none for other values."""
        if self._opens("{"):
            while self._peek() != "}":
                key = self.value()
                if not isinstance(key, str):
                    raise JsonError("a key is not text")
                yield key
            self._at += 1

    def elements(self) -> Iterator[None]:
        """Stops before each element of the array at this position; other values have none."""
        if self._opens("["):
            while self._peek() != "]":
                yield
            self._at += 1

    def opens_list(self) -> bool:
        """Whether a list is at this position."""
        return self._peek() == "["

    def is_at_end(self) -> bool:
        """Whether only white space follows."""
        try:
            return not self._peek()
        except JsonError:
            return True

    def lists(self) -> Iterator[tuple[str, Any]]:
        """The elements of the arrays in the object at this position, each with the array's key."""
        for key in self.members():
            for _ in self.elements():
                yield key, self.value()

    def value(self, decoder: json.JSONDecoder = _DECODER, *, is_kept: bool = False) -> Any:
        """The decoded value at this position; it counts as held if the caller keeps it.

        Raises:
            TracekitError: when it would take far more memory than its file.
        """
        self._peek()
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended:
                    raise JsonError(str(error)) from error
            except RecursionError as error:
                raise JsonError("it is too deep") from error
            except ValueError as error:
                # Python does not read integers of thousands of digits.
                raise JsonError("a number is too long") from error
            else:
                # A number at the end of the buffered text may continue in the file.
                if end < len(self._text) or self._ended:
                    self._budget.spend(1)
                    if is_kept:
                        self._budget.hold(json_bytes(self._text[self._at : end]))
                    self._at = end
                    return value
            # The value is incomplete: it takes at least this much.
            self._budget.require_room(json_bytes(self._text[self._at :]))
            self._more(2 * (len(self._text) - self._at))

    def _opens(self, bracket: str) -> bool:
        if self._peek() != bracket:
            self.value()
            return False
        self._at += 1
        return True

    def _peek(self) -> str:
        while True:
            match = _SPACES.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                raise JsonError("it ends early")
            self._more(0)

    def _more(self, size: int) -> None:
        data = self._read(max(size, _READ_BYTES))
        self._ended = not data
        self._text = self._text[self._at :] + self._decode(data, self._ended)
        self._at = 0
