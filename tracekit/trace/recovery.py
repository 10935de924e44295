"""Text that the native parser rejects, and the events after it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

# White space between JSON tokens.
SPACE = b" \t\r\n"
# The end of one object and the start of the next. The parser must confirm that both are events in
# the array, since the same bytes may occur in a nested list.
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
# Numbers stay text, because Python refuses long ones.
DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
# Split longer rejected text into rows, so that DuckDB needs little memory.
_LONG_BYTES = 1 << 20
_ROW_BYTES = 64 << 10
_PHASE = re.compile(r'"ph"[ \t\r\n]*:')


class Rejected(NamedTuple):
    """Text in the events array that is not an event, or a part of a long one. It comes before the
    event `event_id`."""

    offset: int
    reason: str
    text: str
    event_id: int = 0


def cut_reason(text: bytes | bytearray) -> str:
    """Why the text ends inside a value; empty if the value is complete."""
    try:
        DECODER.raw_decode(text.decode("latin-1"))
    except json.JSONDecodeError as error:
        return error.msg
    except RecursionError:
        return "nested too deeply"
    return ""


def kind_of(element: bytes | bytearray) -> str:
    """A description of an element that is not an object."""
    words = {b"null": "null", b"true": "true", b"fals": "false"}
    first = {ord('"'): "a text", ord("["): "a list"}
    return words.get(bytes(element[:4])) or first.get(element[0]) or "a number"


def reject(
    text: bytes | bytearray, offset: int, reason: str, event_id: int = 0
) -> Iterator[Rejected]:
    """Rows for text that is not an event; long text is split between characters.

    `offset` is the text's position in the decompressed trace, in bytes.
    """
    most = len(text) if len(text) <= _LONG_BYTES else _ROW_BYTES
    begin = 0
    while begin < len(text):
        end = min(begin + most, len(text))
        if end < len(text):
            # A UTF-8 character has at most three continuation bytes.
            end -= next((n for n in range(4) if text[end - n] & 0xC0 != 0x80), 0)
        part = text[begin:end].decode("utf-8", "replace")
        yield Rejected(offset + begin, reason, part, event_id)
        begin = end


def looks_like_event(text: bytes | bytearray, at: int) -> bool:
    """Whether an event seems to start here: a JSON object with a `ph`.

    For truncated or malformed text, a `ph` near its start is enough.
    """
    for reach in (1 << 11, 1 << 16):
        near = bytes(text[at : at + reach]).decode("latin-1")
        try:
            event, _ = DECODER.raw_decode(near)
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, near):
                continue
            break
        return isinstance(event, dict) and "ph" in event
    return _PHASE.search(near, 0, 1 << 11) is not None


def _runs_out(error: Exception, text: str) -> bool:
    """Whether parsing failed because the text is incomplete, not wrong."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # A truncated literal is reported at its start; -Infinity is the longest.
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - len("-Infinity")


def next_event(text: bytes | bytearray, at: int) -> int | None:
    """The index of the first event that follows another object, or None."""
    for match in BOUNDARY.finditer(text, at):
        if looks_like_event(text, match.end()):
            return match.end()
    return None


_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def strict_json(value: object) -> str:
    """JSON that any parser accepts: lone surrogates, which UTF-8 cannot encode, are replaced."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
