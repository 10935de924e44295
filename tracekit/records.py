"""JSON that a file stores -> dataclasses, each field checked for its type."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R")

_SCALARS: dict[object, tuple[type, ...]] = {
    bool: (bool,), int: (int,), float: (float, int), str: (str,), types.NoneType: (types.NoneType,)
}  # fmt: skip


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: when it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def record(kind: type[R], value: object, **names: type) -> R:
    """A JSON object as a dataclass, and what it holds as the types of its fields say.

    `names` are types that annotations name and that are imported for type checkers alone. Keys that
    are no fields are ignored.

    Raises:
        ValueError: when a field is missing, or its value is not of its type.
    """
    found: R = _built(kind, value, tuple(names.items()))
    return found


def _built(kind: Any, value: Any, names: tuple[tuple[str, type], ...]) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, Union):
        return _built(_chosen(inner, value), value, names)
    if is_dataclass(kind):
        return _object(kind, value, names)
    if origin in (list, Sequence) and isinstance(value, list):
        return [_built(inner[0], each, names) for each in value]
    if origin is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
        return tuple(_built(k, each, names) for k, each in zip(kinds, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {
            (int(key) if inner[0] is int else key): _built(inner[1], each, names)
            for key, each in value.items()
        }
    if type(value) not in _SCALARS.get(kind, ()):
        raise ValueError(f"{type(value).__name__} in the place of {kind}")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError("a number is too large")
    return value


def _chosen(kinds: Sequence[Any], value: object) -> Any:
    """The type of a union that a value can only have."""
    if value is None and types.NoneType in kinds:
        return types.NoneType
    others = [each for each in kinds if each is not types.NoneType]
    return next((each for each in others if type(value) in _SCALARS.get(each, ())), others[0])


def _object(kind: Any, value: Any, names: tuple[tuple[str, type], ...]) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{kind.__name__} is no object")
    hints = _hints(kind, names)
    found = {
        each.name: _built(hints[each.name], value[each.name], names)
        for each in fields(kind)
        if each.name in value
    }
    try:
        return kind(**found)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} lacks a field") from error


@cache
def _hints(kind: type, names: tuple[tuple[str, type], ...]) -> dict[str, Any]:
    return get_type_hints(kind, localns=dict(names))
