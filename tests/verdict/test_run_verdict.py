"""Judgment of a run: its verdict on evidence about ranks, by keyword."""

from collections.abc import Sequence

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.kit.analyzed import analysis
from tests.kit.evidenced import LATE, MS, collectives, evidence, gpu, rank, run_evidence
from tracekit.evidence.model import ClockAhead, Clocks, Pipeline, SlowLink, StageTime
from tracekit.evidence.run import Lateness, RankExcess, RunEvidence, SlowStage
from tracekit.thresholds import Thresholds
from tracekit.verdict.run_verdict import judge_run

LOGGING = RankExcess(cause="python", ns=8 * MS, call_site="train.py(42): log")
LATE_RANK = {"awaited_ns": 20.0 * MS, "times_last": 7, "excess": LOGGING, "saves_ns": 12 * MS}
UNEXPLAINED = LATE_RANK | {"excess": None}


def stage_time(rank, **idle):
    """A stage that works for 6 ms of a step of 10 ms."""
    parts = {"fill_ns": 0, "between_ns": 0, "drain_ns": 0} | idle
    return StageTime(rank=rank, trace_id=rank + 1, stage=rank, work_ns=6 * MS, rest_ns=MS, **parts)


TOLD = Pipeline(
    stages=2, micro_batches=4, chunks=1, ways=1, idle_ns=3 * MS, least_idle_ns=3 * MS,
    ranks=[
        stage_time(0, between_ns=3 * MS),
        stage_time(1, fill_ns=MS, drain_ns=2 * MS),
    ],
)  # fmt: skip
LINK = SlowLink(
    ranks=[1, 2], type="allreduce", message_bytes=4_000_000, wire_ns=5 * MS, others_wire_ns=MS,
    excess_ns=8 * MS, saves_ns=9 * MS,
)  # fmt: skip
STAGE = SlowStage(
    trace_id=2, spared_ns=30 * MS, saves_ns=40 * MS,
    excess=RankExcess(cause="math", ns=10 * MS, call_site="aten::mm"),
)  # fmt: skip
IN_TURN = [rank(number, **LATE_RANK) for number in range(3)]
STOPS = Lateness(
    saves_ns=60 * MS, cause="dispatch", excess_ns=90 * MS, stops=9, stopped_ranks=3,
    stopped_ns=80 * MS, longest_ns=20 * MS, kinds=4, places=["aten::mm"],
)  # fmt: skip
PIPELINE = run_evidence(collectives=collectives(waited_ns=0, exchanges=6), bubble_ns=60 * MS)


class JudgedRun(Struct, frozen=True, kw_only=True):
    """A case of a run's verdict: the evidence, and what the verdict on it is, has and lacks."""

    evidence: RunEvidence
    pace: int | None = None
    """The rank that sets the pace."""
    cause: str | None = None
    """Why the first late rank is late."""
    best: str | None = None
    """What saves most."""
    begins: str = ""
    """How the first sentence begins."""
    says: Sequence[str] = ()
    lacks: Sequence[str] = ()


def judged(evidence, exposed_ns=0):
    return judge_run(evidence, [dispatching(each, exposed_ns) for each in evidence.ranks[::-1]])


def dispatching(ranked, exposed_ns):
    """A rank's own analysis: it dispatches, and communicates for this time without computing."""
    device = gpu(busy_ns=10 * MS, comm_ns=exposed_ns, idle_ns=90 * MS)
    late = evidence(**LATE, removed={"dispatch": 0.8}, gpu=device)
    return analysis(late, trace_id=ranked.trace_id, rank=ranked.rank)


CASES = {
    "a rank that logs": JudgedRun(
        evidence=run_evidence(rank(0), rank(1, **LATE_RANK), steps=2),
        pace=1, cause="python", best="straggler",
        begins="2 ranks: rank 1 sets the pace, by python",
        says=[
            "100.0 % of it is for rank 1, which comes last in 7 of 10 collectives: it spends 4 ms "
            "more on python in the average step than the other rank, most of it in train.py(42): "
            "log. If it took as long as they do, a step of the run would be 12.0 % shorter (6 ms).",
            "Rank 1 itself is overhead-bound by dispatch.",
        ],
    ),
    "a rank for which the others hardly wait": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, **LATE_RANK | {"awaited_ns": 0.5 * MS, "saves_ns": 0})
        ),
        cause="python", says=["No rank holds up the others"],
    ),
    "a rank for which the others wait for no cause that the traces show": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, **LATE_RANK | {"excess": RankExcess(cause="python", ns=MS)})
        ),
        pace=1, best="straggler", says=["the traces do not show what it spends more time on"],
    ),
    "a late rank beside others that are as late": JudgedRun(
        evidence=run_evidence(rank(0), rank(1, **LATE_RANK | {"saves_ns": 0})),
        cause="python", says=["no shorter: others are as late"],
    ),
    "ranks that are late for a part of the waiting each": JudgedRun(
        evidence=run_evidence(*[
            rank(number, **LATE_RANK | {"saves_ns": number * MS // 10}) for number in range(5)
        ]),
        cause="python",
        says=[
            "100.0 % of it is for ranks 0, 1, 2 and 2 more, each for a part: as quick as the "
            "others, none of them would make the run 1.0 % shorter alone.",
        ],
        lacks=["others are as late", "Another"],
    ),
    "a rank whose recording began late": JudgedRun(
        evidence=run_evidence(rank(0), rank(1, **LATE_RANK | {"begins_ns": 15 * MS})),
        cause="start-skew", best="straggler",
        says=[
            "100.0 % of it is for rank 1, whose recording begins late: that tells nothing of other "
            "steps.", "whose recording begins 15 ms after the median of the others",
        ],
    ),
    "a rank whose clock cannot be compared": JudgedRun(
        evidence=run_evidence(rank(0), rank(1, **LATE_RANK | {"begins_ns": None}), clocks=None),
        pace=1, cause="python", best="straggler",
    ),
    "a rank behind a slow link": JudgedRun(
        evidence=run_evidence(rank(0), rank(1, **UNEXPLAINED), slow_links=[LINK]),
        pace=1, cause="slow-link", best="slow-link",
        says=[
            "its link is slow (allreduce of 4 MB among ranks 1, 2)",
            "As fast as theirs, it would make a step 9.0 % shorter (9 ms).",
        ],
        lacks=["itself is"],
    ),
    "a slow link of other ranks": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, **UNEXPLAINED), slow_links=[replace(LINK, ranks=[2, 3])]
        ),
        pace=1, best="straggler",
    ),
    "two late ranks": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, **LATE_RANK), rank(2, **LATE_RANK | {"awaited_ns": 30.0 * MS}),
            alike_saves_ns=25 * MS,
        ),
        pace=2, cause="python", best="stragglers",
        says=["60.0 % of it is for rank 2", "Another 40.0 % is for rank 1"],
    ),
    "ranks that are late in turn": JudgedRun(
        evidence=run_evidence(*IN_TURN, steps=4, lateness=STOPS),
        cause="python", best="lateness",
        begins=(
            "3 ranks: lateness moves from rank to rank, by dispatch; without it, a step of the run "
            "would be 60.0 % shorter"
        ),
        says=[
            "No rank sets the pace alone: 3 ranks come last in turn, rank 0 in 7 of 10",
            "at most 12.0 % shorter", "60.0 % shorter (15 ms)",
            "9 calls of up to 20 ms on 3 ranks that usually take microseconds, in 4 kinds of calls "
            "(aten::mm): threads lose their cores.", "(threads-and-quota)",
        ],
        lacks=["sets the pace, by", "is for rank", "Another"],
    ),
    "ranks that are late in turn at one call": JudgedRun(
        evidence=run_evidence(*IN_TURN, steps=4, lateness=replace(STOPS, kinds=1)),
        cause="python", best="lateness",
        says=["on 3 ranks that are usually shorter (aten::mm)"], lacks=["cores"],
    ),
    "ranks that were late in two steps": JudgedRun(
        evidence=run_evidence(*IN_TURN, steps=2, lateness=STOPS),
        cause="python", best="straggler", lacks=["in turn"],
    ),
    "one rank that is late most of the time": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, **LATE_RANK), rank(2, **LATE_RANK | {"awaited_ns": 5.0 * MS}),
            steps=4, lateness=STOPS,
        ),
        pace=1, cause="python", best="straggler", lacks=["in turn"],
    ),
    "a slow stage": JudgedRun(
        evidence=replace(PIPELINE, slow_stage=STAGE),
        pace=1, cause="math", best="straggler",
        says=[
            "The other stages of the pipeline wait for rank 1: it spends 10 ms more on math than "
            "the median of the other stages, most of it in aten::mm. If it took as long as they "
            "do, the run would be 40.0 % shorter (40 ms).",
        ],
    ),
    "stages of which none is slow": JudgedRun(
        evidence=replace(
            PIPELINE, slow_stage=replace(STAGE, saves_ns=0), saved_ns={"pipeline-bubble": 30 * MS},
        ),
        best="pipeline-bubble",
        begins=(
            "2 ranks: all are overhead-bound by dispatch; the stages of the pipeline wait for each "
            "other (pipeline-bubble)"
        ),
        says=["sends and receives (pipeline-bubble), 30.0 % of the ranks'"],
    ),
    "a pipeline whose bubble is known by stage": JudgedRun(
        evidence=replace(PIPELINE, pipeline=TOLD, saved_ns={"pipeline-bubble": 30 * MS}),
        best="pipeline-bubble",
        says=[
            "A stage of the pipeline idles for 3 ms of an average step (pipeline-bubble), 30.0 % "
            "of it: 500 us until it begins, 1.5 ms between, 1 ms once it is done",
            "With 2 equal stages and 4 micro-batches, GPipe and 1F1B would leave 20.0 % of a step "
            "idle.",
            "Twice the micro-batches of half the size, or two interleaved chunks a stage, would "
            "make a step 15.0 % shorter (1.5 ms)",
        ],
    ),
    "an interleaved pipeline": JudgedRun(
        evidence=replace(PIPELINE, pipeline=replace(TOLD, chunks=2)),
        says=[
            "With 2 equal stages of 2 chunks and 4 micro-batches, an interleaved schedule would "
            "leave 11.1 % of a step idle.", "or twice the chunks, would",
        ],
    ),
    "a pipeline of two ways": JudgedRun(
        evidence=replace(PIPELINE, pipeline=replace(TOLD, ways=2)),
        says=["Twice the micro-batches of half the size would make"],
    ),
    "a pipeline whose micro-batches are unknown": JudgedRun(
        evidence=replace(PIPELINE, pipeline=replace(TOLD, micro_batches=0)),
        says=["idles for 3 ms"], lacks=["GPipe", "Twice"],
    ),
    "a pipeline's drain": JudgedRun(
        evidence=run_evidence(
            rank(0), rank(1, awaited_ns=9.0 * MS, times_last=7), bubble_ns=MS,
            collectives=collectives(waited_ns=9 * MS, exchanges=6),
        ),
        says=["is the pipeline's drain"], lacks=["is for rank 1"],
    ),
    "no late rank, and the cause that bounds all": JudgedRun(
        evidence=run_evidence(
            saved_ns={"dispatch": 30 * MS, "communication": 3 * MS, "copy": 0},
        ),
        best="dispatch",
        begins=(
            "2 ranks: all are overhead-bound by dispatch; without it, the run would be 30.0 % "
        ),
    ),
    "kernels, without which no run can do": JudgedRun(
        evidence=run_evidence(saved_ns={"math": 30 * MS, "dispatch": 10 * MS}),
        best="math", begins="2 ranks: all are overhead-bound by dispatch", lacks=["without"],
    ),
    "no late rank, and slow collectives": JudgedRun(
        evidence=run_evidence(saved_ns={"communication": 30 * MS}, steps=1),
        best="network",
        says=["with collectives that take no time, a step of the run would be 30.0 % shorter"],
    ),
    "a missing rank, which may be late": JudgedRun(
        evidence=run_evidence(saved_ns={"communication": 30 * MS}, world_size=4),
        best="network",
        begins="2 of 4 ranks: none of these holds up the others, but a missing one may",
        says=["Only 2 of 4 ranks are here", "If one of the 2 that are missing comes late"],
    ),
    "clocks that differ": JudgedRun(
        evidence=run_evidence(
            clocks=Clocks(
                apart_ns=2 * MS, residual_ns=1000, compared=2,
                ranks=[
                    ClockAhead(rank=1, ahead_ns=2 * MS, residual_ns=1000),
                    ClockAhead(rank=0, ahead_ns=0, residual_ns=1000),
                ],
            ),
        ),
        says=["Clocks differ: rank 1's is 2 ms ahead (by the ends of collectives, to about 1 us)"],
    ),
    "ranks of which one has no GPU ops and one no clock": JudgedRun(
        evidence=run_evidence(
            left_out=[2], clocks=Clocks(apart_ns=0, residual_ns=0, compared=1, ranks=[]),
        ),
        says=[
            "The traces of ranks 2 have no GPU ops", "1 of the ranks share no collective",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", CASES)
def test_the_verdict_of_a_run_with(title):
    case = CASES[title]
    verdict = judged(case.evidence)
    assert verdict.pace_rank == case.pace
    assert next((late.cause for late in verdict.late_ranks), None) == case.cause
    assert next((saving.remove for saving in verdict.savings), None) == case.best
    assert verdict.headline.startswith(case.begins)
    text = " ".join([verdict.headline, *verdict.why, *verdict.unknown])
    assert [words for words in case.says if words not in text] == [], text
    assert [words for words in case.lacks if words in text] == []


def test_times_of_a_run_are_means_of_its_steps_and_shares_are_of_the_whole():
    verdict = judged(
        run_evidence(rank(0), rank(1, **LATE_RANK), saved_ns={"python": 10 * MS}, steps=4)
    )
    savings = {saving.remove: (saving.saves_ns, saving.share) for saving in verdict.savings}
    assert savings["straggler"] == (3 * MS, pytest.approx(0.12))
    assert savings["python"] == (2.5 * MS, pytest.approx(0.1))
    (late,) = verdict.late_ranks
    assert (late.held_up_ns, late.excess_ns, late.saves_ns) == (20 * MS, 2 * MS, 3 * MS)


@pytest.mark.parametrize(
    ("doubt", "matched", "exposed_ns", "said"),
    [
        ("the ends differ", True, 0, "who waits for whom: the ends differ. So the ranks are not"),
        (None, False, 0, "No collective was recorded on these ranks"),
        (None, False, MS, "No collective could be matched between the ranks"),
    ],
)
def test_ranks_that_are_not_replayed_together_have_no_pace(doubt, matched, exposed_ns, said):
    recorded = run_evidence(
        doubt=doubt, step_ns=None, span_ns=None, waiting=[],
        collectives=collectives(waited_ns=0) if matched else None,
    )  # fmt: skip
    verdict = judged(recorded, exposed_ns)
    assert (verdict.pace_rank, verdict.savings, verdict.why) == (None, [], [])
    assert said in " ".join(verdict.unknown)


def test_a_threshold_says_how_much_more_a_late_rank_spends_than_others():
    usual = run_evidence(rank(0), rank(1, **LATE_RANK))
    strict = replace(usual, thresholds=Thresholds().updated(["own_excess_share=0.5"]))
    assert [judged(each).pace.cause for each in (usual, strict)] == ["python", None]
