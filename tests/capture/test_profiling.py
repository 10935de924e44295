"""The user's own code, recorded: a block or a function."""

import platform

import pytest

import tracekit
from tests.kit.traces import document, names
from tracekit.capture.recorder import Recorder

torch = pytest.importorskip("torch")


def work():
    return torch.sin(torch.ones(64, 64) @ torch.ones(64, 64))


def test_steps_of_a_block_are_recorded_and_timed_with_and_without_the_profiler(tmp_path):
    with tracekit.profile(tmp_path / "run.json.gz", steps=3, warmup=4) as run:
        for _ in range(10):
            work()
            run.step()
    facts = document(tmp_path / "run.json.gz")["tracekit"]
    assert facts == run.facts | {"host": platform.node()}
    assert facts["active_steps"] == 3
    assert facts["profiled_step_ns"] > 0
    assert facts["unprofiled_step_ns"] > 0
    with tracekit.load(tmp_path / "run.json.gz") as database:
        assert len(database.verdict().steps) == 3
        _, rows = database.fetch("SELECT count(*) FROM cpu_ops WHERE name = 'aten::sin'")
    assert rows == [(3,)]


def test_the_wait_at_the_end_of_a_recording_is_in_no_step(tmp_path, monkeypatch):
    def wait(self):
        with torch.profiler.record_function("waits for the device"):
            work()

    monkeypatch.setattr(Recorder, "synchronize", wait)
    with tracekit.profile(tmp_path / "run.json.gz", steps=2, warmup=1) as run:
        for _ in range(4):
            work()
            run.step()
    with tracekit.load(tmp_path / "run.json.gz") as database:
        _, rows = database.fetch(
            "SELECT w.start_ns >= max(s.end_ns) FROM annotations AS w, steps AS s "
            "WHERE w.name = 'waits for the device' GROUP BY w.event_id, w.start_ns"
        )
    assert rows == [(True,)]


def test_a_whole_block_becomes_a_database(tmp_path, run):
    with tracekit.profile(tmp_path / "run.duckdb"):
        work()
    with tracekit.open_database(tmp_path / "run.duckdb") as database:
        _, rows = database.fetch("SELECT count(*) FROM cpu_ops WHERE name = 'aten::mm'")
        assert database.sql("SELECT path FROM trace").item() == "run.duckdb"
    assert rows == [(1,)]
    assert "\nrun.duckdb: CPU only" in run("analyze", "run.duckdb").stdout
    assert [each.name for each in tmp_path.iterdir()] == ["run.duckdb"]


def test_a_decorated_function_is_recorded(tmp_path):
    @tracekit.profile(tmp_path / "run.json.gz", stacks=True)
    def step():
        return work()

    assert step().shape == (64, 64)
    assert "aten::sin" in names(tmp_path / "run.json.gz")


def test_a_block_that_fails_writes_nothing_and_hides_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), tracekit.profile(tmp_path / "run.json.gz"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_too_few_steps_are_reported(tmp_path):
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
def test_impossible_recordings_are_refused(output, given, said, tmp_path):
    with pytest.raises(tracekit.TracekitError, match=said):
        tracekit.profile(tmp_path / output, **given)
