"""`make gpu-check`: how it judges and reports; its measurements need a GPU."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import experiments, gpu_check
from tests.bench.experiments import Tried
from tests.bench.targets import ANCHOR_ROWS, SMALL_ROWS, judged, judged_verdicts
from tracekit.capture.workload import CannotRun

GOOD = {
    ANCHOR_ROWS: {"mlp-triton": 100.0, "mlp-compiled": 100.0},
    **{
        rows: {"mlp-triton-full": 10.0, "mlp-compiled": 15.0, "mlp-eager": 20.0}
        for rows in SMALL_ROWS
    },
}


def test_figures_at_the_targets_meet_them():
    assert all(each.met for each in judged(GOOD, 0.85))


@pytest.mark.parametrize(
    ("rows", "slower", "missed"),
    [
        (ANCHOR_ROWS, {"mlp-triton": 101.0}, ["as mlp-compiled: 0.99 x"]),
        (8, {"mlp-triton-full": 10.1}, ["as mlp-compiled: 1.49 x", "as mlp-eager: 1.98 x"]),
        (64, {"mlp-eager": 19.0}, ["as mlp-eager: 1.90 x"]),
    ],
)
def test_a_figure_below_its_target_misses_it_alone(rows, slower, missed):
    found = [str(each) for each in judged(GOOD | {rows: GOOD[rows] | slower}, 0.9) if not each.met]
    assert len(found) == len(missed)
    for line, end in zip(found, missed, strict=True):
        assert line.startswith(f"FAIL: {rows} rows: ")
        assert line.endswith(end)


def test_the_roof_is_judged_as_it_is():
    (roof,) = (each for each in judged(GOOD, 0.849) if not each.met)
    assert str(roof) == "FAIL: 8192 rows: act(gate) * up at 85% of the memory roof or more: 84.9%"


def test_what_was_not_measured_meets_no_target():
    nothing = judged({}, None)
    assert len(nothing) == 2 + 2 * len(SMALL_ROWS)
    assert not any(each.met for each in nothing)
    without = {
        rows: {k: v for k, v in us.items() if k != "mlp-compiled"} for rows, us in GOOD.items()
    }
    (line, *_) = (str(each) for each in judged(without, 0.9) if not each.met)
    assert line.endswith("not measured: no mlp-compiled")


def test_verdicts_are_judged_over_the_points_that_experiments_can_tell():
    agree = [Tried("a", True, 0.1)] * 38
    unknown = [Tried("b", None, None)] * 5
    wrong = [Tried("c", False, -0.3)] * 2
    regime, graph = judged_verdicts([*agree, *wrong, *unknown])
    assert (regime.met, regime.found) == (True, "38 of 40; 5 were inconclusive")
    assert (graph.met, graph.found) == (True, "10.0% of 40")
    # One point fewer, and one more that disagrees.
    assert [each.met for each in judged_verdicts([*agree[1:], *wrong, *unknown])] == [False, False]
    assert not judged_verdicts([*agree, *wrong, wrong[0]])[0].met
    assert [each.found for each in judged_verdicts([])] == [
        "0 of 0; 0 were inconclusive",
        "not measured",
    ]


@pytest.mark.thorough
def test_experiments_are_one_row_a_point_and_say_why_there_is_none(monkeypatch):
    def refuse(name, options):
        if options.hidden == 4:
            raise CannotRun(name, "no reason")
        return real(name, options, rounds=2)

    real = experiments.probe
    monkeypatch.setattr(experiments, "probe", refuse)
    found = experiments.Experiments()
    lines = list(found.measure("cpu", ("mlp-eager",), (1,), (4, 8)))
    assert lines[2] == "| mlp-eager | 1 | 4 | no reason | - | - | - | - | - | - |"
    assert lines[3].startswith("| mlp-eager | 1 | 8 | ")
    assert {line.count("|") for line in lines} == {11}
    (tried,) = found.tried
    assert (tried.name, tried.graph_error) == ("mlp-eager, 1 x 8", None)


def test_a_part_that_fails_does_not_hide_the_later_ones():
    def fails():
        yield "begun"
        raise gpu_check.Failed("two of three")

    def breaks():
        raise RuntimeError("out of memory\nmore")
        yield

    out = io.StringIO()
    status = gpu_check.report({"A": fails, "B": breaks, "C": lambda: iter(["fine"])}, [out])
    assert status == 1
    assert out.getvalue().splitlines() == [
        "# tracekit on a GPU",
        "", "## A", "", "begun", "", "**Failed.** two of three",
        "", "## B", "", "", "**Failed.** RuntimeError: out of memory",
        "", "## C", "", "fine",
        "", "Failed: A, B",
    ]  # fmt: skip
    assert gpu_check.report({"C": lambda: iter(["fine"])}, [out]) == 0


def test_without_a_gpu_it_says_so_in_one_line(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    file = tmp_path / "gpu-check.md"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu_check", file],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "gpu-check: PyTorch sees no GPU here, so there is nothing to check\n"
    assert not file.exists()


@pytest.mark.thorough
def test_the_sanitizers_choice_names_tests_that_exist():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *gpu_check.TESTS, "--co", "-k", gpu_check.FEW],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("test_every_activation_is_computed_with_its_gradients") == 3
    assert done.stdout.count("test_the_operator_agrees_with_eager") == 3
