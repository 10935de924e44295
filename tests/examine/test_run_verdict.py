"""The verdict of a run: planted faults are named, and priced as a run without them."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

import tracekit
from tests.answers import compact_run, differing, traces
from tests.conftest import SHARED_TRACES
from tests.kit import ranks_simulated
from tests.kit.atoms import MS, US
from tests.kit.judged import judged, price
from tests.kit.processes import invoke
from tests.kit.ranks_simulated import LOGGING, Job
from tracekit.errors import TracekitError
from tracekit.evidence.collect_run import run_evidence
from tracekit.replay.ranks.rank_replay import RankReplay
from tracekit.replay.ranks.stragglers import Pricing
from tracekit.verdicts import verdict_together

# Prices may differ by this share from the time that a run without the fault saves.
ALLOWED = 0.05
FOUR = Job(data=4, steps=2, late={2: 3 * MS})


def loaded(folder, job):
    ranks_simulated.write(folder, job)
    return tracekit.load(folder)


def judged_job(folder, job):
    with loaded(folder, job) as run:
        return judged(run)


def saved(job, **without):
    """The time that a run saves without faults."""
    faulty, healthy = (
        ranks_simulated.span_ns(ranks_simulated.simulate(each))
        for each in (job, replace(job, **without))
    )
    return faulty - healthy


def test_an_unchanged_replay_of_all_ranks_is_the_recorded_run(tmp_path):
    job = Job(data=2, tensor=1, stages=2, steps=2, clocks={3: 2 * MS})
    simulated = ranks_simulated.write(tmp_path, job)
    with tracekit.load(tmp_path) as run:
        joined = RankReplay(run, run.trace_ids())
        for graph, replayed in zip(joined.graphs, joined.measured.runs, strict=True):
            nodes = 1 + graph.ops + len(graph.joins)
            assert (replayed.time[:nodes] == graph.time[:nodes]).all()
            assert (replayed.op_ns == graph.device.ns).all()
        assert joined.is_met.all()
        assert joined.measured.span_ns == ranks_simulated.span_ns(simulated)
        assert (joined.measured.wait_ns == joined.members.wait_ns).all()


def test_a_change_that_makes_a_run_longer_saves_nothing(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1))
    with tracekit.load(tmp_path) as run:
        pricing = Pricing(RankReplay(run, run.trace_ids()))
        longer = pricing.changed(["rank:0:host*2"])
        assert longer.span_ns > pricing.joined.measured.span_ns
        assert pricing.saved(longer) == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("job", "cause", "place"),
    [
        (FOUR, "python", LOGGING),
        (replace(FOUR, has_sequence=False), "python", LOGGING),
        (replace(FOUR, late={}, slow_kernels={2: 1.5}), "math-or-memory", "aten::linear"),
        (Job(data=2, tensor=4, steps=2, late={2: 8 * MS}), "python", LOGGING),
        (Job(data=2, tensor=2, stages=2, steps=2, slow_kernels={2: 1.6}), "math-or-memory",
         "aten::linear"),
        (Job(stages=3, steps=2, slow_kernels={2: 1.6}), "math-or-memory", "aten::linear"),
    ],
    ids=["host", "by order", "kernels", "tensor-parallel", "three ways", "a stage"],
)  # fmt: skip
def test_a_planted_straggler_is_named_with_its_place_and_priced(tmp_path, job, cause, place):
    found = judged_job(tmp_path, job)
    late = found.late_ranks[0]
    assert (found.pace_rank, late.rank, late.cause, late.place) == (2, 2, cause, place)
    assert price(found, "straggler") == pytest.approx(
        saved(job, late={}, slow_kernels={}), rel=ALLOWED
    )
    assert late.in_pipeline == (job.data == 1)
    if not late.in_pipeline:
        by = "sequence number" if job.has_sequence else "place in step"
        assert by in found.collectives.matched_by
        assert f"for rank 2, which comes last in {late.times_last}" in " ".join(found.why)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ways", "ranks", "message"), [("tensor", [2, 3], "allreduce"), ("stages", [1, 3], "send")]
)
def test_a_planted_slow_link_is_named_and_priced(tmp_path, ways, ranks, message):
    job = Job(data=2, steps=2, slow_links={tuple(ranks): 5.0}, **{ways: 2})
    found = judged_job(tmp_path, job)
    (link,) = found.slow_links
    assert (link.ranks, link.type.startswith(message)) == (ranks, True)
    assert (link.wire_ns, link.others_wire_ns) == (500 * US, 100 * US)
    assert price(found, "slow-link") == pytest.approx(saved(job, slow_links={}), rel=ALLOWED)
    assert (found.collectives.exchanges > 0) == (ways == "stages")
    if ways == "tensor":
        assert found.late_ranks[0].cause == "slow-link"
        assert found.pace_rank in ranks


def test_a_pipelines_bubble_is_named_and_priced(tmp_path):
    job = Job(data=1, stages=4, steps=2)
    with loaded(tmp_path, job) as run:
        found = judged(run)
        whatif = run.whatif_together("pipeline-bubble*0")
    assert found.bubble_ns > 0
    assert found.pace_rank is None
    for gained in (price(found, "pipeline-bubble"), whatif.window_ns - whatif.predicted_ns):
        assert gained == pytest.approx(saved(job, is_apart=True), rel=ALLOWED)
    assert "(pipeline-bubble)" in " ".join(found.why)


@pytest.mark.parametrize(("form", "ended"), [("pp-percent", False), ("pp-drain", True)])
def test_waits_of_a_pipeline_add_up_and_name_their_pair(form, ended):
    folder = SHARED_TRACES / "forms" / form
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    said = invoke("analyze", folder).output
    rows = re.findall(r"^\w+ +(\d to \d|all) .*\((\d+\.\d) %\)$", said, re.MULTILINE)
    pairs = {f"{a} to {b}" for a in range(4) for b in range(4) if abs(a - b) == 1}
    assert {ranks for ranks, _ in rows} == pairs | ({"all"} if ended else set())
    assert sum(float(part) for _, part in rows) == pytest.approx(100, abs=0.5)
    # Rank 0 ends last, as the first stage does.
    assert ("the pipeline's drain" in " ".join(said.split())) == ended
    assert "of it is for rank 0" not in said


@pytest.mark.thorough
def test_a_clock_that_is_off_is_named_and_changes_no_other_number(tmp_path):
    for name, clocks in (("right", {}), ("wrong", {1: 7 * MS, 3: -900 * US})):
        (tmp_path / name).mkdir()
        ranks_simulated.write(tmp_path / name, replace(FOUR, clocks=clocks))
    with tracekit.load(tmp_path / "right") as run:
        right = judged(run)
    with tracekit.load(tmp_path / "wrong") as run:
        wrong = judged(run)
    ahead = {each.rank: each.ahead_ns for each in wrong.clocks.ranks if each.ahead_ns}
    assert ahead == {1: 7 * MS, 3: -900 * US}
    assert wrong.clocks.residual_ns == 0
    assert "Clocks differ: rank 1's is 7 ms ahead, rank 3's is 900 us behind" in " ".join(wrong.why)
    same = ("step_ns", "span_ns", "start_skew_ns", "pace_rank", "late_ranks", "savings", "waiting")
    for name in same:
        assert getattr(right, name) == getattr(wrong, name), name


def test_ranks_that_come_together_have_no_straggler(tmp_path):
    found = judged_job(tmp_path, Job(data=2, steps=2))
    assert found.pace_rank is None
    assert "they come to their collectives together" in " ".join(found.why)


def test_with_some_ranks_missing_it_says_what_cannot_be_known(tmp_path):
    ranks_simulated.write(tmp_path, FOUR)
    files = [tmp_path / f"rank{rank}.json" for rank in (0, 2)]
    with tracekit.load(files) as run:
        found = judged(run)
    assert (found.ranks, found.world_size, found.pace_rank) == ([0, 2], 4, 2)
    assert "Only 2 of 4 ranks are here" in found.unknown[0]


@pytest.mark.thorough
def test_a_change_of_one_rank_moves_the_others(tmp_path):
    job = Job(data=3, steps=1, late={1: 3 * MS})
    with loaded(tmp_path, job) as run:
        late = run.whatif_together("straggler*0")
        host = run.whatif_together("rank:1:host*0")
        idle = run.whatif_together("rank:2:python*0")
        network = run.whatif_together("network*0.5")
        slower = run.whatif_together("rank:2:python*200")
        with pytest.raises(TracekitError, match="there is no rank 9"):
            run.whatif_together("rank:9:host*0.5")
    assert late.window_ns - late.predicted_ns == pytest.approx(saved(job, late={}), rel=ALLOWED)
    assert host.predicted_ns < late.window_ns
    assert idle.predicted_ns == idle.window_ns
    half = saved(job, message_ns=50 * US)
    assert network.window_ns - network.predicted_ns == pytest.approx(half, rel=ALLOWED)
    assert slower.predicted_ns > slower.window_ns
    assert slower.ranks[1].predicted_waited_ns > slower.ranks[1].waited_ns


@pytest.mark.thorough
def test_what_the_command_prints_begins_with_the_runs_verdict(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1, late={1: 3 * MS}))
    printed = invoke("analyze", tmp_path).output
    assert printed.startswith("2 ranks: rank 1 sets the pace, by python")
    ranks = sorted(tmp_path.glob("*.json*"))
    assert len(ranks) == 2
    assert invoke("analyze", *ranks).output == printed

    database = tmp_path / "run.duckdb"
    tracekit.load(ranks, database, verdicts=False).close()
    listed = json.loads(invoke("analyze", database, "--json").output)
    run = listed["run"]
    assert (run["pace_rank"], run["late_ranks"][0]["place"]) == (1, LOGGING)
    waits = "In the run, this rank waits for others"
    said = [waits in " ".join(each["verdict"]["why"]) for each in listed["analyses"]]
    assert said == [True, False]


@pytest.mark.thorough
def test_advice_on_a_folder_is_that_on_its_ranks(tmp_path):
    ranks_simulated.write(tmp_path, Job(data=2, steps=1, late={1: 3 * MS}))
    ranks = sorted(tmp_path.glob("*.json*"))
    assert invoke("advise", *ranks).output == invoke("advise", tmp_path).output


@pytest.mark.thorough
def test_to_judge_a_run_again_says_no_more_of_its_ranks(tmp_path):
    with loaded(tmp_path, Job(data=2, steps=1, late={1: 3 * MS})) as run:
        analyses = run.verdicts()
        first, again = (verdict_together(run.session, analyses)[0] for _ in range(2))
    assert first == again != analyses


def test_traces_of_different_runs_have_no_verdict_together(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        ranks_simulated.write(tmp_path / name, Job(data=2, steps=1))
    with tracekit.load(tmp_path) as run:
        assert run_evidence(run.session) == "several traces are from the same rank"
        with pytest.raises(TracekitError, match="several traces are from the same rank"):
            run.whatif_together("host*0.5")


# -- recorded runs


# Eight ranks, whose own answers are compared, too.
MANY = pytest.param("run v100-dlrm", marks=pytest.mark.thorough)
RUNS = [MANY if each in MANY.values else each for each in traces() if each.startswith("run ")]


@pytest.mark.parametrize("name", RUNS)
def test_answers_to_recorded_runs_are_the_committed_ones(name):
    with tracekit.load(traces()[name]) as run:
        found = run.together()
        held_up = Counter()
        for row in run.ask("stragglers", top=10**6):
            held_up[row["rank"]] += row["held_up_ns"]
    assert differing(name, compact_run(found)) == []
    # All ranks of these runs meet in one group.
    assert all(each.held_up_ns == held_up[each.rank] for each in found.late_ranks)


FORMS = SHARED_TRACES / "forms"
needs_forms = pytest.mark.skipif(not FORMS.exists(), reason=f"{FORMS} is not there")


@needs_forms
def test_what_happened_once_on_each_rank_is_no_part_of_the_run_s_prices():
    with tracekit.load(FORMS / "two-ranks-cold") as run:
        verdict = run.together()
    assert verdict.savings[0].remove == "network" and verdict.span_ns < 21_000_000
    assert any("300 ms that happened once is left out (launch)" in each for each in verdict.why)


@needs_forms
@pytest.mark.parametrize("name", ["pp-percent", "pp-drain"])
def test_a_pipeline_s_bubble_is_told_beside_that_of_its_schedule(name):
    with tracekit.load(FORMS / name) as run:
        verdict = run.together()
        rows = run.ask("link_bandwidth")
    found = verdict.pipeline
    assert (found.stages, found.micro_batches, found.chunks, found.ways) == (4, 4, 1, 1)
    # Of each rank, 9.36 of 22.4 ms; rank 0 waits between, and rank 3 fills and drains.
    assert all(each.idle_ns == pytest.approx(9.36 * MS, rel=0.01) for each in found.ranks)
    assert (found.ranks[0].fill_ns, found.ranks[0].drain_ns, found.ranks[3].between_ns) == (0, 0, 0)
    assert any("42.9 % of a step" in each for each in verdict.why)
    assert (
        "(pipeline-bubble)" in verdict.headline and verdict.savings[0].remove == "pipeline-bubble"
    )
    # What nobody can remove is no saving, and nobody is late where the pipeline drains.
    assert "math-or-memory" not in {each.remove for each in verdict.savings}
    assert {each.awaited_rank for each in verdict.waiting} == {None}
    # Each send is told with its pair, and the shares of waiting are of all of it.
    senders = {(row["sender"], *row["ranks"]) for row in rows if row["sender"] is not None}
    assert senders == {(n, n, n + 1) for n in range(3)} | {(n + 1, n, n + 1) for n in range(3)}
