"""The claims of the examples' pages about their programs, except those about time."""

import re
import shutil
from pathlib import Path

import pytest

import tracekit
from tests.conftest import GPU_TRACES

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = (EXAMPLES / "diagnosis.md").read_text()


def calls(run, tmp_path, name: str) -> dict[str, int]:
    """Operators called in 20 steps."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", dirs_exist_ok=True)
    done = run("capture", f"examples.heads:{name}", "--device", "cpu", "--active", "20",
               "-o", f"{name}.json.gz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    with tracekit.load(tmp_path / f"{name}.json.gz") as database:
        return {row["name"]: row["count"] for row in database.ask("top_cpu_ops", top=100)}


@pytest.mark.thorough
def test_the_diagnosis_counts_what_the_programs_do(run, tmp_path):
    loop, batched = calls(run, tmp_path, "loop"), calls(run, tmp_path, "batched")
    shown = re.findall(r"^(aten::\w+) +([\d,]+) +[\d,.]+ +[\d,.]+$", PAGE, re.MULTILINE)
    assert len(shown) == 5
    for name, count in shown:
        assert loop[name] == int(count.replace(",", ""))
    each = f"{sum(batched.values()) // 20} operators per step instead of {sum(loop.values()) // 20}"
    assert each in PAGE


def test_what_the_diagnosis_shows_of_a_trace_in_the_repository_is_real(run, tmp_path):
    shutil.copytree(GPU_TRACES, tmp_path / "tests/data/h100")
    shown = re.findall(r"^\$ tracekit (\w+ tests/data/.*)\n((?s:.*?))```", PAGE, re.MULTILINE)
    assert len(shown) == 2
    for command, output in shown:
        done = run(*command.split())
        printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        assert printed.startswith(output.rstrip())


def test_the_diagnosed_programs_give_the_same_scores():
    import torch

    from examples import heads

    assert torch.allclose(heads.loop(), heads.batched(), atol=1e-4)
