"""Result classes and JSON: the output of `--json`, stored files that are read back with each value
checked, and the JSON Schema of both.

The text below a field in its class says what it means, or else queries/fields.csv does, by its
name.
"""

from __future__ import annotations

import ast
import csv
import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, convert, to_builtins

R = TypeVar("R")
Schema = dict[str, Any]

_SCALARS = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    types.NoneType: "null",
}
# A number's unit, by the end of its name.
_SUFFIXES = {"_ns": "ns", "_bytes": "bytes", "_id": "id", "rank": "id"}


class Record(Struct, frozen=True):
    """A result that prints as JSON."""

    form: ClassVar[str] = ""
    """The name of the JSON's form, such as `tracekit/diff/1`."""

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return ({"schema": self.form} if self.form else {}) | dict(to_builtins(self))


class Shown(Record, frozen=True):
    """A result that notebooks show as HTML, and Python as the output of its command."""

    views: ClassVar[Callable[[], Any] | None] = None
    """Returns the module that makes the HTML and the text. tracekit.run sets it: results do not
    import reporters."""

    def _repr_html_(self) -> str | None:
        return Shown.views().html(self) if Shown.views else None

    def __repr__(self) -> str:
        return Shown.views().text(self) if Shown.views else object.__repr__(self)


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: when it is not JSON, nested too deeply, or has a whole number of over 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _whole(digits: str) -> int:
    number = int(digits)
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number is too large")
    return number


def record(kind: type[R], value: object) -> R:
    """A JSON object as a struct, with its values converted to the types of the fields. Keys that
    are not fields are ignored.

    Raises:
        ValueError: when a field is missing, or its value is not of its type.
    """
    return convert(value, kind, str_keys=True)


@cache
def _form(hint: Any) -> tuple[str, tuple[Any, ...]]:
    """The JSON form of values of a type, and the types of their elements."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint], ()
    if hint is Any:
        return "any", ()
    if _is_struct(hint):
        return "object", ()
    if origin in (types.UnionType, Union):
        return "either", inner
    if origin is tuple and inner[-1] is not ...:
        return "tuple", inner
    if origin is not None and issubclass(origin, Mapping):
        return "map", inner
    if origin is not None and issubclass(origin, Sequence):
        return "array", inner[:1]
    raise TypeError(f"no JSON for {hint!r}")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


class Schemas:
    """Makes the schemas of classes, and keeps each as a definition for references.

    `given` are schemas of fields whose types are not specific enough, by class and field; `texts`
    are further descriptions of a class's fields.
    """

    def __init__(
        self,
        given: Mapping[tuple[str, str], Callable[[Schemas], Schema]],
        texts: Callable[[type[Struct]], Mapping[str, str]],
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self._given, self._texts = given, texts

    def of(self, kind: type[Struct], more: Schema | None = None) -> Schema:
        """A reference to a class's schema; `more` are properties that its JSON has, too."""

        def made() -> Schema:
            hints, texts = _hints(kind), {**_described(kind), **self._texts(kind)}
            properties = dict(more or {})
            for name in kind.__struct_fields__:
                given = self._given.get((kind.__name__, name))
                found = given(self) if given else self._type(hints[name])
                text = texts.get(name) or self._of_reference(found)
                number = None if given else _number(hints[name])
                if number and not text.endswith(")"):
                    text = f"{text} ({_unit(name, number)})"
                properties[name] = found | {"description": text}
            about = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            return closed(properties, " ".join(about.split()))

        return self.refer(kind.__name__, made)

    def refer(self, name: str, made: Callable[[], Schema]) -> Schema:
        """A reference to the definition of a name, which is made if it is not there yet."""
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = made()
        return {"$ref": f"#/$defs/{name}"}

    def _of_reference(self, schema: Schema) -> str:
        """The schema of a property that is another object, or a list of objects."""
        if "items" in schema:
            return self._of_reference(schema["items"])
        for each in [schema, *schema.get("anyOf", [])]:
            if "$ref" in each:
                found: str = self.definitions[each["$ref"].rpartition("/")[2]]["description"]
                return found
        return ""

    def _type(self, hint: Any) -> Schema:
        form, inner = _form(hint)
        if form == "object":
            return self.of(hint)
        if form == "any":
            return {}
        made = [self._type(each) for each in inner]
        if form == "either":
            is_simple = all(set(each) == {"type"} for each in made)
            return {"type": [each["type"] for each in made]} if is_simple else {"anyOf": made}
        if form == "tuple":
            fixed = {"prefixItems": made, "items": False, "minItems": len(made)}
            return {"type": "array"} | fixed
        if form == "map":
            return {"type": "object", "additionalProperties": made[1]}
        return {"type": "array", "items": made[0]} if form == "array" else {"type": form}


def closed(properties: Schema, description: str, optional: Sequence[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _number(hint: Any) -> str | None:
    """`integer` or `number` if a type is of numbers, or of lists or mappings of numbers."""
    form, inner = _form(hint)
    if form in ("integer", "number"):
        return form
    return next(filter(None, map(_number, inner[1:] if form == "map" else inner)), None)


def _unit(name: str, kind: str) -> str:
    """The unit of the numbers in a field whose type in the schema is `kind`."""
    by_end = (unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix))
    known = next(by_end, None) or _known().get(name, ("", ""))[0]
    return known or {"integer": "count", "number": "fraction"}[kind]


@cache
def _known() -> dict[str, tuple[str, str]]:
    """The unit and the meaning of fields that mean the same in any class, by name; empty if the
    field's name or class gives it."""
    lines = (files("tracekit.queries") / "fields.csv").read_text(encoding="utf-8").splitlines()
    return {name: (unit, meaning) for name, unit, meaning in csv.reader(lines)}


def _described(kind: type[Struct]) -> dict[str, str]:
    """The meanings of a class's fields, in one line each."""
    known = {name: _known().get(name, ("", ""))[1] for name in kind.__struct_fields__}
    found = {name: meaning for name, meaning in known.items() if meaning}
    lines: list[ast.stmt] = []
    for each in filter(_is_struct, reversed(kind.__mro__[: kind.__mro__.index(Struct)])):
        (tree,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(tree, ast.ClassDef)
        lines += tree.body
    for field, text in pairwise(lines):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=said)):
                found[name] = " ".join(str(said).split())
    return found
