"""Verdicts on runs of several ranks without those on each rank, which take longer."""

from __future__ import annotations

from typing import Any

import tracekit
from tests.kit.analyzed import analysis
from tests.kit.evidenced import PYTHON, evidence
from tracekit.evidence.collect_run import run_evidence
from tracekit.verdict.model import Analysis, RunVerdict
from tracekit.verdict.run_verdict import judge_run


def judged(run: tracekit.Database) -> RunVerdict:
    """The verdict on the run whose ranks a database has."""
    with run.sharing():
        found = run_evidence(run.session)
        assert not isinstance(found, str), found
        return judge_run(found, [*map(brief, run.ask("overview"))])


def brief(row: dict[str, Any]) -> Analysis:
    """The part of a rank's own analysis that a run's verdict needs."""
    return analysis(
        evidence(**PYTHON),
        trace_id=row["trace_id"],
        rank=row["rank"],
        world_size=row["world_size"],
    )


def price(verdict: RunVerdict, remove: str) -> int:
    """What the run saves without this, in all steps."""
    return next(each.saves_ns * verdict.steps for each in verdict.savings if each.remove == remove)
