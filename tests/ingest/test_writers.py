"""No data is lost: one writer at a time, kills at any moment, loads that resume."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tracekit
from tests.kit import hostile, traces
from tests.kit.processes import ran, ran_on_a_full_disk
from tests.kit.sampling import sample
from tracekit import files
from tracekit.database import connection
from tracekit.database.connection import spill_directory

KILLS = sample("writers that are killed", 200, 4)
PAIRS = sample("pairs of writers", 50, 1)
LOAD = [sys.executable, "-m", "tracekit", "load", "-o", "run.duckdb", "--no-verdict"]


def trace(folder: Path, name: str, events: int = 2) -> str:
    """Writes a trace called `name`, whose events also have that name."""
    made = [traces.slice_event("cpu_op", name, at, 1) for at in range(events)]
    traces.write(folder / f"{name}.json", made)
    return f"{name}.json"


def complete_traces(path: Path) -> list[str]:
    """The names of a database's traces; checks that each has all its events."""
    with tracekit.open_database(path) as database:
        rows = database.fetch(
            "SELECT path, events, count(event_id) FROM trace LEFT JOIN event_row USING (trace_id)"
            " GROUP BY ALL ORDER BY min(trace_id)"
        )[1]
    assert all(said == counted for _, said, counted in rows)
    return [name for name, _, _ in rows]


@pytest.fixture
def load(run: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """Loads traces into run.duckdb, in the test's folder."""
    return lambda *arguments: run("load", *arguments, *INTO)


INTO = ("-o", "run.duckdb", "--no-verdict")


def left_partial(folder: Path, *arguments: str) -> None:
    """Loads in a process that is killed after all traces are inserted, before it finishes."""
    program = (
        "import os, signal, sys, tracekit.ingest.loader as loading\n"
        "loading.Derivation = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from tracekit.commands import main\n"
        "sys.argv[0] = 'tracekit'\nmain()"
    )
    done = ran(
        "python", "-c", program, "load", *arguments, "-o", "run.duckdb", "--resume", cwd=folder
    )
    assert done.returncode == -signal.SIGKILL
    assert (folder / "run.duckdb.partial").exists()


@pytest.mark.thorough
def test_a_partial_result_is_resumed_only_by_the_load_that_left_it(tmp_path, load, refused):
    trace(tmp_path, "a"), trace(tmp_path, "b"), trace(tmp_path, "c")
    left_partial(tmp_path, "a.json")
    partial, database = tmp_path / "run.duckdb.partial", tmp_path / "run.duckdb"
    kept = {each: each.read_bytes() for each in tmp_path.glob("run.duckdb.partial*")}

    def restore() -> None:
        for path, data in kept.items():
            path.write_bytes(data)

    with duckdb.connect(str(partial)) as connection:
        connection.execute("CREATE MACRO sum(x) AS 1")
    assert "another program" in refused("load", "a.json", "--resume", *INTO)
    restore()
    said = refused("load", "b.json", "--resume", *INTO)
    assert "a.json, which this load does not include" in said
    # A trace that has changed since it was loaded is loaded again.
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace('"ts": 1,', '"ts": 7,'))
    assert load("b.json", "a.json", "--resume").returncode == 0
    with tracekit.open_database(database) as opened:
        rows = opened.fetch(
            "SELECT path, max(ts_ns) FROM event JOIN trace USING (trace_id) GROUP BY trace_id, path"
            " ORDER BY ALL"
        )[1]
    assert rows == [("a.json", 1000), ("a.json", 7000), ("b.json", 1000)]
    # A new load is not resumed as an append.
    restore()
    before = database.read_bytes()
    said = refused("load", "c.json", "--append", "--resume", *INTO)
    assert "run.duckdb.partial" in said and "remove it" in said
    assert database.read_bytes() == before


@pytest.mark.thorough
def test_an_append_resumes_only_as_one_and_if_the_database_has_not_changed(tmp_path, load, refused):
    trace(tmp_path, "a"), trace(tmp_path, "b"), trace(tmp_path, "c")
    assert load("a.json").returncode == 0
    left_partial(tmp_path, "b.json", "--append")
    assert load("c.json", "--append").returncode == 0
    for more in (["--append"], []):
        assert "the database has changed" in refused("load", "b.json", *more, "--resume", *INTO)
    assert complete_traces(tmp_path / "run.duckdb") == ["a.json", "c.json"]
    (tmp_path / "run.duckdb.partial").unlink()
    assert load("b.json", "--append", "--resume").returncode == 0
    assert complete_traces(tmp_path / "run.duckdb") == ["a.json", "c.json", "b.json"]


def test_a_partial_result_that_tracekit_did_not_make_is_refused(tmp_path, refused):
    trace(tmp_path, "a")
    partial = tmp_path / "run.duckdb.partial"
    for make in (
        lambda: partial.write_bytes(b"nonsense"),
        lambda: duckdb.connect(str(partial)).close(),
        lambda: partial.symlink_to("elsewhere"),
    ):
        make()
        assert "run.duckdb.partial" in refused("load", "a.json", "--resume", *INTO)
        assert not (tmp_path / "elsewhere").exists()
        partial.unlink()
    partial.mkdir()
    assert "run.duckdb.partial" in refused("load", "a.json", "--resume", *INTO)


@pytest.mark.thorough
def test_two_concurrent_appends_are_both_kept(tmp_path):
    for round_ in range(PAIRS):
        names = [trace(tmp_path, f"{round_}-{side}") for side in "ab"]
        before = complete_traces(tmp_path / "run.duckdb") if round_ else []
        writers = [
            subprocess.Popen(
                [*LOAD, name, "--append"],
                cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for name in names
        ]  # fmt: skip
        errors = []
        while any(writer.poll() is None for writer in writers):
            if before:
                # Readers are not blocked, and see a complete database.
                assert complete_traces(tmp_path / "run.duckdb")[: len(before)] == before
            time.sleep(0.1)
        for writer in writers:
            assert writer.stderr is not None
            errors.append(writer.stderr.read())
        assert [writer.returncode for writer in writers] == [0, 0], errors
        now = complete_traces(tmp_path / "run.duckdb")
        assert now[: len(before)] == before
        assert sorted(now[len(before) :]) == sorted(names)
    assert {each.name for each in tmp_path.iterdir() if each.suffix != ".json"} == {"run.duckdb"}


def test_a_writer_that_waits_says_what_it_waits_for(tmp_path):
    name = trace(tmp_path, "a")
    with files.sole_writer(tmp_path / "run.duckdb"):
        waiting = subprocess.Popen(
            [*LOAD, name],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert waiting.stderr is not None
        assert "another load to finish writing run.duckdb" in waiting.stderr.readline()
        assert not (tmp_path / "run.duckdb").exists()
    assert waiting.wait(60) == 0
    assert complete_traces(tmp_path / "run.duckdb") == ["a.json"]


KILLED = [[], ["--append", "--resume"], ["--append"], ["--resume"]]
KILLED = sample("options of loads that are killed", KILLED, KILLED[:2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", KILLED)
def test_a_load_that_is_killed_at_any_moment_loses_nothing(options, tmp_path, load):
    chance = random.Random(len(options) * 7 + ("--resume" in options))
    names = [trace(tmp_path, f"t{place}", 2000) for place in range(3)]
    before: list[str] = []
    if "--append" in options:
        assert load(trace(tmp_path, "before")).returncode == 0
        before = ["before.json"]
    shutil.copy(tmp_path / "run.duckdb", tmp_path / "kept") if before else None
    command = [*LOAD, *names, *options]
    began = time.monotonic()
    subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL, timeout=300)
    usual_s = time.monotonic() - began
    for _ in range(KILLS // 4):
        (tmp_path / "run.duckdb").unlink()
        if before:
            shutil.copy(tmp_path / "kept", tmp_path / "run.duckdb")
        loading = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0, 1.1 * usual_s))
        loading.kill()
        loading.wait()
        # The database is unchanged or complete.
        now = complete_traces(tmp_path / "run.duckdb") if (tmp_path / "run.duckdb").exists() else []
        assert now in (before, [*before, *names])
        if now == before:
            # The next load resumes or starts again, and loads everything.
            assert load(*names, *options).returncode == 0
            assert sorted(complete_traces(tmp_path / "run.duckdb")) == sorted([*before, *names])
        else:
            # Nothing will resume a partial result now.
            (tmp_path / "run.duckdb.partial").unlink(missing_ok=True)
    # A load removes the folders of killed processes once they are old enough.
    old = time.time() - 3600
    for each in tmp_path.glob(".run.duckdb.tracekit-*"):
        os.utime(each, (old, old))
    assert load(*names).returncode == 0
    hidden = [each.name for each in tmp_path.iterdir() if each.name.startswith(".")]
    assert hidden == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [[], ["--append"], ["--append", "--resume"]])
def test_a_load_that_does_not_fit_on_the_disk_changes_nothing(options, tmp_path, load):
    """As on a full disk, a write fails: a file may not grow beyond a limit."""
    before, large = trace(tmp_path, "before"), trace(tmp_path, "large", 20_000)
    assert load(before).returncode == 0
    kept = (tmp_path / "run.duckdb").read_bytes()
    given = ("load", large, *options, "-o", "run.duckdb")
    done = ran_on_a_full_disk(len(kept) + 100_000, *given, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr == "tracekit: run.duckdb: cannot be loaded: File too large\n"
    assert (tmp_path / "run.duckdb").read_bytes() == kept
    left = {each.name for each in tmp_path.iterdir()}
    resumable = {each for each in left if each.startswith("run.duckdb.partial")}
    assert left - resumable == {before, large, "run.duckdb"}
    if resumable:
        assert "--resume" in options
        assert load(large, *options).returncode == 0
        assert complete_traces(tmp_path / "run.duckdb") == [before, large]


def test_the_folder_of_a_running_process_is_kept(tmp_path):
    with files.work_folder(tmp_path, ".x.tracekit-") as first:
        with files.work_folder(tmp_path, ".x.tracekit-") as second:
            assert first.exists()
            assert first != second
        assert not second.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_making_is_interrupted_is_removed_at_exit(tmp_path, monkeypatch):
    real = Path.mkdir

    def interrupted(folder, mode):
        real(folder, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_made", {})
    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), files.work_folder(tmp_path, "tracekit-"):
        pass
    assert len(list(tmp_path.iterdir())) == 1
    files._remove_made()
    assert list(tmp_path.iterdir()) == []


def test_only_abandoned_work_folders_are_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".lock").touch()
    (outside / "precious").touch()
    (tmp_path / ".x.tracekit-link").symlink_to(outside)
    (tmp_path / ".x.tracekit-file").touch()
    gone = tmp_path / ".x.tracekit-gone"
    gone.mkdir()
    (gone / ".lock").touch()
    young = tmp_path / ".x.tracekit-young"
    young.mkdir()
    with files.work_folder(tmp_path, ".x.tracekit-"):
        pass
    assert (outside / "precious").exists()
    assert {each.name for each in tmp_path.iterdir()} == {
        "outside", ".x.tracekit-link", ".x.tracekit-file", ".x.tracekit-young",
    }  # fmt: skip


OPENING = """
from tracekit.perfetto.serving import TraceServer
TraceServer.__init__.__defaults__ = (0,)
TraceServer.serve_once = lambda *_: os.kill(os.getpid(), 9)
sys.argv[1:] = ['open', '--print-url', 'a.json']
main()"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "killed"),
    [
        ("spill", "tracekit.load('a.json').fetch('SELECT 1'); os.kill(os.getpid(), 9)"),
        ("temp", OPENING),
    ],
)
def test_the_next_start_removes_what_a_killed_process_left_and_nothing_else(
    tmp_path, monkeypatch, kind, killed
):
    trace(tmp_path, "a")
    temporary = tmp_path / "temporary"
    (temporary / "theirs").mkdir(parents=True)
    with files.work_folder(temporary, f"tracekit-{kind}-") as used:
        imports = "import os, sys, tracekit; from tracekit.commands import main"
        done = ran("python", "-c", f"{imports}\n{killed}", cwd=tmp_path, TMPDIR=str(temporary))
        assert done.returncode == -signal.SIGKILL
        left = {*temporary.glob(f"tracekit-{kind}-*")} - {used}
        assert left
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        connection._remove_spilled.cache_clear()
        tracekit.open_database(hostile.good(tmp_path)).close()
        assert {used, temporary / "theirs"} <= {*temporary.iterdir()}
        assert not any(each.exists() for each in left)


def test_no_temporary_folder_is_made_that_a_later_process_would_not_remove():
    makers = re.compile(
        r"\b(mkdtemp|TemporaryDirectory|NamedTemporaryFile\((?!dir=process_folder))"
    )
    package = Path(tracekit.__file__).parent
    assert [str(path) for path in package.rglob("*.py") if makers.search(path.read_text())] == []


def test_the_spill_directory_is_private_and_has_an_unpredictable_name(tmp_path):
    first = Path(spill_directory("a.duckdb", tmp_path))
    assert first == Path(spill_directory("a.duckdb", tmp_path))
    assert first.parent == Path(spill_directory("b.duckdb", tmp_path)).parent
    assert first.parent.stat().st_mode & 0o777 == 0o700
    assert str(os.getpid()) not in str(first.relative_to(tmp_path))
