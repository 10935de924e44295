"""Schemas of dataclasses: an object whose properties are the fields, all of them and no other, with
what each means: the text below the field in the source, and its unit."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, Union, get_args, get_origin, get_type_hints

from tracekit.schemas.rows import columns_of, row_schema

Schema = dict[str, Any]

_SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
# What fields of these names mean wherever no text below the field says more.
_COMMON = {
    "trace_id": "The trace.",
    "rank": "The rank; null: the trace does not tell.",
    "workload": "The workload's name.",
    "variant": "Its variant, where it has several.",
    "parameters": "Its sizes and options.",
    "device": "The device that it ran on.",
    "regime": "What bounds it.",
    "bottleneck": "The cause whose removal gains most; null: none, or unknown.",
    "confidence": "How sure the regime is.",
    "changes": "The changes as `tracekit whatif` takes them.",
    "window_ns": "Its length as recorded.",
    "predicted_ns": "Its length as predicted.",
    "speedup": "The length before over the length after.",
    "spread": "How far the rounds' times differ.",
    "dtype": "The type of the numbers.",
    "batch": "Sequences in a batch.",
    "seq": "Tokens in a sequence.",
    "dim": "Features in and out.",
    "hidden": "Features within.",
}

# A number's unit, where the end of its name does not tell it.
_UNITS = {
    "margin": "fraction of the window",
    "flip": "times as fast",
    "speedup": "times as fast",
    "dilation": "times as long",
    "work_factor": "times as much",
    "ratio": "times as long",
    "spread": "fraction of the median",
    "error": "fraction of the measured time",
    "given_error": "fraction of the measured time",
    "hta": "the figure's unit",
    "by_hta_rules": "the figure's unit",
    "tracekit": "the figure's unit",
    "parameters": "as `tracekit capture` takes them",
    "causes": "ns",
}
_SUFFIXES = {"_ns": "ns", "_bytes": "bytes", "_id": "id", "rank": "id"}


class Classes:
    """Makes the schemas of classes, and keeps each as a definition to refer to.

    `rows` names the question whose rows a field holds, and `questions` the one whose columns
    describe a class's fields that have no text of their own. `choices` are the values that fields
    of a name may have; `others` are schemas of fields whose types do not tell enough.
    """

    def __init__(
        self,
        rows: Mapping[tuple[str, str], str],
        questions: Mapping[str, str],
        choices: Mapping[tuple[str, str], Sequence[str]],
        others: Mapping[tuple[str, str], Schema | tuple[type, Schema]],
        names: Mapping[str, type],
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self._rows = rows
        self._questions = questions
        self._choices = choices
        self._others = others
        self._names = names

    def of(self, kind: type, more: Schema | None = None) -> Schema:
        """A reference to a class's schema; `more` are properties that its JSON has, too."""
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}
            module = vars(import_module(kind.__module__))
            hints = get_type_hints(kind, {**self._names, **module})
            properties = dict(more or {})
            for each in fields(kind):
                properties[each.name] = self._field(kind, each.name, hints[each.name])
            self.definitions[name] = closed(properties, about(kind))
        return {"$ref": f"#/$defs/{name}"}

    def _field(self, kind: type, name: str, hint: Any) -> Schema:
        place = (kind.__name__, name)
        if place in self._rows:
            found = {"type": "array", "items": self.row(self._rows[place])}
        elif place in self._others:
            other = self._others[place]
            if isinstance(other, tuple):
                item, more = other
                found = {"type": "array", "items": self.of(item, more)}
            else:
                found = dict(other)
        else:
            found = self._type(hint)
        if place in self._choices:
            found = _chosen(found, self._choices[place])
        text = self._of_question(kind, name) or described(kind).get(name)
        text = text or self._of_reference(found)
        number = _number(found)
        if number and not text.endswith(")"):
            text = f"{text} ({unit(name, number)})"
        return found | {"description": text}

    def row(self, question: str) -> Schema:
        """A reference to the schema of a question's rows."""
        name = f"row_of_{question}"
        if name not in self.definitions:
            self.definitions[name] = row_schema(question)
        return {"$ref": f"#/$defs/{name}"}

    def _of_question(self, kind: type, name: str) -> str:
        columns = columns_of(self._questions.get(kind.__name__))
        return columns.get(name, "")

    def _of_reference(self, schema: Schema) -> str:
        """What a property is whose schema is another object's, or a list of them."""
        if "items" in schema:
            return self._of_reference(schema["items"])
        for each in [schema, *schema.get("anyOf", [])]:
            if "$ref" in each:
                found: str = self.definitions[each["$ref"].rpartition("/")[2]]["description"]
                return found
        return ""

    def _type(self, hint: Any) -> Schema:
        if hint in _SIMPLE:
            return {"type": _SIMPLE[hint]}
        if hint is Any:
            return {}
        if is_dataclass(hint) and isinstance(hint, type):
            return self.of(hint)
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return _any_of([self._type(each) for each in inner])
        if origin is tuple:
            items = [self._type(each) for each in inner]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self._type(inner[1])}
        if origin is not None and issubclass(origin, Sequence):
            return {"type": "array", "items": self._type(inner[0])}
        raise TypeError(f"no schema for {hint!r}")


def closed(properties: Schema, description: str, optional: Sequence[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _any_of(found: list[Schema]) -> Schema:
    if all(set(each) == {"type"} for each in found):
        return {"type": [each["type"] for each in found]}
    return {"anyOf": found}


def _chosen(schema: Schema, values: Sequence[str]) -> Schema:
    kind = schema["type"]
    is_optional = isinstance(kind, list) and "null" in kind
    return {"enum": [*values, *([None] if is_optional else [])]}


def _number(schema: Schema) -> str | None:
    """`integer` or `number` where the schema is of numbers, or of lists or objects of them."""
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind in ("integer", "number"):
            return str(kind)
        if kind == "array" and isinstance(schema.get("items"), dict):
            return _number(schema["items"])
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return _number(schema["additionalProperties"])
    for each in [*schema.get("prefixItems", []), *schema.get("anyOf", [])]:
        if found := _number(each):
            return found
    return None


def unit(name: str, kind: str) -> str:
    """The unit of the numbers in a field whose type in the schema is `kind`."""
    for suffix, found in _SUFFIXES.items():
        if name.endswith(suffix):
            return found
    return _UNITS.get(name) or {"integer": "count", "number": "fraction"}[kind]


@cache
def described(kind: type) -> dict[str, str]:
    """What the fields of a class mean, in one line: the text below each, if it has one."""
    found = {each.name: _COMMON[each.name] for each in fields(kind) if each.name in _COMMON}
    lines: list[ast.stmt] = []
    for each in filter(is_dataclass, reversed(kind.__mro__)):
        (tree,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(tree, ast.ClassDef)
        lines += tree.body
    for field, text in pairwise(lines):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def about(kind: type) -> str:
    """The first paragraph of a class's docstring, in one line."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
