"""Irrelevant differences change nothing: the order of events, their ids, the clock, and other
traces in the same database."""

from __future__ import annotations

import gzip
import json
import random
import re
from typing import Any

import pytest

import tracekit
from tests.conftest import expected_numbers, shared_trace_names, trace_file

HOUR_US = 3_600_000_000
# Ids that only tie events together.
_IDS = ("correlation", "External id", "id", "wait_on_cuda_event_record_corr_id")


def answer(analysis: Any) -> dict[str, Any]:
    """The verdict and the list of changes."""
    verdict = analysis.verdict
    return {
        "verdict": (verdict.regime, verdict.bottleneck, verdict.confidence, verdict.margin),
        "headline": verdict.headline,
        "why": verdict.why,
        "window": (verdict.window.kind, verdict.window.name, verdict.window.span_ns),
        "advice": [(a.remedy, a.where, a.saves_ns, a.once) for a in analysis.advice],
        "one_offs": [(o.kind, o.cause, o.dur_ns, o.excess_ns) for o in analysis.one_offs],
    }


def shuffled(text: str) -> str:
    trace = _loaded(text)
    random.Random(1).shuffle(_events(trace))
    return _dumped(trace)


def renumbered(text: str) -> str:
    trace = _loaded(text)
    for event in _events(trace):
        args = event.get("args")
        for held in (args, event):
            for name in _IDS:
                number = held.get(name) if isinstance(held, dict) else None
                # Correlation 0 and negative ids mean none.
                if isinstance(number, int) and number > 0:
                    held[name] = 3 * number + 1
    return _dumped(trace)


def later(text: str) -> str:
    # As text: a double has not enough digits for all times.
    return re.sub(r'"ts": ?(\d+)', lambda found: f'"ts": {int(found[1]) + HOUR_US}', text)


def _loaded(text: str) -> Any:
    """The trace, with fractions as marked text: a double has not enough digits for all times."""
    return json.loads(text, parse_float=lambda digits: f"\0{digits}\0")


def _dumped(trace: Any) -> str:
    return re.sub(r'"\\u0000([^"\\]*)\\u0000"', r"\1", json.dumps(trace))


def _events(trace: Any) -> list[dict[str, Any]]:
    """A trace may also be a bare array of events."""
    return trace if isinstance(trace, list) else trace["traceEvents"]


def changed(text: str) -> str:
    return shuffled(renumbered(later(text)))


# With one-offs, graphs, and marked steps: all changes at once; in `make test-all`, each alone.
SMALL = ["a100-alexnet.json.gz", "mi300x-graph-decode.json.gz", "b200-moe-no-reads.json.gz"]


@pytest.mark.parametrize(
    ("names", "change"),
    [
        (SMALL, changed),
        *(
            pytest.param([name], change, marks=pytest.mark.thorough)
            for name in expected_numbers()
            for change in (shuffled, renumbered, later)
        ),
    ],
)
def test_a_trace_that_says_the_same_gets_the_same_answer(names, change, shared_verdict, tmp_path):
    for name in names:
        text = change(gzip.decompress(trace_file(name).read_bytes()).decode())
        (tmp_path / name).write_bytes(gzip.compress(text.encode(), 1))
    with tracekit.load([tmp_path / name for name in names]) as others:
        for name, other in zip(names, others.verdicts(), strict=True):
            assert answer(other) == answer(shared_verdict(name)), name


@pytest.mark.sampled(26, of=51)
@pytest.mark.parametrize("name", shared_trace_names())
def test_a_trace_beside_others_gets_the_answer_that_it_gets_alone(name, shared_verdict):
    # Small traces are judged beside others there.
    with tracekit.load(trace_file(name)) as alone:
        assert answer(alone.verdict()) == answer(shared_verdict(name))
