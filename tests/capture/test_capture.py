"""Captures on the CPU: the workloads, their traces, and the user's own function."""

import sys

import pytest
from click.testing import CliRunner

import tracekit
from tests.kit.traces import document
from tracekit.capture.workload import Options, capture
from tracekit.commands import cli

SMALL = ["--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32", "--device", "cpu"]
STEPS = ["--warmup", "2", "--active", "3"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Captures in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])

    def command(*arguments):
        done = CliRunner().invoke(cli, ["capture", *arguments])
        if done.exception is not None:
            raise done.exception
        return done

    yield command
    sys.modules.pop("mine", None)


def operators(tmp_path, name: str) -> dict[str, int]:
    """Calls of each operator within the recorded steps."""
    with tracekit.load(tmp_path / f"{name}.json.gz") as database:
        _, rows = database.fetch("SELECT name, count(*) FROM cpu_ops GROUP BY name")
    return dict(rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["matmul-add", "linear", "mlp-eager", "mlp-triton"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_workload_is_captured_with_its_facts(name, dtype, run, tmp_path):
    run(name, *SMALL, *STEPS, "--dtype", dtype, "--label", "commit=1f3")
    trace = document(tmp_path / f"{name}.json.gz")
    facts = trace["tracekit"]
    assert (facts["workload"], facts["labels"]) == (name, {"commit": "1f3"})
    assert facts["parameters"]["dim"] == 16
    assert facts["parameters"]["dtype"] == dtype
    assert facts["profiled_step_ns"] > 0
    assert facts["unprofiled_step_ns"] > 0
    assert facts["error"] <= facts["error_limit"]
    forwards = [e for e in trace["traceEvents"] if e.get("name") == "forward"]
    assert len(forwards) == 3
    with tracekit.load(tmp_path / f"{name}.json.gz") as database:
        assert len(database.verdict().steps) == 3


def test_eager_computes_in_five_operators_a_forward(run, tmp_path):
    run("mlp-eager", *SMALL, *STEPS)
    calls = operators(tmp_path, "mlp-eager")
    assert {k: calls[k] / 3 for k in ("aten::mm", "aten::gelu", "aten::mul")} == {
        "aten::mm": 3, "aten::gelu": 1, "aten::mul": 1,
    }  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "bottleneck"), [("input-bound", "input"), ("python-bound", "python")]
)
def test_the_controls_are_bound_by_what_they_are_named_after(name, bottleneck, run, tmp_path):
    run(name, *SMALL, *STEPS, "--stacks")
    with tracekit.load(tmp_path / f"{name}.json.gz") as database:
        verdict = database.verdict().verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", bottleneck)


def test_a_training_step_trains_and_is_captured(run, tmp_path):
    run("train-step", *SMALL, *STEPS)
    calls = operators(tmp_path, "train-step")
    # Three products forward, six backward, minus the two for the input's gradient, which is unused.
    assert calls["aten::mm"] / 3 == 3 + 6 - 2
    assert calls["aten::addcdiv_"] == 3 * 3


def test_shapes_stacks_and_memory_are_recorded_when_asked(run, tmp_path):
    asked = ["--shapes", "--stacks", "--memory", "-o", "all.json.gz"]
    run("matmul-add", "--dim", "8", *STEPS, *asked)
    with tracekit.load(tmp_path / "all.json.gz") as database:
        _, rows = database.fetch("""SELECT
            (SELECT count(*) FROM python_frames), (SELECT count(*) FROM memory_events),
            (SELECT count(*) FROM cpu_ops WHERE name = 'aten::mm' AND input_dims[0][0]::INT = 8)""")
    assert min(rows[0]) > 0


def test_the_users_own_function_is_called_once_a_step(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nx = torch.ones(4, 4)\ndef step():\n    return torch.sin(x)\n"
    )
    run("mine:step", *STEPS, "-o", "mine.json.gz")
    assert operators(tmp_path, "mine")["aten::sin"] == 3


def test_a_missing_gpu_is_a_clear_error(run):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(tracekit.TracekitError, match="--device cpu"):
        run("matmul-add", "--device", "cuda")


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(tracekit.TracekitError, match=r"needs a C\+\+ compiler"):
        capture("mlp-compiled", tmp_path / "t.json.gz", Options(device="cpu"))


def test_a_wrong_answer_is_not_captured(tmp_path, monkeypatch):
    from tracekit.workloads import mlp

    monkeypatch.setattr(mlp.Mlp, "forward", lambda self, x: self.down(self.gate(x)))
    with pytest.raises(tracekit.TracekitError, match="wrong answer"):
        capture("mlp-eager", tmp_path / "t.json.gz", Options(device="cpu"))
    assert list(tmp_path.iterdir()) == []
