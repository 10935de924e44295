"""The tools that are asked, each a function from a trace file to an Answer.

What a tool prints is mapped to a regime, a cause or a change only where it says that; all else is
counted as unanswered.
"""

from __future__ import annotations

from pathlib import Path

import tracekit
from tests.bench.diagnosis.score import Answer


def ask_tracekit(trace: Path) -> Answer:
    """The verdict, its confidence and the fix list, as `analyze --json` prints them."""
    with tracekit.load(trace) as run:
        found = run.verdict().as_dict()
    verdict, advice = found["verdict"], found["advice"]
    return Answer(
        regime=verdict["regime"],
        cause=verdict["bottleneck"],
        changes=tuple(dict.fromkeys(each["remedy"].replace("-", "_") for each in advice)),
        saves=advice[0]["share"] if advice else None,
        confidence=verdict["confidence"],
    )
