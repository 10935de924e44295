"""The demo, and where a report goes that is not told where."""

import pytest

from tests.kit import traces
from tracekit.commands.analyze import _beside

pytest.importorskip("altair", reason="the extra `report` is not installed")
EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1), traces.gpu_op(20, 5, name="second")]


def test_the_demo_says_where_it_was_captured_and_writes_its_page(run, tmp_path):
    done = run("demo", "--no-open")
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert "captured on an NVIDIA H100" in first
    assert "overhead-bound by dispatch; confidence medium" in lines
    assert "CUDA graph" in done.stdout and lines[-1].startswith("tracekit-demo.html: ")
    assert "<html" in (tmp_path / "tracekit-demo.html").read_text()[:200]


def test_a_report_goes_beside_its_trace_and_says_where(run, tmp_path):
    (tmp_path / "folder").mkdir()
    traces.write(tmp_path / "folder/b.json", EVENTS)
    done = run("report", "folder/b.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("folder/b.html: ") and (tmp_path / "folder/b.html").is_file()
    assert run("report", "missing.json").returncode == 2
    assert not (tmp_path / "missing.html").exists()
    for given, written in (("folder/", "folder.html"), (".", "report.html"), ("-", "report.html")):
        assert _beside(given) == written
