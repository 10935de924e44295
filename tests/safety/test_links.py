"""Links in a checkout or a folder lead nowhere: neither what tracekit writes under its own names,
nor what it reads beside a trace for an agent."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from tests.conftest import OWN_TRACES
from tests.kit import hostile, traces
from tests.kit.hostile import EVENTS
from tracekit import budgets
from tracekit.agents.traces import Folders, Opened
from tracekit.capture.output import rank_path
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.files import named_or_own, require_unlinked
from tracekit.frameworks.judging import on_trace_ready, verdict_paths
from tracekit.ingest.resources import Resources
from tracekit.trace.beside import Beside

TRACE = str(OWN_TRACES / "simulated-2-ranks-rank0.json.gz")
# Commands, and the paths that they write to.
OWN = [
    (["skill", "install"], ".claude/skills/tracekit/SKILL.md"),
    (["skill", "install", "--force"], ".claude/skills/tracekit/SKILL.md"),
    (["skill", "install", "mine"], "mine/tracekit/SKILL.md"),
    (["baseline", "save", "main", TRACE], ".tracekit/baselines/main.json.gz"),
    (["baseline", "save", "main", TRACE, "--dir", "mine"], "mine/main.json.gz"),
    (["report", "t.json"], "t.html"), (["demo", "--no-open"], "tracekit-demo.html"),
    (["sweep", "mlp-eager"], "sweep.duckdb"), (["capture", "mlp-eager"], "mlp-eager.json.gz"),
    (["capture", "--with", "nsys", "a.py"], "a.nsys.duckdb"),
]  # fmt: skip


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout beside a victim's folder, which holds a file."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_text("precious")
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    traces.write(Path("t.json"), EVENTS)
    yield tmp_path / "checkout"
    assert [each.name for each in (tmp_path / "victim").iterdir()] == ["file"]
    assert (tmp_path / "victim/file").read_text() == "precious"


def refused(*arguments):
    found = CliRunner().invoke(cli, list(map(str, arguments)))
    assert isinstance(found.exception, TracekitError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


@pytest.mark.parametrize(("arguments", "path"), OWN, ids=[" ".join(each[0][:3]) for each in OWN])
def test_no_command_writes_through_a_link_under_its_own_names(arguments, path, checkout):
    parts = Path(path).parts
    for depth in range(parts[0] == "mine", len(parts)):
        place = Path(*parts[: depth + 1])
        place.parent.mkdir(parents=True, exist_ok=True)
        is_last = place == Path(path)
        place.symlink_to(checkout.parent / ("victim/file" if is_last else "victim"))
        assert f"{place} is a link" in refused(*arguments)
        place.unlink()


def test_a_link_that_the_user_names_is_followed(checkout):
    Path("real").mkdir()
    Path("linked").symlink_to("real")
    CliRunner().invoke(cli, ["baseline", "save", "a", TRACE, "--dir", "linked"])
    assert Path("real/a.json.gz").is_file()
    assert named_or_own("linked", "own") == "linked"
    assert require_unlinked(Path("linked/a"), "linked") == Path("linked/a")


def test_budgets_and_handlers_write_through_no_link(checkout, monkeypatch):
    torch = pytest.importorskip("torch")
    victim = checkout.parent / "victim"
    Path("figures").symlink_to(victim)
    with pytest.raises(TracekitError, match="is a link"):
        budgets.write_figures(
            Path("figures/file").absolute(), budgets.Figures({}, {}, {}, "unknown", None, None, "")
        )
    Path(".tracekit").symlink_to(victim)
    with pytest.raises(TracekitError, match="is a link"):
        budgets.StepBudget("t", checkout, checkout / ".tracekit", {}, False)(lambda: None)
    verdict_paths(Path("t.json"))[0].symlink_to(victim / "file")
    with pytest.raises(TracekitError, match="is a link"):
        from tracekit.frameworks import judging

        judging._write(Path("t.json").absolute())
    Path("step7.json.gz").symlink_to(victim / "file")
    profiler = type("Profiler", (), {"step_num": 7})()
    with pytest.warns(RuntimeWarning, match="is a link"):
        on_trace_ready(".")(profiler)
    Path("t.rank1.json").symlink_to(victim / "file")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TracekitError, match="is a link"):
        rank_path(Path("t.json"), torch)


def test_a_lock_is_never_a_link(checkout):
    Path(".run.duckdb.lock").symlink_to(os.path.relpath(checkout.parent / "victim/file"))
    assert "cannot be written" in refused("load", "t.json", "-o", "run.duckdb")


def test_a_skill_that_differs_is_shown_and_kept_unless_forced(checkout):
    path = Path(".claude/skills/tracekit/SKILL.md")
    path.parent.mkdir(parents=True)
    path.write_text("mine\x1b[31m\n", newline="\n")
    found = CliRunner().invoke(cli, ["skill", "install"])
    assert "differs from tracekit's, as shown: --force" in str(found.exception)
    assert "-mine\ufffd[31m\n" in found.stderr and "\n+name: tracekit\n" in found.stderr
    assert path.read_text() == "mine\x1b[31m\n"
    for given in (["--force"], []):
        assert CliRunner().invoke(cli, ["skill", "install", *given]).exit_code == 0
    assert "name: tracekit" in path.read_text()


def test_a_file_that_a_database_names_is_not_opened(checkout, monkeypatch):
    from tracekit import opening
    from tracekit.commands.diff import open_pair

    ranks = [str(OWN_TRACES / f"simulated-2-ranks-rank{rank}.json.gz") for rank in (0, 1)]
    opening.load(ranks, "a.duckdb", verdicts=False).close()
    with duckdb.connect("a.duckdb") as connection:
        connection.execute(f"UPDATE trace SET path = '{checkout / 't.json'}'")
    shutil.copy("a.duckdb", "b.duckdb")
    loaded, load = [], opening.load
    monkeypatch.setattr(
        opening, "load", lambda paths, *more, **how: loaded.append(paths) or load(paths, **how)
    )
    with open_pair(("a.duckdb", "b.duckdb"), (1, 2), None, Resources()).database as both:
        assert len(both.trace_ids()) == 4
    assert all(set(each) <= {"a.duckdb", "b.duckdb"} for each in loaded if each)


def test_what_lies_beside_a_trace_is_read_in_the_folders_only(tmp_path):
    around, inside = tmp_path, tmp_path / "above" / "inside"
    (inside / "capture_traces").mkdir(parents=True)
    node, graph = {"graph node id": 1 << 32}, traces.launch(0, 5, 1, "cudaGraphLaunch")
    kernel = traces.gpu_op(50, 10, 1)
    kernel["args"] |= node
    trace = traces.write(inside / "t.json", [graph, kernel])
    said = json.dumps({str(1 << 32): [{"name": hostile.SECRET}]})
    (around / "kernel_annotations.json").write_text(said)
    (inside.parent / "kernel_annotations.json").write_text(said)
    (inside / "kernel_annotations_link.json").symlink_to(around / "kernel_annotations.json")
    (inside / "capture_traces/link.json").symlink_to(traces.write(around / "c.json", [graph]))
    os.mkfifo(inside / "t.annotations.json")
    (inside / "kernel_annotations_own.json").write_text(said.replace(hostile.SECRET, "mine"))
    for served, read in ((inside, ["own"]), (inside.parent, ["", "own"]), (None, None)):
        folders = None if served is None else Folders([served])
        resources = Resources() if folders is None else Opened(1, Resources(), folders).resources
        beside = Beside(resources.within)
        names = [Path(each).stem.partition("annotations")[2] for each in beside.annotations(trace)]
        assert sorted(each.strip("_") for each in names) == (read or ["", "link", "own"])
        assert len(beside.captures(trace)) == (served is None)
    opened = Opened(1, Resources(), Folders([inside]))
    with opened.using(Folders([inside]).resolve("t.json")) as database:
        assert database.fetch("SELECT module FROM gpu_op_origin")[1] == [("mine",)]
    opened.close()


def test_a_log_beside_a_database_leads_nowhere_else(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/a.duckdb").write_bytes(hostile.good(tmp_path).read_bytes())
    served = Folders([tmp_path / "inside"])
    assert served.resolve("a.duckdb")
    (tmp_path / "inside/a.duckdb.wal").symlink_to(hostile.secret_in(tmp_path))
    with pytest.raises(TracekitError, match="is outside"):
        served.resolve("a.duckdb")
