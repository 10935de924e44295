"""What the fields of dataclasses mean: the text below each field in the source, and its unit."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from functools import cache

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


def unit(name: str, kind: str) -> str:
    """The unit of the numbers in a field whose type in the schema is `kind`."""
    for suffix, found in _SUFFIXES.items():
        if name.endswith(suffix):
            return found
    return _UNITS.get(name) or {"integer": "count", "number": "fraction"}[kind]


@cache
def described(kind: type) -> dict[str, str]:
    """What the fields of a class mean, in one line: the text below each, if it has one."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found = {each.name: _COMMON[each.name] for each in fields(kind) if each.name in _COMMON}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
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
