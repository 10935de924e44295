"""Code that runs a profiler itself: PyTorch records one session at a time; a second is refused."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# Most of these crash the process if a second session is not refused.
PROGRAM = """
import gzip, os, sys, threading
import torch
from torch.autograd import profiler as autograd
from torch.profiler import ProfilerActivity, profile, schedule
import tracekit
from tracekit.capture.workload import Options, capture

CPU = {"activities": [ProfilerActivity.CPU]}
OPTIONS = Options(device="cpu", warmup=1, active=2)

def work():
    torch.ones(2).sin()

def recorded(inner):
    def run():
        with tracekit.profile("block.json.gz"):
            inner()
    return run

def in_waiting(inner):
    def run():
        with tracekit.profile("block.json.gz", steps=1, warmup=2) as steps:
            inner()
            steps.step()
    return run

def in_a_step(inner):
    def run():
        sys.modules["steps"] = sys.modules["__main__"]
        global step
        step = inner
        capture("steps:step", "step.json.gz", OPTIONS)
    return run

def nested():
    with profile(**CPU):
        work()

def nested_autograd():
    with autograd.profile():
        work()

def nested_itt():
    with autograd.emit_itt():
        work()

def left_running():
    profile(**CPU).start()

def nested_tracekit():
    with tracekit.profile("inner.json.gz"):
        work()

def of_another_thread():
    raised = []
    def run():
        try:
            nested()
        except tracekit.TracekitError as error:
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]

def stopped():
    work()
    torch.autograd._disable_profiler()

def around(inner):
    def run():
        with profile(**CPU):
            inner()
    return run

def around_autograd(inner):
    def run():
        with autograd.profile():
            inner()
    return run

def around_in_warmup(inner):
    def run():
        with profile(**CPU, schedule=schedule(wait=0, warmup=1, active=1, repeat=1)) as outer:
            try:
                inner()
            finally:
                outer.step()
                work()
                outer.step()
        assert len(outer.events()) > 0
    return run

def around_that_begins_inside():
    with profile(**CPU, schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as outer:
        with tracekit.profile("block.json.gz"):
            outer.step()

def around_in_a_thread(inner):
    def run():
        began, ended = threading.Event(), threading.Event()
        def other():
            with profile(**CPU):
                began.set()
                ended.wait()
        thread = threading.Thread(target=other)
        thread.start()
        began.wait()
        try:
            inner()
        finally:
            ended.set()
            thread.join()
    return run

TAKEN = "runs one at a time"
CASES = [(TAKEN, wrap(inner), wrap.__name__, inner.__name__)
         for wrap in (recorded, in_waiting, in_a_step)
         for inner in (nested, nested_autograd, nested_itt, left_running, nested_tracekit,
                       of_another_thread)]
CASES += [("was stopped", wrap(stopped), wrap.__name__, "stopped") for wrap in (recorded,)]
CASES += [(TAKEN, wrap(inner(work)), wrap.__name__, inner.__name__)
          for wrap in (around, around_autograd, around_in_warmup, around_in_a_thread)
          for inner in (recorded, in_a_step)]
CASES += [(TAKEN, around_that_begins_inside, "around_that_begins_inside", "")]

for said, run, *name in CASES:
    try:
        run()
    except tracekit.TracekitError as error:
        assert said in str(error) and "\\n" not in str(error), (name, error)
        print("refused", *name, flush=True)
    else:
        sys.exit(f"not refused: {name}")
    left = [each for each in os.listdir() if each != "program.py"]
    assert not left, (name, left)
    # The next recording is complete.
    with tracekit.profile("after.json.gz"):
        work()
    with gzip.open("after.json.gz") as file:
        found = file.read().count(b'"aten::sin"')
    assert found == 1, (name, found)
    os.remove("after.json.gz")
print(len(CASES), "cases")

# A session that has ended, or has not begun its first step, does not conflict.
with profile(**CPU, schedule=schedule(wait=5, warmup=1, active=1)):
    recorded(work)()
os.remove("block.json.gz")
with tracekit.profile("block.json.gz"):
    with profile(**CPU, schedule=schedule(wait=5, warmup=1, active=1)):
        work()
print("free")
"""


@pytest.mark.thorough
def test_a_second_profiler_is_refused_wherever_it_begins_and_nothing_is_left(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "KINETO_LOG_LEVEL": "6"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["28 cases", "free"]


@pytest.mark.thorough
def test_a_script_that_profiles_itself_is_one_line_and_status_2(run, tmp_path):
    (tmp_path / "s.py").write_text(
        "import torch\nwith torch.profiler.profile() as p:\n    torch.ones(2).sin()\n"
        "p.export_chrome_trace('own.json')\n"
    )
    done = run("capture", "s.py", "-o", "t.json.gz")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "tracekit: s.py: starts its own profiler during the recording, and PyTorch runs one "
        "at a time: run without the other profiler, or analyze the trace that it writes"
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["s.py"]
