"""Protobuf messages that are read front to back, field by field."""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.errors import TracekitError
from tracekit.trace.budget import Budget
from tracekit.trace.unpacking import Readable

# Protobuf refuses a larger field, and this module a field that claims a length above 64 GB.
MOST_FIELD_BYTES, _MOST_BYTES = (2 << 30) - 1, 64 << 30
_READ_BYTES = 16 << 20
# The wire type of a length and bytes.
_LENGTH = 2


def fields(stream: Readable, path: str, budget: Budget, number: int) -> Iterator[bytes]:
    """The texts of the fields of this number in a message that is read front to back. All fields
    of the message have a length; others are skipped. A text counts as held until the next.

    Raises:
        TracekitError: when the message is damaged, or a field is too large to decode.
        EOFError: when it ends inside a field.
    """
    while head := stream.read(1):
        tag, size = _streamed_varint(stream, head), _streamed_varint(stream, stream.read(1))
        if tag is None or size is None or tag & 7 != _LENGTH or size > _MOST_BYTES:
            raise TracekitError(f"{path}: is not a protobuf trace, or is damaged")
        if size > MOST_FIELD_BYTES:
            raise TracekitError(f"{path}: a field takes more than {MOST_FIELD_BYTES >> 20} MB")
        budget.spend(1)
        chunks, held = [], 0
        # A length is a claim: take memory only for what is there.
        while held < size and (chunk := stream.read(min(size - held, _READ_BYTES))):
            budget.hold(len(chunk))
            chunks.append(chunk)
            held += len(chunk)
        if held < size:
            raise EOFError
        if tag >> 3 == number:
            yield b"".join(chunks)
        budget.hold(-held)


def _streamed_varint(stream: Readable, head: bytes) -> int | None:
    value = shift = 0
    while head and shift < 64:
        value |= (head[0] & 127) << shift
        if head[0] < 128:
            return value
        shift += 7
        head = stream.read(1)
    return None
