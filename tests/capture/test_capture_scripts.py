"""Recorded scripts: one process writes the trace, and the children that it forks end as usual."""

import json

import pytest

from tests.kit.processes import ran
from tests.kit.traces import document, names

torch = pytest.importorskip("torch")

# Each child leaves the recorded code in another way. The parent waits for it, so a hang would show.
SCRIPT = """
import atexit, multiprocessing, os, sys
import torch
from torch.utils.data import DataLoader

torch.ones(2).sin()
loader = DataLoader(torch.arange(8), num_workers=2, multiprocessing_context="fork")
assert sum(int(each) for each in loader) == 28

worker = multiprocessing.get_context("fork").Process(target=sys.exit, args=(4,))
worker.start()
worker.join()
print("worker", worker.exitcode, flush=True)

for way in ("returns", "exits", "raises", "leaves"):
    child = os.fork()
    if child == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(way, status, flush=True)
else:
    way = "parent"
if way != "parent":
    atexit.register(print, way, "at exit")
    torch.ones(2).exp()
if way == "exits":
    sys.exit(5)
if way == "raises":
    raise ValueError("of a child")
if way == "leaves":
    os._exit(6)
torch.ones(2).cos()
"""


@pytest.mark.thorough
def test_children_of_a_script_end_in_their_own_ways_and_write_nothing(run, tmp_path):
    (tmp_path / "s.py").write_text(SCRIPT)
    done = run("capture", "s.py", "-o", "t.json.gz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "worker 4",
        "returns at exit", "returns 0",
        "exits at exit", "exits 5",
        "raises at exit", "raises 1",
        "leaves 6",
        "t.json.gz: recorded",
        "next: tracekit analyze t.json.gz",
    ]  # fmt: skip
    at, *_, last = done.stderr.splitlines()
    assert (at, last) == (
        "Traceback (most recent call last):",
        "tracekit: s.py: failed: ValueError: of a child",
    )
    assert done.stderr.count("Traceback") == 1
    assert {"aten::sin", "aten::cos"} <= names(tmp_path / "t.json.gz")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["s.py", "t.json.gz"]


def test_without_triton_the_fused_variant_says_what_runs_instead(run, tmp_path):
    small = ["--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32", "--device", "cpu"]
    done = run("capture", "mlp-triton", *small, "-o", "t.json.gz")
    assert "instead of in one Triton kernel" in done.stderr
    facts = document(tmp_path / "t.json.gz")["tracekit"]
    assert facts["variant"] == "pytorch-in-place"
    assert facts["note"] in done.stderr


def test_a_script_that_ends_the_process_is_one_line_and_status_2(run, tmp_path):
    (tmp_path / "s.py").write_text("import os\nprint('mine')\nos._exit(0)\n")
    done = run("capture", "s.py", "-o", "t.json.gz")
    assert (done.returncode, done.stdout) == (2, "mine\n")
    assert done.stderr.startswith("tracekit: s.py: os._exit ends the process before a trace")
    assert done.stderr.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["s.py"]


MAIN = """
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
    (tmp_path / "app" / "main.py").write_text(MAIN)
    (tmp_path / "app" / "beside.py").write_text("import torch\ndef ones(): return torch.ones(3)\n")
    return "app/main.py"


def test_a_script_runs_unchanged_with_its_arguments(script, run, tmp_path):
    done = run("capture", script, "-o", "t.json.gz", "--", "0", "--lr", "3")
    assert done.returncode == 0, done.stderr
    assert "given ['0', '--lr', '3']" in done.stdout
    assert "aten::cos" in names(tmp_path / "t.json.gz")


def test_a_script_that_fails_passes_on_its_status_and_its_traceback(script, run, tmp_path):
    at = 'File "app/main.py", line 7, in <module>'
    for arguments, status, traced, said in (
        (["nosuch.py"], 2, False, "nosuch.py: no such file"),
        (["app/main.py", "--", "7"], 7, False, "app/main.py: ended with status 7"),
        (["app/main.py", "--", "x"], 1, True, "app/main.py: failed: ValueError: invalid literal"),
        (["matmul-add", "--", "x"], 2, False, "only a script can take arguments: x"),
    ):
        done = run("capture", *arguments)
        assert done.returncode == status
        assert (at in done.stderr) == ("Traceback" in done.stderr) == traced
        assert "tracekit/capture" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"tracekit: {said}")
    assert not list(tmp_path.glob("*.json.gz"))


def test_a_trace_on_standard_output_is_all_that_is_written_there(script, run, tmp_path):
    forks = "import os, sys\nif child := os.fork(): os.waitpid(child, 0)\nelse: sys.exit()\n"
    (tmp_path / script).write_text(forks + MAIN)
    done = run("capture", script, "-o", "-", "--", "0")
    assert done.returncode == 0, done.stderr
    assert "aten::cos" in {event.get("name") for event in json.loads(done.stdout)["traceEvents"]}
    assert done.stderr.splitlines()[-2:] == ["given ['0']", "-: recorded"]
    assert [each.name for each in tmp_path.iterdir()] == ["app"]


PROGRAM = """
import os, sys
import torch
import tracekit
from tracekit.capture.workload import Options, capture

def forked(leave):
    child = os.fork()
    if child == 0:
        leave()
        return True
    print(leave.__name__, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return False

def returns(): pass
def exits(): sys.exit(5)
def interrupts(): raise KeyboardInterrupt

parent = os.getpid()
# The children leave the block, and continue after it.
for leave in (returns, exits):
    with tracekit.profile("block.json.gz", steps=1, warmup=1) as run:
        for step in range(4):
            torch.ones(2).sin()
            if step == 2 and forked(leave):
                for _ in range(5):
                    run.step()
                break
            run.step()
    if os.getpid() != parent:
        assert not os.path.exists("block.json.gz")
        sys.exit(3)
    os.remove("block.json.gz")

# The children leave a step.
sys.modules["steps"] = sys.modules["__main__"]
for leave in (returns, exits, interrupts):
    def step():
        torch.ones(2).cos()
        forked(leave)
    capture("steps:step", "t.json.gz", Options(device="cpu", warmup=0, active=1))
print("done", flush=True)
"""


@pytest.mark.thorough
def test_only_the_process_that_entered_a_block_or_a_step_writes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = ran("python", "program.py", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    a_step = 3 + 1 + 1  # Three timed runs, one for the profiler's startup, one recorded.
    assert done.stdout.splitlines() == [
        "returns 3", "exits 5",
        *["returns 0"] * a_step, *["exits 5"] * a_step, *["interrupts 130"] * a_step,
        "done",
    ]  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "aten::cos" in names(tmp_path / "t.json.gz")
    left = {each.name for each in tmp_path.iterdir() if not each.name.startswith("torchinductor")}
    assert left == {"program.py", "t.json.gz"}
