"""`make gpu-check`: what it judges and how it reports; what it measures needs a GPU."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import gpu_check
from tests.bench.targets import ANCHOR_ROWS, SMALL_ROWS, judged

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
