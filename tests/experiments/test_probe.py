"""Probes: the judgment on given numbers, predictions of simulated runs, and runs on the CPU."""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import tracekit
from tests.kit.analyzed import Answering, analysis
from tests.kit.atoms import US, Launch, Sync, operator, step
from tests.kit.evidenced import host_evidence
from tests.kit.simulated import lengths, truth, write
from tests.kit.simulator import Machine, Simulation
from tracekit.capture.workload import Options, Runnable
from tracekit.commands import cli
from tracekit.experiments import probing
from tracekit.experiments.predicting import (
    OnDevice,
    OnHost,
    ShareRange,
    judge,
    part_of_device,
    part_of_host,
    rest_of,
)
from tracekit.experiments.probing import Experiment, Probe
from tracekit.experiments.timing import Rounds, StepRatio, step_ratio
from tracekit.experiments.variants import LESS, MORE, ExperimentVariants
from tracekit.thresholds import Thresholds
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN

SMALL = ["--seq", "4", "--dim", "16", "--device", "cpu", "--rounds", "3", "--active", "2"]
LIMITS = Thresholds()


def exactly(ratio: float) -> StepRatio:
    return StepRatio(ratio=ratio, low=ratio, high=ratio)


# -- judgment --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "grew", "recorded", "device", "host", "regime"),
    [
        # It does not move when its kernels double, or when its host slows.
        (1.02, 1.9, 0.4, (0.02, 0.02 / 0.9), part_of_host(exactly(1.95), 1.0, 1.0), OVERHEAD),
        (1.98, 2.0, 1.0, (0.98, 0.98), part_of_host(exactly(1.01), 0.4, 0.4), COMPUTE),
        # Kernels that took as long with twice the batch: an unchanged time proves nothing.
        (1.0, 1.01, 0.9, (0, 0.9), ShareRange(low=0.3, high=0.3), UNKNOWN),
        # More than was recorded of it cannot follow the device.
        (1.2, 1.2, 0.5, (0.2, 0.5), None, UNKNOWN),
        # A step that grew far more than its work did something else.
        (4.0, 2.0, 1.0, None, None, UNKNOWN),
    ],
)
def test_a_step_follows_what_moves_it(ratio, grew, recorded, device, host, regime):
    found = part_of_device(exactly(ratio), 2, grew, recorded, LIMITS)
    assert (found and (found.low, found.high)) == (device and pytest.approx(device))
    for verdict in (OVERHEAD, COMPUTE):
        judged = judge(verdict, found, host, 0.1)
        assert judged.regime == regime
        assert judged.agrees is (None if regime == UNKNOWN else verdict == regime)


def test_noise_widens_the_range_until_the_result_is_open():
    def noisy(low, high):
        return part_of_device(StepRatio(ratio=1.4, low=low, high=high), 2, 2, 1, LIMITS)

    calm, wild = noisy(1.78, 1.82), noisy(1.2, 1.8)
    assert judge(COMPUTE, calm, rest_of(calm), 0.1).agrees is True
    assert judge(COMPUTE, wild, rest_of(wild), 0.1).agrees is None


def test_parts_are_between_none_and_all_and_in_order():
    for ratio in (0.5, 1.0, 1.3, 2.4):
        for grew in (None, 0.5, 1.5, 3.0):
            for part in (
                part_of_device(
                    StepRatio(ratio=ratio, low=ratio * 0.9, high=ratio * 1.1), 2, grew, 0.7, LIMITS
                ),
                part_of_host(StepRatio(ratio=ratio, low=ratio * 0.9, high=ratio * 1.1), 0.5, 0.8),
            ):
                assert 0 <= part.low <= part.high <= 1


def test_an_unknown_verdict_is_neither_right_nor_wrong():
    found = judge(UNKNOWN, ShareRange(low=0.9, high=1), ShareRange(low=0, high=0.1), 0.1)
    assert (found.regime, found.agrees) == (COMPUTE, None)


def test_rounds_are_compared_one_by_one():
    # The machine was half as fast in the second round; the run itself did not change.
    before, after = (
        Rounds(step_ns=[100, 200, 100], host_ns=[]),
        Rounds(step_ns=[150, 300, 160], host_ns=[]),
    )
    assert step_ratio(before, after) == StepRatio(ratio=1.5, low=1.5, high=1.6)


# -- predictions of runs with known truth ------------------------------------------------------


def program(dispatch_ns: int, kernel_ns: int, synced: bool = False) -> list:
    """Five steps of twenty operators with a kernel each."""
    kernel = Launch(5 * US, (("math", kernel_ns),))
    work = [operator("aten::mm", dispatch_ns, kernel) for _ in range(20)]
    ends = [Sync(2 * US)] if synced else []
    return [*[step(number, *work, *ends) for number in range(5)], Sync(2 * US)]


def predictor(atoms, tmp_path, delay_ns, machine=None):
    """The predictor for `atoms`: its trace recorded on `machine`, its time without a profiler."""
    span_ns = truth(atoms, [])
    profiled_ns, _ = lengths(atoms, [], machine)
    facts = {"profiled_step_ns": profiled_ns // 5, "unprofiled_step_ns": span_ns // 5}
    trace = write(tmp_path / "t.json", Simulation(atoms, machine), tracekit=facts)
    database = tracekit.load(trace)
    host_ns = 20 * (atoms[0].atoms[0].atoms[0].ns + 5 * US)
    waits = len(atoms[0].atoms) > 20
    timed = Rounds(step_ns=[span_ns // 5], host_ns=[span_ns // 5 if waits else host_ns])
    return (OnDevice(database, database.verdict(), timed, delay_ns), span_ns, host_ns)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kernel_us", "synced", "regime"),
    [(5, False, OVERHEAD), (5, True, OVERHEAD), (300, False, COMPUTE), (300, True, COMPUTE)],
)
def test_changed_programs_confirm_predictions_and_verdicts(kernel_us, synced, regime, tmp_path):
    atoms = program(20 * US, kernel_us * US, synced)
    found, span_ns, host_ns = predictor(atoms, tmp_path, delay_ns=0)
    found.delay_ns = host_ns
    for prediction, change in (
        (found.of_work(2.0), "device*2"),
        (found.of_work(0.5), "device*0.5"),
        (found.of_delay(), "host*2"),
        (found.of_graph(), "cuda-graph"),
    ):
        ratio, arithmetic = prediction
        assert ratio == pytest.approx(truth(atoms, [change]) / span_ns, rel=0.05)
        assert arithmetic.startswith(f"replayed with {change[:-1]}")
    assert found.host_ns == pytest.approx(host_ns, rel=0.1)
    assert found.replayed_ns == pytest.approx(span_ns / 5, rel=0.05)
    if not synced:
        doubled, slow = (exactly(truth(atoms, [c]) / span_ns) for c in ("device*2", "host*2"))
        parts = found.parts(doubled, 2.0, 2.0, slow)
        for each in (OVERHEAD, COMPUTE):
            assert judge(each, *parts, 0.1).agrees is (each == regime)


def test_the_cost_of_the_profiler_is_removed_first(tmp_path):
    """A host that the profiler slows so much that it looks like the bottleneck."""
    atoms = program(20 * US, 30 * US)
    found, span_ns, _ = predictor(atoms, tmp_path, 0, Machine(overhead_ns=40 * US))
    assert found.replayed_ns == pytest.approx(span_ns / 5, rel=0.02)
    ratio, _ = found.of_work(2.0)
    assert ratio == pytest.approx(truth(atoms, ["device*2"]) / span_ns, rel=0.05)


def test_without_a_gpu_operators_that_compute_stand_for_the_device():
    database = Answering(
        cpu_time=[{"kind": "step", "compute_ns": 60}, {"kind": "trace", "compute_ns": 9}]
    )
    timed = Rounds(step_ns=[100], host_ns=[100])
    late, unknown = (
        OnHost(database, analysis(each), timed, 25)
        for each in (
            host_evidence(compute_ms=10, dispatch_ms=90),
            host_evidence(compute_ms=0, untraced_ms=100),
        )
    )
    assert late.of_work(2.0)[0] == pytest.approx(1.6)
    assert late.of_work(0.5)[0] == pytest.approx(0.7)
    assert late.of_delay()[0] == pytest.approx(1.25)
    assert late.of_graph()[0] is late.of_work(None)[0] is None
    assert unknown.of_work(2.0)[0] is None
    assert unknown.parts(exactly(2), 2, 2, None) == (None, None)


# -- slowing ---------------------------------------------------------------------------------------


def test_a_slowed_step_does_the_same_no_sooner_than_its_delay():
    import time

    import torch

    from tracekit.experiments.slowing import slow_step

    a = torch.ones(4, 4)

    def work():
        return torch.relu(a @ a) + 1

    # Long beside what another process on the machine takes away between two readings of the clock.
    slow = slow_step(work, 60_000_000)
    assert (slow.pieces, slow.note) == (3, None)
    # The mode's own cost is part of the delay: the waits are shorter by that much.
    assert slow.delay_ns > 40_000_000
    began = time.perf_counter_ns()
    assert torch.equal(slow.step(), work())
    assert time.perf_counter_ns() - began > 40_000_000
    silent = slow_step(lambda: None, 1_000)
    assert (silent.pieces, silent.delay_ns) == (1, 1_000)
    assert "does not call operators" in silent.note


def test_an_eager_step_is_slowed_call_by_call_after_a_compiled_one(monkeypatch):
    import torch
    from torch._dynamo.utils import counters

    from tracekit.experiments.slowing import forget_compiled

    monkeypatch.setitem(counters["stats"], "unique_graphs", 3)
    a = torch.ones(4, 4)

    def compiles():
        counters["stats"]["unique_graphs"] = 4
        return a @ a

    slowed = {}
    for name, work in {"eager": lambda: a @ a, "compiled": compiles}.items():
        plain = Runnable(target="matmul-add", device=torch.device("cpu"), step=work, facts={})
        tests = ExperimentVariants(plain, Options(dim=4, device="cpu"), forget_compiled())
        more, *_ = tests.all()
        # The work grows with the cube of the dimension: 1.25 times the size is twice the work.
        assert (more.what, tests.factors[MORE]) == ("dim 4 to 5", 1.25**3)
        slowed[name] = tests.slowed.note
    assert slowed == {
        "eager": None, "compiled": "one wait before the step, which is compiled",
    }  # fmt: skip


# -- the command -----------------------------------------------------------------------------------


def test_a_probe_holds_each_experiment_against_its_prediction(run, tmp_path):
    done = run("probe", "mlp-eager", "--batch", "16", "--hidden", "64", *SMALL, "--json")
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["schema"] == "tracekit/probe/1"
    assert found["device"] == "CPU"
    assert found["judgement"]["agrees"] in (True, False, None)
    assert done.returncode == (1 if found["judgement"]["agrees"] is False else 0)
    more, less, slow, graph = found["experiments"]
    assert (more["what"], less["what"]) == ("batch 16 to 32", "hidden 64 to 32")
    assert graph["reason"] == "CUDA graphs need a CUDA device"
    assert graph["measured_ns"] is None
    for each in (more, less, slow):
        predicted, measured = each["predicted_ns"], each["measured_ns"]
        assert each["error"] == pytest.approx(predicted / measured - 1, abs=0.01)
        assert each["moved"]["low"] <= each["moved"]["ratio"] <= each["moved"]["high"]
    # Compute operators take at most the whole step, so twice the work takes at most two steps.
    share = min(1, found["work_ns"] / found["step_ns"])
    assert more["predicted_ns"] == pytest.approx(found["step_ns"] * (1 + share), abs=1)
    assert less["predicted_ns"] == pytest.approx(found["step_ns"] * (1 - share / 2), abs=1)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_a_gpu_names_its_replay_and_fails_with_the_verdict(monkeypatch):
    ratio = StepRatio(ratio=1.02, low=1.01, high=1.03)
    more = Experiment(
        name=MORE, what="batch 8 to 16",
        arithmetic="replayed with device*2, after host*0.5 for the profiler",
        predicted_ns=102_000, measured_ns=101_000, moved=ratio, error=102 / 101 - 1,
        work_factor=1.5, given_ns=101_500, given_error=0.005,
    )  # fmt: skip
    unknown = Experiment(
        name=LESS, what="hidden 8 to 4", arithmetic="unknown: how", measured_ns=90_000, moved=ratio
    )
    judged = judge(OVERHEAD, ShareRange(low=0.01, high=0.03), ShareRange(low=0.9, high=0.95), 0.1)
    found = Probe(
        workload="mlp-\x1beager", variant="eager", parameters={"batch": 8}, device="A\x1b100",
        regime=OVERHEAD, bottleneck="launch", confidence="high", step_ns=100_000, spread=0.02,
        host_ns=95_000, dilation=2.0, work_ns=20_000, replayed_ns=99_000,
        experiments=[more, unknown], judgement=judged,
    )  # fmt: skip

    def shown(agrees, *options):
        probed = replace(found, judgement=replace(judged, agrees=agrees))
        monkeypatch.setattr(probing, "probe", lambda *_, **__: probed)
        done = CliRunner().invoke(cli, ["probe", "mlp-eager", *options], standalone_mode=False)
        return done.return_value, done.output

    status, text = shown(True)
    assert status == 0 and "\x1b" not in text
    assert text.startswith("overhead-bound, by launch   the experiments agree\n")
    for each in (
        "the host issues it in 95 us", "102 us", "+1.0 %", "x 1.50", "unknown",
        "unchanged: replayed without the profiler's cost, 99 us a step",
        "replayed with device*2, after host*0.5 for the profiler",
    ):  # fmt: skip
        assert each in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    status, text = shown(False, "--json")
    assert (status, json.loads(text)["judgement"]["device"]["high"]) == (1, 0.03)
    assert shown(None)[0] == 0
