"""Sources and lakes in an object store: a real S3 API on the loopback interface."""

import tarfile

import pytest

from tests.lakes import add, statuses, write_rank
from tracekit.errors import TracekitError
from tracekit.lake.cleaning import clean
from tracekit.lake.reading import open_lake, visible
from tracekit.lake.storage import storage

pytest.importorskip("s3fs", reason="s3fs is not installed (the extra `lake`)")
moto = pytest.importorskip("moto.server", reason="moto is not installed")


@pytest.fixture(scope="module")
def server():
    started = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "test", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem()
    if fs.exists("traces"):
        fs.rm("traces", recursive=True)
    fs.mkdir("traces")
    yield fs
    s3fs.S3FileSystem.clear_instance_cache()


def test_source_and_lake_may_both_be_in_an_object_store(bucket, tmp_path):
    for rank in range(3):
        bucket.put_file(str(write_rank(tmp_path, rank)), f"traces/in/night1/rank{rank}.json")
    lake = "s3://traces/lake"
    assert statuses(add(lake, "s3://traces/in")) == ["added"] * 3
    again = add(lake, "s3://traces/in/night1/*.json")
    assert (again.outcomes, again.unread) == ([], 3)
    assert not list(tmp_path.rglob("*.parquet"))

    with open_lake(f"{lake}/run=night1") as opened:
        assert [(each.run, each.rank) for each in opened.ranks] == [("night1", r) for r in range(3)]
        assert opened.fetch("SELECT count(*) FROM event")[1] == [(3 * 18,)]
        held = {row["rank"]: row["held_up_ns"] for row in opened.ask("stragglers")}
        assert held == {0: 0, 1: 2 * 30_000, 2: 0}


def test_what_has_changed_there_is_read_again_and_the_old_is_swept(bucket, tmp_path):
    path = write_rank(tmp_path, 0)
    bucket.put_file(str(path), "traces/in/run/rank0.json")
    lake = "s3://traces/lake"
    add(lake, "s3://traces/in")
    path.write_text(path.read_text().replace("sgemm", "dgemm"))
    bucket.put_file(str(path), "traces/in/run/rank0.json")
    assert statuses(add(lake, "s3://traces/in")) == ["replaced"]
    (rank,) = visible(storage(lake))
    assert len(bucket.find("traces/lake/tables")) == 2 * len(rank.files)
    assert len(clean(lake, 0).removed) == len(rank.files)
    with open_lake(lake) as opened:
        names = {name for (name,) in opened.fetch("SELECT DISTINCT name FROM kernels")[1]}
    assert "dgemm" in names
    assert "sgemm" not in names


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


def test_sql_reaches_nothing_else_in_the_store(bucket, tmp_path):
    bucket.put_file(str(write_rank(tmp_path, 0)), "traces/in/run/rank0.json")
    lake = "s3://traces/lake"
    add(lake, "s3://traces/in")
    with open_lake(lake) as opened:
        for reading in (
            "read_text('s3://traces/lake/tracekit-lake.json')", "read_text('lake://0/x')",
            "glob('lake://*')", "read_text('http://127.0.0.1/')", "read_text('/etc/hostname')",
        ):  # fmt: skip
            with pytest.raises(TracekitError, match="is not allowed"):
                opened.sql(f"FROM {reading}")
            with pytest.raises(TracekitError, match="disabled by configuration"):
                opened.fetch(f"FROM {reading}")


def test_what_is_not_there_is_said_in_one_line(bucket):
    (failed,) = add("s3://traces/lake", "s3://traces/none").outcomes
    assert failed.message == "s3://traces/none: no trace is there"
    with pytest.raises(TracekitError, match="is not a lake"):
        open_lake("s3://traces/none")
