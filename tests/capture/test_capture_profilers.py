"""Code that runs a profiler itself: PyTorch records one session at a time; a second is refused."""

import pytest

from tests.kit.processes import ran

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

OTHERS = {
    "torch": lambda: profile(**CPU), "autograd": autograd.profile, "itt": autograd.emit_itt,
    "tracekit": lambda: tracekit.profile("inner.json.gz"),
}

def nested(other):
    def run():
        with OTHERS[other]():
            work()
    run.__name__ = f"nested {other}"
    return run

def left_running():
    profile(**CPU).start()

def of_another_thread():
    raised = []
    def run():
        try:
            nested("torch")()
        except tracekit.TracekitError as error:
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]

def stopped():
    work()
    torch.autograd._disable_profiler()

def around(inner, other="torch"):
    def run():
        with OTHERS[other]():
            inner()
    return run

def around_autograd(inner):
    return around(inner, "autograd")

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
         for inner in (*map(nested, OTHERS), left_running, of_another_thread)]
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
    done = ran(
        "python", "program.py", cwd=tmp_path, PYTHONDONTWRITEBYTECODE="1", KINETO_LOG_LEVEL="6"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["28 cases", "free"]
