"""Messages of published protobuf schemas, made from the part of their text that tracekit reads.

Protobuf passes over the other fields of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tracekit.errors import TracekitError
from tracekit.trace.unpacking import Readable

_FIELD = re.compile(
    r"(?:(repeated)\s+)?(?:map<\s*(\w+)\s*,\s*(\w+)\s*>|(\w+))\s+(\w+)\s*=\s*(\d+);", re.ASCII
)
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed64": 16, "sint64": 18,
}  # fmt: skip
_MESSAGE_TYPE, _OPTIONAL, _REPEATED = 11, 1, 3
# Refuse a larger message, and a larger field, which protobuf does, too.
_MOST_BYTES, _MOST_FIELD_BYTES = 64 << 30, (2 << 30) - 1


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


def fields(stream: Readable, path: str, number: int) -> Iterator[bytes]:
    """The texts of the fields of this number in a message that is read front to back. All fields
    of the message have a length; others are passed over.

    Raises:
        TracekitError: when the message is damaged, or a field is too large to decode.
        EOFError: when it ends inside a field.
    """
    while head := stream.read(1):
        tag, size = _varint(stream, head), _varint(stream, stream.read(1))
        if tag is None or size is None or tag & 7 != 2 or size > _MOST_BYTES:
            raise TracekitError(f"{path}: is not a protobuf trace, or is damaged")
        if size > _MOST_FIELD_BYTES:
            raise TracekitError(f"{path}: a field takes more than {_MOST_FIELD_BYTES >> 20} MB")
        data = stream.read(size)
        if len(data) < size:
            raise EOFError
        if tag >> 3 == number:
            yield data


def _varint(stream: Readable, head: bytes) -> int | None:
    value = shift = 0
    while head and shift < 64:
        value |= (head[0] & 127) << shift
        if head[0] < 128:
            return value
        shift += 7
        head = stream.read(1)
    return None


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
