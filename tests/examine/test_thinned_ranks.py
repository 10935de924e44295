"""Files without the calls that make streams wait: order and times tell who waits for whom."""

import dataclasses

import pytest

import tracekit
from tests.kit import pipelines, ranks_simulated, simulated
from tests.kit.atoms import MS, US, Launch, Op, StreamWait, Sync, operator, step
from tests.kit.judged import judged, price
from tests.kit.pipelines import Pipeline
from tests.kit.ranks_simulated import KERNEL, Job, thinned, write_ranks
from tests.kit.schedules import SCHEDULES

# Prices may differ by this share from the time that a run without the fault saves.
ALLOWED = 0.05


def found_in(folder, runs):
    """The verdict on thinned files, which have no such call left."""
    write_ranks(folder, runs, lose=thinned)
    with tracekit.load(folder, verdicts=False) as run:
        assert run.sql("FROM runtime_calls WHERE call = 'stream_wait'").is_empty()
        return judged(run)


def longer(runs, others):
    return ranks_simulated.span_ns(runs) - ranks_simulated.span_ns(others)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.sampled(3)
def test_a_slower_stage_is_named_and_priced(tmp_path, name):
    job = Pipeline(name, forward_ns=2 * MS, message_ns=50 * US, slower={2: 1.5}, reduces=True)
    runs = pipelines.simulate(job)
    verdict = found_in(tmp_path, runs)
    prompt = pipelines.simulate(dataclasses.replace(job, slower={}))
    assert (verdict.pace_rank, verdict.pace.cause) == (2, "math-or-memory")
    assert price(verdict, "straggler") == pytest.approx(longer(runs, prompt), rel=ALLOWED)


def test_a_late_rank_is_named_and_priced(tmp_path):
    job = Job(data=4, steps=3, late={2: 3 * MS})
    runs = ranks_simulated.simulate(job)
    verdict = found_in(tmp_path, runs)
    prompt = ranks_simulated.simulate(dataclasses.replace(job, late={}))
    assert verdict.pace_rank == 2
    assert price(verdict, "straggler") == pytest.approx(longer(runs, prompt), rel=ALLOWED)


def reducing(message_ns, *, is_hidden):
    """Two ranks that reduce on another stream: compute waits for it at once, or goes on."""
    args = {
        "Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
        "dtype": "Float", "Process Group Name": "dp", "Group size": 2,
        "Process Group Ranks": "[0, 1]",
    }  # fmt: skip
    kernel = Op("communication", message_ns, KERNEL.format("AllReduce_Sum_f32"), args)
    back = StreamWait(2 * US, record=40, wait=7)
    compute = [operator("aten::linear", 5 * US, Launch(4 * US, (("math", MS),)))] * 3
    atoms = [
        *compute,
        StreamWait(2 * US, record=7, wait=40),
        operator("c10d::allreduce_", 3 * US, Launch(4 * US, (kernel,), 40)),
        *([*compute, back] if is_hidden else [back, *compute]),
        operator("Optimizer.step#SGD.step", 5 * US, Launch(4 * US, (("math", 20 * US),))),
        Sync(2 * US),
    ]
    return simulated.ranks([[step(number, *atoms) for number in range(4)]] * 2)


@pytest.mark.parametrize("is_hidden", [False, True], ids=["compute waits", "compute goes on"])
def test_a_collective_costs_what_compute_waits_for_it(tmp_path, is_hidden):
    runs = reducing(MS, is_hidden=is_hidden)
    saved_ns = longer(runs, reducing(0, is_hidden=is_hidden))
    verdict = found_in(tmp_path, runs)
    told_ns = sum(each.saves_ns for each in verdict.savings if each.remove == "network")
    assert told_ns * verdict.steps == pytest.approx(saved_ns, rel=ALLOWED, abs=50 * US)
    assert (saved_ns > 3 * MS) != is_hidden
