"""Runs with a known bottleneck, which each verdict must find."""

from itertools import pairwise

import pytest

from tests.answers import compact, differing
from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    Fetch,
    Launch,
    Slice,
    StreamWait,
    Sync,
    Work,
    operator,
    step,
)
from tests.kit.simulated import Programs, truth

STEPS, OPERATORS = 4, 40


def kernel(cause, us):
    return operator("aten::mm", 3 * US, Launch(4 * US, ((cause, us * US),)))


def loop(*atoms, each=()):
    """Steps that do `atoms` once and then some operators."""
    return [step(n, *atoms, *each) for n in range(STEPS)] + [Sync(2 * US)]


def communicating(us):
    return [
        StreamWait(US, 7, 20),
        operator("nccl", 3 * US, Launch(4 * US, (("communication", us * US),), 20)),
        StreamWait(US, 20, 7),
    ]


LIGHT = [kernel("memory-bandwidth", 9) for _ in range(OPERATORS)]
SLOW_OPERATOR = operator("aten::mm", 40 * US, kernel("memory-bandwidth", 9))
SLOW_CALL = operator("mm", US, Launch(40 * US, (("memory-bandwidth", 9 * US),)))
EVEN = operator("mm", 20 * US, kernel("math", 20))
MALLOC = Call("cudaMalloc", 90 * US, "allocation")
COPY = operator("aten::copy_", 3 * US, BlockingCopy(20 * US, 900 * US))
COMPILE = Slice("compile (dynamo_timed)", "cpu_op", (Work(9 * MS, "compilation"),))
GRAPH = operator("graph", 5 * US, Launch(30 * US, (("latency", 3 * US),) * 2000))
CONTROLS = {
    "dispatch": loop(each=[SLOW_OPERATOR] * OPERATORS),
    "launch": loop(each=[SLOW_CALL] * OPERATORS),
    "python": loop(each=[a for k in LIGHT for a in (k, Work(60 * US))]),
    "unrecorded-time": loop(Work(20 * MS, "unrecorded-time"), each=LIGHT),
    "sync": loop(each=[EVEN, Sync(2 * US, 7)] * OPERATORS),
    "input": loop(Fetch(50 * US, 20 * MS), each=LIGHT),
    "allocation": loop(each=[a for k in LIGHT for a in (MALLOC, k)]),
    "compilation": loop(COMPILE, each=LIGHT),
    "math-or-memory": loop(each=[kernel("math-or-memory", 200)] * OPERATORS),
    "memory-bandwidth": loop(each=[kernel("memory-bandwidth", 200)] * OPERATORS),
    "communication": loop(each=[kernel("math", 60)] * 10 + communicating(6000)),
    "latency": loop(each=[GRAPH]),
    "copy": loop(*[COPY] * 6, each=LIGHT),
}
REGIMES = {
    "math-or-memory": "compute-bound", "memory-bandwidth": "compute-bound",
    "latency": "compute-bound", "communication": "compute-bound", "copy": "compute-bound",
    "sync": None,
}  # fmt: skip


SIZES = (0, 1, 2, 4, 8, 16, 32, 64)


def batch(size):
    """One model at a batch size: the host does the same, the device in proportion."""
    return loop(each=[operator("mm", 25 * US, kernel("math", 9 + 4 * size))] * OPERATORS)


def falling_behind():
    """Busy for most of it, with a backlog in the middle; the host dispatches without a pause."""
    work = [
        [operator("mm", 16 * US, Launch(4 * US, (("math", us * US),)))] * count
        for us, count in ((12, 60), (30, 60), (9, 120))
    ]
    return [step(0, *(each for part in work for each in part))] * 3


PROGRAMS = CONTROLS | {f"batch {size}": batch(size) for size in SIZES}
PROGRAMS["falling behind"] = falling_behind()
TRACES = Programs()
TRACE = {name: TRACES.program(atoms) for name, atoms in PROGRAMS.items()}


@pytest.mark.parametrize("cause", CONTROLS)
def test_the_planted_bottleneck_is_found(cause, loaded):
    trace = TRACE[cause]
    analysis = loaded.verdict(trace)
    assert analysis.verdict.bottleneck == cause, analysis.causal
    regime = REGIMES.get(cause, "overhead-bound")
    assert regime is None or analysis.verdict.regime == regime
    # The predicted saving equals what the simulated machine saves without the fault.
    if cause != "latency":
        removed = loaded.whatif(f"{cause}*0", trace=trace, window="gpu_active")
        truly_ns = truth(CONTROLS[cause], [f"{cause}*0"])
        assert removed.predicted_ns == pytest.approx(truly_ns, rel=0.02)
    assert differing(f"control {cause}", compact(analysis)) == []


def test_a_loop_that_waits_for_its_loader_gains_by_nothing_else(loaded):
    trace = TRACE["input"]
    span = loaded.whatif("host*1", trace=trace).window_ns
    for change in ("dispatch*0", "launch*0", "device*0.5", "cuda-graph"):
        assert loaded.whatif(change, trace=trace).predicted_ns > 0.99 * span, change
    assert loaded.whatif("input*0.5", trace=trace).predicted_ns < 0.6 * span


def test_over_growing_batches_the_gain_from_graphs_falls_and_the_regime_changes_once(loaded):
    analyses = [loaded.verdict(TRACE[f"batch {size}"]) for size in SIZES]
    regimes = [each.verdict.regime for each in analyses]
    gains = [each.causal.gains.cuda_graph for each in analyses]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > gains[-1] + 0.1
    assert regimes[-1] == "compute-bound"
    assert sum(a != b for a, b in pairwise(regimes)) <= 1


def test_a_device_that_falls_behind_and_catches_up_does_not_bound_the_run(loaded):
    analysis = loaded.verdict(TRACE["falling behind"])
    faster = loaded.whatif("device*0.5", trace=TRACE["falling behind"])
    assert analysis.gpu.busy_ns > 0.7 * analysis.window.span_ns
    assert faster.predicted_ns > 0.98 * faster.window_ns
    assert analysis.verdict.regime == "overhead-bound"
