"""Events where a fast parse fails: decoded one by one, mended or set aside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

# White space between JSON tokens.
SPACE = b" \t\r\n"
# Where one object ends and the next begins. Whether both are events of the array is for the parser
# to confirm: the same bytes may stand in a nested list.
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
# Finds where values end, and their keys. Numbers are left as text: Python refuses long ones.
DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
# A longer stretch is parted into rows that DuckDB keeps in little memory.
_LONG_BYTES = 1 << 20
_ROW_BYTES = 64 << 10
_PHASE = re.compile(r'"ph"[ \t\r\n]*:')


@dataclass
class Rejected:
    """A stretch of the events array that is not JSON, or a part of a long one."""

    offset: int
    text: str
    reason: str


@dataclass
class Salvaged:
    """What `salvage` made of a stretch of the events array: events, each with its offset."""

    events: list[tuple[int, bytes]]
    rejected: list[Rejected]
    end: int


def salvage(text: bytes, offset: int, *, final: bool) -> Salvaged:
    """Decodes events one by one, in Python: slow, and right where the first of them is damaged.

    Raw control characters and invalid UTF-8 are mended, what is not JSON is set aside. `end` is the
    first byte not consumed: an event that is incomplete (only when not `final`), or a bracket that
    may end the events (where one begins the text, it does not).
    """
    good: list[tuple[int, bytes]] = []
    rejected: list[Rejected] = []
    # One character per byte keeps positions equal; each event is decoded properly below.
    latin = text.decode("latin-1")
    at = 0
    while True:
        while at < len(latin) and latin[at] in " \t\r\n,":
            at += 1
        if at == len(latin) or (latin[at] == "]" and at > 0):
            return Salvaged(good, rejected, at)
        try:
            found, end = DECODER.raw_decode(latin, at)
            if not isinstance(found, dict):
                raise json.JSONDecodeError("Not an object", latin, at)
            good.append((offset + at, mended(text[at:end]).encode()))
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, latin):
                # Cut off: what follows inside it may look like events, and is none.
                if not final:
                    return Salvaged(good, rejected, at)
                end = len(text)
            else:
                following = next_event(text, at + 1)
                if following is None and not final:
                    return Salvaged(good, rejected, at)
                end = len(text) if following is None else following
            lost = text[at:end].rstrip(SPACE + b",")
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            rejected += set_aside(lost, offset + at, reason)
        at = end


def set_aside(text: bytes | bytearray, offset: int, reason: str) -> Iterator[Rejected]:
    """What is no event: one row, more where it is long; no character is parted."""
    most = len(text) if len(text) <= _LONG_BYTES else _ROW_BYTES
    begin = 0
    while begin < len(text):
        end = min(begin + most, len(text))
        if end < len(text):
            # At most three bytes go on a character.
            end -= next((n for n in range(4) if text[end - n] & 0xC0 != 0x80), 0)
        yield Rejected(offset + begin, text[begin:end].decode("utf-8", "replace"), reason)
        begin = end


def looks_like_event(text: bytes | bytearray, at: int) -> bool:
    """Whether an event of the array seems to begin here: a JSON object with a `ph`.

    Of one that is cut off, or is not strict JSON, a `ph` near its beginning has to do.
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
    """Whether parsing failed because the text ends too early, rather than on what it says."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # A literal that is cut off is reported at its start: none is longer than this.
    return error.msg.startswith("Unterminated") or error.pos > len(text.rstrip()) - len("-Infinity")


def next_event(text: bytes | bytearray, at: int) -> int | None:
    """Where the first event begins that follows another object, or None."""
    for match in BOUNDARY.finditer(text, at):
        if looks_like_event(text, match.end()):
            return match.end()
    return None


_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# An escaped pair of surrogates, half of one, or any other escape.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def strict_json(value: object) -> str:
    """JSON that any parser takes: what UTF-8 cannot say is replaced."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))


def mended(text: bytes) -> str:
    """Strict JSON: mended inside its strings, else unchanged."""
    return _STRING.sub(_mended_string, text.decode("utf-8", "replace"))


def _mended_string(string: re.Match[str]) -> str:
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", string[0])
    return _ESCAPE.sub(lambda found: "\N{REPLACEMENT CHARACTER}" if found[1] else found[0], text)
