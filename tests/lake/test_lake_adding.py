"""Adding to a lake: once, whole or not at all, whoever dies or writes at the same time."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.forking import TRACEKIT
from tests.kit.lakes import (
    add,
    add_meanwhile,
    files_in_use,
    rank_events,
    ranks_with_files,
    statuses,
    write_rank,
)
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake import layout, writing
from tracekit.lake.runs import all_ranks, change_run
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import clean
from tracekit.run import open_lake


def seen(lake):
    return [(each.run, each.name) for each in all_ranks(Storage(str(lake)))]


def test_adding_again_reads_only_what_is_new_or_changed(tmp_path):
    first = write_rank(tmp_path / "run", 0)
    lake = tmp_path / "lake"
    add(lake, tmp_path / "run")
    again = add(lake, tmp_path / "run")
    assert (again.outcomes, again.unread) == ([], 1)

    files = set(lake.rglob("*.parquet"))
    os.utime(first, (1, 1))
    write_rank(tmp_path / "run", 1)
    again = add(lake, tmp_path / "run")
    assert sorted(statuses(again)) == ["added", "unchanged"]
    assert files < set(lake.rglob("*.parquet"))
    assert add(lake, tmp_path / "run").unread == 2


def test_a_changed_trace_takes_the_place_of_the_old_one(tmp_path):
    path = write_rank(tmp_path / "run", 0)
    lake = tmp_path / "lake"
    add(lake, path)
    with open_lake(str(lake)) as before:
        path.write_text(path.read_text().replace("sgemm", "dgemm"))
        assert statuses(add(lake, path)) == ["replaced"]
        # Who has the lake open sees what it was.
        assert before.fetch("SELECT DISTINCT name FROM kernels WHERE name LIKE '%gemm'")[1] == [
            ("sgemm",)
        ]
        old = before.ranks[0].trace_id
    with open_lake(str(lake)) as after:
        assert after.fetch("SELECT DISTINCT name FROM kernels WHERE name LIKE '%gemm'")[1] == [
            ("dgemm",)
        ]
        assert after.ranks[0].trace_id != old


def test_clean_removes_what_no_reader_sees_and_nothing_else(tmp_path):
    path = write_rank(tmp_path / "run", 0)
    lake = tmp_path / "lake"
    add(lake, path)
    path.write_text(path.read_text().replace("sgemm", "dgemm"))
    add(lake, path)
    (number,) = [each.trace_id for each in all_ranks(Storage(str(lake)))]
    assert not clean(str(lake)).removed
    done = clean(str(lake), 0)
    assert done.kept_young == 0
    assert {str(each.relative_to(lake)) for each in lake.rglob("*.parquet")} == files_in_use(lake)
    assert {each.name for each in lake.rglob("numbers/*")} == {f"{number}.json"}
    # The run as it is, and one group.
    assert len(list(lake.rglob("manifests/*/*"))) == 2
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(18,)]


def test_clean_leaves_what_is_not_the_lakes_own_and_names_what_it_removes(tmp_path, run):
    path = write_rank(tmp_path / "run", 0)
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    add(lake, path)
    path.write_text(path.read_text().replace("sgemm", "dgemm"))
    add(lake, path)
    ours = {str(each.relative_to(lake)) for each in lake.rglob("*.parquet")}
    replaced = ours - files_in_use(lake)
    gone = [f"manifests/run/{each.name}" for each in (lake / "manifests" / "run").iterdir()]
    (group,) = [group for _, group in ranks_with_files(lake)]
    kept = {group.key, "manifests/run/00000002.json"}
    ids = {f"numbers/{each.name}" for each in (lake / "numbers").iterdir()}
    ids -= {f"numbers/{rank.trace_id}.json" for rank in all_ranks(Storage(str(lake)))}
    replaced |= {each for each in gone if each not in kept} | ids
    assert len(replaced) > 20
    token = "0" * 32
    like_ours = f"tables/trace/{token}.parquet"
    elsewhere.mkdir()
    theirs = [
        lake / "tables/mine/notes.txt",
        lake / "tables/trace/notes.parquet",
        lake / "archives/notes.json",
        lake / "manifests/notes.txt",
        elsewhere / f"{token}.parquet",
        elsewhere / f"{token}.json",
    ]
    unfinished = [f"archives/{token}.json", f"manifests/run/.writing-{token}", like_ours]
    for each in (*theirs, *(lake / each for each in unfinished)):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("{}")
    (lake / "tables/other").symlink_to(elsewhere)
    (lake / f"tables/trace/{'1' * 32}.parquet").symlink_to(theirs[0])
    done = run("lake", "clean", "lake", "--older-than", "0")
    *removed, last = done.stdout.splitlines()
    assert {each.removeprefix("removed  ") for each in removed} == {*unfinished, *replaced}
    assert last == f"lake: removed {len(unfinished) + len(replaced)} files"
    for folder in ("tables", "archives"):
        (lake / folder).rename(tmp_path / folder)
        (lake / folder).symlink_to(elsewhere)
    assert run("lake", "clean", "lake", "--older-than", "0").stdout == "lake: removed 0 files\n"
    for folder in ("tables", "archives"):
        (lake / folder).unlink()
        (tmp_path / folder).rename(lake / folder)
    assert all(each.read_text() == "{}" for each in theirs)
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(18,)]


def test_half_a_rank_is_not_seen_and_does_no_harm(tmp_path, monkeypatch):
    write_rank(tmp_path / "run", 0)
    path = write_rank(tmp_path / "run", 1)
    lake = tmp_path / "lake"
    add(lake, tmp_path / "run" / "trace_rank0.json")
    put = Storage.put
    left = iter(range(7))

    def killed(self, local, to):
        if next(left, None) is None:
            raise KeyboardInterrupt
        put(self, local, to)

    with monkeypatch.context() as patched:
        patched.setattr("tracekit.lake.storage.Storage.put", killed)
        with pytest.raises(KeyboardInterrupt):
            add(lake, path)
    left = {str(each.relative_to(lake)) for each in lake.rglob("*.parquet")} - files_in_use(lake)
    assert len(left) == 7
    assert seen(lake) == [("run", "rank=0")]
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT rank FROM trace")[1] == [(0,)]
    assert statuses(add(lake, path)) == ["added"]
    assert left <= set(clean(str(lake), 0).removed)
    assert seen(lake) == [("run", "rank=0"), ("run", "rank=1")]


def test_two_writers_of_the_same_ranks_leave_one_of_each(tmp_path):
    for rank in range(2):
        write_rank(tmp_path / "run", rank)
    lake = tmp_path / "lake"
    together = threading.Barrier(2)
    done = []

    def write():
        together.wait()
        done.append(add(lake, tmp_path / "run"))

    threads = [threading.Thread(target=write) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [added.failed for added in done] == [[], []]
    assert seen(lake) == [("run", f"rank={rank}") for rank in range(2)]
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(2 * 18,)]
    clean(str(lake), 0)
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*), sum(events) FROM trace")[1] == [(2, 2 * 18)]


def test_a_bad_trace_does_not_stop_the_others(tmp_path, run):
    write_rank(tmp_path / "run", 0)
    (tmp_path / "run" / "bad_rank1.json").write_text("{}")
    done = run("lake", "add", f"{tmp_path}/run", str(tmp_path / "none"), "--to", "lake",
               "--without-verdicts")  # fmt: skip
    assert done.returncode == 2
    assert "bad_rank1.json: is not a trace" in done.stderr
    assert "none: cannot be read: No such file or directory" in done.stderr
    assert "1 traces read, 0 files unchanged, 2 failed" in done.stdout
    done = run("sql", "lake", "SELECT rank FROM trace", "--format", "csv")
    assert done.stdout.splitlines() == ["rank", "0"]


def test_a_rank_is_known_by_the_trace_or_by_its_files_name(tmp_path):
    for name in ("job_rank7.json", "worker.json", "other.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": rank_events(0)}))
    lake = tmp_path / "lake"
    add(lake, tmp_path, run="night")
    assert seen(lake) == [("night", "rank=7"), ("night", "file=other"), ("night", "file=worker")]
    with open_lake(str(lake)) as opened:
        _, rows = opened.fetch("SELECT rank FROM trace ORDER BY rank")
        assert rows == [(7,), (None,), (None,)]
        # What has no rank is compared with nothing.
        assert opened.ask("stragglers") == []


def test_another_trace_of_the_same_rank_is_refused_unless_it_should_replace(tmp_path):
    first = write_rank(tmp_path / "run", 0)
    other = first.with_name("later_rank0.json")
    other.write_text(first.read_text().replace("sgemm", "dgemm"))
    lake = tmp_path / "lake"
    add(lake, first)
    (refused,) = add(lake, other).outcomes
    assert refused.status == "failed"
    assert "run 'run' holds rank=0 from" in refused.message
    assert statuses(add(lake, other, run="later")) == ["added"]
    assert statuses(add(lake, other, replace_others=True)) == ["replaced"]
    assert seen(lake) == [("later", "rank=0"), ("run", "rank=0")]


def two_of_one_rank(folder):
    """Two different traces of rank 0."""
    first = write_rank(folder / "run", 0)
    other = first.with_name("later_rank0.json")
    other.write_text(first.read_text().replace("sgemm", "dgemm"))
    return first, other


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_additions_to_one_rank_at_once_one_is_refused_and_leaves_nothing(
    tmp_path, monkeypatch, has_links
):
    if not has_links:
        monkeypatch.setattr("pathlib.Path.hardlink_to", without_links)
    first, other = two_of_one_rank(tmp_path)
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


def without_links(self, target):
    raise PermissionError(1, "Operation not permitted")


def test_the_same_trace_added_twice_at_once_is_there_once(tmp_path, monkeypatch):
    path = write_rank(tmp_path / "run", 0)
    lake = tmp_path / "lake"
    meanwhile = add_meanwhile(monkeypatch, lambda: add(lake, path))
    assert statuses(add(lake, path)) == ["unchanged"]
    assert statuses(meanwhile[0]) == ["added"]
    assert {str(each.relative_to(lake)) for each in lake.rglob("*.parquet")} == files_in_use(lake)


def test_of_many_writers_of_one_new_file_one_creates_it(tmp_path):
    store = Storage(str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: store.create("a/b.json", b"%d" % n), range(64)))
    assert made.count(True) == 1
    assert store.read("a/b.json") == b"%d" % made.index(True)
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["b.json"]


def test_files_are_written_while_others_remove_empty_folders(tmp_path):
    store = Storage(str(tmp_path))

    def write(number):
        store.write(f"a/b/{number}", b"x")
        store.remove([f"a/b/{number}"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(200)))


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
        writing, "trace_id_of", lambda *told: 5 if len(told) < 4 or not told[3] else real(*told)
    )
    lake = tmp_path / "lake"
    assert add(lake, tmp_path / "run").failed == []
    numbers = [each.trace_id for each in all_ranks(Storage(str(lake)))]
    assert len(set(numbers)) == 2
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(2 * 18,)]


@pytest.mark.sampled(8, of=9)
@pytest.mark.parametrize("name", ["a b", "ä/é", "NULL", "", "x" * 300, "..", "%2F", "it's", "a=b"])
def test_any_text_may_name_a_run(tmp_path, name):
    lake = tmp_path / "lake"
    assert statuses(add(lake, write_rank(tmp_path / "in", 0), run=name)) == ["added"]
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT run FROM trace")[1] == [(layout.valid_name(name),)]
        assert opened.ranks[0].run == layout.valid_name(name)
    with open_lake(
        str(layout.Selection(str(lake), layout.escape(layout.valid_name(name))))
    ) as part:
        assert len(part.ranks) == 1


def test_a_lake_may_be_in_a_folder_of_any_name(tmp_path):
    lake = tmp_path / "it's\n\n[a] lake*" / "\n"
    for rank in range(2):
        assert statuses(add(lake, write_rank(tmp_path / "in", rank, 2))) == ["added"]
    with open_lake(str(lake)) as opened:
        assert opened.fetch("SELECT count(*) FROM trace")[1] == [(2,)]


def test_a_lake_in_the_folder_of_its_traces_is_no_source(tmp_path):
    write_rank(tmp_path, 0)
    assert statuses(add(tmp_path / "lake", tmp_path)) == ["added"]
    again = add(tmp_path / "lake", tmp_path)
    assert (again.outcomes, again.unread) == ([], 1)


def test_a_folder_named_like_a_partition_holds_no_lake(tmp_path):
    with pytest.raises(TracekitError, match="named like one of its partitions"):
        add(tmp_path / "rank=7" / "lake", write_rank(tmp_path / "in", 0))


def test_a_lake_that_cannot_be_written_is_said_in_one_line(tmp_path, run):
    path = write_rank(tmp_path / "in", 0)
    done = run("lake", "add", str(path), "--to", f"{path}/lake")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tracekit: {path}/lake: Not a directory\n"


def test_a_first_addition_that_fails_leaves_no_lake(tmp_path, run):
    (tmp_path / "bad.json").write_text("no trace")
    done = run("lake", "add", "bad.json", "nowhere.json", "--to", "lake")
    assert (done.returncode, [*tmp_path.glob("lake/*")]) == (2, [])
    assert "is not a lake" in run("lake", "clean", "lake").stderr


@pytest.fixture(scope="module")
def many_ranks(tmp_path_factory):
    """A folder with more ranks than are added in a moment."""
    folder = tmp_path_factory.mktemp("many") / "run"
    for rank in range(40):
        write_rank(folder, rank, 40)
    return folder


def work_folders(folder):
    return [each for each in folder.glob("tracekit-*") if each.is_dir()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
@pytest.mark.sampled(3, of=4)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_command_that_started_them(many_ranks, tmp_path, number):
    temp_dir = tmp_path / "work"
    temp_dir.mkdir()
    command = [TRACEKIT, "lake", "add", many_ranks, "--to", tmp_path / "lake", "--workers", "2",
               "--temp-dir", temp_dir]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        while not any(temp_dir.glob("tracekit-lake-*/trace.duckdb*")):
            assert started.poll() is None, started.communicate()
            time.sleep(0.02)
        children = [int(each) for each in children_of(started.pid)]
        assert len(children) >= 2
        started.send_signal(number)
        # Who has standard error open is alive.
        _, errors = started.communicate(timeout=60)
    is_kill = number == signal.SIGKILL
    wanted = 130 if number == signal.SIGINT else -number if is_kill else 128 + number
    assert started.returncode == wanted
    # Python tells of semaphores that a killed process left.
    assert is_kill or errors.strip() == ""
    deadline = time.monotonic() + 60
    while any(is_alive(each) for each in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [each for each in children if is_alive(each)] == []
    if not is_kill:
        assert work_folders(temp_dir) == []
    # The next run removes what a killed one left.
    one = write_rank(tmp_path / "one", 0)
    (added,) = add(tmp_path / "lake", one, resources=Resources(temp_dir=temp_dir)).outcomes
    assert added.status == "added"
    assert [each for each in work_folders(temp_dir) if "tracekit-lake-" in each.name] == []


def children_of(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def is_alive(process):
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
