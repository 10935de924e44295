"""Pipelines: their bubble is told as the schedule has it, and only a slower stage is blamed."""

from dataclasses import replace

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit import pipelines, ranks_simulated
from tests.kit.atoms import MS
from tests.kit.judged import judged, price
from tests.kit.pipelines import Pipeline
from tests.kit.ranks_simulated import Job
from tests.kit.schedules import SCHEDULES, bubble_ns, played

# Prices and times may differ by this share from those of the simulated run.
ALLOWED = 0.05
TIMES = {"F": 2 * MS, "B": 4 * MS, "I": 2 * MS, "W": 2 * MS}
# Passes of milliseconds, as real stages have them: gaps between kernels do not matter.
RUN = {"forward_ns": 2 * MS, "message_ns": MS // 20}


def found_in(folder, job):
    pipelines.write(folder, job)
    with tracekit.load(folder, verdicts=False) as run:
        return judged(run)


def saved(job, **without):
    """How much longer the run takes than one that differs by this."""
    runs = (pipelines.simulate(each) for each in (job, replace(job, **without)))
    longer, shorter = map(ranks_simulated.span_ns, runs)
    return longer - shorter


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("ranks", "batches"), [(2, 4), (4, 8), (4, 12), (8, 16)])
def test_a_schedule_idles_as_long_as_its_formula_says(name, ranks, batches):
    stages = played(SCHEDULES[name](ranks, batches, TIMES))
    assert {each.bubble_ns for each in stages} == {bubble_ns(name, ranks, TIMES)}
    assert len({each.step_ns for each in stages}) == 1


@pytest.mark.parametrize("reduces", [True, False], ids=["with a reduction", "alone"])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.sampled(6)
def test_the_bubble_of_a_schedule_is_told_by_stage_and_nobody_is_blamed(tmp_path, name, reduces):
    job = Pipeline(name, reduces=reduces, **RUN)
    verdict = found_in(tmp_path, job)
    found, text = verdict.pipeline, " ".join([verdict.headline, *verdict.why])
    told = [(each.work_ns, each.fill_ns, each.between_ns, each.drain_ns) for each in found.ranks]
    truth = [(each.work_ns, each.fill_ns, each.between_ns, each.drain_ns) for each in job.stages]
    allowed_ns = ALLOWED * min(each.bubble_ns for each in job.stages)
    for own, true in zip(told, truth, strict=True):
        assert own == pytest.approx(true, rel=0.01, abs=allowed_ns)
    shape = (found.stages, found.micro_batches, found.chunks, found.ways)
    assert shape == (4, 8, 2 if name == "interleaved" else 1, 2 if name == "DualPipe" else 1)
    assert verdict.pace_rank is None
    assert "is for rank" not in text and "sets the pace" not in text
    assert verdict.savings[0].remove == "pipeline-bubble"
    smaller = {"batches": 16, "forward_ns": MS, "message_ns": MS // 40}
    halved = saved(job, **smaller) / job.steps
    assert found.halved_ns == pytest.approx(halved, rel=ALLOWED)
    assert "Twice the micro-batches" in text
    assert ("chunks" in text) == (name != "DualPipe")


@pytest.mark.parametrize("reduces", [True, False], ids=["with a reduction", "alone"])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("slow", [0, 1, 2, 3])
@pytest.mark.sampled(6)
def test_a_slower_stage_is_named_and_priced(tmp_path, name, reduces, slow):
    job = Pipeline(name, reduces=reduces, slower={slow: 1.5}, **RUN)
    verdict = found_in(tmp_path, job)
    assert (verdict.pace_rank, verdict.pace.cause) == (slow, "math-or-memory")
    assert price(verdict, "straggler") == pytest.approx(saved(job, slower={}), rel=ALLOWED)
    text = " ".join(verdict.why)
    assert [n for n in range(4) if n != slow and f"for rank {n}" in text] == []


def test_interleaving_saves_what_is_said(tmp_path):
    job = Pipeline("1F1B", **RUN)
    verdict = found_in(tmp_path, job)
    said = verdict.pipeline.halved_ns * job.steps
    # Messages are as large as before, and twice as many: without them, it is the same.
    free = replace(job, message_ns=0)
    assert said == pytest.approx(saved(free, name="interleaved"), rel=ALLOWED)


def test_a_rank_that_is_late_for_the_last_collective_is_no_part_of_the_bubble(tmp_path):
    job = Pipeline("1F1B", reduces=True, late={1: 5 * MS}, **RUN)
    for each in found_in(tmp_path, job).pipeline.ranks:
        assert each.drain_ns == pytest.approx(job.stages[each.stage].drain_ns, rel=ALLOWED)


@pytest.mark.parametrize("slower", [{}, {2: 1.5}], ids=["equal stages", "a slower stage"])
def test_a_wait_for_another_stage_is_not_advised_against(tmp_path, slower):
    job = Pipeline("1F1B", reduces=True, slower=slower, **RUN)
    pipelines.write(tmp_path, job)
    with tracekit.load(tmp_path, verdicts=False) as run:
        assert run.ask("collective_skew") != run.ask("waiting_for_a_rank") == []
    # From one stage alone, too: its group has the rank that it sends to.
    with tracekit.load(tmp_path / "rank3.json", verdicts=False) as run:
        assert run.ask("waiting_for_a_rank") == []


def test_a_wait_for_a_late_rank_of_the_same_stage_is(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, stages=2, steps=2, late={1: 3 * MS}))
    with tracekit.load(tmp_path, verdicts=False) as run:
        rows = run.ask("waiting_for_a_rank")
        ranks = {row["trace_id"]: row["rank"] for row in run.ask("overview")}
    assert {(ranks[row["trace_id"]], row["place"]) for row in rows} >= {(0, "rank 1")}
    assert {row["place"] for row in rows if ranks[row["trace_id"]] < 2} <= {"rank 0", "rank 1"}


@pytest.mark.parametrize("form", ["pp-percent", "pp-drain"])
def test_the_advice_on_stages_names_no_late_rank(form):
    folder = SHARED_TRACES / "forms" / form
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    with tracekit.load(folder, verdicts=False) as run:
        assert run.ask("waiting_for_a_rank") == []
