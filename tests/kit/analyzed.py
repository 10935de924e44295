"""Builds analyses and lists of fixes by keyword, and answers questions with given rows, all without
a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tests.kit.evidenced import causal_of, judge
from tracekit.advice.model import Advice, BestCombination, FixList
from tracekit.evidence.model import Evidence, Trace
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis


class Answering:
    """Stands for a session: answers each question with these rows."""

    def __init__(self, **rows: list[dict[str, Any]]) -> None:
        self.rows: Mapping[str, list[dict[str, Any]]] = rows
        self.thresholds = Thresholds()

    def ask(self, question: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.rows[question]


def analysis(
    evidence: Evidence,
    *,
    trace_id: int = 1,
    rank: int | None = None,
    world_size: int | None = None,
    advice: Sequence[Advice] = (),
) -> Analysis:
    """The analysis of a trace of which the evidence is all that is known."""
    verdict = judge(evidence)
    trace = Trace(
        path="t.json", events=0, rank=rank, world_size=world_size, devices=[],
        health=[*evidence.health], trace_id=trace_id, capture=None,
    )  # fmt: skip
    period = evidence.period
    judged = replace(period, regime=verdict.regime, bottleneck=verdict.bottleneck)
    parts = {name: getattr(period, name) for name in ("window", "gpu", "idle", "host")}
    return Analysis(
        trace=trace, launch=evidence.launch, verdict=verdict, judged=judged,
        causal=causal_of(evidence), one_offs=[*evidence.one_offs], steps=[], units=[], windows=[],
        devices=[], top_kernels=[], memory_traffic=[], advice=[*advice], **parts,
    )  # fmt: skip


def advice(remedy: str, share: float | None, **fields: Any) -> Advice:
    """A piece of advice; without a share, on what happened once."""
    usual = {
        "title": "", "cause": "launch", "where": None, "detail": None, "count": 1, "saves_ns": 1,
        "once": share is None, "effort": "low", "needs": "", "doubts": [],
        "change": f"remedy:{remedy}",
    }  # fmt: skip
    return Advice(remedy=remedy, share=share, **(usual | fields))


def fix_list(*listed: Advice, **fields: Any) -> FixList:
    """A list of fixes for a window of 100 ns."""
    usual = {
        "trace": "t.json", "window": "trace", "window_ns": 100, "bottleneck": None,
        "together": None, "unlooked": [], "notes": [],
    }  # fmt: skip
    return FixList(advice=[*listed], **(usual | fields))


def combination(**fields: Any) -> BestCombination:
    """The best changes together: they save a tenth, and the sides gain nothing more."""
    usual = {
        "saves_ns": 10_000, "share": 0.1, "additions": [], "changes": [], "bound_by": {},
        "host_gain": 0.0, "device_gain": 0.0,
    }  # fmt: skip
    return BestCombination(**(usual | fields))
