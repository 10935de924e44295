"""Large traces that are analyzed without a database are loaded into a temporary file."""

import errno
import os
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import TracekitError
from tracekit.ingest import load
from tracekit.ingest.loader import Loader

TRACE = Path(tracekit.__file__).parent / "demo.json.gz"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A temporary directory for large traces; all traces count as large."""
    monkeypatch.setattr(load, "_MOST_IN_MEMORY", 0)
    return tmp_path


def files_in(folder: Path) -> list[Path]:
    return [*folder.rglob("*.duckdb*")]


def loaded(folder: Path) -> tracekit.Database:
    return tracekit.load(TRACE, temp_dir=folder)


def test_a_large_trace_is_in_a_temporary_file_until_it_is_closed(folder):
    with loaded(folder) as run:
        assert len(files_in(folder)) == 1
        assert run.top_kernels(1).height == 1
    assert files_in(folder) == []


def test_a_large_trace_has_the_same_verdict(folder, monkeypatch):
    with loaded(folder) as run:
        large = run.verdict().as_dict()
        assert run.sql("SELECT count(*) AS n FROM verdict")["n"][0] > 0
    monkeypatch.undo()
    with loaded(folder) as run:
        assert files_in(folder) == []
        assert run.verdict().as_dict() == large


def test_a_large_trace_stays_in_memory_if_the_disk_has_no_room(folder, monkeypatch):
    monkeypatch.setattr(load, "_STORED", 0)
    with loaded(folder):
        assert files_in(folder) == []


def test_a_disk_that_fills_up_is_named_and_the_file_removed(folder, monkeypatch):
    def fill(*_: object) -> None:
        raise TracekitError(f"t.json: cannot be loaded: {os.strerror(errno.ENOSPC)}")

    monkeypatch.setattr(Loader, "run", fill)
    with pytest.raises(TracekitError, match=f"{folder} is full.*--temp-dir"):
        loaded(folder)
    assert files_in(folder) == []
