"""Verdicts as rows of a lake: written with each rank, and read back as the objects that reporters
show."""

from __future__ import annotations

import json
from typing import Any

from tracekit.lake.layout import parsed, record
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


def read(text: object) -> Analysis:
    """The analysis that `row_of` wrote.

    Raises:
        ValueError: when the text is not one of this version.
    """
    # Imported for type checkers alone where the annotations stand.
    from tracekit.advice.model import Advice
    from tracekit.replay.gains import Causal, Gains

    if not isinstance(text, str):
        raise ValueError("no text")
    return record(Analysis, parsed(text), Advice=Advice, Causal=Causal, Gains=Gains)
