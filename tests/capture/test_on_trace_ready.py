"""tracekit.on_trace_ready writes and judges each trace, prints its verdict, and never breaks
training."""

import importlib.util
import json
import re
import threading
import warnings
from pathlib import Path

import pytest

import tracekit
from tests.house.test_readme import ROOT

torch = pytest.importorskip("torch")
PAGE = (ROOT / "examples/on_trace_ready.md").read_text()
CLIENTS = {"wandb": "wandb", "mlflow": "mlflow", "tensorboard": "tensorboard"}


def train(ready, cycles=1):
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=cycles)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=ready) as profiler:
        for _ in range(2 * cycles):
            torch.ones(64, 64) @ torch.ones(64, 64)
            profiler.step()


def wait():
    for thread in threading.enumerate():
        if thread.name == "tracekit-verdict":
            thread.join()


def test_each_cycle_leaves_a_trace_and_its_verdict(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []
    train(tracekit.on_trace_ready("runs", lambda path, found: told.append((path.name, found))), 2)
    wait()
    names = sorted(each.name for each in (tmp_path / "runs").iterdir())
    traces = ["step2.json.gz", "step4.json.gz"]
    assert [name for name in names if name.endswith(".gz")] == traces
    assert sorted(name for name, _ in told) == traces
    verdict = json.loads((tmp_path / "runs/step2.verdict.json").read_text())
    assert verdict == dict(told)["step2.json.gz"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    then = "verdict: runs/step2.verdict.txt; page of charts: tracekit report runs/step2.json.gz"
    assert then in lines
    assert f"runs/step2.json.gz: {verdict['verdict']['headline']}" in lines


def test_training_does_not_wait_for_the_verdict(tmp_path, monkeypatch):
    from tracekit.frameworks import judging

    judged = threading.Event()
    monkeypatch.setattr(judging, "judge", lambda path: judged.wait(60))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    train(tracekit.on_trace_ready(tmp_path))
    # The name has the rank.
    assert (tmp_path / "step2.rank3.json.gz").exists()
    assert any(each.name == "tracekit-verdict" for each in threading.enumerate())
    with pytest.warns(RuntimeWarning, match="FileNotFoundError"):
        judged.set()
        wait()


@pytest.mark.thorough
def test_a_failure_is_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="tracekit: ") as said:
        train(tracekit.on_trace_ready(tmp_path / "file"))
        wait()
    assert len([each for each in said if "tracekit" in str(each.message)]) == 1

    def fail(path, found):
        raise ValueError("no board")

    with pytest.warns(RuntimeWarning, match="tracekit: ValueError: no board") as said:
        train(tracekit.on_trace_ready(tmp_path / "runs", fail))
        wait()
    assert (tmp_path / "runs/step2.verdict.json").exists()


def test_warnings_as_errors_do_not_reach_the_training(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tracekit.on_trace_ready(tmp_path / "file"))
        wait()
    assert "tracekit: " in caplog.text


def test_one_trace_is_judged_at_a_time_and_the_newest_of_those_that_wait_is_next(
    tmp_path, monkeypatch
):
    from tracekit.frameworks import judging

    begun, release, judged = threading.Event(), threading.Event(), []

    def judge(path):
        judged.append(path.name)
        begun.set()
        assert release.wait(60)
        raise OSError("no verdict is needed here")

    monkeypatch.setattr(judging, "judge", judge)
    waiting = judging._Waiting()
    with pytest.warns(RuntimeWarning) as said:
        waiting.put(Path("step0.json.gz"), None)
        assert begun.wait(60)
        for cycle in range(1, 12):
            waiting.put(Path(f"step{cycle}.json.gz"), None)
            assert sum(each.name == "tracekit-verdict" for each in threading.enumerate()) == 1
        release.set()
        wait()
        # A trace that comes when nothing is judged is judged.
        waiting.put(Path("step12.json.gz"), None)
        wait()
    assert judged == ["step0.json.gz", "step11.json.gz", "step12.json.gz"]
    passed_over = [str(each.message) for each in said if "is newer" in str(each.message)]
    assert len(passed_over) == 10


def example(client):
    (found,) = re.findall(rf"^```python {client}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_verdicts_reach_the_tracker(client, tmp_path, monkeypatch):
    if importlib.util.find_spec(CLIENTS[client]) is None:
        pytest.skip(f"{client} is not installed (the extra `trackers-test`)")
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    names = {"tracekit": tracekit}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        exec(example(client), names)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            train(names["ready"])
            wait()
        shares = json.loads(Path("runs/step2.verdict.json").read_text())["verdict"]["shares"]
        assert shares
        assert READ[client](names) == pytest.approx(shares)


def _wandb(names):
    told = dict(names["board"].summary)
    names["board"].finish()
    (summary,) = Path("wandb").glob("offline-run-*/run-*.wandb")
    assert summary.stat().st_size > 0
    return {k: v for k, v in told.items() if not k.startswith("_")}


def _mlflow(names):
    import mlflow

    mlflow.end_run()
    return mlflow.get_run(names["started"].info.run_id).data.metrics


def _tensorboard(names):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    names["writer"].close()
    board = EventAccumulator("board").Reload()
    return {tag: board.Scalars(tag)[0].value for tag in board.Tags()["scalars"]}


READ = {"wandb": _wandb, "mlflow": _mlflow, "tensorboard": _tensorboard}


@pytest.mark.thorough
def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (plain,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    exec(plain, {})
    wait()
    assert (tmp_path / "runs/step5.verdict.json").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["runs"]
