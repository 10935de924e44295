"""Messages of published protobuf schemas, made from the part of their text that tracekit reads."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

_FIELD = re.compile(
    r"(?:(repeated)\s+)?(?:map<\s*(\w+)\s*,\s*(\w+)\s*>|(\w+))\s+(\w+)\s*=\s*(\d+);", re.ASCII
)
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed64": 16, "sint64": 18,
}  # fmt: skip
_MESSAGE_TYPE, _OPTIONAL, _REPEATED = 11, 1, 3


@cache
def messages(schema: str) -> dict[str, Any]:
    """The class of each message of a schema: `message NAME { ... }`, with fields only."""
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
