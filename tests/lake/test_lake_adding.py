"""Adding to a lake: once, whole or not at all, whoever dies or writes at the same time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.kit.forking import TRACEKIT
from tests.kit.lakes import (
    add,
    add_meanwhile,
    files_in_use,
    rank_events,
    ranks,
    ranks_with_files,
    statuses,
    write_rank,
)
from tests.kit.processes import children_of, have_ended
from tests.kit.sampling import sample
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake import layout
from tracekit.lake.runs import change_run
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import clean
from tracekit.run import open_lake


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """A folder with a trace, `run/trace_rank0.json`, and a lake of it."""
    folder = tmp_path_factory.mktemp("added")
    assert statuses(add(folder / "lake", write_rank(folder / "run", 0))) == ["added"]
    return folder


@pytest.fixture
def lake(added, tmp_path):
    """A copy of that lake, which knows the copy of the trace beside it."""
    shutil.copytree(added, tmp_path, dirs_exist_ok=True)
    for each in (tmp_path / "lake" / "manifests").rglob("*.json"):
        each.write_text(each.read_text().replace(str(added), str(tmp_path)))
    return tmp_path / "lake"


def dgemm(path, name="trace_rank0.json"):
    """Writes the trace at a path with another kernel, under this name; returns its path."""
    other = path.with_name(name)
    other.write_text(path.read_text().replace("sgemm", "dgemm"))
    return other


def seen(lake):
    return [(each.run, each.name) for each in ranks(lake)]


def parquet_files(lake):
    return {str(each.relative_to(lake)) for each in lake.rglob("*.parquet")}


def test_adding_again_reads_only_what_is_new_or_changed(lake, tmp_path):
    again = add(lake, tmp_path / "run")
    assert (again.outcomes, again.unread) == ([], 1)
    files = parquet_files(lake)
    os.utime(tmp_path / "run" / "trace_rank0.json", (1, 1))
    write_rank(tmp_path / "run", 1)
    assert sorted(statuses(add(lake, tmp_path / "run"))) == ["added", "unchanged"]
    assert files < parquet_files(lake)
    # The folder has the lake, too, whose files are not traces to add.
    again = add(lake, tmp_path)
    assert (again.outcomes, again.unread) == ([], 2)


@pytest.mark.thorough
def test_a_changed_trace_takes_the_place_of_the_old_one(lake, tmp_path):
    kernel = "SELECT DISTINCT name FROM kernels WHERE name LIKE '%gemm'"
    with open_lake(str(lake)) as before:
        assert statuses(add(lake, dgemm(tmp_path / "run" / "trace_rank0.json"))) == ["replaced"]
        # A reader that had the lake open before still sees the old rows.
        assert before.fetch(kernel)[1] == [("sgemm",)]
    with open_lake(str(lake)) as after:
        assert after.fetch(kernel)[1] == [("dgemm",)]
        assert after.ranks[0].trace_id != before.ranks[0].trace_id


@pytest.mark.thorough
def test_clean_removes_what_no_reader_sees_and_nothing_else(lake, tmp_path, run):
    add(lake, dgemm(tmp_path / "run" / "trace_rank0.json"))
    unused = parquet_files(lake) - files_in_use(lake)
    ((rank, group),) = ranks_with_files(lake)
    kept = {group.key, "manifests/run/00000002.json", f"numbers/{rank.trace_id}.json"}
    kept_or_not = [*lake.glob("manifests/run/*"), *lake.glob("numbers/*")]
    unused |= {str(each.relative_to(lake)) for each in kept_or_not} - kept
    assert len(unused) > 20
    token, elsewhere = "0" * 32, tmp_path / "elsewhere"
    elsewhere.mkdir()
    theirs = [
        lake / "tables/mine/notes.txt",
        lake / "tables/trace/notes.parquet",
        lake / "numbers/notes.json",
        lake / "manifests/notes.txt",
        elsewhere / f"{token}.parquet",
        elsewhere / f"{token}.json",
    ]
    unfinished = {"numbers/7.json", f"manifests/run/.writing-{token}",
                  f"tables/trace/{token}.parquet"}  # fmt: skip
    for each in (*theirs, *(lake / each for each in unfinished)):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("{}")
    (lake / "tables/other").symlink_to(elsewhere)
    (lake / f"tables/trace/{'1' * 32}.parquet").symlink_to(theirs[0])
    # Others may be adding these files now.
    assert not clean(str(lake)).removed
    done = run("lake", "clean", "lake", "--older-than", "0")
    *removed, last = done.stdout.splitlines()
    assert {each.removeprefix("removed  ") for each in removed} == unfinished | unused
    assert last == f"lake: removed {len(unfinished | unused)} files"
    for folder in ("tables", "numbers"):
        (lake / folder).rename(tmp_path / folder)
        (lake / folder).symlink_to(elsewhere)
    assert not clean(str(lake), 0).removed
    for folder in ("tables", "numbers"):
        (lake / folder).unlink()
        (tmp_path / folder).rename(lake / folder)
    assert all(each.read_text() == "{}" for each in theirs)
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(18,)]


def test_an_unfinished_rank_is_not_seen_and_does_no_harm(lake, tmp_path, monkeypatch):
    path = write_rank(tmp_path / "run", 1)
    put, left = Storage.put, iter(range(7))

    def killed(self, local, to):
        if next(left, None) is None:
            raise KeyboardInterrupt
        put(self, local, to)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Storage, "put", killed)
        add(lake, path)
    half = parquet_files(lake) - files_in_use(lake)
    assert len(half) == 7
    assert seen(lake) == [("run", "rank=0")]
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT rank FROM trace")[1] == [(0,)]
    assert statuses(add(lake, path)) == ["added"]
    assert half <= set(clean(str(lake), 0).removed)
    assert seen(lake) == [("run", "rank=0"), ("run", "rank=1")]


def test_an_addition_that_fails_leaves_nothing_behind(lake, tmp_path, run):
    def content(folder):
        return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}

    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "rank0.json").write_text('{"traceEvents": [')
    (tmp_path / "bad" / "rank1.json").write_text("no trace")
    before = content(lake)
    sources = (("bad/rank1.json",), ("bad",), ("nowhere.json",), ())
    for source in sample("failing additions", sources, sources[:2]):
        for given in ((), ("--workers", "2")):
            done = run("lake", "add", *source, "--to", "new/lake", *given)
            assert done.returncode == 2, source
            assert not (tmp_path / "new").exists()
            assert run("lake", "add", *source, "--to", "lake", *given).returncode == 2
            assert content(lake) == before


def test_a_bad_trace_does_not_stop_the_others(tmp_path, run):
    given = ("--to", "lake", "--without-verdicts")
    write_rank(tmp_path / "run", 0)
    (tmp_path / "run" / "bad_rank1.json").write_text("{}")
    done = run("lake", "add", "run/bad_rank1.json", "nowhere.json", *given)
    assert (done.returncode, (tmp_path / "lake").exists()) == (2, False)
    assert "is not a lake" in run("lake", "clean", "lake").stderr
    done = run("lake", "add", "run", "none", *given)
    assert done.returncode == 2
    assert "bad_rank1.json: is not a trace" in done.stderr
    assert "none: cannot be read: No such file or directory" in done.stderr
    assert "1 trace read, 0 files unchanged, 2 failed" in done.stdout
    assert seen(tmp_path / "lake") == [("run", "rank=0")]


def test_a_rank_is_known_by_the_trace_or_by_its_files_name(tmp_path):
    for name in ("job_rank7.json", "worker.json", "other.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": rank_events(0)}))
    lake = tmp_path / "lake"
    add(lake, tmp_path, run="night")
    assert seen(lake) == [("night", "rank=7"), ("night", "file=other"), ("night", "file=worker")]
    with open_lake(str(lake)) as opened:
        _, rows = opened.fetch("SELECT rank FROM trace ORDER BY rank")
        assert rows == [(7,), (None,), (None,)]
        # Traces without a rank are not compared.
        assert opened.ask("stragglers") == []


@pytest.mark.thorough
def test_another_trace_of_the_same_rank_is_refused_unless_it_should_replace(lake, tmp_path):
    other = dgemm(tmp_path / "run" / "trace_rank0.json", "later_rank0.json")
    (refused,) = add(lake, other).outcomes
    assert refused.status == "failed"
    assert "run 'run' holds rank=0 from" in refused.message
    assert statuses(add(lake, other, replace_others=True)) == ["replaced"]
    assert seen(lake) == [("run", "rank=0")]


def test_one_of_two_simultaneous_additions_to_a_rank_is_refused_and_leaves_nothing(
    tmp_path, monkeypatch
):
    first = write_rank(tmp_path / "run", 0)
    other = dgemm(first, "later_rank0.json")
    lake = tmp_path / "lake"
    meanwhile = add_meanwhile(monkeypatch, lambda: add(lake, other))
    (refused,) = add(lake, first).outcomes
    assert statuses(meanwhile[0]) == ["added"]
    assert refused.status == "failed"
    assert f"run 'run' holds rank=0 from {other} already" in refused.message
    ((_, group),) = ranks_with_files(lake)
    assert {
        str(each.relative_to(lake))
        for each in lake.rglob("*.*") if each.is_file() and each.parent.name != "numbers"
    } == {layout.MARK, group.key, "manifests/run/00000001.json", *files_in_use(lake)}  # fmt: skip
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT path FROM trace")[1] == [(str(other),)]


@pytest.mark.thorough
def test_the_same_trace_added_twice_at_once_is_there_once(tmp_path, monkeypatch):
    path = write_rank(tmp_path / "run", 0)
    lake = tmp_path / "lake"
    meanwhile = add_meanwhile(monkeypatch, lambda: add(lake, path))
    assert statuses(add(lake, path)) == ["unchanged"]
    assert statuses(meanwhile[0]) == ["added"]
    assert parquet_files(lake) == files_in_use(lake)


def test_of_many_writers_of_one_new_file_one_creates_it(tmp_path, monkeypatch):
    store = Storage(str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: store.create("a/b.json", b"%d" % n), range(64)))
    assert made.count(True) == 1
    assert store.read("a/b.json") == b"%d" % made.index(True)
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["b.json"]
    # Some file systems have no links.
    all_here = Barrier(8)

    def refusing(*_):
        all_here.wait()
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refusing)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: store.create("c.json", b"%d" % n), range(8)))
    assert made.count(True) == 1
    assert store.read("c.json") == b"%d" % made.index(True)


def version(lake, number):
    return lake / f"manifests/run/{number:08d}.json"


def test_a_run_goes_on_after_any_number_of_a_version(lake, tmp_path):
    """A number that a stranger planted, or that the 100,000,000th change reaches."""
    version(lake, 1).rename(version(lake, 99_999_999))
    ranks = sample("ranks that are added after the 99,999,999th change", (1, 2), (1,))
    for rank in ranks:
        assert statuses(add(lake, write_rank(tmp_path / "run", rank))) == ["added"]
    assert version(lake, 99_999_999 + len(ranks)).exists()
    found = [("run", f"rank={rank}") for rank in (0, *ranks)]
    assert seen(lake) == found
    clean(str(lake), 0)
    assert seen(lake) == found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["", '{"layout": 2, "gro'])
def test_an_unfinished_version_is_not_there_yet_and_one_that_stays_so_is_an_error(
    lake, tmp_path, text, monkeypatch
):
    """Without hard links, a version can be seen before its content, and a writer can die then."""
    new = write_rank(tmp_path / "run", 1)
    version(lake, 2).write_text(text)
    assert seen(lake) == [("run", "rank=0")]
    monkeypatch.setattr("tracekit.lake.runs._POLL_S", 0)
    monkeypatch.setattr("tracekit.lake.runs._UNFINISHED_S", 0.0)
    os.utime(version(lake, 2), (1, 1))
    with pytest.raises(TracekitError, match=r"00000002\.json is damaged or truncated.*remove it"):
        add(lake, new)
    version(lake, 2).unlink()
    assert statuses(add(lake, new)) == ["added"]


def test_a_version_that_nobody_can_read_or_write_ends_an_addition(lake, tmp_path, monkeypatch):
    new = write_rank(tmp_path / "run", 1)
    monkeypatch.setattr("tracekit.lake.runs._UNFINISHED_S", 0.0)
    version(lake, 2).mkdir()
    with pytest.raises(TracekitError, match=r"00000002\.json exists, but is not a version"):
        add(lake, new)
    version(lake, 2).rmdir()
    version(lake, 2).symlink_to("nowhere")
    with pytest.raises(TracekitError, match=r"00000002\.json exists, but cannot be read"):
        add(lake, new)


def test_files_are_written_while_others_remove_empty_folders(tmp_path):
    store = Storage(str(tmp_path))

    def write(number):
        store.write(f"a/b/{number}", b"x")
        store.remove([f"a/b/{number}"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(200)))


@pytest.mark.thorough
def test_the_traces_of_an_archive_are_ranks_of_its_run(tmp_path):
    for rank in range(2):
        write_rank(tmp_path / "run", rank)
    archive = tmp_path / "night7.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "run", "deep/run")
    lake = tmp_path / "lake"
    assert statuses(add(lake, archive)) == ["added"] * 2
    assert seen(lake) == [("night7", f"rank={rank}") for rank in range(2)]
    assert add(lake, archive).unread == 1
    # A member that is missing in the lake is added again.
    change_run(Storage(str(lake)), "night7", lambda run: replace(
        run, groups=tuple(each.only({"rank=0"}) for each in run.groups)
    ))  # fmt: skip
    assert sorted(statuses(add(lake, archive))) == ["added", "unchanged"]


def test_two_traces_with_the_same_number_get_others(tmp_path, monkeypatch):
    for rank in range(2):
        write_rank(tmp_path / "run", rank)
    real = layout.trace_id_of
    monkeypatch.setattr(
        layout, "trace_id_of", lambda *told: 5 if len(told) < 4 or not told[3] else real(*told)
    )
    lake = tmp_path / "lake"
    assert add(lake, tmp_path / "run").failed == []
    numbers = [each.trace_id for each in ranks(lake)]
    assert len(set(numbers)) == 2
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(2 * 18,)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", ["a=b", "ä/é", "NULL", "", "x" * 300, "..", "%2F", "it's", "a b"])
def test_any_text_may_name_a_run_and_any_folder_be_a_lake(tmp_path, name):
    lake = tmp_path / "it's\n\n[a] lake*" / "\n"
    assert statuses(add(lake, write_rank(tmp_path / "in", 0), run=name)) == ["added"]
    run = layout.valid_name(name)
    with open_lake(str(layout.Selection(str(lake), layout.escape(run)))) as opened:
        assert opened.fetch("SELECT run FROM trace")[1] == [(run,)]
        assert [each.run for each in opened.ranks] == [run]


def test_an_unwritable_lake_is_reported_in_one_line(tmp_path, refused):
    path = write_rank(tmp_path / "in", 0)
    said = refused("lake", "add", str(path), "--to", f"{path}/lake")
    assert said == f"tracekit: {path}/lake: Not a directory\n"
    with pytest.raises(TracekitError, match="named like one of its partitions"):
        add(tmp_path / "rank=7" / "lake", path)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_command_that_started_them(tmp_path, number):
    temp_dir = tmp_path / "work"
    temp_dir.mkdir()
    for rank in range(40):
        write_rank(tmp_path / "run", rank, 40)
    command = [TRACEKIT, "lake", "add", tmp_path / "run", "--to", tmp_path / "lake",
               "--workers", "2", "--temp-dir", temp_dir]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        while not any(temp_dir.glob("tracekit-lake-*/trace.duckdb*")):
            assert started.poll() is None, started.communicate()
            time.sleep(0.02)
        children = children_of(started.pid)
        assert len(children) >= 2
        started.send_signal(number)
        # This returns when all processes that hold standard error have ended.
        _, errors = started.communicate(timeout=60)
    is_kill = number == signal.SIGKILL
    wanted = 130 if number == signal.SIGINT else -number if is_kill else 128 + number
    assert started.returncode == wanted
    # After a kill, Python warns of semaphores that the process left.
    assert is_kill or errors.strip() == ""
    assert have_ended(*children)
    if is_kill:
        # The next addition removes what a killed one left.
        one = write_rank(tmp_path / "one", 0)
        assert not add(tmp_path / "lake", one, resources=Resources(temp_dir=temp_dir)).failed
        assert not any(temp_dir.glob("tracekit-lake-*/"))
    else:
        assert not any(temp_dir.glob("tracekit-*/"))
