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
from tracekit.thresholds import Thresholds

HOUR_US = 3_600_000_000
# Ids that only tie events together.
BLOCK = int(Thresholds().number_block)
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


def changed(text: str) -> str:
    """The trace an hour later, with other ids, and its events in another order."""
    # As text: a double has not enough digits for all times.
    text = re.sub(r'"ts": ?(\d+)', lambda found: f'"ts": {int(found[1]) + HOUR_US}', text)
    trace = _loaded(text)
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    for event in events:
        for held in (event.get("args"), event):
            for name in _IDS:
                number = held.get(name) if isinstance(held, dict) else None
                # Correlation 0 and negative ids mean none. Operators stay numbered in a row: holes
                # in the recorder's blocks of numbers tell of operators that are missing.
                if isinstance(number, int) and number > 0:
                    is_in_a_row = name == "External id"
                    held[name] = number + 3 * BLOCK if is_in_a_row else 3 * number + 1
    random.Random(1).shuffle(events)
    return re.sub(r'"\\u0000([^"\\]*)\\u0000"', r"\1", json.dumps(trace))


def _loaded(text: str) -> Any:
    """The trace, with fractions as marked text: a double has not enough digits for all times."""
    return json.loads(text, parse_float=lambda digits: f"\0{digits}\0")


# With one-offs, and with graphs.
SMALL = ["a100-alexnet.json.gz", "mi300x-graph-decode.json.gz"]


@pytest.mark.parametrize(
    "names", [SMALL, *(pytest.param([n], marks=pytest.mark.thorough) for n in expected_numbers())]
)
def test_a_trace_that_says_the_same_gets_the_same_answer(names, shared_verdict, tmp_path):
    for name in names:
        text = changed(gzip.decompress(trace_file(name).read_bytes()).decode())
        (tmp_path / name).write_bytes(gzip.compress(text.encode(), 1))
    with tracekit.load([tmp_path / name for name in names]) as others:
        for name, other in zip(names, others.verdicts(), strict=True):
            assert answer(other) == answer(shared_verdict(name)), name


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", shared_trace_names())
def test_a_trace_beside_others_gets_the_answer_that_it_gets_alone(name, shared_verdict):
    # Small traces are judged beside others there.
    with tracekit.load(trace_file(name)) as alone:
        assert answer(alone.verdict()) == answer(shared_verdict(name))
