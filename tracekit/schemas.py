"""JSON Schemas of the commands' output with --json or --format json.

Schemas of rows take names, units and meanings from the question's header, and types from DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import duckdb

from tracekit.advice import model as advice
from tracekit.compare import crosscheck, diff
from tracekit.database import catalog
from tracekit.database.remedies import EFFORTS
from tracekit.database.stored import create_tables
from tracekit.errors import TracekitError
from tracekit.experiments import points, probing
from tracekit.lake import adding, comparing, fleet, upkeep
from tracekit.records import Record, Schema, Schemas, closed
from tracekit.replay import whatif
from tracekit.replay.critical_path import Link
from tracekit.reporters import written
from tracekit.thresholds import TABLE
from tracekit.verdict import model as analysis
from tracekit.verdict.confidence import LEVELS
from tracekit.verdict.model import RunVerdict
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN
from tracekit.version import __version__

Made = Callable[[Schemas], Schema]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Classes whose fields are columns of a question. The question describes them.
_QUESTIONS = {
    "Finding": "health",
    "Trace": "overview",
    "Gpu": "partition",
    "Launch": "launch_stats",
    "HostThread": "cpu_time",
    "OneOffEvent": "one_offs",
    "Point": "sweep_points",
}

_INTEGERS = ("tinyint", "smallint", "integer", "bigint", "hugeint")
# JSON types of DuckDB's types; values of other plain types are written as text.
_OF_DUCKDB = {
    **dict.fromkeys([*_INTEGERS, *(f"u{name}" for name in _INTEGERS)], "integer"),
    **dict.fromkeys(["float", "double", "decimal"], "number"),
    "boolean": "boolean",
    "null": "null",
}
# Additional columns for several runs (queries/schema/lake_answer.sql) or ranks.
_OF_LAKES: Schema = {
    "run": {"type": ["string", "null"], "description": "in a lake: the run"},
    "rank": {"type": ["integer", "null"], "description": "in a lake: the rank (id)"},
}


def columns_of(question: str | None) -> dict[str, str]:
    """The meaning of each column of a question, with its unit."""
    if question is None:
        return {}
    return {each.name: f"{each.help} ({each.unit})" for each in catalog.query(question).columns}


_FINDING_ROW = closed(
    {
        name: {"type": kind, "description": text}
        for name, kind, text in (
            ("trace_id", "integer", "the trace (id)"),
            ("code", "string", "what is doubtful or missing"),
            ("severity", "string", "error, warning, info, or missing: it was not recorded"),
            ("count", "integer", "number of affected events, if any (count)"),
            ("message", "string", "the message for people, with what to do"),
        )
    },
    "A row of the query health or missing.",
    optional=("count",),
)
_FIGURES = {
    name: {"type": ["integer", "number", "null"], "description": columns_of("run_metrics")[name]}
    for name in comparing.FIGURES
}
# Facts about the event of a link of the critical path (tracekit/evidence/collect.py).
_SITE = {
    name: {"type": ["string", "null"], "description": columns_of("event_sites")[name]}
    for name in ("name", "cpu_op", "module", "python_line")
}


def _rows(question: str) -> Made:
    """The schema of a question's rows, which refers to the schema of one row."""
    name = f"row_of_{question}"
    return lambda made: {"type": "array", "items": made.refer(name, lambda: row_schema(question))}


def _one_of(*values: str) -> Made:
    return lambda made: {"enum": list(values)}


_REGIME = _one_of(OVERHEAD, COMPUTE, UNKNOWN)
# An unknown verdict has no confidence.
_CONFIDENCE = _one_of(*LEVELS, "none")

# Fields whose types do not describe their contents.
_GIVEN: dict[tuple[str, str], Made] = {
    ("Analysis", "top_kernels"): _rows("top_kernels"),
    ("Analysis", "memory_traffic"): _rows("memory_traffic"),
    ("Analysis", "thresholds"): lambda made: {
        "type": "object",
        "propertyNames": {
            "enum": [threshold.name for threshold in TABLE.values() if threshold.is_settable]
        },
        "additionalProperties": {"type": "number"},
    },
    ("Collectives", "bandwidth"): _rows("link_bandwidth"),
    ("Causal", "links"): lambda made: {"type": "array", "items": made.of(Link, _SITE)},
    ("Diff", "doubts"): lambda made: {"type": "array", "items": _FINDING_ROW},
    ("RunFigures", "figures"): lambda made: closed(_FIGURES, "Medians over the ranks."),
    ("Verdict", "regime"): _REGIME,
    ("Period", "regime"): _REGIME,
    ("Probe", "regime"): _REGIME,
    ("Verdict", "confidence"): _CONFIDENCE,
    ("Probe", "confidence"): _CONFIDENCE,
    ("Finding", "severity"): _one_of("error", "warning", "info"),
    ("Advice", "effort"): _one_of(*EFFORTS),
} | {
    ("Diff", name): _rows(f"diff_{name}")
    for name in ("summary", "waterfall", "classes", "kernels", "operators", "modules", "memory")
}


def commands() -> dict[str, str]:
    """The commands whose output has a schema, with the option that prints it."""
    return {name: "--format json" if name in _OF_ROWS else "--json" for name in _OUTPUTS}


def schema(command: str, question: str | None = None) -> Schema:
    """The JSON Schema (draft 2020-12) of a command's output; `question` names the question of
    `query` or `lake ask`.

    Raises:
        TracekitError: when the command does not print JSON, or there is no such question.
    """
    if command not in _OUTPUTS:
        raise TracekitError(
            f"{command} does not print JSON; these commands do: {', '.join(_OUTPUTS)}"
        )
    if question is not None and command not in ("query", "lake ask"):
        raise TracekitError(f"{command} does not take a question: use it with query or lake ask")
    made = Schemas(_GIVEN, lambda kind: columns_of(_QUESTIONS.get(kind.__name__)))
    output = _of_rows(question) if command in _OF_ROWS else _OUTPUTS[command](made)
    name = " ".join(filter(None, ("tracekit", command, question)))
    head = {
        "$schema": DIALECT,
        "$id": f"urn:tracekit:{name.removeprefix('tracekit ').replace(' ', ':')}:{__version__}",
        "title": f"{name} {commands()[command]}",
    }
    return head | output | ({"$defs": made.definitions} if made.definitions else {})


def _of_rows(question: str | None) -> Schema:
    """The rows of a question, or of any SQL."""
    if question is None:
        rows: Schema = {
            "type": "object",
            "description": "One row: a property for each column, in any type of JSON.",
        }
        description = "The rows of the answer. NaN and the infinities are null."
    else:
        rows = row_schema(catalog.query(question).name)
        description = (
            "The rows of the answer; with --columns, they have only the properties chosen."
        )
    return {"description": description, "type": "array", "items": rows}


def _one(kind: type[Record], **more: Schema) -> Made:
    """The output that a class defines; `more` are further properties of its JSON."""
    return lambda made: made.of(kind, _marked(kind.form) | more)


def _marked(mark: str) -> Schema:
    return {"schema": {"const": mark, "description": "The name and version of this form."}}


def _either(*outputs: Made) -> Made:
    return lambda made: {"oneOf": [output(made) for output in outputs]}


_analysis = _one(analysis.Analysis)


def _analyses(made: Schemas) -> Schema:
    run = made.of(RunVerdict)
    listed = closed(
        {
            **_marked(f"{analysis.SCHEMA}+list"),
            "analyses": {
                "type": "array",
                "items": _analysis(made),
                "description": "One for each trace, in the order of trace_id.",
            },
            "run": {
                "anyOf": [run, {"type": "null"}],
                "description": "The verdict on the run whose ranks are these traces; null: they "
                "are not the ranks of one run.",
            },
            "no_run": {"type": "string", "description": "Why there is no verdict on a run."},
        },
        "The analyses of several traces.",
        optional=("no_run",),
    )
    return made.refer("Analyses", lambda: listed)


_WORKLOAD = {
    "name": {"type": "string", "description": "What `tracekit capture` takes."},
    "summary": {"type": "string", "description": "The workload."},
}
_THRESHOLD = {
    "name": {"type": "string", "description": "What `--threshold NAME=VALUE` takes."},
    "default": {"type": "number", "description": "Its value (in `unit`)"},
    "unit": {"type": "string", "description": "Its unit; empty: a count, or as `meaning` says."},
    "meaning": {"type": "string", "description": "What it decides."},
    "source": {"type": "string", "description": "Where the value is from."},
    "is_settable": {"type": "boolean", "description": "Whether a run can set it."},
}
_written = _one(written.Outputs)
_AGREES = {
    "type": "boolean",
    "description": "Whether all of HTA's figures equal those by its rules.",
}
_OF_ROWS = ("query", "sql", "lake ask")
_WRITERS = (
    "load", "export", "capture", "report", "annotate", "baseline save", "skill install",
    "lake compact", "lake publish", "lake files",
)  # fmt: skip
_OUTPUTS: Mapping[str, Made] = {
    "analyze": _either(_analysis, _analyses),
    "advise": _one(advice.FixList),
    "whatif": _either(_one(whatif.WhatIf), _one(whatif.RunWhatIf)),
    "diff": _one(diff.Diff),
    "baseline compare": _one(diff.Diff),
    "history": _one(comparing.History),
    "fleet": _one(fleet.Fleet),
    "lake add": _one(adding.Added),
    "lake clean": _one(upkeep.Cleaned),
    **dict.fromkeys(_OF_ROWS, lambda made: _of_rows(None)),
    "sweep": _one(points.Sweep),
    "probe": _either(_one(probing.Probe), _one(probing.AppliedAdvice)),
    "crosscheck": _one(crosscheck.Report, agrees=_AGREES),
    "workloads": lambda made: {"type": "array", "items": closed(_WORKLOAD, "A workload.")},
    "thresholds": lambda made: {"type": "array", "items": closed(_THRESHOLD, "A threshold.")},
} | dict.fromkeys(_WRITERS, _written)


# -- rows


def row_schema(question: str) -> Schema:
    """The schema of one row; with several runs of a lake, rows also have run and rank."""
    texts, columns = columns_of(question), _empty().sql(catalog.query(question).sql)
    properties = {
        name: _nullable(_column_type(kind)) | {"description": texts[name]}
        for name, kind in zip(columns.columns, columns.types, strict=True)
    }
    made = closed({**_OF_LAKES, **properties}, catalog.query(question).question)
    return made | {"required": list(properties)}


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    """A database without traces."""
    connection = duckdb.connect(":memory:")
    create_tables(connection, with_views=True)
    return connection


def _column_type(kind: Any) -> Schema:
    """The JSON type of a DuckDB type."""
    if str(kind) == "JSON":
        return {}
    if kind.id == "enum":
        return {"enum": list(dict(kind.children)["values"])}
    if kind.id in ("list", "array"):
        return {"type": "array", "items": _nullable(_column_type(dict(kind.children)["child"]))}
    if kind.id == "struct":
        inner = {name: _nullable(_column_type(each)) for name, each in kind.children}
        return {
            "type": "object",
            "properties": inner,
            "required": list(inner),
            "additionalProperties": False,
        }
    if kind.id == "map":
        value = _nullable(_column_type(dict(kind.children)["value"]))
        return {"type": "object", "additionalProperties": value}
    return {"type": _OF_DUCKDB.get(kind.id, "string")}


def _nullable(schema: Schema) -> Schema:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if schema.get("type", "null") == "null":
        return schema
    return {**schema, "type": [schema["type"], "null"]}
