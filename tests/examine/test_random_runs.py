"""Of random runs of ranks: shares of one whole add up to it, none is negative or over 100 %."""

import json
from collections import defaultdict

import pytest

import tracekit
from tests.kit import random_ranks
from tests.kit.answered import Answer
from tests.kit.impossible import require_possible
from tests.kit.judged import judged
from tests.kit.sampling import sample
from tracekit.evidence.collect_run import run_evidence
from tracekit.reporters import several

RUNS = sample("random runs of ranks", 400, 5)


@pytest.mark.parametrize("seed", range(RUNS))
def test_shares_of_a_random_run_add_up(seed, tmp_path, capsys):
    random_ranks.write(tmp_path, seed)
    with tracekit.load(tmp_path, verdicts=False) as run:
        stragglers_agree_with_waits(run)
        costs_are_parts_of_a_step(run)
        if isinstance(run_evidence(run.session), str):
            return
        verdict = judged(run)
    found = json.loads(json.dumps(verdict.as_dict()))
    capsys.readouterr()
    several.render_run(verdict)
    require_possible(Answer(run=found, several=capsys.readouterr().out))


def stragglers_agree_with_waits(run):
    """A rank's time in collectives is wire and wait, and what ranks wait others are awaited."""
    rows = run.ask("stragglers", top=10**6)
    waited, held_up = defaultdict(int), defaultdict(int)
    for row in rows:
        assert row["total_ns"] == row["wire_ns"] + row["waited_ns"]
        assert min(row["wire_ns"], row["waited_ns"], row["held_up_ns"]) >= 0
        assert row["times_last"] <= row["collectives"]
        waited[row["trace_id"]] += row["waited_ns"]
        held_up[row["trace_id"]] += row["held_up_ns"]
    assert sum(waited.values()) == sum(held_up.values())
    by_waiting, by_awaited = defaultdict(int), defaultdict(int)
    for row in run.ask("rank_waits", top=10**6):
        assert 0 <= row["wait_ns"] <= row["awaited_ns"]
        by_waiting[row["waiting_trace_id"]] += row["wait_ns"]
        by_awaited[row["awaited_trace_id"]] += row["wait_ns"]
        assert row["awaited_ns"] == held_up[row["awaited_trace_id"]]
    assert {k: v for k, v in by_waiting.items() if v} == {k: v for k, v in waited.items() if v}
    assert {k: v for k, v in by_awaited.items() if v} == {k: v for k, v in held_up.items() if v}


def costs_are_parts_of_a_step(run):
    """The parts of a rank's step add up to it."""
    waited = {}
    for row in run.ask("stragglers", top=10**6):
        waited[row["trace_id"]] = waited.get(row["trace_id"], 0) + row["waited_ns"]
    parts, spans = defaultdict(int), {}
    for row in run.ask("rank_costs"):
        assert row["part_ns"] > 0
        assert row["later_ns"] >= 0 and row["waited_ns"] == waited.get(row["trace_id"], 0)
        parts[row["trace_id"]] += row["part_ns"]
        spans[row["trace_id"]] = row["span_ns"]
    assert parts == spans
