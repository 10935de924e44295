"""Ranks of experts: those with more tokens hold the others up in their all-to-alls."""

import dataclasses

import pytest

import tracekit
from tests.kit import experts, ranks_simulated
from tests.kit.experts import Experts
from tests.kit.judged import judged, price

ALLOWED = 0.05
# Twice the tokens on the experts of one rank; or each step on those of another.
CROWDED = Experts(tokens={(step, 2): 2.0 for step in range(8)})
MOVING = Experts(tokens={(step, step % 4): 2.0 for step in range(8)})


def found_in(folder, job):
    """The verdict, its sentences, and what the run saves if all experts get as many tokens."""
    runs = experts.write(folder, job)
    even = experts.simulate(dataclasses.replace(job, tokens={}))
    saved = ranks_simulated.span_ns(runs) - ranks_simulated.span_ns(even)
    with tracekit.load(folder, verdicts=False) as run:
        verdict = judged(run)
    return verdict, " ".join([verdict.headline, *verdict.why]), saved


def test_a_rank_whose_experts_get_more_tokens_sets_the_pace(tmp_path):
    verdict, text, saved = found_in(tmp_path, CROWDED)
    assert verdict.pace_rank == 2
    assert "rank 2 sets the pace, by " in text and "math" in text
    assert price(verdict, "straggler") == pytest.approx(saved, rel=ALLOWED)


def test_experts_that_are_crowded_in_turn_are_no_rank_s_fault(tmp_path):
    verdict, text, saved = found_in(tmp_path, MOVING)
    assert verdict.pace_rank is None
    assert "lateness moves from rank to rank" in text and "cores" not in text
    assert price(verdict, "lateness") == pytest.approx(saved, rel=ALLOWED)


def test_experts_of_as_many_tokens_come_together(tmp_path):
    verdict, text, _ = found_in(tmp_path, Experts())
    assert (verdict.pace_rank, verdict.lateness) == (None, None)
    assert "they come to their collectives together" in text
