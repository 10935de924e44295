"""The block of events that `tracekit annotate` adds to a trace, and that a load skips.

The block comes first in `traceEvents`. Its first event gives the block's length, so the original
text after it is preserved byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The process id of annotations, far above the system's process ids.
PID = 2_000_000_000
# The member of a file of several traces that has the metadata of each. A process's number modulo
# their number is the position of its trace.
JOINED = b"tracekit_ranks"
# The category of what tracekit adds.
CATEGORY = "tracekit"
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
    """The block with these events, each a JSON object. One of the trace's events must follow it."""
    text = b"".join(event + b",\n" for event in events)
    return _HEAD % (PID, b"%0*d" % (_DIGITS, len(text))) + text


def block_bytes(text: bytes | bytearray) -> int:
    """The length of the block at the start of the text after `[`; 0 if there is no block."""
    match = _FIRST.match(text)
    return 0 if match is None else match.end() + int(match[1])
