"""Rejects text that the native parser refuses, and finds the events that follow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

# White space between JSON tokens.
SPACE = b" \t\r\n"
# Where one object ends and the next begins. The parser has to confirm that both are events of the
# array: the same bytes may occur in a nested list.
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
# Finds where values end, and their keys. Numbers stay text, because Python refuses long ones.
DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
# Split rejected text longer than this into rows, which DuckDB keeps in little memory.
_LONG_BYTES = 1 << 20
_ROW_BYTES = 64 << 10
# The array goes on or ends here. A key there means that the array's bracket is missing, or that a
# stray one opened the element. The group: the text ends.
_ARRAY_GOES_ON = re.compile(
    r'[ \t\r\n]*+(?:\]|,[ \t\r\n]*+(?!"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+:)|(\Z))', re.DOTALL
)
# Look this far past an element.
_LOOK_AHEAD = 1 << 12
_PHASE = re.compile(r'"ph"[ \t\r\n]*:')


class Rejected(NamedTuple):
    """Text in the events array that is not an event, or one part of it when it is long. It stands
    before the event `event_id`."""

    offset: int
    reason: str
    text: str
    event_id: int = 0


class Recovered(Struct):
    """What `recover` found in a stretch of the events array: elements with their byte offsets,
    rejected text, and the first byte not consumed."""

    elements: list[tuple[int, bytes]]
    rejected: list[Rejected]
    end: int


def recover(text: bytes, offset: int, *, final: bool) -> Recovered:
    """Decodes elements one by one, in Python: slow, but it copes with a damaged first one.

    It rejects text that is not JSON. Decoding stops at an incomplete element (unless `final`: then
    no more text comes) and at a bracket that may end the events. A bracket that begins the text is
    stray.
    """
    good: list[tuple[int, bytes]] = []
    rejected: list[Rejected] = []
    # One character per byte keeps positions equal.
    latin = text.decode("latin-1")
    at = 0
    while True:
        while at < len(latin) and latin[at] in " \t\r\n,":
            at += 1
        if at == len(latin) or (latin[at] == "]" and at > 0):
            return Recovered(good, rejected, at)
        try:
            found, end = DECODER.raw_decode(latin, at)
            if not isinstance(found, dict):
                if not final and len(latin) - end < _LOOK_AHEAD:
                    return Recovered(good, rejected, at)
                if not _is_element(found, latin, end):
                    raise json.JSONDecodeError("Not an object", latin, at)
            good.append((offset + at, text[at:end]))
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, latin):
                # The value is cut off: objects inside it may look like events.
                if not final:
                    return Recovered(good, rejected, at)
                end = len(text)
            else:
                following = next_event(text, at + 1)
                if following is None and not final:
                    return Recovered(good, rejected, at)
                end = len(text) if following is None else following
            lost = text[at:end].rstrip(SPACE + b",")
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            rejected += reject(lost, offset + at, reason)
        at = end


def _is_element(found: object, text: str, end: int) -> bool:
    """Whether a value that is not an object is an element of the events. A list of events at the
    text's end was opened by a stray bracket."""
    goes_on = _ARRAY_GOES_ON.match(text, end)
    if goes_on is None:
        return False
    has_events = isinstance(found, list) and any(isinstance(n, dict) and "ph" in n for n in found)
    return goes_on[1] is None or not has_events


def kind_of(element: bytes | bytearray) -> str:
    """The kind of an element that is no object, in words."""
    words = {b"null": "null", b"true": "true", b"fals": "false"}
    first = {ord('"'): "a text", ord("["): "a list"}
    return words.get(bytes(element[:4])) or first.get(element[0]) or "a number"


def reject(
    text: bytes | bytearray, offset: int, reason: str, event_id: int = 0
) -> Iterator[Rejected]:
    """Rows for text that is not an event: one, or several for long text, split between characters.

    `offset` is where the text begins in the decompressed trace, in bytes.
    """
    most = len(text) if len(text) <= _LONG_BYTES else _ROW_BYTES
    begin = 0
    while begin < len(text):
        end = min(begin + most, len(text))
        if end < len(text):
            # At most three bytes continue a UTF-8 character.
            end -= next((n for n in range(4) if text[end - n] & 0xC0 != 0x80), 0)
        part = text[begin:end].decode("utf-8", "replace")
        yield Rejected(offset + begin, reason, part, event_id)
        begin = end


def looks_like_event(text: bytes | bytearray, at: int) -> bool:
    """Whether an event of the array seems to begin here: a JSON object with a `ph`.

    For text that is cut off or malformed, a `ph` near its beginning is enough.
    """
    for reach in (1 << 11, 1 << 16):
        near = bytes(text[at : at + reach]).decode("latin-1")
        try:
            found, _ = DECODER.raw_decode(near)
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, near):
                continue
            break
        return isinstance(found, dict) and "ph" in found
    return _PHASE.search(near, 0, 1 << 11) is not None


def _runs_out(error: Exception, text: str) -> bool:
    """Whether parsing failed because the text ends too early, rather than because it is wrong."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # A literal that is cut off is reported at its start; -Infinity is the longest.
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - len("-Infinity")


def next_event(text: bytes | bytearray, at: int) -> int | None:
    """The index at which the first event after another object begins, or None."""
    for match in BOUNDARY.finditer(text, at):
        if looks_like_event(text, match.end()):
            return match.end()
    return None


_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def strict_json(value: object) -> str:
    """JSON that any parser accepts: lone surrogates, which UTF-8 cannot encode, are replaced."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
