"""The form of readers: what each module has, and what a file becomes through it."""

import gzip
import json
from types import SimpleNamespace

import pytest

from tests.kit import traces
from tests.kit.processes import ran
from tracekit.plugins import Plugin
from tracekit.trace.other import formats
from tracekit.trace.other.converted import OneProcess
from tracekit.trace.paths import stem
from tracekit.trace.reader import TraceReader
from tracekit.trace.readers import Reader, own_readers

EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
MARK = {"name": "acme", "plugin": "tracekit-acme 1"}


def test_each_reader_has_the_parts_of_the_form():
    found = {each.module.__name__.rpartition(".")[2]: each for each in own_readers()}
    assert {*found} >= {"nsys", "perfetto", "rocpd", "rocprof", "snapshot", "xplane"}
    for reader in found.values():
        module = reader.module
        assert isinstance(module.NAME, str) and callable(module.sniff) and callable(module.read)
        # A part of a name, or one of the files in a folder.
        assert module.ENDINGS and all("." in each for each in module.ENDINGS)


def test_reading_json_imports_no_reader(tmp_path):
    traces.write(tmp_path / "t.json", [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)])
    code = f"""
import sys, tracekit
tracekit.load("{tmp_path}/t.json", verdicts=False).close()
print(*(name for name in sys.modules if name.startswith("tracekit.trace.readers.")))
print("sqlite3" in sys.modules)
"""
    assert ran("python", "-c", code).stdout.split() == ["False"]


def reading(monkeypatch, file, read):
    """What a plugin's reader makes of a file: for each process its metadata and its damage."""
    parts = {"NAME": "acme", "ENDINGS": [".acme"], "sniff": lambda opened: opened.head == b"acme"}
    reader = Reader(
        module=SimpleNamespace(**parts, read=read),
        plugin=Plugin(name="tracekit-acme", version="1", entries=()),
    )
    monkeypatch.setattr(formats, "plugged_readers", lambda: (reader,))
    for stream in formats.open_traces(str(file)):
        with stream:
            trace = TraceReader(stream)
            for _ in trace.pieces():
                pass
            yield json.loads(trace.metadata_text), trace.events, trace.damage or stream.damage


def test_a_file_of_several_processes_becomes_several_traces_that_name_the_plugin(
    monkeypatch, tmp_path
):
    (tmp_path / "a.acme").write_bytes(b"acme")

    def read(opened):
        return [
            OneProcess(name=f"pid {pid}", members={"pid": pid}, events=lambda: iter([EVENT]))
            for pid in (1, 2)
        ]

    found = list(reading(monkeypatch, tmp_path / "a.acme", read))
    assert found == [({"profiler": MARK, "pid": pid}, 1, None) for pid in (1, 2)]


def test_damage_of_a_file_is_told_whether_its_reader_notices_or_not(monkeypatch, tmp_path):
    whole = gzip.compress(b"acme")
    (tmp_path / "a.acme.gz").write_bytes(whole[:-8] + bytes(8))

    def read(opened):
        while opened.read():
            yield EVENT

    def damaged(opened):
        yield EVENT
        opened.damage = "half of it is gone"
        yield {"profiler": {"name": "other"}, "size": 1}

    ((metadata, events, damage),) = reading(monkeypatch, tmp_path / "a.acme.gz", read)
    assert (metadata["profiler"], events) == (MARK, 1) and "check" in damage
    ((metadata, _, damage),) = reading(monkeypatch, tmp_path / "a.acme.gz", damaged)
    assert (metadata["profiler"], metadata["size"]) == (MARK, 1)
    assert damage == "half of it is gone"


@pytest.mark.parametrize("name", [
    "run.json", "run.json.gz", "run.pt.trace.json.gz", "run.trace.json", "run.tar.gz", "run.tgz",
    "run.json.zst", "run_results.db", "run.duckdb", "run.sqlite", "run.xplane.pb", "run.pftrace",
    "run.nsys-rep", "run.pickle.gz", "run.zip", "run.json.gz.gz", "run",
])  # fmt: skip
def test_the_stem_of_a_name_has_no_ending_of_a_trace_an_archive_or_a_database(name):
    assert stem(name) == "run"


def test_a_name_that_is_an_ending_is_its_own_stem():
    assert [stem(each) for each in (".json", "a.b.json", ".gz" * 9)] == [".json", "a.b", ".gz" * 9]
