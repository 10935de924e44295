"""No command replaces a file that it reads, whatever name it is given."""

import gzip
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracekit
from tests.kit.lakes import add, write_rank
from tracekit.commands import cli
from tracekit.errors import TracekitError

# INPUT and OUTPUT stand for paths.
SQL = "SELECT count(*) FROM trace"
READERS = {
    "annotate": ["annotate", "INPUT", "-o", "OUTPUT"],
    "export": ["export", "INPUT", "--trace-id", "1", "-o", "OUTPUT"],
    "collapsed": ["export", "INPUT", "--format", "collapsed", "-o", "OUTPUT"],
    "speedscope": ["export", "INPUT", "--format", "speedscope", "-o", "OUTPUT"],
    "query": ["query", "INPUT", "overview", "--format", "csv", "-o", "OUTPUT"],
    "report": ["report", "INPUT", "-o", "OUTPUT"],
    "report of two": ["report", "INPUT", "other.json", "-o", "OUTPUT"],
    "report of two, the second": ["report", "other.json", "INPUT", "-o", "OUTPUT"],
    "sql": ["sql", "INPUT", SQL, "--format", "json", "-o", "OUTPUT"],
    "hardware": ["report", "other.json", "--hardware", "INPUT", "-o", "OUTPUT"],
}
LOADERS = {
    "load": ["load", "INPUT", "-o", "OUTPUT"],
    "load --append": ["load", "INPUT", "-o", "OUTPUT", "--append"],
    "load --resume": ["load", "INPUT", "-o", "OUTPUT", "--resume"],
}
OF_LAKES = {"lake ask": ["lake", "ask", "INPUT", "overview", "--format", "csv", "-o", "OUTPUT"]}
# Names of a file: as the input, and as the output.
FILES = {
    "directly": ("t.json", "t.json"),
    "through ./": ("t.json", "./t.json"),
    "through a folder": ("t.json", "ranks/../t.json"),
    "by its whole path": ("t.json", "HERE/t.json"),
    "by a link": ("t.json", "link.json"),
    "by a link as the input": ("link.json", "t.json"),
    "by a second name": ("t.json", "second.json"),
    "by a second name as the input": ("second.json", "t.json"),
}
TRACES = FILES | {
    "in a folder": ("ranks", "ranks/trace_rank0.json"),
    "by a second name of one in a folder": ("ranks", "rank0.json"),
    "by a pattern": ("ranks/*.json", "ranks/trace_rank1.json"),
    "an archive": ("ranks.tar", "ranks.tar"),
    "an archive in a folder": (".", "ranks.tar"),
    "a compressed trace": ("t.json.gz", "t.json.gz"),
    "a database": ("run.duckdb", "run.duckdb"),
    "a database by a link": ("run.duckdb", "link.duckdb"),
    "standard input": ("-", "t.json"),
}
LAKES = {
    "a lake's mark": ("lake", "lake/tracekit-lake.json"),
    "a lake's manifest": ("lake", "lake/MANIFEST"),
    "a lake's table": ("lake", "lake/TABLE"),
    "a lake's table by a second name": ("lake", "table.parquet"),
    "a table of a lake's run": ("lake/run=ranks", "lake/TABLE"),
}
# `annotate` and reports of two runs do not accept a lake.
NO_LAKES = {"annotate", "report of two", "report of two, the second", "hardware"}
CASES = [
    *((READERS[c], *TRACES[way]) for c in READERS if c != "hardware" for way in TRACES),
    *((READERS["hardware"], *FILES[way]) for way in FILES),
    *((LOADERS[c], *TRACES[way]) for c in LOADERS for way in TRACES),
    *((c, *LAKES[way]) for name, c in READERS.items() if name not in NO_LAKES for way in LAKES),
    *((c, *LAKES[way]) for c in OF_LAKES.values() for way in LAKES),
]  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with traces, an archive, a database and a lake, each under several names."""
    folder = tmp_path_factory.mktemp("inputs")
    write_rank(folder / "ranks", 0, 2), write_rank(folder / "ranks", 1, 2)
    shutil.copyfile(folder / "ranks" / "trace_rank0.json", folder / "t.json")
    shutil.copyfile(folder / "ranks" / "trace_rank1.json", folder / "other.json")
    (folder / "t.json.gz").write_bytes(gzip.compress((folder / "t.json").read_bytes()))
    with tarfile.open(folder / "ranks.tar", "w") as archive:
        archive.add(folder / "ranks", "ranks")
    tracekit.load(folder / "ranks", folder / "run.duckdb", verdicts=False).close()
    add(folder / "lake", folder / "ranks")
    (folder / "link.json").symlink_to("t.json")
    (folder / "second.json").hardlink_to(folder / "t.json")
    (folder / "rank0.json").hardlink_to(folder / "ranks" / "trace_rank0.json")
    (folder / "link.duckdb").symlink_to("run.duckdb")
    (folder / "table.parquet").hardlink_to(next(folder.glob("lake/tables/**/*.parquet")))
    return folder


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """The inode of each file, and when it was written."""
    found = [each for each in folder.rglob("*") if each.is_file()]
    return {str(each): (each.stat().st_ino, each.stat().st_mtime_ns) for each in found}


def test_no_command_writes_over_a_file_that_it_reads(here, monkeypatch):
    monkeypatch.chdir(here)
    before = state(here)
    places = {
        "MANIFEST": next(here.glob("lake/manifests/**/*.json")).relative_to(here / "lake"),
        "TABLE": next(here.glob("lake/tables/**/*.parquet")).relative_to(here / "lake"),
        "HERE": here,
    }
    stdin = os.dup(0)
    opened = os.open("t.json", os.O_RDONLY)
    os.dup2(opened, 0)
    wrong = []
    try:
        for words, given, output in CASES:
            if words[0] == "annotate" and given == "-":
                continue
            for name, place in places.items():
                output = output.replace(name, str(place))
            command = [{"INPUT": given, "OUTPUT": output}.get(each, each) for each in words]
            done = CliRunner().invoke(cli, command)
            said = str(done.exception)
            if not isinstance(done.exception, TracekitError) or "is also an input" not in said:
                wrong.append((command, said, done.output))
    finally:
        os.dup2(stdin, 0)
        os.close(opened), os.close(stdin)
    assert not wrong
    assert len(CASES) > 200
    assert state(here) == before


def test_the_library_refuses_as_the_commands_do(here, monkeypatch, tmp_path):
    monkeypatch.chdir(here)
    before = state(here)
    with tracekit.load("ranks") as run, tracekit.open_database("link.duckdb") as database:
        for call in (
            lambda: run.export("rank0.json", 1),
            lambda: database.export("run.duckdb", 1),
            lambda: tracekit.load("second.json", "link.json"),
        ):
            with pytest.raises(TracekitError, match="is also an input"):
                call()
    assert state(here) == before


def test_files_next_to_an_input_may_be_replaced(here, monkeypatch):
    monkeypatch.chdir(here)
    try:
        for given, output in (("ranks", "ranks/a.html"), ("lake/run=ranks", "lake/a.html")):
            Path(output).touch()
            command = ["sql", given, SQL, "--format", "csv", "-o", output]
            assert CliRunner().invoke(cli, command).exception is None
            assert Path(output).read_text().splitlines()[1] == "2"
    finally:
        for output in ("ranks/a.html", "lake/a.html"):
            Path(output).unlink(missing_ok=True)
