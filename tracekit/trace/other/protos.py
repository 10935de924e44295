"""Messages of published protobuf schemas, made from the part of their text that tracekit reads.

Protobuf passes over the other fields of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import repeat
from typing import Any

from tracekit.errors import TracekitError
from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.unpacking import Readable

_FIELD = re.compile(
    r"(?:(repeated)\s+)?(?:map<\s*(\w+)\s*,\s*(\w+)\s*>|(\w+))\s+(\w+)\s*=\s*(\d+);", re.ASCII
)
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed64": 16, "sint64": 18,
}  # fmt: skip
_TEXTS = (_SCALARS["string"], _SCALARS["bytes"])
_MESSAGE_TYPE, _OPTIONAL, _REPEATED = 11, 1, 3
# Protobuf refuses a larger field, and this module a field that claims a length above 64 GB.
_MOST_FIELD_BYTES, _MOST_BYTES = (2 << 30) - 1, 64 << 30
_FEW_FIELDS = 4096
_READ_BYTES = 16 << 20
# Wire types: a number, eight bytes, a length and bytes, four bytes.
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


@cache
def messages(schema: str) -> dict[str, Any]:
    """The class of each message of a schema: `message NAME { ... }`, with fields only."""
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    # Strings stay bytes: a file may hold any.
    file = descriptor_pb2.FileDescriptorProto(name="tracekit.proto", package="tracekit")
    for name, body in _MESSAGE.findall(schema):
        made = file.message_type.add(name=name)
        for repeated, key, value, kind, field, number in _FIELD.findall(body):
            is_repeated = bool(repeated or key)
            added = made.field.add(
                name=field, number=int(number), label=_REPEATED if is_repeated else _OPTIONAL
            )
            if key:
                entry = f"{''.join(part.title() for part in field.split('_'))}Entry"
                kind = f"{name}.{entry}"
                nested = made.nested_type.add(name=entry)
                nested.options.map_entry = True
                for part, part_kind, place in (("key", key, 1), ("value", value, 2)):
                    _typed(nested.field.add(name=part, number=place, label=_OPTIONAL), part_kind)
            _typed(added, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        made.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"tracekit.{made.name}")
        )
        for made in file.message_type
    }


def _typed(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS["bytes"] if kind == "string" else _SCALARS[kind]
    else:
        field.type, field.type_name = _MESSAGE_TYPE, f".tracekit.{kind}"


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
        if size > _MOST_FIELD_BYTES:
            raise TracekitError(f"{path}: a field takes more than {_MOST_FIELD_BYTES >> 20} MB")
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


def decoded(message: Any, data: bytes, budget: Budget) -> Any:
    """The message in this text.

    Raises:
        TracekitError: when it would take far more memory than its file.
        DecodeError: when it is damaged (protobuf's).
    """
    size = 2 * len(data)
    # A field takes two bytes at least. Counting them takes longer than decoding.
    if not budget.has_room(size + len(data) // 2 * OBJECT_BYTES):
        count = 0
        for count, _ in enumerate(_all_fields(message.DESCRIPTOR, memoryview(data), budget, 1), 1):
            if count % _FEW_FIELDS == 0:
                budget.spend(_FEW_FIELDS)
                budget.require_room(size + count * OBJECT_BYTES)
        budget.require_room(size + count * OBJECT_BYTES)
    return message.FromString(data)


def _all_fields(kind: Any, data: memoryview, budget: Budget, depth: int) -> Iterator[None]:
    """One for each field of a message, and of the messages in it; ends where it is damaged."""
    budget.require_depth(depth)
    fields_by_number = kind.fields_by_number
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        yield
        wire = tag & 7
        if wire == _LENGTH:
            size, at = _varint(data, at)
            field = fields_by_number.get(tag >> 3)
            if field is not None and field.message_type is not None:
                yield from _all_fields(field.message_type, data[at : at + size], budget, depth + 1)
            elif field is not None and field.type not in _TEXTS:
                # Packed numbers take eight bytes each.
                yield from repeat(None, min(size, end - at) * 8 // OBJECT_BYTES)
            at += size
        elif wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            # Groups, which no schema here has.
            return


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and the place behind it; at the end of the data, numbers are 0."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    return value, at + 10


def text(value: bytes) -> str:
    """A string field's value: a file may hold any bytes."""
    return value.decode("utf-8", "replace")


def damaged(part: str, error: Exception) -> str:
    """What is wrong with a file if reading a part of it raises this.

    Raises:
        Exception: the same error, if it is not about the file.
    """
    if isinstance(error, EOFError):
        return f"the file ends inside a {part}"
    if isinstance(error, ValueError):
        return f"a {part} is damaged: {error}"
    # protobuf's own error, without importing it here.
    if type(error).__name__ != "DecodeError":
        raise error
    return f"a {part} is damaged"
