"""Schemas of the rows that questions return: names, units and meanings from the question's header,
types from DuckDB."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

from tracekit.database import catalog
from tracekit.database.prepared import create_all

Schema = dict[str, Any]

_INTEGER = {"tinyint", "smallint", "integer", "bigint", "hugeint"}
_INTEGER |= {f"u{name}" for name in _INTEGER}
_NUMBER = {"float", "double", "decimal"}
# What rows have, too, that come from several runs (queries/schema/lake_answer.sql) or ranks.
_OF_LAKES: Schema = {
    "run": {"type": ["string", "null"], "description": "of a lake: the run"},
    "rank": {"type": ["integer", "null"], "description": "of a lake: the rank (id)"},
}


def columns_of(question: str | None) -> dict[str, str]:
    """What each column of a question means, with its unit."""
    if question is None:
        return {}
    return {each.name: f"{each.help} ({each.unit})" for each in catalog.query(question).columns}


def row_schema(question: str) -> Schema:
    """The schema of one row; of several runs of a lake, rows also tell run and rank."""
    texts = columns_of(question)
    properties = {
        name: _nullable(_type(kind)) | {"description": texts[name]}
        for name, kind in _types(question).items()
    }
    return {
        "type": "object",
        "description": catalog.query(question).question,
        "properties": {**_OF_LAKES, **properties},
        "required": list(properties),
        "additionalProperties": False,
    }


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    """A database without traces."""
    connection = duckdb.connect(":memory:")
    create_all(connection)
    return connection


def _types(question: str) -> dict[str, Any]:
    relation = _empty().sql(catalog.query(question).sql)
    return dict(zip(relation.columns, relation.types, strict=True))


def _type(kind: Any) -> Schema:
    """A DuckDB type as it is written in JSON."""
    if kind.id in _INTEGER:
        return {"type": "integer"}
    if kind.id in _NUMBER:
        return {"type": "number"}
    if kind.id == "boolean":
        return {"type": "boolean"}
    if str(kind) == "JSON":
        return {}
    if kind.id == "null":
        return {"type": "null"}
    if kind.id == "enum":
        return {"enum": list(dict(kind.children)["values"])}
    if kind.id in ("list", "array"):
        return {"type": "array", "items": _nullable(_type(dict(kind.children)["child"]))}
    if kind.id == "struct":
        inner = {name: _nullable(_type(each)) for name, each in kind.children}
        return {
            "type": "object",
            "properties": inner,
            "required": list(inner),
            "additionalProperties": False,
        }
    if kind.id == "map":
        value = _nullable(_type(dict(kind.children)["value"]))
        return {"type": "object", "additionalProperties": value}
    return {"type": "string"}


def _nullable(schema: Schema) -> Schema:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if schema.get("type", "null") == "null":
        return schema
    return {**schema, "type": [schema["type"], "null"]}
