"""On a full disk, each command ends with one line that says so, and leaves nothing half-written."""

import os
import sys

import pytest

import tracekit
from tests.kit import traces
from tests.kit.processes import ran, ran_on_a_full_disk
from tracekit.errors import TracekitError, reason_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits files as POSIX does")
# Files may take this many bytes.
FULL = 1_000
ORDERED = "SELECT a.*, b.* FROM event AS a, event AS b, range(40) ORDER BY hash(b.ts_ns)"
COMMANDS = {
    "load": ["load", "t.json", "-o", "x.duckdb"],
    "load --resume": ["load", "t.json", "--resume", "-o", "x.duckdb"],
    "lake add": ["lake", "add", "t.json", "--to", "a/lake"],
    "xlsx": ["export", "t.json", "-o", "x.xlsx"],
    "json": ["export", "t.json", "-o", "x.json"],
    "gz": ["export", "t.json", "-o", "x.json.gz"],
    "zst": ["export", "t.json", "-o", "x.json.zst"],
    "speedscope": ["export", "t.json", "--format", "speedscope", "-o", "x.json"],
    "annotate": ["annotate", "t.json", "-o", "x.json"],
    "report": ["report", "t.json", "-o", "x.html"],
    "csv": ["sql", "t.json", "FROM event", "--format", "csv", "-o", "x.csv"],
    "parquet": ["sql", "t.json", "FROM event", "--format", "parquet", "-o", "x.parquet"],
    "spill": ["sql", "t.json", ORDERED, "--memory-mb", "400", "--temp-dir", "."],
    "open": ["open", "t.json", "--plain", "--window", "trace", "--print-url"],
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_said_in_one_line(name, tmp_path):
    events = [traces.slice_event("cpu_op", f"op{at}", 2 * at, 1) for at in range(300)]
    traces.write(tmp_path / "t.json", events)
    done = ran_on_a_full_disk(FULL, *COMMANDS[name], cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.endswith("File too large\n")
    assert not any(word in done.stderr for word in ("Error", ".wal", "duckdb_temp", "INTERNAL"))
    assert [each.name for each in tmp_path.iterdir()] == ["t.json"]


def test_a_capture_on_a_full_disk_says_so(tmp_path, run):
    pytest.importorskip("torch")
    (tmp_path / "m.py").write_text(
        "import resource, torch\n"
        "def step():\n"
        f"    resource.setrlimit(resource.RLIMIT_FSIZE, ({FULL},) * 2)\n"
        "    torch.ones(8) + 1\n"
    )
    done = run("capture", "m:step", "--device", "cpu", "-o", "x.json.gz")
    assert done.returncode == 2
    assert "is the disk full?" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*x.json*"))


def test_a_cut_database_or_one_in_use_is_said_without_duckdbs_words(tmp_path, refused):
    traces.write(tmp_path / "t.json", [traces.slice_event("cpu_op", "op", 1, 1)])
    tracekit.load(tmp_path / "t.json", tmp_path / "run.duckdb", verdicts=False).close()
    whole = (tmp_path / "run.duckdb").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2 :] = os.urandom(len(whole) - len(whole) // 2)
    for text in (whole[:3_000], whole[: len(whole) // 2], bytes(damaged)):
        (tmp_path / "cut.duckdb").write_bytes(text)
        assert refused("analyze", "cut.duckdb").endswith("the file is cut short or damaged\n")
    import duckdb

    with duckdb.connect(str(tmp_path / "run.duckdb")):
        done = ran("python", "-m", "tracekit", "analyze", "run.duckdb", cwd=tmp_path)
    assert done.stderr.endswith(f"the process {os.getpid()} is writing it\n")


def test_an_error_of_sql_keeps_duckdbs_words(tmp_path):
    """They say what is wrong with the statement, even if its text looks like an error of a disk."""
    traces.write(tmp_path / "t.json", [traces.slice_event("cpu_op", "op", 1, 1)])
    with tracekit.load(tmp_path / "t.json") as run:
        for sql in ("SELECT x: No space left on device", "SELECT error('a: Is a directory')"):
            with pytest.raises(TracekitError, match=r"^SQL: "):
                run.sql(sql)
    assert reason_of(OSError("Binder Error: x")) == "Binder Error: x"
