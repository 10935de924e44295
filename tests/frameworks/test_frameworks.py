"""Profiling steps of a framework's loop: the files written, and training that does not notice."""

import gc
import gzip
import json
import pickle
import threading
import warnings
from pathlib import Path

import pytest

from tests.kit.processes import ran
from tracekit import TracekitError
from tracekit.frameworks.judging import verdict_paths
from tracekit.frameworks.steps import StepRecorder, TracekitWarning

torch = pytest.importorskip("torch")
CPU = {"activities": [torch.profiler.ProfilerActivity.CPU]}


def steps_in(path: Path) -> int:
    """The profiler's steps in a trace."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {each["name"] for each in events if each["name"].startswith("ProfilerStep#")}
    return len(names)


def nothing(step: int) -> None:
    pass


def train(recorder: StepRecorder | None, count: int = 12, between=nothing) -> list[float]:
    """A small training loop's losses; `between` runs after each step."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 4)
    losses = []
    if recorder:
        recorder.begin()
    for step in range(1, count + 1):
        loss = model(torch.randn(2, 4)).square().mean()
        loss.backward()
        losses.append(loss.item())
        if recorder:
            recorder.step()
        between(step)
    if recorder:
        recorder.finish()
    return losses


@pytest.fixture
def output(tmp_path):
    return tmp_path / "new" / "run.json.gz"


def test_the_steps_asked_for_are_recorded_with_a_verdict_beside_the_trace(output):
    recorder = StepRecorder(output, (8, 10))
    assert train(recorder) == train(None)
    assert (recorder.problem, recorder.path) == ("", output)
    assert steps_in(output) == 3
    as_json, as_text = verdict_paths(output)
    assert sorted(output.parent.iterdir()) == sorted([output, as_json, as_text])
    verdict = json.loads(as_json.read_text())["verdict"]
    assert as_text.read_text().startswith(verdict["headline"][:60])
    size_mb = output.stat().st_size / 1e6
    assert size_mb / 3 < recorder.estimate_mb < size_mb * 5


@pytest.mark.parametrize("first", [5, 6])
def test_early_steps_are_recorded_with_an_estimate_where_there_is_room(first, output):
    recorder = StepRecorder(output, (first, first), verdict=False)
    seen = []
    train(recorder, 7, between=lambda step: seen.append(recorder.path is not None))
    assert seen.index(True) == first - 1
    assert steps_in(output) == 1
    assert (recorder.estimate_mb is not None) == (first >= 6)


def test_nothing_is_recorded_or_left_that_was_not_asked_for(output):
    as_json, _ = verdict_paths(output)
    output.parent.mkdir()
    as_json.write_text("{}")
    train(StepRecorder(output, (3, 4), verdict=False))
    assert not as_json.exists()  # It was about another trace.
    text = gzip.decompress(output.read_bytes())
    assert b"Input Dims" not in text and b"python_function" not in text and b"[memory]" not in text


def test_other_ranks_than_the_chosen_ones_do_nothing(output, monkeypatch):
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        train(StepRecorder(output, (3, 4), ranks=[1], verdict=False))
    assert [each.name for each in output.parent.iterdir()] == ["run.rank1.json.gz"]


def test_fewer_steps_are_recorded_where_all_would_exceed_the_limit(output):
    first = StepRecorder(output, (8, 11), verdict=False)
    train(first)
    limited = StepRecorder(output, (8, 11), verdict=False, max_mb=first.estimate_mb * 0.6)
    with pytest.warns(TracekitWarning, match="2 of 4 are recorded"):
        train(limited)
    assert steps_in(output) == 2
    output.unlink()
    with pytest.warns(TracekitWarning, match="more than max_mb=0.0001: none is recorded"):
        train(StepRecorder(output, (8, 11), max_mb=0.0001))
    with pytest.warns(TracekitWarning, match="it is not kept"):
        train(StepRecorder(output, (3, 5), max_mb=0.0001))
    assert list(output.parent.iterdir()) == []


def test_training_that_ends_early_leaves_the_steps_that_it_made(output):
    with pytest.warns(TracekitWarning, match="training ended, so 2 of 5 steps are recorded"):
        train(StepRecorder(output, (8, 12), verdict=False), 9)
    assert steps_in(output) == 2
    output.unlink()
    with pytest.warns(TracekitWarning, match="training ended before a step was recorded"):
        train(StepRecorder(output, (8, 12)), 7)
    assert list(output.parent.iterdir()) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("at", "steps"), [(1, 3), (3, 3), (7, 3), (6, 3), (8, 1), (12, 3)])
def test_an_evaluation_is_not_part_of_what_is_recorded(at, steps, output):
    recorder = StepRecorder(output, (8, 10), verdict=False)

    def evaluation(step):
        if step == at:
            for _ in range(3):
                recorder.interrupt("an evaluation")
                torch.ones(2).cos()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(recorder, 20, evaluation)
    # Sockets that other tests left open are closed at any time.
    told = [str(each.message) for each in said if each.category is not ResourceWarning]
    assert len(told) == (steps == 1), told
    assert steps_in(output) == steps
    assert b"aten::cos" not in gzip.decompress(output.read_bytes())


OTHERS = {
    "profiler": lambda: torch.profiler.profile(**CPU),
    "autograd": torch.autograd.profiler.profile,
    "itt": torch.autograd.profiler.emit_itt,
}


def run_other(kind: str) -> None:
    with OTHERS[kind]() as other:
        torch.ones(2).sin()
    assert kind == "itt" or any(each.key == "aten::sin" for each in other.key_averages())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("at", [2, 3, 4, 6, 7, 8, 9])
@pytest.mark.parametrize("other", OTHERS)
def test_another_profiler_that_starts_is_complete_and_ends_this_one(other, at, output):
    recorder = StepRecorder(output, (8, 10))

    def between(step):
        if step == at:
            run_other(other)

    with pytest.warns(TracekitWarning, match="another profiler has started"):
        assert train(recorder, between=between) == train(None)
    assert recorder.path is None
    assert list(output.parent.iterdir()) == []
    # The next recording is complete.
    train(StepRecorder(output, (8, 10), verdict=False))
    assert steps_in(output) == 3


def test_another_profiler_that_already_runs_is_left_alone(output):
    with (
        torch.profiler.profile(**CPU) as other,
        pytest.warns(TracekitWarning, match="a profiler is already running"),
    ):
        assert train(StepRecorder(output)) == train(None)
    assert any(each.key == "aten::linear" for each in other.key_averages())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", [9, 8, 11])
def test_another_profiler_of_another_thread_waits_for_the_next_step(at, output):
    threads = []

    def between(step):
        if step == at:
            threads.append(threading.Thread(target=run_other, args=("profiler",)))
            threads[0].start()
            while not recorder._recording._recorder._wanted.is_set():
                pass

    recorder = StepRecorder(output, (8, 15))
    with pytest.warns(TracekitWarning, match="another profiler has started"):
        train(recorder, 11, between=between)
    threads[0].join()
    assert recorder.path is None


@pytest.mark.parametrize(
    "hook",
    ["profile.profile.__enter__", "profile.profile.step", "profile.profile._write",
     "recorder.Recorder.synchronize"],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["default", "error"])
def test_a_failure_of_the_profiler_is_a_warning_and_the_profiler_stops(
    hook, policy, output, monkeypatch, caplog
):
    def fail(*arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(f"tracekit.capture.{hook}", fail)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter(policy)
        assert train(StepRecorder(output)) == train(None)
    told = [str(each.message) for each in said] + caplog.messages
    assert len(told) == 1 and "RuntimeError: broken" in told[0]
    monkeypatch.undo()
    assert not torch.autograd._profiler_enabled()


@pytest.mark.thorough
def test_training_that_fails_leaves_no_profiler_behind(output):
    def broken(step):
        if step == 9:
            raise ZeroDivisionError

    told = StepRecorder(output)
    with pytest.raises(ZeroDivisionError):
        train(told, between=broken)
    with pytest.warns(TracekitWarning, match="training failed"):
        told.fail()
    assert not torch.autograd._profiler_enabled()
    # Some frameworks do not report it.
    left = StepRecorder(output)
    with pytest.raises(ZeroDivisionError):
        train(left, between=broken)
    with pytest.warns(TracekitWarning, match="another training started before this one ended"):
        train(StepRecorder(output, (3, 4), verdict=False))
    assert steps_in(output) == 2
    forgotten = StepRecorder(output)
    with pytest.raises(ZeroDivisionError):
        train(forgotten, between=broken)
    del forgotten
    gc.collect()
    assert not torch.autograd._profiler_enabled()


RECORDED = """
from tracekit.frameworks.steps import StepRecorder
recorder = StepRecorder('run.json.gz', (3, 9))
recorder.begin()
for step in range(5):
    recorder.step()
"""
CELL = """
import torch
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({cell!r})
print(torch.autograd._profiler_enabled(), shell.user_ns['recorder'].problem)
"""


@pytest.mark.thorough
def test_a_program_that_fails_while_it_is_recorded_ends_as_without(tmp_path):
    program = f"import sys, torch\n{RECORDED}sys.exit(7)"
    done = ran("python", "-c", program, cwd=tmp_path, KINETO_LOG_LEVEL="6")
    assert (done.returncode, done.stderr) == (7, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_cell_that_fails_leaves_no_profiler_behind(tmp_path):
    pytest.importorskip("IPython", reason="IPython is not installed")
    program = CELL.format(cell=f"{RECORDED}1 / 0\n")
    done = ran("python", "-c", program, cwd=tmp_path, IPYTHONDIR=str(tmp_path))
    assert f"False {tmp_path / 'run.json.gz'}: training failed" in done.stdout, done.stderr


def test_where_nothing_can_be_written_training_goes_on(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.warns(TracekitWarning):
        assert train(StepRecorder(tmp_path / "file" / "run.json.gz")) == train(None)
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    with pytest.warns(TracekitWarning, match="was written, but has no verdict"):
        train(StepRecorder(tmp_path / "run.json.gz", (3, 4)))
    assert steps_in(tmp_path / "run.json.gz") == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": (2, 5)}, "the first must be 3 or later"),
        ({"steps": (9, 5)}, "the first and the last step"),
        ({"max_mb": 0}, "max_mb=0"),
        ({"output": "run.txt"}, "must end in"),
    ],
)
def test_wrong_arguments_are_refused_before_training(given, said):
    with pytest.raises(TracekitError, match=said):
        StepRecorder(**{"output": "run.json.gz"} | given)


def test_a_recorder_goes_to_the_processes_that_train(output):
    assert pickle.loads(pickle.dumps(StepRecorder(output))).output == output
