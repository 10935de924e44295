"""Sources and lakes in an object store: a real S3 API on the loopback interface."""

import tarfile

import pytest

from tests.kit import object_store
from tests.kit.lakes import add, files_in_use, ranks, statuses, write_rank
from tracekit.errors import TracekitError
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import clean
from tracekit.run import open_lake

LAKE = "s3://traces/lake"
started, bucket, store = object_store.started, object_store.bucket, object_store.store


@pytest.mark.thorough
def test_source_and_lake_may_both_be_in_an_object_store(bucket, tmp_path):
    for rank in range(2):
        bucket.put_file(str(write_rank(tmp_path, rank)), f"traces/in/night1/rank{rank}.json")
    assert statuses(add(LAKE, "s3://traces/in")) == ["added"] * 2
    again = add(LAKE, "s3://traces/in/night1/*.json")
    assert (again.outcomes, again.unread) == ([], 2)
    assert not list(tmp_path.rglob("*.parquet"))
    with open_lake(f"{LAKE}/run=night1") as opened:
        assert [(each.run, each.rank) for each in opened.ranks] == [("night1", r) for r in range(2)]
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(2 * 18,)]
        held = {row["rank"]: row["held_up_ns"] for row in opened.ask("stragglers")}
        assert held == {0: 0, 1: 30_000}
        # SQL reaches nothing else in the store.
        for reading in (
            "read_text('s3://traces/lake/tracekit-lake.json')", "read_text('lake://0/x')",
            "glob('lake://*')", "read_text('http://127.0.0.1/')", "read_text('/etc/hostname')",
        ):  # fmt: skip
            with pytest.raises(TracekitError, match="is not allowed"):
                opened.sql(f"FROM {reading}")
            with pytest.raises(TracekitError, match="disabled by configuration"):
                opened.fetch(f"FROM {reading}")


@pytest.mark.thorough
def test_changed_files_are_read_again_and_old_ones_are_removed(store, bucket, tmp_path):
    path = write_rank(tmp_path, 0)
    bucket.put_file(str(path), "traces/in/run/rank0.json")
    # A store that fails at times or is slow costs only time.
    faults = {3: "503 Slow Down", 4: 0.5, 8: "500 Internal Server Error", 12: "503 Slow Down",
              20: 0.5, 31: "500 Internal Server Error"}  # fmt: skip
    first = next(store._numbers) + 1
    answered = []

    def fault(number, path):
        answered.append(faults.get(number - first))
        return answered[-1]

    store.fault = fault
    assert statuses(add(LAKE, "s3://traces/in")) == ["added"]
    assert set(faults.values()) <= set(answered)
    path.write_text(path.read_text().replace("sgemm", "dgemm"))
    bucket.put_file(str(path), "traces/in/run/rank0.json")
    assert statuses(add(LAKE, "s3://traces/in")) == ["replaced"]
    files = len(files_in_use(LAKE))
    assert len(bucket.find("traces/lake/tables")) == 2 * files
    assert len(clean(LAKE, 0).removed) >= files
    assert len(bucket.find("traces/lake/tables")) == files
    with open_lake(LAKE) as opened:
        names = {name for (name,) in opened.fetch("SELECT DISTINCT name FROM kernels")[1]}
        assert "dgemm" in names
        assert "sgemm" not in names
        store.fault = lambda number, path: "500 Internal Server Error"
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("AWS_MAX_ATTEMPTS", "1")
            for ask in (lambda: opened.fetch("FROM event"), lambda: open_lake(LAKE)):
                with pytest.raises(TracekitError) as raised:
                    ask()
                assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"{LAKE}: ")


@pytest.mark.thorough
def test_an_archive_there_is_read_once(bucket, tmp_path):
    with tarfile.open(tmp_path / "night.tar", "w") as tar:
        for rank in range(2):
            tar.add(write_rank(tmp_path / "in", rank), f"rank{rank}.json")
    bucket.put_file(str(tmp_path / "night.tar"), "traces/night.tar")
    lake = tmp_path / "lake"
    assert statuses(add(lake, "s3://traces/night.tar")) == ["added"] * 2
    assert add(lake, "s3://traces/night.tar").unread == 1
    with open_lake(str(lake)) as opened:
        paths = [path for (path,) in opened.fetch("SELECT path FROM trace ORDER BY rank")[1]]
    assert paths == [f"s3://traces/night.tar/rank{rank}.json" for rank in range(2)]


def test_missing_things_are_reported_in_one_line(bucket):
    (failed,) = add(LAKE, "s3://traces/none").outcomes
    assert failed.message == "s3://traces/none: there is no trace at this URL"
    with pytest.raises(TracekitError, match="is not a lake"):
        open_lake("s3://traces/none")


def test_a_file_that_is_there_is_not_created_again(bucket):
    lake = Storage(LAKE)
    assert lake.create("a.json", b"1")
    assert not lake.create("a.json", b"2")
    assert lake.read("a.json") == b"1"


@pytest.mark.thorough
@pytest.mark.parametrize("failing", ["/traces/lake/manifests", "/traces/lake/tables", "/traces/in"])
def test_a_store_that_fails_for_good_is_one_line_and_shows_no_half_of_a_rank(
    store, bucket, tmp_path, run, failing
):
    bucket.put_file(str(write_rank(tmp_path, 0)), "traces/in/night/rank0.json")
    store.fault = lambda number, path: "503 Slow Down" if path.startswith(failing) else None
    done = run("lake", "add", "s3://traces/in/night/rank0.json", "--to", LAKE,
               "--without-verdicts", AWS_MAX_ATTEMPTS="1")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("tracekit: ")
    assert done.stderr.count("\n") == 1
    store.fault = lambda number, path: None
    assert ranks(LAKE) == []
    assert statuses(add(LAKE, "s3://traces/in")) == ["added"]
