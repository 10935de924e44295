"""Verdicts as rows of a lake: written with each rank, and read back as the objects that reporters
show."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from tracekit.verdict.model import Analysis

# The columns of the summary `verdicts`, and their types.
COLUMNS = {
    "regime": "VARCHAR",
    "bottleneck": "VARCHAR",
    "confidence": "VARCHAR",
    "margin": "DOUBLE",
    "window": "VARCHAR",
    "span_ns": "BIGINT",
    "busy_ns": "BIGINT",
    "compute_ns": "BIGINT",
    "exposed_comm_ns": "BIGINT",
    "exposed_memcpy_ns": "BIGINT",
    "idle_ns": "BIGINT",
    "host_late_ns": "BIGINT",
    "worth_most": "VARCHAR",
    "saves_ns": "BIGINT",
    "analysis": "JSON",
}


def row_of(analysis: Analysis) -> dict[str, Any]:
    """The row of `verdicts`; its `analysis` is the object that `analyze --json` prints."""
    verdict, gpu, idle = analysis.verdict, analysis.gpu, analysis.idle
    best = next((each for each in analysis.advice if each.share is not None), None)
    return {
        "regime": verdict.regime,
        "bottleneck": verdict.bottleneck,
        "confidence": verdict.confidence,
        "margin": verdict.margin,
        "window": analysis.window.name,
        "span_ns": analysis.window.span_ns,
        "busy_ns": gpu and gpu.busy_ns,
        "compute_ns": gpu and gpu.compute_ns,
        "exposed_comm_ns": gpu and gpu.exposed_comm_ns,
        "exposed_memcpy_ns": gpu and gpu.exposed_memcpy_ns,
        "idle_ns": gpu and gpu.idle_ns,
        "host_late_ns": idle and idle.host_late_ns,
        "worth_most": best and best.remedy,
        "saves_ns": best and best.saves_ns,
        "analysis": json.dumps(analysis.as_dict(), default=str),
    }


def read(text: str) -> Analysis:
    """The analysis that `row_of` wrote.

    Raises:
        ValueError, TypeError, KeyError: when the text is not one of this version.
    """
    found = _built(Analysis, json.loads(text))
    assert isinstance(found, Analysis)
    return found


def _built(kind: Any, value: Any) -> Any:
    """A JSON value as a value of an annotated type: dataclasses, and containers of them."""
    if value is None:
        return None
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        kinds = [each for each in inner if each is not type(None)]
        return _built(kinds[0], value) if len(kinds) == 1 else value
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(
            **{
                each.name: _built(hints[each.name], value[each.name])
                for each in fields(kind)
                if each.name in value
            }
        )
    if origin in (list, Sequence) and inner:
        return [_built(inner[0], each) for each in value]
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
        return tuple(_built(each, item) for each, item in zip(kinds, value, strict=True))
    if origin is dict:
        return {
            (int(key) if inner[0] is int else key): _built(inner[1], item)
            for key, item in value.items()
        }
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    # Some names are imported for type checkers alone.
    from tracekit.advice.model import Advice
    from tracekit.replay.gains import Causal, Gains

    return get_type_hints(kind, localns={"Advice": Advice, "Causal": Causal, "Gains": Gains})
