"""Loading many traces at once from every kind of source: interrupted, damaged, hostile."""

import gzip
import io
import json
import os
import signal
import tarfile
import threading
from unittest.mock import Mock

import duckdb
import pytest

import tracekit
from tests.kit import traces
from tests.kit.processes import ran
from tests.kit.sampling import sample
from tracekit.database.catalog import VERDICTS
from tracekit.ingest import writer as ingest

EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)]
# Tables that do not follow from the traces in the database.
NOT_OF_TRACES = {
    "tracekit", "loading", "hardware", *VERDICTS,
}  # fmt: skip


def trace_of(count: int) -> bytes:
    """A trace with `count` events, which identify it."""
    return json.dumps({"traceEvents": [traces.gpu_op(at, 1) for at in range(count)]}).encode()


@pytest.fixture
def folder(tmp_path):
    """A folder with five traces, of one to five events, and a file that is not a trace."""
    inside = tmp_path / "ranks"
    (inside / "deeper").mkdir(parents=True)
    for count in range(1, 5):
        (inside / f"rank{count}.json").write_bytes(trace_of(count))
    (inside / "deeper" / "rank5.json.gz").write_bytes(gzip.compress(trace_of(5)))
    (inside / "notes.txt").write_text("not a trace")
    return inside


def events_by_trace(database) -> list[int]:
    """The number of events of each trace, by trace_id; checks that they are numbered from 0."""
    _, rows = database.fetch(
        "SELECT count(*), list(event_id ORDER BY event_id) FROM event GROUP BY trace_id "
        "ORDER BY trace_id"
    )
    assert all(places == list(range(count)) for count, places in rows)
    return [count for count, _ in rows]


def fingerprints(database) -> dict[str, tuple[int, int]]:
    """For each table of events or facts: the number of its rows, and the sum of their hashes."""
    _, tables = database.fetch("SELECT table_name FROM duckdb_tables() WHERE NOT internal")
    return {
        name: database.fetch(f"SELECT count(*), coalesce(sum(hash(t)), 0) FROM {name} AS t")[1][0]
        for (name,) in tables
        if name not in NOT_OF_TRACES
    }


def test_an_added_trace_gives_the_tables_that_all_give_together(tmp_path):
    """And so do traces that another one's facts would outnumber, which are all built again. The
    database may have any name, such as one that the load uses itself."""
    files = []
    for number, launches in enumerate((3, 200, 2), 1):
        events = [
            traces.step(1, 0, 20 * launches + 20),
            traces.frame("a.py(1): f", 0, 20 * launches),
        ]
        for each in range(launches):
            events += traces.launched([], 20 * each, 20 * each + 9, 5, each + 1)
        files.append(traces.write(tmp_path / f"{number}.json", events, **traces.device("H100")))
    files[1].write_text(files[1].read_text() + " " * (1 << 20))
    tracekit.load(files, tmp_path / "all.duckdb", verdicts=False).close()
    tracekit.load(files[0], tmp_path / "added.duckdb", verdicts=False).close()
    for name, added in (("scratch", files[1]), ("other", files[2])):
        own = (tmp_path / "added.duckdb").rename(tmp_path / f"{name}.duckdb")
        tracekit.load(added, own, append=True, verdicts=False).close()
        own.rename(tmp_path / "added.duckdb")
    with (
        tracekit.open_database(tmp_path / "added.duckdb") as added,
        tracekit.open_database(tmp_path / "all.duckdb") as together,
    ):
        expected = fingerprints(together)
        assert fingerprints(added) == expected
        assert expected["thread_segment"][0] > 0 and expected["gpu_timeline"][0] > 0


def test_databases_of_one_name_are_loaded_into_one_with_that_name(tmp_path):
    own, more = tmp_path / "added.duckdb", tmp_path / "more" / "added.duckdb"
    path = traces.write(tmp_path / "1.json", [traces.step(1, 0, 1)])
    tracekit.load(path, own, verdicts=False).close()
    # Nearly all of it is tracekit's views and macros.
    assert own.stat().st_size < 1 << 20
    more.parent.mkdir()
    more.write_bytes(own.read_bytes())
    with tracekit.load([more, path], own, append=True, verdicts=False) as database:
        assert database.trace_ids() == [1, 2, 3]


def archive_of(folder, compression: str = "gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(
        fileobj=packed, mode=f"w:{compression}", format=tarfile.USTAR_FORMAT
    ) as archive:
        for each in sorted(folder.rglob("*.*"), key=lambda file: file.name):
            archive.add(each, each.name)
    return packed.getvalue()


def test_a_directory_a_pattern_and_an_archive_hold_the_same_traces(folder, tmp_path):
    (tmp_path / "ranks.tar.gz").write_bytes(archive_of(folder))
    (tmp_path / "renamed.json").write_bytes(archive_of(folder, ""))
    sources = [
        (folder / "**" / "*.json*", [5, 1, 2, 3, 4]),
        (tmp_path / "ranks.tar.gz", [1, 2, 3, 4, 5]),
        (folder / "*.json", [1, 2, 3, 4]),
        (tmp_path / "renamed.json", [1, 2, 3, 4, 5]),
    ]
    for source, expected in sample("patterns and archives", sources, sources[:2]):
        with tracekit.load(source) as database:
            assert events_by_trace(database) == expected


def test_an_archive_is_read_from_standard_input(folder, run):
    packed = archive_of(folder)
    done = run("sql", "-", "SELECT count(*) AS n FROM trace", "--format", "csv", stdin=packed)
    assert done.stdout.split() == ["n", "5"]


def test_an_archive_without_traces_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "a.tar").write_bytes(archive_of(tmp_path, ""))
    with pytest.raises(tracekit.TracekitError, match="this archive contains no trace"):
        tracekit.load(tmp_path / "a.tar")


def test_the_other_traces_are_loaded_beside_a_bad_one_if_there_are_any(folder, tmp_path, run):
    (folder / "rank2.json").write_text("nonsense")
    done = run("load", "ranks", "missing.json", "-o", "run.duckdb", "--no-verdict")
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 4
    assert [line.split(":")[2].strip() for line in done.stderr.splitlines()] == [
        "ranks/rank2.json",
        "missing.json",
    ]
    with tracekit.open_database(tmp_path / "run.duckdb") as database:
        assert events_by_trace(database) == [5, 1, 3, 4]
    done = run("load", "ranks/rank2.json", "missing.json", "-o", "none.duckdb")
    assert done.returncode == 2
    for said in ("none of 2 traces", "rank2.json: is not JSON", "missing.json: cannot be read"):
        assert said in done.stderr
    assert not (tmp_path / "none.duckdb").exists()


@pytest.mark.thorough
def test_small_traces_in_one_transaction_give_the_same_rows_as_alone(tmp_path):
    inside = tmp_path / "ranks"
    inside.mkdir()
    texts = {
        f"{place:03}.json": json.dumps(
            {
                "traceEvents": [traces.gpu_op(at, 1, name=f"of {place}") for at in range(place)],
                "distributedInfo": {"rank": place},
                **traces.device("A100", place),
            }
        )
        for place in range(1, 70)
    }
    texts["010.json"] = "nonsense"
    texts["020.json"] = texts["020.json"][: len(texts["020.json"]) // 2]
    texts["030.json"] = texts["030.json"].replace('"of 30"', '"of \x01 30"', 1)
    for name, text in texts.items():
        (inside / name).write_text(text)
    bad: list[tracekit.TracekitError] = []
    question = (
        "SELECT path, rank, events, rejected, damage, (SELECT list(name ORDER BY event_id) FROM "
        "event AS e WHERE e.trace_id = t.trace_id), (SELECT list(device_id) FROM device AS d WHERE "
        "d.trace_id = t.trace_id) FROM trace AS t ORDER BY trace_id"
    )
    with tracekit.load(inside, on_bad=bad.append) as together:
        rows = together.fetch(question)[1]
    assert ["010.json" in str(each) for each in bad] == [True]
    assert len(rows) == 68
    names = ("030.json", "020.json", "069.json")
    for name in sample("traces that are loaded alone", names, names[:1]):
        with tracekit.load(inside / name) as database:
            (alone,) = database.fetch(question)[1]
        assert [row for row in rows if row[0] == alone[0]] == [alone]


def test_a_library_call_ends_at_the_first_bad_trace(folder, tmp_path):
    (folder / "rank2.json").write_text("nonsense")
    with pytest.raises(tracekit.TracekitError, match=r"rank2\.json: is not JSON"):
        tracekit.load(folder, tmp_path / "run.duckdb")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ranks"]


@pytest.mark.thorough
def test_a_load_that_is_killed_resumes_where_it_stopped(folder, tmp_path, run, monkeypatch):
    program = """
import os, signal, sys, tracekit.ingest.writer as ingest, tracekit.trace.source as sources, tracekit
# One transaction for each trace.
sources._SMALL_BYTES = sources._SMALL_COMPRESSED_BYTES = 0
insert, count = ingest.Ingest._insert_traces, 0
def killing(*arguments):
    global count
    count += 1
    if count == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    insert(*arguments)
ingest.Ingest._insert_traces = killing
tracekit.load(*sys.argv[1:], threads=1, resume=True)
"""
    database, partial = tmp_path / "run.duckdb", tmp_path / "run.duckdb.partial"
    done = ran("python", "-c", program, folder, database)
    assert done.returncode == -signal.SIGKILL
    assert partial.exists() and not database.exists()
    with duckdb.connect(str(partial)):
        done = run("load", str(folder), "-o", "run.duckdb", "--resume")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "is writing it" in done.stderr
    inserted = Mock(wraps=ingest._trace)
    monkeypatch.setattr(ingest, "_trace", inserted)
    with tracekit.load(folder, database, resume=True, verdicts=False) as loaded:
        assert sorted(events_by_trace(loaded)) == [1, 2, 3, 4, 5]
    # Two of five were loaded already.
    assert inserted.call_count == 3
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ranks", "run.duckdb"]


def test_a_member_of_an_archive_is_never_written_to_its_own_path(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("../outside.json", "/tmp/outside.json"):
            member = tarfile.TarInfo(name)
            member.size = len(trace_of(1))
            archive.addfile(member, io.BytesIO(trace_of(1)))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (inside / "evil.tar").write_bytes(packed.getvalue())
    bad: list[tracekit.TracekitError] = []
    with tracekit.load(inside / "evil.tar", on_bad=bad.append) as database:
        assert events_by_trace(database) == [1, 1]
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["evil.tar", "inside"]


def test_a_damaged_trace_is_read_through_a_pipe(tmp_path, run):
    text = trace_of(3).replace(b"sgemm", b"sg\x01emm")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[text])
    writer.start()
    done = run("sql", "pipe", "SELECT count(*) AS n FROM kernels", "--format", "csv")
    writer.join()
    assert done.stdout.split() == ["n", "3"]


def test_progress_adds_up_to_the_files_and_their_events(folder):
    class Seen:
        n_bytes = n_events = finished = 0

        def read(self, n_bytes: int) -> None:
            self.n_bytes += n_bytes

        def found(self, n_events: int) -> None:
            self.n_events += n_events

        def finishing(self) -> None:
            self.finished += 1

    seen = Seen()
    tracekit.load(folder, progress=seen).close()
    assert (seen.n_events, seen.finished) == (15, 1)
    assert seen.n_bytes == sum(each.stat().st_size for each in folder.rglob("*.json*"))
