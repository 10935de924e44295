"""Result classes and JSON: the output of `--json`, stored files (whose values are checked when read
back), and the JSON Schema of both.

A field's meaning is the text below it in its class, or else the row with its name in
queries/fields.csv.
"""

from __future__ import annotations

import ast
import csv
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from msgspec import Struct, convert
from msgspec.json import decode, encode, schema_components

R = TypeVar("R")
Schema = dict[str, Any]

# A number's unit, by the suffix of its name.
_SUFFIXES = {"_ns": "ns", "_bytes": "bytes", "_id": "id", "rank": "id"}


class Record(Struct, frozen=True):
    """A result that prints as JSON."""

    form: ClassVar[str] = ""
    """The name of the JSON's form, such as `tracekit/diff/1`."""

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        plain: dict[str, Any] = decode(encode(self))
        return ({"schema": self.form} if self.form else {}) | plain


class Shown(Record, frozen=True):
    """A result that notebooks show as HTML and Python shows as its command's output."""

    views: ClassVar[Callable[[], Any] | None] = None
    """Returns the module that renders HTML and text. tracekit.run sets it, since results do not
    import reporters."""

    def _repr_html_(self) -> str | None:
        return Shown.views().html(self) if Shown.views else None

    def __repr__(self) -> str:
        return Shown.views().text(self) if Shown.views else object.__repr__(self)


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: when it is not JSON, nests too deeply, or has an integer of more than 64 bits.
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
    """A JSON object as a struct, with its values converted to the fields' types. Unknown keys are
    ignored.

    Raises:
        ValueError: when a field is missing, or its value is not of its type.
    """
    return convert(value, kind, str_keys=True)


def _structs(hint: Any) -> Iterator[type[Struct]]:
    """The classes inside a type."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for argument in get_args(hint):
        yield from _structs(argument)


class Schemas:
    """Builds the schemas of classes, and keeps them as definitions for references.

    `given` has schemas for fields whose types are too general, by class and field; `texts` has
    further descriptions of a class's fields.
    """

    def __init__(
        self,
        given: Mapping[tuple[str, str], Callable[[Schemas], Schema]],
        texts: Callable[[type[Struct]], Mapping[str, str]],
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self._given, self._texts = given, texts

    def of(self, kind: type[Struct], more: Schema | None = None) -> Schema:
        """A reference to a class's schema; `more` are further properties of its JSON."""

        def made() -> Schema:
            hints, texts = get_type_hints(kind), {**_described(kind), **self._texts(kind)}
            properties = dict(more or {})
            for name in kind.__struct_fields__:
                given_schema = self._given.get((kind.__name__, name))
                schema = given_schema(self) if given_schema else self._type(hints[name])
                text = texts.get(name) or self._of_reference(schema)
                number = None if given_schema else _number(schema)
                if number and not text.endswith(")"):
                    text = f"{text} ({_unit(name, number)})"
                properties[name] = schema | {"description": text}
            about = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            return closed(properties, " ".join(about.split()))

        return self.refer(kind.__name__, made)

    def refer(self, name: str, made: Callable[[], Schema]) -> Schema:
        """A reference to the definition with this name, which is created if missing."""
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = made()
        return {"$ref": f"#/$defs/{name}"}

    def _of_reference(self, schema: Schema) -> str:
        """The schema of a property that is another object, or a list of objects."""
        if "items" in schema:
            return self._of_reference(schema["items"])
        for part in [schema, *schema.get("anyOf", [])]:
            if "$ref" in part:
                description: str = self.definitions[part["$ref"].rpartition("/")[2]]["description"]
                return description
        return ""

    def _type(self, hint: Any) -> Schema:
        for struct in _structs(hint):
            self.of(struct)
        (found,), _ = schema_components([hint], ref_template="#/$defs/{name}")
        return found


def closed(properties: Schema, description: str, optional: Sequence[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _number(schema: Schema) -> str | None:
    """`integer` or `number` if a schema describes numbers, or lists or mappings of numbers."""
    if schema.get("type") in ("integer", "number"):
        return str(schema["type"])
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
    inner += schema.get("prefixItems", ())
    return next(filter(None, map(_number, filter(None, inner))), None)


def _unit(name: str, kind: str) -> str:
    """The unit of a field's numbers; `kind` is their type in the schema."""
    by_end = (unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix))
    known = next(by_end, None) or _known().get(name, ("", ""))[0]
    return known or {"integer": "count", "number": "fraction"}[kind]


@cache
def _known() -> dict[str, tuple[str, str]]:
    """The unit and meaning of fields that mean the same in all classes, by name. Either is empty if
    the field's name or class gives it."""
    lines = (files("tracekit.queries") / "fields.csv").read_text(encoding="utf-8").splitlines()
    return {name: (unit, meaning) for name, unit, meaning in csv.reader(lines)}


def _described(kind: type[Struct]) -> dict[str, str]:
    """The meanings of a class's fields, one line each."""
    texts = {name: _known().get(name, ("", ""))[1] for name in kind.__struct_fields__}
    meanings = {name: meaning for name, meaning in texts.items() if meaning}
    lines: list[ast.stmt] = []
    for base in reversed(kind.__mro__[: kind.__mro__.index(Struct)]):
        (tree,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(tree, ast.ClassDef)
        lines += tree.body
    for field, text in pairwise(lines):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=said)):
                meanings[name] = " ".join(str(said).split())
    return meanings
