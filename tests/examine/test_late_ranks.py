"""Ranks that are late: one that always is sets the pace, and lateness may move among them."""

import dataclasses

import pytest

import tracekit
from tests.kit import ranks_simulated, stopping
from tests.kit.atoms import MS
from tests.kit.judged import judged, price
from tests.kit.stopping import Stopping

# Prices may differ by this share from the time that a run without the fault saves.
ALLOWED = 0.05
ONE_LATE = Stopping(stops={(step, 2): 6 * MS for step in range(12)})
NOW_AND_THEN = Stopping(stops={(step, 2): 6 * MS for step in range(1, 12, 3)})


def found_in(folder, job):
    """The verdict, its sentences, and what the run saves if nobody is late."""
    runs = stopping.write(folder, job)
    prompt = stopping.simulate(dataclasses.replace(job, stops={}, longer={}))
    saved = ranks_simulated.span_ns(runs) - ranks_simulated.span_ns(prompt)
    with tracekit.load(folder, verdicts=False) as run:
        verdict = judged(run)
    return verdict, " ".join([verdict.headline, *verdict.why]), saved


@pytest.mark.parametrize(
    "job",
    [
        stopping.in_turn(),
        # In most steps, each rank stops.
        stopping.in_turn(seed=1, each=5, ranks=6, steps=8),
        stopping.in_turn(seed=3, each=6, ranks=8, steps=20),
    ],
    ids=["4 ranks", "6 ranks", "8 ranks"],
)
def test_threads_that_stop_in_turn_are_no_rank_s_fault(tmp_path, job):
    verdict, text, saved = found_in(tmp_path, job)
    assert (verdict.pace_rank, verdict.lateness.cause) == (None, "dispatch")
    assert price(verdict, "lateness") == pytest.approx(saved, rel=ALLOWED)
    assert "lateness moves from rank to rank, by dispatch" in verdict.headline
    assert "threads lose their cores" in text and "(threads-and-quota)" in text
    assert "sets the pace, by" not in text and "happened once" not in text
    stops = verdict.lateness
    assert (stops.stopped_ranks, stops.kinds) == (job.ranks, 5)
    assert stops.stops == pytest.approx(len(job.stops), abs=job.ranks)


def test_batches_that_differ_move_lateness_and_stop_no_thread(tmp_path):
    verdict, text, saved = found_in(tmp_path, stopping.uneven(each=3))
    assert (verdict.pace_rank, verdict.lateness.cause) == (None, "math-or-memory")
    assert price(verdict, "lateness") == pytest.approx(saved, rel=ALLOWED)
    assert verdict.lateness.stops == 0 and "cores" not in text


@pytest.mark.parametrize("job", [ONE_LATE, NOW_AND_THEN], ids=["always", "now and then"])
def test_a_rank_that_stops_alone_sets_the_pace(tmp_path, job):
    verdict, text, saved = found_in(tmp_path, job)
    assert (verdict.pace_rank, verdict.lateness) == (2, None)
    assert price(verdict, "straggler") == pytest.approx(saved, rel=ALLOWED)
    assert "rank 2 sets the pace, by dispatch" in text and "in turn" not in text


def test_ranks_that_never_stop_are_not_late(tmp_path):
    verdict, text, _ = found_in(tmp_path, Stopping())
    assert (verdict.pace_rank, verdict.lateness) == (None, None)
    assert "they come to their collectives together" in text


@pytest.mark.parametrize("marks", [True, False], ids=["marked steps", "a loop"])
@pytest.mark.parametrize(
    ("once", "cause"),
    [({"cold_ns": 300 * MS}, "launch"), ({"checkpoint_ns": 300 * MS}, "python")],
    ids=["a cold launch on each rank", "a checkpoint of one rank"],
)
def test_what_happened_once_is_no_part_of_a_run_s_prices(tmp_path, once, cause, marks):
    told = {}
    for name, job in {"usual": {}, "once": once}.items():
        (tmp_path / name).mkdir()
        stopping.write(tmp_path / name, Stopping(marks=marks, **job))
        with tracekit.load(tmp_path / name, verdicts=False) as run:
            told[name] = judged(run)
    usual, verdict = told["usual"], told["once"]
    text = " ".join(verdict.why)
    assert f"300 ms that happened once is left out ({cause})" in text
    assert (verdict.pace_rank, verdict.lateness) == (None, None)
    assert "come to their collectives together" in text
    assert verdict.span_ns == pytest.approx(usual.span_ns, rel=ALLOWED)
    saved = ({each.remove: each.share for each in found.savings} for found in (verdict, usual))
    shares, usual_shares = saved
    assert shares == pytest.approx(usual_shares, rel=ALLOWED)


def test_what_a_rank_does_in_each_step_did_not_happen_once(tmp_path):
    job = Stopping(stops={(step, 0): 25 * MS for step in range(12)})
    verdict, text, _ = found_in(tmp_path, job)
    assert verdict.pace_rank == 0 and "happened once" not in text
