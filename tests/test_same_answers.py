"""What says nothing about the run changes nothing: the order of events, their ids, the clock, and
other traces in the same database."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest

import tracekit
from tests.conftest import shared_trace_names, trace_file

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


def shuffled(trace: dict[str, Any]) -> None:
    random.Random(1).shuffle(trace["traceEvents"])


def renumbered(trace: dict[str, Any]) -> None:
    for event in trace["traceEvents"]:
        args = event.get("args")
        for held in (args, event):
            for name in _IDS:
                number = held.get(name) if isinstance(held, dict) else None
                # Correlation 0 and negative ids mean none.
                if isinstance(number, int) and number > 0:
                    held[name] = 3 * number + 1


def later(trace: dict[str, Any]) -> None:
    for event in trace["traceEvents"]:
        ts = event.get("ts")
        if isinstance(ts, int):
            event["ts"] = ts + HOUR_US
        elif isinstance(ts, float):
            # Kineto writes at most three digits after the point.
            event["ts"] = json.loads(f"{round(ts * 1000) + 1000 * HOUR_US}e-3")


@pytest.mark.sampled(12, of=153)
@pytest.mark.parametrize("change", [shuffled, renumbered, later], ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", shared_trace_names())
def test_a_trace_that_says_the_same_gets_the_same_answer(name, change, tmp_path):
    path = trace_file(name)
    trace = json.loads(gzip.decompress(path.read_bytes()))
    change(trace)
    (tmp_path / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    with tracekit.load(path) as given, tracekit.load(tmp_path / path.name) as changed:
        assert answer(changed.verdict()) == answer(given.verdict())


@pytest.mark.sampled(10, of=51)
@pytest.mark.parametrize("name", shared_trace_names())
def test_a_trace_beside_others_gets_the_answer_that_it_gets_alone(name):
    others = ("cpu-only.json.gz", "mi250-minitoy.json.gz")
    paths = [trace_file(each) for each in (name, *others)]
    with tracekit.load(paths[0]) as alone, tracekit.load(paths) as together:
        assert answer(together.verdicts()[0]) == answer(alone.verdict())
