"""The user's own code, recorded: a block, a function, a script."""

import gzip
import json
import platform

import pytest

import tracekit

torch = pytest.importorskip("torch")


def work():
    return torch.sin(torch.ones(64, 64) @ torch.ones(64, 64))


def recorded(path):
    with gzip.open(path) as file:
        return json.load(file)


def test_steps_of_a_block_are_recorded_and_timed_with_and_without_the_profiler(tmp_path):
    with tracekit.profile(tmp_path / "run.json.gz", steps=3, warmup=4) as run:
        for _ in range(10):
            work()
            run.step()
    facts = recorded(tmp_path / "run.json.gz")["tracekit"]
    assert facts == run.facts | {"host": platform.node()}
    assert facts["active_steps"] == 3
    assert facts["profiled_step_ns"] > 0
    assert facts["unprofiled_step_ns"] > 0
    with tracekit.load(tmp_path / "run.json.gz") as database:
        assert len(database.verdict().steps) == 3
        _, rows = database.fetch("SELECT count(*) FROM cpu_ops WHERE name = 'aten::sin'")
    assert rows == [(3,)]


def test_a_whole_block_becomes_a_database(tmp_path):
    with tracekit.profile(tmp_path / "run.duckdb"):
        work()
    with tracekit.open_database(tmp_path / "run.duckdb") as database:
        _, rows = database.fetch("SELECT count(*) FROM cpu_ops WHERE name = 'aten::mm'")
    assert rows == [(1,)]
    assert [each.name for each in tmp_path.iterdir()] == ["run.duckdb"]


def test_a_decorated_function_is_recorded(tmp_path):
    @tracekit.profile(tmp_path / "run.json.gz", stacks=True)
    def step():
        return work()

    assert step().shape == (64, 64)
    names = {event.get("name") for event in recorded(tmp_path / "run.json.gz")["traceEvents"]}
    assert "aten::sin" in names


def test_a_block_that_fails_writes_nothing_and_hides_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), tracekit.profile(tmp_path / "run.json.gz"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_too_few_steps_are_said(tmp_path):
    with (
        pytest.raises(tracekit.TracekitError, match="made 2 steps; recording 3 needs 7"),
        tracekit.profile(tmp_path / "run.json.gz", steps=3) as run,
    ):
        for _ in range(2):
            run.step()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "given", "said"),
    [
        ("run.txt", {}, "must end in .json, "),
        ("run.json.gz", {"steps": 0}, "at least one step"),
        ("run.json.gz", {"steps": 1, "warmup": 0}, "one to warm up"),
    ],
)
def test_what_cannot_be_recorded_is_refused(output, given, said, tmp_path):
    with pytest.raises(tracekit.TracekitError, match=said):
        tracekit.profile(tmp_path / output, **given)


SCRIPT = """
import sys, torch
from beside import ones
assert __name__ == "__main__"
print("given", sys.argv[1:])
torch.cos(ones())
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text(SCRIPT)
    (tmp_path / "app" / "beside.py").write_text("import torch\ndef ones(): return torch.ones(3)\n")
    return "app/main.py"


def test_a_script_runs_unchanged_with_its_arguments(script, run, tmp_path):
    done = run("capture", script, "-o", "t.json.gz", "--", "0", "--lr", "3")
    assert done.returncode == 0, done.stderr
    assert "given ['0', '--lr', '3']" in done.stdout
    names = {event.get("name") for event in recorded(tmp_path / "t.json.gz")["traceEvents"]}
    assert "aten::cos" in names


@pytest.mark.thorough
def test_each_rank_of_a_script_writes_its_own_file(script, run, tmp_path):
    for rank in ("0", "1"):
        done = run("capture", script, "-o", "t.json.gz", "--", "0", RANK=rank, WORLD_SIZE="2")
        assert done.returncode == 0, done.stderr
    assert {each.name for each in tmp_path.glob("t.*")} == {"t.rank0.json.gz", "t.rank1.json.gz"}


def test_a_script_that_fails_passes_on_its_status_and_its_traceback(script, run, tmp_path):
    at = 'File "app/main.py", line 7, in <module>'
    for arguments, status, traced, said in (
        (["nosuch.py"], 2, False, "nosuch.py: no such file"),
        (["app/main.py", "--", "7"], 7, False, "app/main.py: ended with status 7"),
        (["app/main.py", "--", "x"], 1, True, "app/main.py: failed: ValueError: invalid literal"),
        (["matmul-add", "--", "x"], 2, False, "only a script takes arguments: x"),
    ):
        done = run("capture", *arguments)
        assert done.returncode == status
        assert (at in done.stderr) == ("Traceback" in done.stderr) == traced
        assert "tracekit/capture" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"tracekit: {said}")
    assert not list(tmp_path.glob("*.json.gz"))


def test_a_trace_on_standard_output_is_all_that_is_written_there(script, run, tmp_path):
    forks = "import os, sys\nif child := os.fork(): os.waitpid(child, 0)\nelse: sys.exit()\n"
    (tmp_path / script).write_text(forks + SCRIPT)
    done = run("capture", script, "-o", "-", "--", "0")
    assert done.returncode == 0, done.stderr
    assert "aten::cos" in {event.get("name") for event in json.loads(done.stdout)["traceEvents"]}
    assert done.stderr.splitlines()[-2:] == ["given ['0']", "-: recorded"]
    assert [each.name for each in tmp_path.iterdir()] == ["app"]
