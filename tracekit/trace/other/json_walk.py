"""Reads a large JSON text from front to back, one value in memory at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_READ_BYTES = 1 << 20
# Refuse a single value of more text.
_MOST_CHARACTERS = 256 << 20
_DECODER = json.JSONDecoder()
_SPACES = re.compile(r"[ \t\r\n,:]*")


class JsonError(Exception):
    """The text ends early, or is not JSON."""


class JsonWalk:
    """Goes through a text whose bytes `read` gives. After `members` or `elements` gives a key or a
    place, the caller takes what stands there: `value`, or again `members` or `elements`."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text, self._at, self._ended = "", 0, False

    def members(self) -> Iterator[str]:
        """The keys of the object at this position; none if it is not an object."""
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

    def value(self) -> Any:
        """The value here, decoded."""
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                # A number at the end of the text read so far may continue in the rest of the file.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > _MOST_CHARACTERS:
                    raise JsonError(str(error)) from error
            except RecursionError as error:
                raise JsonError("it is too deep") from error
            self._more(2 * (len(self._text) - self._at))

    def _opens(self, bracket: str) -> bool:
        if self._peek() != bracket:
            self.value()
            return False
        self._at += 1
        return True

    def _peek(self) -> str:
        while True:
            found = _SPACES.match(self._text, self._at)
            self._at = found.end() if found else self._at
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
