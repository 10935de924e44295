"""The events that `tracekit annotate` puts before a trace's own, and that a load leaves out.

The block is the first thing in `traceEvents`. Its first event says how many bytes follow it, so
that what is behind it is the original text, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Annotations appear under this process. Profilers use the system's numbers, far below it.
PID = 2_000_000_000
_DIGITS = 12
_HEAD = (
    b'{"ph":"M","cat":"tracekit","name":"tracekit_annotations","pid":%d,"tid":0,'
    b'"args":{"bytes":"%s"}},\n'
)
_FIRST = re.compile(
    re.escape(_HEAD % (PID, b"@")).replace(b"@", rb"([0-9]{%d})" % _DIGITS), re.DOTALL
)
HEAD_BYTES = len(_HEAD % (PID, b"0" * _DIGITS))


def block(events: Iterable[bytes]) -> bytes:
    """The block with these events, each a JSON object. An event of the trace has to follow."""
    text = b"".join(event + b",\n" for event in events)
    return _HEAD % (PID, b"%0*d" % (_DIGITS, len(text))) + text


def block_bytes(text: bytes | bytearray) -> int:
    """The length of the block at the front of the text behind `[`; 0 where there is none."""
    found = _FIRST.match(text)
    return 0 if found is None else found.end() + int(found[1])
